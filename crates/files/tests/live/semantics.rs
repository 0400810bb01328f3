//! Rules of HTTP for requests, whichever version carries them.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::common::{fetch, frame, headers, start, start_and_connect, write_file};
use fullpipe_files::noq::ReadToEndError;
use fullpipe_files::{
    Alpn, Client, ClientOptions, Content, OnRequest, RequestRecord, Server, ServerOptions,
};
use fullpipe_testkit::{PATIENCE, until};
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

#[tokio::main]
async fn each_request_is_told_with_its_own_status() {
    let dir = tempfile::tempdir().expect("a directory");
    settled_file(&dir.path().join("f"), 1000, 100);
    settled_file(&dir.path().join("page.HTML"), 10, 100);
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let on_request: OnRequest = Arc::new(move |record: &RequestRecord<'_>| {
        let RequestRecord { version, method, target, status, body_bytes, .. } = record;
        let line =
            format!("{version} {method} {} {target} {status} {body_bytes}", record.authority);
        tell.lock().expect("no panic").push(line);
    });
    let options = ServerOptions { on_request: Some(on_request), ..ServerOptions::default() };
    let (server, verify) = start(Content::Dir(dir.path().to_owned()), options);
    let server = Arc::new(server);
    let long = "x".repeat(8000);
    let mut expected = Vec::new();
    for (request, fields, status, bytes) in [
        ("GET /f?a=b", "", 200, 1000),
        ("HEAD /f", "", 200, 0),
        ("GET /f", "range: bytes=0-9", 206, 10),
        ("POST /f", "", 405, 0),
        ("GET /f", "if-match: \"other\"", 412, 0),
        ("GET /f", "range: bytes=1000-", 416, 0),
        ("GET /none", "", 404, 0),
        ("GET /page.HTML", "", 200, 10),
    ] {
        let text = format!("{request} HTTP/1.1\r\nhost: x:1\r\nconnection: close\r\n{fields}");
        let end = if fields.is_empty() { "\r\n" } else { "\r\n\r\n" };
        let answer = ask(&server, &format!("{text}{end}")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request} {fields}: {answer}");
        let kind = match (status, request) {
            (200, "GET /page.HTML") => "text/html",
            (200 | 206, _) => "application/octet-stream",
            _ => "",
        };
        assert_eq!(field(&answer, "content-type"), kind, "{request}");
        let (method, target) = request.split_once(' ').expect("two words");
        expected.push(format!("HTTP/1.1 {method} x:1 {target} {status} {bytes}"));
    }
    for (request, status) in [
        (format!("GET /f HTTP/1.1\r\nhost: x\r\nlong: {long}{long}\r\n\r\n"), 431),
        ("GET /f HTTP/1.1\r\nno field\r\n\r\n".to_owned(), 400),
    ] {
        let answer = ask(&server, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        expected.push(format!("HTTP/1.1    {status} 0"));
    }
    let options = ClientOptions { alpn: Alpn::H3, ..ClientOptions::default() };
    let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
    let client = client.expect("a connection");
    let fields = [(":method", "PUT"), (":scheme", "https"), (":path", "/f"), (":authority", "y")];
    let many = [("a-field-of-the-request", &long[..120]); 50];
    for (more, told) in [(&[][..], "PUT y /f 405 0"), (&many, "   431 0")] {
        let (mut send, mut recv) = client.connection().open_bi().await.expect("a stream");
        send.write_all(&headers(&[&fields[..], more].concat())).await.expect("a request");
        send.finish().expect("open");
        recv.read_to_end(1000).await.expect("an answer");
        expected.push(format!("HTTP/3 {told}"));
    }
    let options = ClientOptions { alpn: Alpn::HqInterop, ..options };
    let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
    let client = client.expect("a connection");
    for (path, status, bytes) in [("/f", 200, 1000), ("/none", 404, 0)] {
        let _ = fetch(&client, path).await;
        expected.push(format!("HTTP/0.9 GET  {path} {status} {bytes}"));
    }
    let all_told = || told.lock().expect("no panic").len() == expected.len();
    until("each request is told", all_told);
    // An answer is told when its client has acknowledged it, which may be after the next one.
    let (mut told, mut expected) = (told.lock().expect("no panic").clone(), expected);
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
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
    let send = async |request: &[u8]| {
        let (mut send, mut recv) = client.connection().open_bi().await.expect("a stream");
        send.write_all(request).await.expect("a request");
        send.finish().expect("open");
        match recv.read_to_end(1000).await {
            Ok(_answer) => None,
            Err(ReadToEndError::Read(error)) => Some(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    };
    let ask = async |more: &[(&str, &str)]| {
        let fields = [(":method", "GET"), (":scheme", "https"), (":path", "/bulk/1")];
        send(&headers(&[&fields[..], more].concat())).await
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
        &[authority, authority],
        &[authority, (":method", "GET")],
        &[authority, (":path", "/bulk/2")],
        &[authority, (":scheme", "https")],
        &[authority, (":status", "200")],
        &[authority, (":protocol", "websocket")],
        &[authority, (":unknown", "x")],
        &[("a", "b"), authority],
        &[authority, ("Upper", "case")],
    ] {
        let error = ask(wrong).await.expect("no answer");
        // H3_MESSAGE_ERROR
        assert!(error.contains("270"), "{wrong:?}: {error}");
    }
    // Fields of the static table, and `:authority` in Huffman code, once and twice.
    let sound = [0, 0, 0xc0 | 17, 0xc0 | 23, 0x51, 7, b'/', b'b', b'u', b'l', b'k', b'/', b'1'];
    let coded = [0x2f, 1, 0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f, 1, b'x'];
    assert_eq!(send(&frame(1, &[&sound[..], &coded].concat())).await, None);
    let error = send(&frame(1, &[&sound[..], &coded, &coded].concat())).await;
    assert!(error.expect("no answer").contains("270"));
    for missing in [":method", ":scheme", ":path"] {
        let fields = [(":method", "GET"), (":scheme", "https"), (":path", "/bulk/1"), authority];
        let fields: Vec<_> = fields.into_iter().filter(|(name, _)| *name != missing).collect();
        let error = send(&headers(&fields)).await;
        assert!(error.expect("no answer").contains("270"), "{missing}");
    }
    assert_eq!(ask(&[authority]).await, None, "the connection goes on");
}

fullpipe_testkit::tests! {
    [] each_request_is_told_with_its_own_status;
    [] who_has_a_file_already_does_not_get_it_again;
    [] http_1_1_needs_one_host;
    [] a_malformed_request_of_http_3_is_a_message_error;
}
