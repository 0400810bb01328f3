//! The packets that a server sends before a client without early data has completed the handshake:
//! the handshake, and nothing that the client acknowledges a round trip late.

use std::time::{Duration, Instant};

use crate::common::start;
use crate::raw::{RawClient, config};
use fullpipe_files::{Content, ServerOptions};
use fullpipe_testkit::PATIENCE;

#[tokio::main]
async fn a_server_sends_no_data_before_the_handshake_is_complete() {
    let (server, _verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let client = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::new(address, config(1200));
        client.transmit();
        let (mut datagrams, mut short, mut buffer) = (0, 0, [0; 65_536]);
        // So long after the first that came, a server that sends more has sent it.
        let mut end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            while let Ok((len, from)) = client.socket.recv_from(&mut buffer) {
                if datagrams == 0 {
                    end = Instant::now() + Duration::from_millis(500);
                }
                datagrams += 1;
                short += usize::from(buffer[0] & 0x80 == 0);
                client.take_in(from, &buffer[..len]);
            }
            // Sleeps: between two looks at the socket.
            std::thread::sleep(Duration::from_millis(1));
        }
        // And then the handshake ends as usual.
        client.drive_until(PATIENCE, |client| client.connected);
        client.drive(Duration::from_millis(200));
        (datagrams, short, client.connected, client.lost)
    });
    let (datagrams, short, connected, lost) = client.await.expect("a client");
    assert!(datagrams > 0, "no answer");
    assert_eq!((short, connected, lost), (0, true, None));
}

fullpipe_testkit::tests! {
    [] a_server_sends_no_data_before_the_handshake_is_complete;
}
