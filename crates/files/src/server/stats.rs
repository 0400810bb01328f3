//! Counters of a server, for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering};

use noq::Connection;

/// A server's counters at one moment. Those without "now" count from its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ServerStats {
    /// Connections that are open now, handshakes included.
    pub connections: u64,
    /// Handshakes that are under way now with clients whose address is not validated, or failed and
    /// are kept for a moment.
    pub unvalidated_handshakes: u64,
    /// Requests that are being answered now.
    pub answers: u64,
    /// Files that are open now.
    pub open_files: u64,
    /// Tasks of the server's runtimes now, those of others on them included.
    pub tasks: u64,
    /// Connections that were admitted.
    pub admitted: u64,
    /// Connections that were refused because of the limit.
    pub refused: u64,
    /// First packets that were answered with a Retry.
    pub retries: u64,
    /// Handshakes that failed or took too long.
    pub failed_handshakes: u64,
    /// Connections that the server closed after their handshake, because the client broke a rule of
    /// QUIC (RFC 9000 section 20.1), or acknowledged nothing.
    pub violations: u64,
    /// Connections that the server closed because the client broke a rule of HTTP/3 that is the
    /// connection's (RFC 9114 section 8, RFC 9204 section 6). Malformed requests are refused ones.
    pub http3_violations: u64,
    /// Requests whose answer the client has acknowledged to its end.
    pub complete_requests: u64,
    /// Requests that got no body.
    pub refused_requests: u64,
    /// Answers that broke off.
    pub broken_requests: u64,
    /// Bytes of bodies that were written to streams.
    pub body_bytes: u64,
    /// Packets that were sent on connections that have ended.
    pub sent_packets: u64,
    /// Packets of those connections that were lost.
    pub lost_packets: u64,
    /// UDP payload that those connections sent, in bytes.
    pub sent_bytes: u64,
    /// UDP payload that those connections received, in bytes.
    pub received_bytes: u64,
}

/// A number that only grows.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters that grow; the others are taken from where they are kept.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) admitted: Counter,
    pub(super) refused: Counter,
    pub(super) retries: Counter,
    pub(super) failed_handshakes: Counter,
    pub(super) violations: Counter,
    pub(super) http3_violations: Counter,
    pub(super) complete_requests: Counter,
    pub(super) refused_requests: Counter,
    pub(super) broken_requests: Counter,
    pub(super) body_bytes: Counter,
    sent_packets: Counter,
    lost_packets: Counter,
    sent_bytes: Counter,
    received_bytes: Counter,
}

impl Counters {
    /// Adds what an ended connection sent and received.
    pub(super) fn ended(&self, connection: &Connection) {
        let stats = connection.stats();
        self.sent_packets.add(stats.sent_packets);
        self.lost_packets.add(stats.lost_packets);
        self.sent_bytes.add(stats.udp_tx.bytes);
        self.received_bytes.add(stats.udp_rx.bytes);
    }

    pub(super) fn read(&self) -> ServerStats {
        ServerStats {
            connections: 0,
            unvalidated_handshakes: 0,
            answers: 0,
            open_files: 0,
            tasks: 0,
            admitted: self.admitted.get(),
            refused: self.refused.get(),
            retries: self.retries.get(),
            failed_handshakes: self.failed_handshakes.get(),
            violations: self.violations.get(),
            http3_violations: self.http3_violations.get(),
            complete_requests: self.complete_requests.get(),
            refused_requests: self.refused_requests.get(),
            broken_requests: self.broken_requests.get(),
            body_bytes: self.body_bytes.get(),
            sent_packets: self.sent_packets.get(),
            lost_packets: self.lost_packets.get(),
            sent_bytes: self.sent_bytes.get(),
            received_bytes: self.received_bytes.get(),
        }
    }
}
