//! Streams and requests that a client of HTTP/3 begins and does not end.

use std::time::Duration;

use crate::common::start;
use crate::raw::RawClient;
use fullpipe_files::{Content, ServerOptions};
use fullpipe_testkit::PATIENCE;

/// A control stream, and SETTINGS of 16,383 bytes.
const SETTINGS_BEGIN: [u8; 4] = [0, 4, 0x7f, 0xff];
/// HEADERS of 16,383 bytes.
const HEADERS_BEGIN: [u8; 3] = [1, 0x7f, 0xff];

#[tokio::main]
async fn settings_that_do_not_come_end_the_connection() {
    let mut options = ServerOptions::default();
    options.limits.request_timeout = Duration::from_millis(200);
    let (server, _verify) = start(Content::Bulk, options);
    let address = server.local_addr();
    let client = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect_http3(address);
        let control = client.open_uni();
        for byte in SETTINGS_BEGIN {
            client.byte(control, byte);
        }
        client.drive_until(PATIENCE, |client| client.lost.is_some());
        let reason = client.lost.unwrap_or_default();
        assert!(reason.contains("settings"), "{reason:?}");
    });
    client.await.expect("a client");
}

/// Bytes of this process that are in memory; 0 where the system does not tell.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// As SETTINGS and as the headers of requests. What waits between two ends on a busy machine is
/// memory as well; `http3/whole.rs` has the same without a socket.
#[tokio::main]
async fn a_byte_a_datagram_costs_a_byte() {
    const BYTES: usize = 16_000;
    let (server, _verify) = start(Content::Bulk, ServerOptions::default());
    let address = server.local_addr();
    let client = tokio::task::spawn_blocking(move || {
        let mut client = RawClient::connect_http3(address);
        let control = client.open_uni();
        SETTINGS_BEGIN.into_iter().for_each(|byte| client.byte(control, byte));
        let request = client.request(&HEADERS_BEGIN, false).expect("a stream");
        client.drive(Duration::from_millis(20));
        let before = resident();
        for _ in 0..BYTES / 2 {
            client.byte(control, 0x40);
            client.byte(request, 0);
        }
        client.drive(Duration::from_millis(20));
        assert_eq!(client.lost, None);
        assert!(client.sent > 1400 * BYTES as u64, "each in its own: {}", client.sent);
        // This process is the client as well.
        let grown = resident().saturating_sub(before);
        assert!(grown < 6_000_000, "{BYTES} bytes made {grown}");
    });
    client.await.expect("a client");
}

fullpipe_testkit::tests! {
    timed [] settings_that_do_not_come_end_the_connection;
    long timed [] a_byte_a_datagram_costs_a_byte;
}
