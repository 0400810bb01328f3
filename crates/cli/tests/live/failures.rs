//! A transfer that does not come to its end leaves no file that could be taken for the whole.

use std::io::Read;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use fullpipe_testkit::{PATIENCE, until, until_some};

use crate::common::{Running, fullpipe, names, run, serve, write_file};
use fullpipe_files::noq::{Connection, ConnectionError};
use fullpipe_files::{
    Client, ClientError, ClientOptions, Content, OnAccept, Server, ServerOptions, ServerTls, Verify,
};

/// A server in this process whose `/bulk` never ends, its URL, and the connections that it gets.
fn endless(runtime: &tokio::runtime::Runtime) -> (Server, String, Receiver<Connection>) {
    let _inside = runtime.enter();
    let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
    let any = ([127, 0, 0, 1], 0).into();
    let (tell, accepted) = channel();
    let on_accept: OnAccept = Arc::new(move |connection| tell.send(connection).expect("the test"));
    let options = ServerOptions { on_accept: Some(on_accept), ..ServerOptions::default() };
    let server = Server::bind(any, &tls, Content::Bulk, options).expect("a server");
    let url = format!("https://localhost:{}/bulk", server.local_addr().port());
    (server, url, accepted)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Starts a `get` and waits until some of the file is there.
fn get_in_the_middle(dir: &Path, url: &str) -> Running {
    let mut command = fullpipe(dir, &["get", url, "--insecure", "-o", "target"]);
    let child = command.stderr(Stdio::piped()).spawn().expect("the command starts");
    let running = Running(child);
    let some = |name: &String| {
        name.ends_with(".part")
            && std::fs::metadata(dir.join(name)).is_ok_and(|found| found.len() > 100_000)
    };
    until("a part of the file arrives", || names(dir).iter().any(some));
    running
}

fn ctrl_c_removes_what_had_arrived_and_keeps_what_was_there() {
    let runtime = runtime();
    let (server, url, accepted) = endless(&runtime);
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("target"), "from before").expect("a file");
    let mut get = get_in_the_middle(dir.path(), &url);
    get.interrupt();
    assert_eq!(get.end().code(), Some(130));
    let said = get.stderr();
    assert!(said.contains("interrupted") && said.contains("removed"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(names(dir.path()), ["target"]);
    assert_eq!(std::fs::read(dir.path().join("target")).expect("a file"), b"from before");
    let connection = accepted.recv().expect("a connection");
    let reason = until_some("the server is told", || connection.close_reason());
    assert!(matches!(reason, ConnectionError::ApplicationClosed(_)), "{reason:?}");
    runtime.block_on(server.shutdown());
}

fn a_terminal_sees_how_it_goes_and_is_left_clean() {
    let runtime = runtime();
    let (_server, url, _accepted) = endless(&runtime);
    let dir = tempfile::tempdir().expect("a directory");
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    let mut command = fullpipe(dir.path(), &["get", &url, "--insecure", "-o", "/dev/null"]);
    command.env("TERM", "xterm").stderr(terminal.slave);
    let mut get = Running(command.spawn().expect("the command starts"));
    drop(command); // It holds this process's end of the terminal.
    let (mut shown, mut interrupted) = (String::new(), false);
    let mut screen = std::fs::File::from(terminal.master);
    let mut buffer = [0; 4096];
    // Linux ends the master's side with an error when the last slave is gone.
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
        if !interrupted && shown.matches(" Mbit/s").count() >= 3 {
            get.interrupt();
            interrupted = true;
        }
    }
    assert_eq!(get.end().code(), Some(130));
    assert!(shown.contains("MB in "), "bytes and time: {shown:?}");
    let last = shown.rsplit('\r').find(|line| !line.trim().is_empty()).expect("a last line");
    assert!(last.contains("interrupted") && !last.contains("MB in"), "{shown:?}");
}

fn a_lost_connection_removes_what_had_arrived() {
    let runtime = runtime();
    let (server, url, _accepted) = endless(&runtime);
    let dir = tempfile::tempdir().expect("a directory");
    let mut get = get_in_the_middle(dir.path(), &url);
    runtime.block_on(server.shutdown());
    assert_eq!(get.end().code(), Some(1));
    let said = get.stderr();
    assert!(said.contains("connection was lost") && said.contains("removed"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(names(dir.path()).is_empty());
}

fn a_file_that_is_not_there_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path(), &[]);
    let said = run(fullpipe(dir.path(), &["get", &server.url("/missing"), "--insecure"]));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("404 (not found)"), "{}", said.stderr);
    assert!(names(dir.path()).is_empty());
}

fn a_full_device_is_named() {
    if !Path::new("/dev/full").exists() {
        fullpipe_testkit::skip("no /dev/full, which only Linux has");
    }
    let dir = tempfile::tempdir().expect("a directory");
    write_file(&dir.path().join("f"), 3_000_000);
    write_file(&dir.path().join("small"), 10);
    let server = serve(dir.path(), &[]);
    for path in ["/f", "/small"] {
        let url = server.url(path);
        let said = run(fullpipe(dir.path(), &["get", &url, "--insecure", "-o", "/dev/full"]));
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        assert!(said.stderr.contains("cannot write to \"/dev/full\""), "{}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    }
    assert!(Path::new("/dev/full").exists());
}

fn a_disk_that_takes_no_more_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (www, here) = (dir.path().join("www"), dir.path().join("here"));
    std::fs::create_dir(&www).expect("a directory");
    std::fs::create_dir(&here).expect("a directory");
    write_file(&www.join("f"), 3_000_000);
    let server = serve(&www, &[]);
    // The shell's limit on a file's size, with the signal that goes with it ignored, is as good as
    // a full disk and needs no disk.
    let script = r#"trap "" XFSZ; ulimit -f 1000; exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_fullpipe")]);
    command.args(["get", &server.url("/f"), "--insecure"]).current_dir(&here);
    let said = run(command);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("cannot write to \"f\""), "{}", said.stderr);
    assert!(said.stderr.contains("removed"), "{}", said.stderr);
    assert!(names(&here).is_empty());
}

fn ctrl_c_ends_a_server_cleanly_and_its_clients_hear_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    write_file(&dir.path().join("f"), 50_000_000);
    let mut server = serve(dir.path(), &[]);
    let runtime = runtime();
    let mut response = runtime.block_on(async {
        let options = ClientOptions::default();
        let client = Client::connect(server.address, "localhost", &Verify::Insecure, options).await;
        let client = client.expect("a connection");
        let response = client.get("/f").await.expect("an answer");
        (client, response)
    });
    runtime.block_on(response.1.chunk()).expect("data");
    server.process.interrupt();
    assert_eq!(server.process.end().code(), Some(0));
    let error = runtime.block_on(async {
        loop {
            if let Err(error) = response.1.chunk().await {
                break error;
            }
        }
    });
    assert!(matches!(error, ClientError::Lost(_)), "{error}");
    assert!(error.to_string().contains("the server stops"), "{error}");
}

fn ctrl_c_while_nobody_answers_ends_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let url = format!("https://127.0.0.1:{}/f", silent.local_addr().expect("an address").port());
    let mut command = fullpipe(dir.path(), &["get", &url, "--insecure"]);
    let mut get = Running(command.stderr(Stdio::piped()).spawn().expect("the command starts"));
    // Its first packet shows that it is past its start.
    silent.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    silent.recv(&mut [0; 2000]).expect("a packet");
    get.interrupt();
    assert_eq!(get.end().code(), Some(130));
    let said = get.stderr();
    assert!(said.contains("nothing was written"), "{said}");
    assert!(names(dir.path()).is_empty());
}

fullpipe_testkit::tests! {
    [] ctrl_c_removes_what_had_arrived_and_keeps_what_was_there;
    [] a_terminal_sees_how_it_goes_and_is_left_clean;
    [] a_lost_connection_removes_what_had_arrived;
    [] a_file_that_is_not_there_leaves_nothing;
    [] a_full_device_is_named;
    [] a_disk_that_takes_no_more_leaves_nothing;
    [] ctrl_c_ends_a_server_cleanly_and_its_clients_hear_of_it;
    [] ctrl_c_while_nobody_answers_ends_at_once;
}
