//! Counters of a sender.

use fullpipe_cc::Instant;

/// Statistics of a sender. Bytes are as congestion control counts them: QUIC's datagrams without IP
/// and UDP, TCP's payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    /// Packets sent.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that the sender marked lost.
    pub lost_packets: u64,
    /// Their bytes.
    pub lost_bytes: u64,
}

impl SenderStats {
    /// Adds the counters of another connection.
    pub fn add(&mut self, other: Self) {
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.lost_packets += other.lost_packets;
        self.lost_bytes += other.lost_bytes;
    }
}

/// A packet as it left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentPacket {
    /// Its number; the first has 0.
    pub number: u64,
    /// Its bytes, as in [`SenderStats`].
    pub bytes: u32,
    /// Its departure time.
    pub sent: Instant,
}
