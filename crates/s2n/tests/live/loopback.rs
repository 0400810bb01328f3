//! Connections of s2n-quic with our controllers, over loopback.

use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use fullpipe_s2n_quic::{Algorithm, Controllers};
use fullpipe_testkit::PATIENCE;
use s2n_quic::client::Connect;
use s2n_quic::{Client, Server};

/// The time from the connection's first packet on in which so many bytes came from a server with
/// this algorithm.
async fn transfer(algorithm: Algorithm, bytes: usize) -> Duration {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a key");
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let mut server = Server::builder()
        .with_tls((certificate.as_str(), key.as_str()))
        .expect("sound")
        .with_io("127.0.0.1:0")
        .expect("a port")
        .with_congestion_controller(Controllers::new(algorithm).with_seed(1))
        .expect("any")
        .start()
        .expect("a server");
    let address = server.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut connection = server.accept().await.expect("a client");
        let mut stream = connection.open_send_stream().await.expect("a stream");
        stream.send(vec![7; bytes].into()).await.expect("sent");
        stream.close().await.expect("all of it acknowledged");
        // Until the client has gone.
        let _ = connection.accept().await;
    });
    let client = Client::builder()
        .with_tls(certificate.as_str())
        .expect("sound")
        .with_io("127.0.0.1:0")
        .expect("a port")
        .start()
        .expect("a client");
    let begun = Instant::now();
    let connect = Connect::new(address).with_server_name("localhost");
    let mut connection = client.connect(connect).await.expect("connected");
    let mut stream = connection.accept_receive_stream().await.expect("open").expect("a stream");
    let mut received = 0;
    while let Some(chunk) = stream.receive().await.expect("received") {
        assert!(chunk.iter().all(|byte| *byte == 7));
        received += chunk.len();
    }
    assert_eq!(received, bytes);
    begun.elapsed()
}

/// 1 MB at 2 MB/s.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn paced() -> Duration {
    let rate = Rate::from_bytes_per_sec(2_000_000);
    transfer(Algorithm::Fixed(rate), 1_000_000).await
}

/// s2n-quic asks the controller when a packet may leave. A busy machine is slower, and never
/// faster.
fn the_pacing_rate_is_enforced() {
    let took = paced();
    assert!(took >= Duration::from_millis(480), "1 MB at 2 MB/s took {took:?}");
}

fn the_pacing_rate_is_reached() {
    let took = paced();
    assert!(took < Duration::from_secs(2), "1 MB at 2 MB/s took {took:?}");
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn each_algorithm_delivers() {
    for algorithm in [
        Algorithm::BBR3,
        Algorithm::BBR3X,
        Algorithm::BBR3_LINUX,
        Algorithm::BBR1,
        Algorithm::CUBIC,
        Algorithm::RENO,
    ] {
        let took = transfer(algorithm, 20_000_000).await;
        assert!(took < PATIENCE, "{algorithm:?}: 20 MB took {took:?}");
    }
}

fullpipe_testkit::tests! {
    [] the_pacing_rate_is_enforced;
    timed [] the_pacing_rate_is_reached;
    [] each_algorithm_delivers;
}
