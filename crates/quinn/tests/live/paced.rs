//! Connections of quinn with our controllers and our runtime, over loopback.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use fullpipe_quinn::{Algorithm, Controllers, QuinnController, runtime};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TransportConfig};
use rustls::RootCertStore;
use rustls_pki_types::PrivatePkcs8KeyDer;

/// A connection whose server end has this algorithm: the server's end, and the client's. The
/// endpoints live as long.
async fn connected(algorithm: Algorithm) -> (Connection, Connection, [Endpoint; 2]) {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a key");
    let certificate = own.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(Controllers::new(algorithm).with_seed(1)));
    let mut config =
        ServerConfig::with_single_cert(vec![certificate.clone()], key.into()).expect("sound");
    config.transport_config(Arc::new(transport));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let server = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime())
        .expect("an endpoint");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let mut client = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("an endpoint");
    client.set_default_client_config(
        ClientConfig::with_root_certificates(Arc::new(roots)).expect("sound"),
    );
    let address = server.local_addr().expect("an address");
    let accepting = async { server.accept().await.expect("a client").await.expect("accepted") };
    let connecting =
        async { client.connect(address, "localhost").expect("sound").await.expect("connected") };
    let (there, here) = tokio::join!(accepting, connecting);
    (there, here, [server, client])
}

/// Time from the first byte to the last of so many, from the server's end to the client's.
async fn transfer(there: &Connection, here: &Connection, bytes: usize) -> Duration {
    let sending = async {
        let mut stream = there.open_uni().await.expect("a stream");
        stream.write_all(&vec![7; bytes]).await.expect("written");
        stream.finish().expect("open");
        stream.stopped().await.expect("all of it acknowledged");
    };
    let begun = Instant::now();
    let reading = async {
        let mut stream = here.accept_uni().await.expect("a stream");
        let data = stream.read_to_end(bytes).await.expect("read");
        assert!(data.len() == bytes && data.iter().all(|byte| *byte == 7));
        begun.elapsed()
    };
    tokio::join!(sending, reading).1
}

/// 1 MB at 2 MB/s.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn one_paced() -> Duration {
    let rate = Rate::from_bytes_per_sec(2_000_000);
    let (there, here, _endpoints) = connected(Algorithm::Fixed(rate)).await;
    transfer(&there, &here, 1_000_000).await
}

/// quinn's own pacer would send this at once: the window is large and the round trip short. A busy
/// machine is slower, and never faster.
fn the_pacing_rate_is_enforced() {
    let took = one_paced();
    assert!(took >= Duration::from_millis(490), "1 MB at 2 MB/s took {took:?}");
    for took in two_paced() {
        assert!(took >= Duration::from_millis(290), "600 kB at 2 MB/s took {took:?}");
    }
}

fn the_pacing_rate_is_reached() {
    let took = one_paced();
    assert!(took < Duration::from_secs(5), "1 MB at 2 MB/s took {took:?}");
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn each_algorithm_delivers_and_shows_its_model() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X, Algorithm::BBR1, Algorithm::CUBIC] {
        let (there, here, _endpoints) = connected(algorithm).await;
        transfer(&there, &here, 3_000_000).await;
        let controller = there.congestion_state().into_any().downcast::<QuinnController>();
        let snapshot = controller.expect("ours").snapshot();
        assert!(snapshot.delivered >= 3_000_000, "{algorithm:?}: {snapshot:?}");
        assert!(snapshot.srtt.is_some() && snapshot.inflight < 10_000, "{snapshot:?}");
    }
}

/// 600 kB at 2 MB/s on each of two connections of one endpoint and one thread.
#[tokio::main(flavor = "current_thread")]
async fn two_paced() -> [Duration; 2] {
    let rate = Rate::from_bytes_per_sec(2_000_000);
    let (there, here, endpoints) = connected(Algorithm::Fixed(rate)).await;
    let [server, client] = &endpoints;
    let address = server.local_addr().expect("an address");
    let accepting = async { server.accept().await.expect("a client").await.expect("accepted") };
    let connecting =
        async { client.connect(address, "localhost").expect("sound").await.expect("connected") };
    let (other_there, other_here) = tokio::join!(accepting, connecting);
    let (one, other) = tokio::join!(
        transfer(&there, &here, 600_000),
        transfer(&other_there, &other_here, 600_000)
    );
    [one, other]
}

/// Both through one pacer would be 0.6 s.
fn connections_do_not_share_a_pacer() {
    for took in two_paced() {
        assert!(took < Duration::from_millis(550), "{took:?}");
    }
}

fullpipe_testkit::tests! {
    [] the_pacing_rate_is_enforced;
    timed [] the_pacing_rate_is_reached;
    [] each_algorithm_delivers_and_shows_its_model;
    timed [] connections_do_not_share_a_pacer;
}
