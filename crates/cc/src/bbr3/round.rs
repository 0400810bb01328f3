//! Packet-timed round trips, "BBR.round_count: Tracking Packet-Timed Round Trips".

use crate::sampler::RateSample;

/// The clock of the model: a round is over when a packet is acknowledged that left after it began.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// BBR.round_count.
    pub(super) count: u64,
    /// BBR.round_start: this ACK began one.
    pub(super) start: bool,
    /// BBR.next_round_delivered.
    pub(super) next_delivered: u64,
}

impl Round {
    /// InitRoundCounting().
    pub(super) const fn new() -> Self {
        Self { count: 0, start: false, next_delivered: 0 }
    }

    /// UpdateRound(). The packet that counts is the newest acknowledged one (the pseudo-code leaves
    /// open which).
    #[inline]
    pub(super) fn update(&mut self, delivered: u64, rs: &RateSample) {
        self.start = rs.prior_delivered >= self.next_delivered;
        if self.start {
            self.begin(delivered);
            self.count += 1;
        }
    }

    /// StartRound(), where C.delivered is `delivered`.
    pub(super) const fn begin(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}
