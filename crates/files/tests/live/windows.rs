//! The windows fit what noq's receiver bears.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::common::{loopback, start};
use fullpipe_files::noq::crypto::rustls::QuicServerConfig;
use fullpipe_files::noq::{Endpoint, PathId, ServerConfig, TransportConfig};
use fullpipe_files::{ALPN, Client, ClientOptions, Content, ServerOptions, Verify};
use fullpipe_noq::{NoqController, Snapshot};
use fullpipe_testkit::PATIENCE;

const BYTES: usize = 6_000_000;

/// Sends [`BYTES`] bytes on the first stream, in packets of 1200 bytes, the smallest that QUIC has:
/// no sender fits more full packets into a window.
fn server_with_small_packets() -> Endpoint {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.into()], key.into())
        .expect("a certificate with its key");
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicServerConfig::try_from(tls).expect("TLS for QUIC");
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = TransportConfig::default();
    transport.mtu_discovery_config(None).send_window(2 * BYTES as u64);
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::server(config, loopback()).expect("a server");
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        let incoming = accepting.accept().await.expect("a client");
        let connection = incoming.await.expect("a connection");
        let (mut send, _request) = connection.accept_bi().await.expect("a stream");
        // The client may be gone by then, and the test asks the client.
        let _ = send.write_all(&vec![7; BYTES]).await;
        let _ = send.finish();
        connection.closed().await;
    });
    endpoint
}

#[tokio::main]
async fn a_window_of_the_smallest_packets_waits_while_nobody_reads() {
    let server = server_with_small_packets();
    let address = server.local_addr().expect("an address");
    let client =
        Client::connect(address, "localhost", &Verify::Insecure, ClientOptions::default()).await;
    let client = client.expect("a connection");
    let mut response = client.get("/").await.expect("an answer");
    // Until the window is full and nothing comes any more.
    let (mut before, begun) = (0, Instant::now());
    loop {
        // Sleeps: as long as nothing is to come.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = client.connection().stats().udp_rx.bytes;
        if now > 2_000_000 && now == before {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{now} bytes came");
        before = now;
    }
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await.expect("nothing is lost") {
        bytes += chunk.len();
    }
    assert_eq!(bytes, BYTES);
}

/// The server has an answer that is larger than the client's window, which it fills.
#[tokio::main]
async fn a_server_whose_client_takes_no_more_is_not_application_limited() {
    let accepted = Arc::new(OnceLock::new());
    let seen = accepted.clone();
    let on_accept = move |connection| drop(seen.set(connection));
    let options =
        ServerOptions { on_accept: Some(Arc::new(on_accept)), ..ServerOptions::default() };
    let (server, verify) = start(Content::Bulk, options);
    let address = server.local_addr();
    let client = Client::connect(address, "localhost", &verify, ClientOptions::default()).await;
    let client = client.expect("a connection");
    let snapshot = || -> Option<Snapshot> {
        let connection: &fullpipe_files::noq::Connection = accepted.get()?;
        let controller = connection.congestion_state(PathId::ZERO)?.into_any();
        controller.downcast::<NoqController>().ok().map(|ours| ours.snapshot())
    };
    let unread = client.get(&format!("/bulk/{BYTES}")).await.expect("an answer");
    let begun = Instant::now();
    let waits = loop {
        // Sleeps: until the window is full and all of it is acknowledged.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let is_full = |now: &Snapshot| now.delivered > 2_200_000 && now.inflight == 0;
        if let Some(now) = snapshot().filter(is_full) {
            break now;
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", snapshot());
    };
    assert!(!waits.app_limited, "{waits:?}");
    drop(unread);

    // An answer that was taken to its end leaves nothing.
    let mut read = client.get("/bulk/100000").await.expect("an answer");
    while read.chunk().await.expect("nothing is lost").is_some() {}
    while !snapshot().expect("a controller").app_limited {
        // Sleeps: between two looks at the connection's controller.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(begun.elapsed() < PATIENCE, "{:?}", snapshot());
    }
}

fullpipe_testkit::tests! {
    [] a_server_whose_client_takes_no_more_is_not_application_limited;
    [] a_window_of_the_smallest_packets_waits_while_nobody_reads;
}
