//! What HTTP says of requests, whichever version carries them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::{headers, start, start_and_connect, write_file};
use fullpipe_files::noq::ReadToEndError;
use fullpipe_files::{Alpn, Client, ClientOptions, Content, Server, ServerOptions};
use fullpipe_testkit::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The whole answer of HTTP/1.1, after which the connection is closed.
async fn ask(server: &Arc<Server>, request: &str) -> String {
    let (mut client, stream) = tokio::io::duplex(1 << 20);
    let (server, from) = (server.clone(), ([192, 0, 2, 1], 1).into());
    tokio::spawn(async move { server.converse(stream, from).await });
    client.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, client.read_to_end(&mut answer)).await;
    read.expect("an end").expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

async fn get(server: &Arc<Server>, fields: &str) -> String {
    let request = format!("GET /f HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{fields}\r\n");
    ask(server, &request).await
}

fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let mut lines = answer.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
}

/// A file whose last change is some time ago, because two within one second look alike.
fn settled_file(path: &Path, bytes: usize, ago: u64) {
    write_file(path, bytes);
    let file = std::fs::File::options().write(true).open(path).expect("a file");
    let changed = SystemTime::now() - Duration::from_secs(ago);
    file.set_modified(changed).expect("a time");
}

#[tokio::main]
async fn who_has_a_file_already_does_not_get_it_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("f");
    settled_file(&path, 1000, 100);
    let (server, _) = start(Content::Dir(dir.path().to_owned()), ServerOptions::default());
    let server = Arc::new(server);
    let first = get(&server, "").await;
    let (tag, date) = (field(&first, "etag").to_owned(), field(&first, "last-modified").to_owned());
    assert!(tag.starts_with('"') && date.ends_with(" GMT"), "{first}");
    assert!(field(&first, "date").ends_with(" GMT"), "{first}");
    let conditions = [
        (format!("if-none-match: {tag}"), "304"),
        (format!("if-modified-since: {date}"), "304"),
        (format!("if-match: {tag}"), "200"),
        ("if-match: \"other\"".to_owned(), "412"),
        (format!("if-range: {tag}\r\nrange: bytes=0-9"), "206"),
        (format!("if-range: {date}\r\nrange: bytes=0-9"), "206"),
        ("if-range: \"other\"\r\nrange: bytes=0-9".to_owned(), "200"),
    ];
    for (fields, status) in &conditions {
        let answer = get(&server, &format!("{fields}\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{fields}: {answer:.200}");
        if *status == "304" {
            assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
            assert_eq!(field(&answer, "etag"), tag);
        }
    }
    assert_eq!(server.stats().refused_requests, 1, "of the condition that failed alone");
    // Another content of the same length.
    settled_file(&path, 1000, 50);
    for (fields, status) in [(&conditions[0].0, "200"), (&conditions[4].0, "200")] {
        let answer = get(&server, &format!("{fields}\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{fields}: {answer:.200}");
    }
}

/// RFC 9112 section 3.2.
#[tokio::main]
async fn http_1_1_needs_one_host() {
    let (server, _client) = start_and_connect(Content::Bulk).await;
    let server = Arc::new(server);
    for (version, host, status) in [
        ("1.1", "host: x\r\n", "200"),
        ("1.1", "host: [::1]:80\r\n", "200"),
        ("1.0", "", "200"),
        ("1.1", "", "400"),
        ("1.1", "host: x\r\nhost: x\r\n", "400"),
        ("1.1", "host: a b\r\n", "400"),
        ("1.1", "host:\r\n", "200"),
        ("1.1", "host: user@x\r\n", "400"),
    ] {
        let request = format!("GET /bulk/1 HTTP/{version}\r\nconnection: close\r\n{host}\r\n");
        let answer = ask(&server, &request).await;
        assert!(answer.contains(&format!(" {status} ")), "{version} {host:?}: {answer}");
    }
}

/// RFC 9114 sections 4.2 and 4.3.1.
#[tokio::main]
async fn a_malformed_request_of_http_3_is_a_message_error() {
    let (server, verify) = start(Content::Bulk, ServerOptions::default());
    let options = ClientOptions { alpn: Alpn::H3, ..ClientOptions::default() };
    let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
    let client = client.expect("a connection");
    let ask = async |more: &[(&str, &str)]| {
        let fields = [(":method", "GET"), (":scheme", "https"), (":path", "/bulk/1")];
        let (mut send, mut recv) = client.connection().open_bi().await.expect("a stream");
        send.write_all(&headers(&[&fields[..], more].concat())).await.expect("a request");
        send.finish().expect("open");
        match recv.read_to_end(1000).await {
            Ok(_answer) => None,
            Err(ReadToEndError::Read(error)) => Some(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    };
    let authority = (":authority", "localhost");
    for right in [
        &[authority][..],
        &[("host", "localhost")],
        &[authority, ("host", "localhost")],
        &[authority, ("te", "trailers")],
    ] {
        assert_eq!(ask(right).await, None, "{right:?}");
    }
    for wrong in [
        &[authority, ("connection", "close")][..],
        &[authority, ("keep-alive", "1")],
        &[authority, ("transfer-encoding", "chunked")],
        &[authority, ("upgrade", "x")],
        &[authority, ("te", "gzip")],
        &[authority, ("host", "elsewhere")],
        &[],
    ] {
        let error = ask(wrong).await.expect("no answer");
        // H3_MESSAGE_ERROR
        assert!(error.contains("270"), "{wrong:?}: {error}");
    }
    assert_eq!(ask(&[authority]).await, None, "the connection goes on");
}

fullpipe_testkit::tests! {
    [] who_has_a_file_already_does_not_get_it_again;
    [] http_1_1_needs_one_host;
    [] a_malformed_request_of_http_3_is_a_message_error;
}
