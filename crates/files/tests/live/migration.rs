//! A client whose address changes while it downloads, as when a NAT forgets it: the server
//! validates the new address within what it may send there, and loses no byte.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::start;
use crate::raw::RawClient;
use fullpipe_files::{Content, ServerOptions, bulk_block};
use fullpipe_testkit::PATIENCE;

/// The longest time without a byte.
#[tokio::main]
async fn download_with_rebindings() -> Duration {
    const BYTES: usize = 20_000_000;
    const REBINDINGS: usize = 8;
    let (server, _verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let client = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect(address);
        let id =
            client.request(format!("GET /bulk/{BYTES}\r\n").as_bytes(), true).expect("a stream");
        let (mut body, mut rebindings, mut longest) = (Vec::new(), 0, Duration::ZERO);
        let mut progress = Instant::now();
        while body.len() < BYTES {
            client.transmit();
            client.receive();
            let more = client.read(id).expect("no reset");
            if !more.is_empty() {
                longest = longest.max(progress.elapsed());
                progress = Instant::now();
            }
            body.extend_from_slice(&more);
            if body.len() > (rebindings + 1) * BYTES / (REBINDINGS + 1) {
                // What is on its way to the old address is lost.
                client.socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                client.socket.set_nonblocking(true).expect("a nonblocking socket");
                rebindings += 1;
            }
            assert_eq!(client.lost, None, "after {} bytes", body.len());
            assert!(progress.elapsed() < PATIENCE, "it stands after {} bytes", body.len());
        }
        (body, rebindings, longest)
    });
    let (body, rebindings, longest) = client.await.expect("a client");
    assert_eq!(rebindings, REBINDINGS);
    let wrong = body.iter().zip(bulk_block().iter().cycle()).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "bytes that are not the server's");
    println!("the longest standstill was {longest:?}");
    longest
}

fn a_download_goes_on_at_a_new_address() {
    download_with_rebindings();
}

/// An RTT of well under a millisecond, and timers of the client that are 25 ms and more.
fn a_new_address_is_no_long_standstill() {
    let longest = download_with_rebindings();
    assert!(longest < Duration::from_secs(3), "{longest:?} without a byte");
}

fullpipe_testkit::tests! {
    [] a_download_goes_on_at_a_new_address;
    long timed [] a_new_address_is_no_long_standstill;
}
