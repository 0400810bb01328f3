//! HTTP/3 between the own client and the own server.

use std::sync::Arc;

use crate::common::{begun, fetch, sha256, start, write_file};
use fullpipe_files::noq::ConnectionError;
use fullpipe_files::{
    Alpn, Client, ClientError, ClientOptions, Content, ServerOptions, bulk_block,
};
use fullpipe_testkit::PATIENCE;

async fn connect(content: Content, alpn: Alpn) -> (fullpipe_files::Server, Client) {
    let (server, verify) = start(content, ServerOptions::default());
    let options = ClientOptions { alpn, ..ClientOptions::default() };
    let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
    (server, client.expect("a connection"))
}

#[tokio::main]
async fn files_of_every_size_arrive_whole_and_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, client) = connect(Content::Dir(dir.path().to_owned()), Alpn::H3).await;
    let client = Arc::new(client);
    let mut running = Vec::new();
    for bytes in [0, 1, 1199, 262_144, 262_145, 3_000_000, 100_000_000] {
        let data = write_file(&dir.path().join(format!("{bytes}.bin")), bytes);
        let client = client.clone();
        running.push(tokio::spawn(async move {
            let body = fetch(&client, &format!("/{bytes}.bin")).await.expect("a body");
            assert_eq!(body.len(), bytes);
            assert_eq!(sha256(body), sha256(data), "{bytes} bytes");
        }));
    }
    for task in running {
        task.await.expect("equal files");
    }
    server.shutdown().await;
}

#[tokio::main]
async fn a_refusal_is_a_status_and_the_connection_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = write_file(&dir.path().join("f"), 1000);
    let (_server, client) = connect(Content::Dir(dir.path().to_owned()), Alpn::Any).await;
    for (path, status) in [("/none", 404), ("/", 403), ("/%ff", 400), ("/%2e%2e/etc/passwd", 403)] {
        let error = client.get(path).await.err().expect(path);
        assert!(matches!(error, ClientError::Status { code } if code == status), "{path}: {error}");
    }
    assert_eq!(fetch(&client, "/f").await.expect("a body"), data);
    assert_eq!(fetch(&client, "/f?query").await.expect("a body"), data);
    // Longer than the header that the server takes.
    let long = format!("/{}", "x".repeat(9000));
    assert!(client.get(&long).await.is_err());
}

#[tokio::main]
async fn a_server_that_ends_finishes_an_answer_over_http_3() {
    let (server, client) = connect(Content::Bulk, Alpn::H3).await;
    let mut response = client.get("/bulk/30000000").await.expect("an answer");
    let mut bytes = response.chunk().await.expect("data").expect("no end").len();
    let ending = begun(async move { server.finish(PATIENCE).await }).await;
    // After a GOAWAY no request is sent any more. Before it has come, the server refuses them.
    let goaway = async {
        loop {
            match client.get("/bulk/10").await.err().expect("no new request") {
                ClientError::Http3(_) => break,
                ClientError::Status { code: 503 } => {}
                refused => panic!("{refused}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, goaway).await.expect("a GOAWAY");
    while let Some(chunk) = response.chunk().await.expect("it goes on to its end") {
        bytes += chunk.len();
    }
    assert_eq!(bytes, 30_000_000);
    ending.await.expect("it ends");
    assert_eq!(close_code(&client).await, 0x100);
}

/// The code with which the server closes a connection.
async fn close_code(client: &Client) -> u64 {
    let closed = client.connection().closed();
    let closed = tokio::time::timeout(PATIENCE, closed).await;
    match closed.expect("it is closed") {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("{other}"),
    }
}

#[tokio::main]
async fn a_server_that_stops_says_that_nothing_is_wrong_in_the_words_of_the_protocol() {
    for (alpn, code) in [(Alpn::H3, 0x100), (Alpn::HqInterop, 0)] {
        let (server, client) = connect(Content::Bulk, alpn).await;
        let mut response = client.get("/bulk").await.expect("an answer");
        response.chunk().await.expect("data").expect("no end");
        server.shutdown().await;
        assert_eq!(close_code(&client).await, code, "{alpn}");
    }
    // Whoever only drops it.
    let (server, client) = connect(Content::Bulk, Alpn::H3).await;
    assert_eq!(fetch(&client, "/bulk/10").await.expect("a body").len(), 10);
    drop(server);
    assert_eq!(close_code(&client).await, 0x100);
}

#[tokio::main]
async fn data_without_an_end_flows_until_the_client_stops() {
    let (_server, client) = connect(Content::Bulk, Alpn::H3).await;
    assert_eq!(fetch(&client, "/bulk/10").await.expect("a body"), &bulk_block()[..10]);
    let mut response = client.get("/bulk").await.expect("an answer");
    let mut bytes = 0;
    while bytes < 100_000 {
        bytes += response.chunk().await.expect("data").expect("no end").len();
    }
    assert_eq!(fetch(&client, "/bulk/10").await.expect("a body"), &bulk_block()[..10]);
}

#[tokio::main]
async fn unidirectional_streams_are_for_http_3_alone_and_few() {
    for (alpn, streams) in [(Alpn::HqInterop, 0), (Alpn::H3, 3)] {
        let (_server, client) = connect(Content::Bulk, alpn).await;
        let mut open = Vec::new();
        for _ in 0..4 {
            let opening = client.connection().open_uni();
            // So long after a server that allows more has said so.
            let limit = std::time::Duration::from_millis(300);
            match tokio::time::timeout(limit, opening).await {
                Ok(stream) => open.push(stream.expect("a stream")),
                Err(_) => break,
            }
        }
        // HTTP/3 has taken its three, or as many as it uses, for itself.
        assert!(open.len() <= streams, "{alpn}: {}", open.len());
    }
}

fullpipe_testkit::tests! {
    [] files_of_every_size_arrive_whole_and_at_once;
    [] a_refusal_is_a_status_and_the_connection_goes_on;
    [] a_server_that_ends_finishes_an_answer_over_http_3;
    [] a_server_that_stops_says_that_nothing_is_wrong_in_the_words_of_the_protocol;
    [] data_without_an_end_flows_until_the_client_stops;
    [] unidirectional_streams_are_for_http_3_alone_and_few;
}
