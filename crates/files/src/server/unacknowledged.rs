//! A bound on the packets that a client leaves without an ACK.
//!
//! noq has a slot for each packet number from the oldest packet without an ACK to the newest. It
//! forgets ACKs that nobody acknowledged, but not their slots. A client that acknowledges nothing,
//! and sends PINGs, makes the server fill slots with ACKs for as long as the connection lasts.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use noq::{Connection, PathId};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::configs::Factory;

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
    /// packets without one all the same.
    pub(super) async fn fails(&self, connection: &Connection) {
        let (mut window, mut asked) = (0, 0);
        loop {
            tokio::time::sleep(INTERVAL).await;
            // The largest so far: packets of a larger one may be on their way still.
            window = connection.path_stats(PathId::ZERO).map_or(0, |path| path.cwnd).max(window);
            let sent = self.0.largest_sent.load(Ordering::Relaxed);
            let acknowledged = self.0.largest_acknowledged.load(Ordering::Relaxed);
            let missing = sent.saturating_sub(acknowledged);
            if missing <= ASK {
                asked = 0;
                continue;
            }
            if asked >= QUESTIONS && missing > MOST + window.saturating_mul(2) / PACKET_BYTES {
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

struct Hearing {
    inner: Factory,
    acknowledged: Acknowledged,
}

impl ControllerFactory for Hearing {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, mtu);
        Box::new(Heard { inner, acknowledged: self.acknowledged.clone() })
    }
}

/// A controller that tells what is acknowledged.
struct Heard {
    inner: Box<dyn Controller>,
    acknowledged: Acknowledged,
}

impl Controller for Heard {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.acknowledged.0.largest_sent.fetch_max(largest_pn, Ordering::Relaxed);
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    /// noq calls it when an ACK was for packets that it had, and then gives up those far below the
    /// largest.
    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_acked: Option<u64>,
    ) {
        let largest = &self.acknowledged.0.largest_acknowledged;
        largest.fetch_max(largest_acked.unwrap_or(0), Ordering::Relaxed);
        self.inner.on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        let inner = &mut self.inner;
        inner.on_congestion_event(now, sent, is_persistent, is_ecn, lost_bytes, largest_lost);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(threshold, max_ack_delay);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let inner = self.inner.clone_box();
        Box::new(Self { inner, acknowledged: self.acknowledged.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
