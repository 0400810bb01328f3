//! A bound on the packets that a client leaves without an ACK.
//!
//! noq has a slot for each packet number from the oldest packet without an ACK to the newest. It
//! forgets ACKs that nobody acknowledged, but not their slots. A client that acknowledges nothing,
//! and sends PINGs, makes the server fill slots with ACKs for as long as the connection lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use noq::{Connection, PathId};
use noq_proto::congestion::{Controller, ControllerFactory};

use super::configs::Factory;
use super::controller::{Around, Wrapped};

/// Packets without an ACK beyond which a client is asked for one. It owes none for ACKs (RFC 9000
/// section 13.2.1), and an honest one that sends little else gets nothing else for hours.
const ASK: u64 = 512;
/// Packets without an ACK beyond which a connection is closed, besides those that its congestion
/// window explains.
const MOST: u64 = 2048;
/// Looks at which a client was asked in vain before that.
const QUESTIONS: u32 = 2;
/// Bytes of a packet that fills a window: the least that a path has to carry (RFC 9000 section 14).
const PACKET_BYTES: u64 = 1200;
/// The part of a larger window that counts no more at the next look: one in so many. Where nothing
/// reaches the client for as long as the idle timeout, and it still sends, enough is left.
const DECAY: u64 = 64;
/// The time between two looks at a connection.
const INTERVAL: Duration = Duration::from_secs(1);

/// Packet numbers of a connection. noq's count of packets is no number: answers to a PATH_CHALLENGE
/// from elsewhere take a number and are not counted.
#[derive(Default)]
struct Numbers {
    largest_sent: AtomicU64,
    /// One that noq has no packet of any more does not count: it frees no slot.
    largest_acknowledged: AtomicU64,
}

/// The packet numbers that a server used, and what its client acknowledged of them.
#[derive(Clone, Default)]
pub(super) struct Acknowledged(Arc<Numbers>);

impl Acknowledged {
    /// Controllers of these that tell the numbers here.
    pub(super) fn heard_by(&self, inner: Factory) -> Factory {
        Arc::new(Hearing { inner, acknowledged: self.clone() })
    }

    /// Looks at a connection once in a while, and asks for ACKs. Ends when there are too many
    /// packets without one all the same. No more than `send_window` bytes are ever on their way.
    pub(super) async fn fails(&self, connection: &Connection, send_window: u64) {
        let (mut explained, mut asked) = (Explained::default(), 0);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let window = connection.path_stats(PathId::ZERO).map_or(0, |path| path.cwnd);
            let sent = self.0.largest_sent.load(Ordering::Relaxed);
            let acknowledged = self.0.largest_acknowledged.load(Ordering::Relaxed);
            let received = connection.stats().udp_rx.datagrams;
            let explained = explained.look(window.min(send_window), acknowledged, received);
            let missing = sent.saturating_sub(acknowledged);
            if missing <= ASK {
                asked = 0;
                continue;
            }
            if asked >= QUESTIONS && missing > MOST + explained {
                return;
            }
            asked += 1;
            if let Some(path) = connection.path(PathId::ZERO) {
                // One of a path that is gone is not missed.
                let _ = path.ping();
            }
        }
    }
}

/// Packets without an ACK that the congestion window explains, from one look to the next.
#[derive(Default)]
struct Explained {
    packets: u64,
    acknowledged: u64,
    received: u64,
}

impl Explained {
    /// As many as two windows have: it may double within a round trip. Packets of a larger one may
    /// be on their way still, and are fewer at each look. noq keeps its window as long as there is
    /// no ACK, so that one without says nothing. Where nothing arrives at all, the path is to
    /// blame.
    fn look(&mut self, window: u64, acknowledged: u64, received: u64) -> u64 {
        if received > self.received {
            self.packets -= self.packets.div_ceil(DECAY);
        }
        if acknowledged > self.acknowledged {
            self.packets = self.packets.max(window.saturating_mul(2) / PACKET_BYTES);
        }
        (self.acknowledged, self.received) = (acknowledged, received);
        self.packets
    }
}

struct Hearing {
    inner: Factory,
    acknowledged: Acknowledged,
}

impl ControllerFactory for Hearing {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, mtu);
        Box::new(Wrapped(Heard { inner, acknowledged: self.acknowledged.clone() }))
    }
}

/// A controller that tells what is acknowledged.
struct Heard {
    inner: Box<dyn Controller>,
    acknowledged: Acknowledged,
}

impl Around for Heard {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.inner
    }

    fn into_inner(self) -> Box<dyn Controller> {
        self.inner
    }

    fn again(&self) -> Box<dyn Controller> {
        let inner = self.inner.clone_box();
        Box::new(Wrapped(Self { inner, acknowledged: self.acknowledged.clone() }))
    }

    fn sent(&mut self, largest: u64) {
        self.acknowledged.0.largest_sent.fetch_max(largest, Ordering::Relaxed);
    }

    /// noq gives up the packets far below it then.
    fn acknowledged(&mut self, largest: u64) {
        self.acknowledged.0.largest_acknowledged.fetch_max(largest, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20,000 packets.
    const LARGE: u64 = 20_000 * PACKET_BYTES / 2;
    /// Two.
    const SMALL: u64 = PACKET_BYTES;

    fn raised() -> Explained {
        let mut explained = Explained::default();
        assert_eq!(explained.look(LARGE, 10_000, 5000), 20_000);
        explained
    }

    #[test]
    fn a_window_that_was_large_is_soon_forgotten() {
        let mut explained = raised();
        assert_eq!(explained.look(SMALL, 10_001, 5001), 19_687, "packets may be on their way");
        let mut now = 0;
        for look in 2..600 {
            now = explained.look(SMALL, 10_000 + look, 5000 + look);
        }
        assert_eq!(now, 2);
    }

    /// noq keeps its window as long as no ACK comes.
    #[test]
    fn a_large_window_without_acks_explains_less_and_less() {
        let mut explained = raised();
        let mut now = 0;
        for look in 1..600 {
            now = explained.look(LARGE, 10_000, 5000 + look);
            // Half a minute of an outage one way.
            assert!(look != 30 || now > 12_000, "{now}");
        }
        assert_eq!(now, 0);
    }

    #[test]
    fn an_outage_of_the_path_is_not_held_against_the_client() {
        let mut explained = raised();
        for _ in 0..60 {
            assert_eq!(explained.look(SMALL, 10_000, 5000), 20_000);
        }
    }
}
