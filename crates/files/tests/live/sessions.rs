//! Sessions that are resumed, cipher suites, certificates that change, and a server that ends well.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{begun, fetch, loopback, start};
use fullpipe_files::{
    Alpn, Cipher, Client, ClientError, ClientOptions, Connector, Content, Server, ServerOptions,
    ServerTls, TransportSettings, Verify, bulk_block,
};
use fullpipe_testkit::PATIENCE;
use tokio::task::JoinSet;

fn serve(tls: &ServerTls) -> Server {
    Server::bind(loopback(), tls, Content::Bulk, ServerOptions::default()).expect("a server")
}

fn tls() -> ServerTls {
    ServerTls::self_signed(&["localhost"]).expect("a certificate")
}

/// The server has another certificate by then, which the client does not trust: it is not asked
/// for.
#[tokio::main]
async fn a_session_that_is_resumed_needs_no_certificate() {
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = (dir.path().join("cert"), dir.path().join("key"));
    let verify = write_pair(dir.path());
    let tls = ServerTls::from_pem_files(&cert, &key).expect("a pair");
    let server = serve(&tls);
    let connector = Connector::new(&verify, ClientOptions::default()).expect("TLS");
    let first = connector.connect(server.local_addr(), "localhost").await.expect("connected");
    fetch(&first, "/bulk/10").await.expect("a body");
    connector.wait_for_session(PATIENCE.into()).await;
    write_pair(dir.path());
    tls.reload(&cert, &key).expect("a pair");
    let second = connector.connect(server.local_addr(), "localhost").await.expect("resumed");
    assert_eq!(fetch(&second, "/bulk/10").await.expect("a body"), &bulk_block()[..10]);
    let options = ClientOptions::default();
    let stranger = Client::connect(server.local_addr(), "localhost", &verify, options).await;
    assert!(stranger.is_err(), "whoever has no session sees the certificate");
}

/// On one thread, so that no handshake ends between the start of a connection and its first
/// request.
#[tokio::main(flavor = "current_thread")]
async fn a_request_goes_in_the_first_packets_if_the_server_takes_it() {
    let all = [Alpn::HqInterop, Alpn::H3].map(|alpn| [(alpn, true), (alpn, false)]);
    for (alpn, early) in all.into_iter().flatten() {
        let tls = if early { tls().with_early_data() } else { tls() };
        let server = serve(&tls);
        let verify = Verify::Certificates(tls.certificates());
        let options = ClientOptions { alpn, ..ClientOptions::default() };
        let connector = Connector::new(&verify, options).expect("TLS");
        let address = server.local_addr();
        let first = connector.connect_early(address, "localhost").await.expect("connected");
        assert!(first.connection().handshake_data().is_some(), "there was nothing to resume");
        fetch(&first, "/bulk/10").await.expect("a body");
        connector.wait_for_session(PATIENCE.into()).await;
        let second = connector.connect_early(address, "localhost").await.expect("connected");
        assert_eq!(second.connection().handshake_data().is_none(), early, "before the handshake");
        // Had the server not taken it, this would be an error.
        let body = fetch(&second, "/bulk/100000").await.expect("a body");
        assert_eq!(body.len(), 100_000);
    }
}

/// The server that gave the session is gone, and the one in its place does not know it. On one
/// thread as well.
#[tokio::main(flavor = "current_thread")]
async fn a_request_that_was_not_taken_early_can_be_made_anew() {
    for alpn in [Alpn::HqInterop, Alpn::H3] {
        not_taken(alpn).await;
    }
}

async fn not_taken(alpn: Alpn) {
    let tls = tls().with_early_data();
    let verify = Verify::Certificates(tls.certificates());
    let options = ClientOptions { alpn, ..ClientOptions::default() };
    let connector = Connector::new(&verify, options).expect("TLS");
    let first = serve(&tls);
    let client = connector.connect(first.local_addr(), "localhost").await.expect("connected");
    fetch(&client, "/bulk/10").await.expect("a body");
    connector.wait_for_session(PATIENCE.into()).await;
    let second = serve(&tls);
    let client = connector.connect_early(second.local_addr(), "localhost").await.expect("begun");
    let client = Arc::new(client);
    let mut all = JoinSet::new();
    // Many at once: a stream of before must not take the waker of the one that gets its ID.
    for _ in 0..40 {
        let client = client.clone();
        all.spawn(async move {
            let error = fetch(&client, "/bulk/10").await.expect_err("not taken");
            assert!(matches!(error, ClientError::EarlyDataRejected), "{alpn}: {error}");
            for _ in 0..3 {
                assert_eq!(fetch(&client, "/bulk/10").await.expect("a body"), &bulk_block()[..10]);
            }
        });
    }
    let joined = tokio::time::timeout(PATIENCE, all.join_all()).await;
    joined.expect("each request ends");
    let client = Arc::into_inner(client).expect("nobody else has it");
    client.close().await;
}

/// A probe timeout has the 25 ms in it by which the peer may be late with its ACK, and noq repeats
/// a close for three.
#[tokio::main]
async fn a_client_that_is_done_does_not_stay() {
    let tls = tls();
    let server = serve(&tls);
    let verify = Verify::Certificates(tls.certificates());
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        let options = ClientOptions::default();
        let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
        let client = client.expect("connected");
        fetch(&client, "/bulk/10").await.expect("a body");
        let begun = Instant::now();
        client.close().await;
        shortest = shortest.min(begun.elapsed());
    }
    assert!(shortest < Duration::from_millis(25), "{shortest:?}");
}

#[tokio::main]
async fn a_server_forgets_a_client_that_is_done() {
    // What says nothing is forgotten by then, and not before.
    let transport =
        TransportSettings { idle_timeout: (100 * PATIENCE).into(), ..TransportSettings::default() };
    let options = ServerOptions { transport, ..ServerOptions::default() };
    let (server, verify) = start(Content::Bulk, options);
    let options = ClientOptions { transport, ..ClientOptions::default() };
    let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
    let client = client.expect("connected");
    fetch(&client, "/bulk/10").await.expect("a body");
    client.close().await;
    let forgotten = async {
        while server.endpoint().open_connections() > 0 {
            // Sleeps: between two looks at a counter.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, forgotten).await.expect("the server was told");
}

#[tokio::main]
async fn both_ends_agree_on_the_one_cipher_or_on_none() {
    let suites = [Cipher::Any, Cipher::Aes128, Cipher::Aes256, Cipher::ChaCha20];
    for server_cipher in suites {
        let tls = tls().with_cipher(server_cipher);
        let server = serve(&tls);
        let verify = Verify::Certificates(tls.certificates());
        for cipher in suites {
            let options = ClientOptions { cipher, ..ClientOptions::default() };
            let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
            let agree =
                cipher == server_cipher || cipher == Cipher::Any || server_cipher == Cipher::Any;
            match client {
                Ok(client) => {
                    assert!(agree, "{cipher} with {server_cipher}");
                    assert_eq!(fetch(&client, "/bulk/70000").await.expect("a body").len(), 70_000);
                }
                Err(error) => {
                    assert!(!agree, "{cipher} with {server_cipher}: {error}");
                    assert!(matches!(error, ClientError::Handshake { .. }), "{error}");
                }
            }
        }
    }
}

fn write_pair(dir: &Path) -> Verify {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(dir.join("cert"), made.cert.pem()).expect("a file");
    std::fs::write(dir.join("key"), made.signing_key.serialize_pem()).expect("a file");
    Verify::Certificates(vec![made.cert.der().clone()])
}

#[tokio::main]
async fn a_certificate_that_is_read_again_counts_for_new_connections() {
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = (dir.path().join("cert"), dir.path().join("key"));
    let old = write_pair(dir.path());
    let tls = ServerTls::from_pem_files(&cert, &key).expect("a pair");
    let server = serve(&tls);
    let connect = async |verify: &Verify| {
        Client::connect(server.local_addr(), "localhost", verify, ClientOptions::default()).await
    };
    let before = connect(&old).await.expect("connected");
    let new = write_pair(dir.path());
    tls.reload(&cert, &key).expect("a pair");
    assert!(connect(&old).await.is_err(), "the old one is gone");
    connect(&new).await.expect("connected");
    fetch(&before, "/bulk/10").await.expect("a connection from before goes on");
    // Half a pair changes nothing.
    std::fs::write(&key, "no key").expect("a file");
    assert!(tls.reload(&cert, &key).is_err());
    connect(&new).await.expect("connected");
}

#[tokio::main]
async fn a_server_that_ends_finishes_its_answers_and_takes_no_more() {
    let (server, verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let client = Client::connect(address, "localhost", &verify, ClientOptions::default()).await;
    let client = client.expect("connected");
    let mut response = client.get("/bulk/30000000").await.expect("an answer");
    let mut bytes = response.chunk().await.expect("data").expect("no end").len();
    let ending = begun(async move { server.finish(PATIENCE).await }).await;
    let refused = fetch(&client, "/bulk/10").await.expect_err("no new request");
    assert!(matches!(refused, ClientError::Reset { code: 503 }), "{refused}");
    let options = ClientOptions::default();
    assert!(Client::connect(address, "localhost", &verify, options).await.is_err());
    assert!(!ending.is_finished(), "an answer is on its way");
    while let Some(chunk) = response.chunk().await.expect("it goes on to its end") {
        bytes += chunk.len();
    }
    assert_eq!(bytes, 30_000_000);
    ending.await.expect("it ends");
}

#[tokio::main]
async fn a_server_that_ends_waits_no_longer_than_it_should() {
    let (server, verify) = start(Content::Bulk, ServerOptions::default());
    let options = ClientOptions::default();
    let client = Client::connect(server.local_addr(), "localhost", &verify, options).await;
    let client = client.expect("connected");
    let mut response = client.get("/bulk").await.expect("an answer");
    response.chunk().await.expect("data");
    let finished = server.finish(Duration::from_millis(300));
    tokio::time::timeout(PATIENCE, finished).await.expect("it does not wait for the answer's end");
}

fullpipe_testkit::tests! {
    [] a_session_that_is_resumed_needs_no_certificate;
    [] a_request_goes_in_the_first_packets_if_the_server_takes_it;
    [] a_request_that_was_not_taken_early_can_be_made_anew;
    timed [] a_client_that_is_done_does_not_stay;
    [] a_server_forgets_a_client_that_is_done;
    [] both_ends_agree_on_the_one_cipher_or_on_none;
    [] a_certificate_that_is_read_again_counts_for_new_connections;
    [] a_server_that_ends_finishes_its_answers_and_takes_no_more;
    [] a_server_that_ends_waits_no_longer_than_it_should;
}
