//! Clients that make the server send packets of which it hears nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullpipe_testkit::PATIENCE;
use noq::{ApplicationClose, Connection, ConnectionError, PathId, VarInt};

use super::flood::{Attacked, Client};
use super::session::Flood;
use super::{panics, resident, runtime};
use crate::Alpn;

/// Sends a packet with PING, and waits for so long.
fn ping(connection: &Connection, pause: Duration) {
    if let Some(path) = connection.path(PathId::ZERO) {
        let _over = path.ping();
    }
    // Sleeps: the rate of the attack, on a thread that runs nothing else.
    std::thread::sleep(pause);
}

#[test]
fn a_client_that_acknowledges_nothing_is_closed() {
    runtime().block_on(async {
        let attacked = Attacked::start();
        let before = (panics(), resident());
        for (alpn, code) in [(Alpn::H3, 0x107), (Alpn::HqInterop, 0)] {
            // In place of ACKs, and of all else.
            let pings: Flood = Arc::new(|payload| {
                payload.fill(0);
                payload[0] = 1;
            });
            let Client { _endpoint, connection, server } = attacked.client(alpn, Some(pings)).await;
            let begun = Instant::now();
            while connection.close_reason().is_none() {
                let sent = server.stats().sent_packets;
                assert!(begun.elapsed() < PATIENCE, "{sent} packets and no end");
                ping(&connection, Duration::from_micros(100));
            }
            let sent = server.stats().sent_packets;
            println!("{alpn:?}: closed after {sent} packets, {:?}", begun.elapsed());
            assert!(sent > 2000, "{sent} packets are no attack");
            let reason = connection.close_reason();
            let Some(ConnectionError::ApplicationClosed(ApplicationClose { error_code, .. })) =
                reason
            else {
                panic!("{reason:?}");
            };
            assert_eq!(error_code, VarInt::from_u32(code));
        }
        attacked.is_well(before).await;
    });
}

/// It owes no ACK for ACKs, and the server sends it nothing else. This one acknowledges what asks
/// for it, and no more.
#[test]
fn a_client_that_has_nothing_to_acknowledge_is_asked() {
    runtime().block_on(async {
        let attacked = Attacked::start();
        let before = (panics(), resident());
        let is_asked = Arc::new(AtomicBool::new(true));
        let answers = is_asked.clone();
        let pings: Flood = Arc::new(move |payload| {
            if !answers.load(Ordering::Relaxed) {
                payload.fill(0);
                payload[0] = 1;
            }
        });
        let Client { _endpoint, connection, server } =
            attacked.client(Alpn::HqInterop, Some(pings)).await;
        // What the server sends behind its handshake is acknowledged.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (mut questions, mut acks) = (server.stats().frame_tx.ping, 0);
        let (begun, few) = (Instant::now(), server.stats().sent_packets);
        while begun.elapsed() < Duration::from_secs(6) || server.stats().sent_packets < few + 4000 {
            assert_eq!(connection.close_reason(), None);
            assert!(begun.elapsed() < PATIENCE, "{} packets", server.stats().sent_packets);
            let stats = server.stats();
            if stats.frame_tx.ping > questions {
                questions = stats.frame_tx.ping;
                acks = stats.frame_rx.acks;
                is_asked.store(true, Ordering::Relaxed);
            } else if stats.frame_rx.acks > acks {
                is_asked.store(false, Ordering::Relaxed);
            }
            ping(&connection, Duration::from_micros(200));
        }
        println!("{} packets, {questions} PINGs", server.stats().sent_packets);
        attacked.is_well(before).await;
    });
}
