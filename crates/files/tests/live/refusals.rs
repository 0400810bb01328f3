//! Requests that the server refuses: nothing outside its directory, nothing for an odd request.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::{fetch, start, start_and_connect, write_file};
use fullpipe_files::noq::Connection;
use fullpipe_files::{
    Client, ClientError, ClientOptions, Content, MAX_REQUEST_BYTES, Refusal, ServerOptions,
    ServerTls, Verify,
};
use fullpipe_testkit::PATIENCE;

const SECRET: &[u8] = b"not for everybody";

/// Sends these bytes as a request, whatever they are, and gives the answer or the reset's code.
async fn raw(connection: &Connection, request: &[u8]) -> Result<Vec<u8>, u64> {
    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
    // A server that refuses early stops the stream while it is still being written.
    let _ = send.write_all(request).await;
    let _ = send.finish();
    use fullpipe_files::noq::{ReadError, ReadToEndError};
    match recv.read_to_end(1_000_000).await {
        Ok(body) => Ok(body),
        Err(ReadToEndError::Read(ReadError::Reset(code))) => Err(code.into_inner()),
        Err(other) => panic!("{other:?}"),
    }
}

/// `outside/secret` beside `root`, and every kind of link between them.
fn tree(base: &Path) {
    for dir in ["root", "root/sub", "outside", "root-beside"] {
        std::fs::create_dir(base.join(dir)).expect(dir);
    }
    for file in ["outside/secret", "root-beside/secret"] {
        std::fs::write(base.join(file), SECRET).expect(file);
    }
    std::fs::write(base.join("root/sub/file"), b"for everybody").expect("a file");
    let root = base.join("root");
    symlink("../outside/secret", root.join("relative")).expect("a link");
    symlink(base.join("outside/secret"), root.join("absolute")).expect("a link");
    symlink("../outside", root.join("dir")).expect("a link");
    symlink("../root-beside/secret", root.join("beside")).expect("a link");
    symlink("relative", root.join("chain")).expect("a link");
    symlink("/etc/passwd", root.join("passwd")).expect("a link");
    symlink("missing", root.join("dangling")).expect("a link");
    symlink("loop", root.join("loop")).expect("a link");
}

#[tokio::main]
async fn nothing_outside_the_directory_is_ever_given() {
    let base = tempfile::tempdir().expect("a directory");
    tree(base.path());
    let (_server, client) = start_and_connect(Content::Dir(base.path().join("root"))).await;
    let good = raw(client.connection(), b"GET /sub/file\r\n").await;
    assert_eq!(good, Ok(b"for everybody".to_vec()), "the server works");
    let absolute = base.path().join("outside/secret");
    let absolute = absolute.to_str().expect("UTF-8");
    for path in [
        "/../outside/secret",
        "/sub/../../outside/secret",
        "/sub/../sub/file",
        "/%2e%2e/outside/secret",
        "/%2E%2E/outside/secret",
        "/.%2e/outside/secret",
        "/%2e./outside/secret",
        "/..%2foutside%2fsecret",
        "/..%2Foutside%2Fsecret",
        "/%2e%2e%2foutside%2fsecret",
        "/sub%2f..%2f..%2foutside%2fsecret",
        "/..%5coutside%5csecret",
        "/..\\outside\\secret",
        "/../root-beside/secret",
        "/./sub/file",
        "//etc/passwd",
        "///etc/passwd",
        "/%2fetc%2fpasswd",
        "/relative",
        "/absolute",
        "/dir/secret",
        "/beside",
        "/chain",
        "/passwd",
        "/sub/file%00",
        "/%00",
        "/",
        "/sub",
        "/sub/",
        &format!("/{absolute}"),
        &format!("/..{absolute}"),
    ] {
        let answer = raw(client.connection(), format!("GET {path}\r\n").as_bytes()).await;
        assert_eq!(answer, Err(403), "{path}");
    }
    // Names that mean nothing here, not even when they are decoded twice.
    for path in
        ["/%252e%252e/outside/secret", "/..%c0%af", "/dangling", "/loop", "/sub/file/x", "/none"]
    {
        let answer = raw(client.connection(), format!("GET {path}\r\n").as_bytes()).await;
        assert!(matches!(answer, Err(400 | 404)), "{path}: {answer:?}");
    }
    // Every way to write "..", with every way to write the slash behind it: 56 more.
    for dots in ["..", "%2e%2e", ".%2e", "%2e.", "%2E%2E", "%252e%252e", "..%00", "...."] {
        for slash in ["/", "%2f", "%2F", "\\", "%5c", "//", "/./"] {
            let path = format!("/{dots}{slash}outside{slash}secret");
            let answer = raw(client.connection(), format!("GET {path}\r\n").as_bytes()).await;
            assert!(matches!(answer, Err(400 | 403 | 404)), "{path}: {answer:?}");
        }
    }
}

#[tokio::main]
async fn only_regular_files_are_given() {
    let dir = tempfile::tempdir().expect("a directory");
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    symlink("/dev/zero", dir.path().join("zero")).expect("a link");
    let (_server, client) = start_and_connect(Content::Dir(dir.path().to_owned())).await;
    for request in ["GET /fifo\r\n", "GET /zero\r\n"] {
        let answer = raw(client.connection(), request.as_bytes());
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        if answer.is_err() {
            // The server waits for a writer, and would do so after the test.
            drop(std::fs::File::options().write(true).open(&fifo));
        }
        assert_eq!(answer, Ok(Err(403)), "{request:?}");
    }
}

#[tokio::main]
async fn an_odd_request_is_reset_and_the_connection_lives_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = write_file(&dir.path().join("f"), 100);
    let (_server, client) = start_and_connect(Content::Dir(dir.path().to_owned())).await;
    let long = format!("GET /{}\r\n", "a".repeat(MAX_REQUEST_BYTES));
    let endless = vec![b'A'; 1_000_000];
    let odd: [&[u8]; 12] = [
        b"",
        b"\r\n",
        b"GET\r\n",
        b"GET f\r\n",
        b"get /f\r\n",
        b"HEAD /f\r\n",
        b"PUT /f\r\n",
        b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /f\0\r\n",
        b"\xff\xfe\0\r\n",
        long.as_bytes(),
        &endless,
    ];
    for request in odd {
        let shown = String::from_utf8_lossy(&request[..request.len().min(40)]);
        assert_eq!(raw(client.connection(), request).await, Err(400), "{shown:?}");
        assert_eq!(fetch(&client, "/f").await.expect("still there"), data, "after {shown:?}");
    }
    for request in ["GET /f", "GET /f\n", "GET /f\r\n"] {
        assert_eq!(raw(client.connection(), request.as_bytes()).await.as_ref(), Ok(&data));
    }
}

#[tokio::main]
async fn a_request_is_answered_before_its_stream_is_finished() {
    let (_server, client) = start_and_connect(Content::Bulk).await;
    let (mut send, mut recv) = client.connection().open_bi().await.expect("a stream");
    send.write_all(b"GET /bulk/1").await.expect("a part");
    // Sleeps: so that the parts come apart. Together they are one request as well.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    send.write_all(b"00\r\n").await.expect("the rest");
    assert_eq!(recv.read_to_end(1000).await.expect("an answer").len(), 100);
}

#[tokio::main]
async fn the_client_names_the_servers_reason_and_sends_no_odd_path() {
    let (_server, client) = start_and_connect(Content::Bulk).await;
    let error = fetch(&client, "/elsewhere").await.expect_err("no such thing");
    assert!(matches!(error, ClientError::Reset { code: 404 }), "{error:?}");
    assert!(error.to_string().contains(&Refusal::NotFound.to_string()), "{error}");
    for path in ["", "bulk", "/bulk 1", "/bulk\r\nGET /bulk", "/bülk"] {
        let error = client.get(path).await.err().expect(path);
        assert!(matches!(error, ClientError::Path(_)), "{error:?}");
    }
}

#[tokio::main]
async fn a_server_is_believed_only_by_its_certificate() {
    let (server, own) = start(Content::Bulk, ServerOptions::default());
    let other = ServerTls::self_signed(&["localhost"]).expect("a certificate");
    let other = Verify::Certificates(other.certificates().to_vec());
    let nobody = Verify::Certificates(Vec::new());
    for (verify, name, believed) in [
        (&own, "localhost", true),
        (&own, "127.0.0.1", true),
        (&own, "example.org", false),
        (&own, "127.0.0.2", false),
        (&other, "localhost", false),
        (&nobody, "localhost", false),
        (&Verify::Insecure, "example.org", true),
    ] {
        let client =
            Client::connect(server.local_addr(), name, verify, ClientOptions::default()).await;
        assert_eq!(client.is_ok(), believed, "{verify:?} {name}");
    }
}

fullpipe_testkit::tests! {
    [] nothing_outside_the_directory_is_ever_given;
    [] only_regular_files_are_given;
    [] an_odd_request_is_reset_and_the_connection_lives_on;
    [] a_request_is_answered_before_its_stream_is_finished;
    [] the_client_names_the_servers_reason_and_sends_no_odd_path;
    [] a_server_is_believed_only_by_its_certificate;
}
