//! The pacer of noq 1.4, which real QUIC flows of this project are sent by.
//!
//! noq asks a controller for a window and a rate, and enforces the rate with a token bucket of its
//! own, whose depth does not follow the controller's send quantum: what the rate gives in 2 ms, but
//! at least ten packets, but no more than 10 ms give. At 7 Mbit/s six packets leave at once where
//! the core's pacer sends two. Source: `noq-proto` 1.4.0, `connection/pacing.rs`.

use fullpipe_cc::{Duration, Instant, Rate};

const TARGET_BURST: Duration = Duration::from_millis(2);
/// Goes before [`MIN_PACKETS`].
const MAX_BURST: Duration = Duration::from_millis(10);
const MIN_PACKETS: u64 = 10;
const MAX_PACKETS: u64 = 256;

#[derive(Clone, Copy, Debug)]
pub(crate) struct NoqPacer {
    smss: u64,
    /// Bytes that may leave at once.
    tokens: u64,
    updated: Instant,
}

impl NoqPacer {
    /// noq begins with the depth of its initial window in its initial RTT: one packet.
    pub(crate) fn new(smss: u32, now: Instant) -> Self {
        Self { smss: smss.into(), tokens: smss.into(), updated: now }
    }

    /// The time at which a full packet may leave at `rate`; `None` if one may leave now.
    pub(crate) fn wait(&mut self, now: Instant, rate: Rate) -> Option<Instant> {
        let most = rate.bytes_in(MAX_BURST).max(self.smss);
        let target = rate.bytes_in(TARGET_BURST);
        let depth = target.clamp(MIN_PACKETS * self.smss, MAX_PACKETS * self.smss).min(most);
        let earned = rate.bytes_in(now.since(self.updated));
        // Time too short for a byte is kept, a fraction of a byte is lost.
        if earned > 0 {
            self.tokens = self.tokens.saturating_add(earned);
            self.updated = now;
        }
        self.tokens = self.tokens.min(depth);
        let missing = self.smss.saturating_sub(self.tokens);
        (missing > 0).then(|| now + rate.time_for(missing))
    }

    pub(crate) fn on_sent(&mut self, bytes: u32) {
        self.tokens = self.tokens.saturating_sub(bytes.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that leave at once after a pause.
    fn burst_at(mbps: u64) -> u64 {
        let rate = Rate::from_bits_per_sec(mbps * 1_000_000);
        let start = Instant::from_nanos(1);
        let mut pacer = NoqPacer::new(1_452, start);
        let now = start + Duration::from_secs(1);
        let mut packets = 0;
        while pacer.wait(now, rate).is_none() {
            pacer.on_sent(1_452);
            packets += 1;
        }
        packets
    }

    #[test]
    fn a_burst_is_ten_packets_unless_they_take_more_than_10_ms_or_less_than_2() {
        assert_eq!(burst_at(1), 1);
        assert_eq!(burst_at(7), 6);
        assert_eq!(burst_at(12), 10);
        assert_eq!(burst_at(58), 10);
        assert_eq!(burst_at(100), 17);
        assert_eq!(burst_at(10_000), 256);
    }

    #[test]
    fn the_rate_is_kept() {
        let rate = Rate::from_bits_per_sec(7_000_000);
        let start = Instant::from_nanos(1);
        let mut pacer = NoqPacer::new(1_452, start);
        let (mut now, mut sent) = (start, 0u64);
        while now.since(start) < Duration::from_secs(10) {
            match pacer.wait(now, rate) {
                Some(at) => now = at,
                None => {
                    pacer.on_sent(1_452);
                    sent += 1_452;
                }
            }
        }
        let allowed = rate.bytes_in(Duration::from_secs(10));
        assert!(sent.abs_diff(allowed) < allowed / 500, "{sent} of {allowed}");
    }
}
