//! An address or directory that cannot be used is refused with one line on stderr and exit code 2.

use std::net::UdpSocket;

use crate::checks::refused_with;

fn addresses_and_directories_that_serve_cannot_have_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("not a directory"), "").expect("a file");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let taken = socket.local_addr().expect("an address").to_string();
    let free = ["-l", "127.0.0.1:0"];
    refused_with(
        dir.path(),
        &[
            (&["serve", "missing", free[0], free[1]], &["missing", "No such file"]),
            (&["serve", "not a directory", free[0], free[1]], &["not a directory"]),
            (&["serve", ".", "--listen", &taken], &[&taken, "in use"]),
            (&["serve", ".", "--listen", "192.0.2.1:4433"], &["192.0.2.1:4433"]),
            (
                &["serve", ".", free[0], free[1], "--preferred-address", "192.0.2.1:4433"],
                &["cannot listen on 192.0.2.1:4433"],
            ),
            (
                &["serve", ".", free[0], free[1], "--metrics", "192.0.2.1:9090"],
                &["metrics", "192.0.2.1:9090"],
            ),
        ],
    );
}

fullpipe_testkit::tests! {
    [] addresses_and_directories_that_serve_cannot_have_are_named;
}
