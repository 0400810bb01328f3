//! Bad input is answered with one line on stderr and exit code 2, before anything is done.

mod common;

use std::net::UdpSocket;
use std::path::Path;

use common::{certificate, fullpipe, names, run, text};

/// Each row: the arguments, and what the line must tell.
fn refused_with(dir: &Path, rows: &[(&[&str], &[&str])]) {
    for (args, telling) in rows {
        let said = run(fullpipe(dir, args));
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {}", said.stderr);
        assert!(said.stderr.starts_with("error: "), "{args:?}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{args:?}");
        for part in *telling {
            assert!(said.stderr.contains(part), "{args:?} should tell {part:?}: {}", said.stderr);
        }
    }
}

const ALGORITHMS: &[&str] = &[
    "unknown algorithm",
    "bbr3",
    "bbr3-linux",
    "bbr1",
    "cubic",
    "reno",
    "noq:bbr3",
    "noq:cubic",
    "noq:reno",
];

#[test]
fn of_serve() {
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = certificate(dir.path());
    let (cert, key) = (text(&cert), text(&key));
    let other = tempfile::tempdir().expect("a directory");
    let (_, other_key) = certificate(other.path());
    let garbage = "-----BEGIN CERTIFICATE-----\nwhatever this is\n-----END CERTIFICATE-----\n";
    std::fs::write(dir.path().join("garbage.pem"), garbage).expect("a file");
    let garbage_key = garbage.replace("CERTIFICATE", "PRIVATE KEY");
    std::fs::write(dir.path().join("badkey.pem"), garbage_key).expect("a file");
    std::fs::write(dir.path().join("noise.pem"), [0xff, 0, 0x80, 7]).expect("a file");
    std::fs::write(dir.path().join("not a directory"), "").expect("a file");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let taken = socket.local_addr().expect("an address").to_string();
    refused_with(
        dir.path(),
        &[
            (&["serve"], &["DIR"]),
            (&["serve", "missing"], &["missing", "No such file"]),
            (&["serve", "not a directory"], &["not a directory"]),
            (&["serve", ".", "--listen", &taken], &[&taken, "in use"]),
            (&["serve", ".", "--listen", "4433"], &["4433", "127.0.0.1:4433"]),
            (&["serve", ".", "--listen", "localhost"], &["127.0.0.1:4433"]),
            (&["serve", ".", "--listen", "192.0.2.1:4433"], &["192.0.2.1:4433"]),
            (&["serve", ".", "--cc", "bbr"], ALGORITHMS),
            (&["serve", ".", "--cc", "quinn:bbr"], ALGORITHMS),
            (&["serve", ".", "--cert", cert], &["--key"]),
            (&["serve", ".", "--key", key], &["--cert"]),
            (&["serve", ".", "--cert", "none.pem", "--key", key], &["none.pem", "No such file"]),
            (&["serve", ".", "--cert", cert, "--key", "none.pem"], &["none.pem", "No such file"]),
            (&["serve", ".", "--cert", ".", "--key", key], &["\".\"", "directory"]),
            (&["serve", ".", "--cert", "garbage.pem", "--key", key], &["garbage.pem", "no X.509"]),
            (&["serve", ".", "--cert", "noise.pem", "--key", key], &["noise.pem", "certificate"]),
            (&["serve", ".", "--cert", key, "--key", key], &["key.pem", "no PEM certificate"]),
            (&["serve", ".", "--cert", cert, "--key", cert], &["cert.pem", "no PEM private key"]),
            (
                &["serve", ".", "--cert", cert, "--key", text(&other_key)],
                &["certificate", "is not that of"],
            ),
            (&["serve", ".", "--cert", cert, "--key", "badkey.pem"], &["badkey.pem", "key"]),
            (&["serve", ".", "--nonsense"], &["--nonsense"]),
        ],
    );
}

#[test]
fn of_get() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("sub")).expect("a directory");
    std::fs::write(dir.path().join("garbage.pem"), "whatever this is").expect("a file");
    let (_, key) = certificate(dir.path());
    let before = names(dir.path());
    let url = "https://localhost:4433/f";
    refused_with(
        dir.path(),
        &[
            (&["get"], &["URL"]),
            (&["get", "https://localhost/f"], &["no port", "https://localhost:4433/file"]),
            (&["get", "http://localhost:4433/f"], &["https://"]),
            (&["get", "localhost:4433/f"], &["https://"]),
            (&["get", "nonsense"], &["no URL"]),
            (&["get", "https://localhost:99999/f"], &["no URL", "port"]),
            (&["get", "https://me:hidden@localhost:4433/f"], &["no passwords"]),
            (&["get", "https://localhost:4433/"], &["-o FILE"]),
            (&["get", "https://localhost:4433/a%2fb"], &["-o FILE"]),
            (&["get", url, "--cc", "bbr"], ALGORITHMS),
            (&["get", url, "--insecure", "--ca", "garbage.pem"], &["--insecure", "--ca"]),
            (&["get", url, "--ca", "none.pem"], &["none.pem", "No such file"]),
            (&["get", url, "--ca", "garbage.pem"], &["garbage.pem", "no PEM certificate"]),
            (&["get", url, "--ca", text(&key)], &["key.pem", "no PEM certificate"]),
            (&["get", url, "--insecure", "-o", "none/f"], &["none/f", "No such file"]),
            (&["get", url, "--insecure", "-o", "sub"], &["sub", "directory"]),
            (&["get", url, "--insecure", "-o", "garbage.pem/f"], &["garbage.pem/f"]),
            (&["get", url, "--nonsense"], &["--nonsense"]),
            (&["fetch", url], &["fetch"]),
        ],
    );
    assert_eq!(names(dir.path()), before, "nothing was made");
}

#[test]
fn secrets_are_not_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run(fullpipe(dir.path(), &["get", "https://me:hidden@localhost:4433/f"]));
    assert!(!said.stderr.contains("hidden"), "{}", said.stderr);
    let (cert, key) = certificate(dir.path());
    let pem = std::fs::read_to_string(&key).expect("a key");
    let secret = pem.lines().nth(1).expect("its first line");
    std::fs::write(&key, pem.replace("-----END", "")).expect("a broken key");
    let said =
        run(fullpipe(dir.path(), &["serve", ".", "--cert", text(&cert), "--key", text(&key)]));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(!said.stderr.contains(&secret[..20]), "{}", said.stderr);
}

#[test]
fn help_and_version_are_no_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    for args in [&["--help"][..], &["--version"], &["serve", "--help"], &["get", "-h"]] {
        let said = run(fullpipe(dir.path(), args));
        assert_eq!(said.code, Some(0), "{args:?}");
        assert!(said.stderr.is_empty() && !said.stdout.is_empty(), "{args:?}");
    }
}
