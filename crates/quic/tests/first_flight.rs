//! The packets that a server sends before a client without early data has completed the handshake: the handshake, and nothing that the
//! client acknowledges a round trip late.

mod common;
#[path = "common/raw.rs"]
mod raw;

use std::time::{Duration, Instant};

use common::start;
use fullpipe_quic::{Content, ServerOptions};
use raw::{RawClient, config};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_sends_no_data_before_the_handshake_is_complete() {
    let (server, _verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let client = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::new(address, config(1200));
        client.transmit();
        let (mut datagrams, mut short, mut buffer) = (0, 0, [0; 65_536]);
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            while let Ok((len, from)) = client.socket.recv_from(&mut buffer) {
                datagrams += 1;
                short += usize::from(buffer[0] & 0x80 == 0);
                client.take_in(from, &buffer[..len]);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // And then the handshake ends as usual.
        client.drive_until(Duration::from_secs(20), |client| client.connected);
        client.drive(Duration::from_millis(200));
        (datagrams, short, client.connected, client.lost)
    });
    let (datagrams, short, connected, lost) = client.await.expect("a client");
    assert!(datagrams > 0, "no answer");
    assert_eq!((short, connected, lost), (0, true, None));
}
