//! Packet-timed round trips, "BBR.round_count: Tracking Packet-Timed Round Trips".

/// The clock of the model: a round is over when a packet is acknowledged that left after it began.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// BBR.round_count.
    pub(crate) count: u64,
    /// BBR.round_start: this ACK began one.
    pub(crate) start: bool,
    /// BBR.next_round_delivered.
    pub(crate) next_delivered: u64,
}

impl Round {
    /// InitRoundCounting().
    pub(crate) const fn new() -> Self {
        Self { count: 0, start: false, next_delivered: 0 }
    }

    /// UpdateRound(), where C.delivered is `delivered`, and was `prior_delivered` when the newest
    /// acknowledged packet left (the pseudo-code leaves open which packet counts).
    #[inline]
    pub(crate) const fn update(&mut self, delivered: u64, prior_delivered: u64) {
        self.start = prior_delivered >= self.next_delivered;
        if self.start {
            self.begin(delivered);
            self.count += 1;
        }
    }

    /// StartRound(), where C.delivered is `delivered`.
    pub(crate) const fn begin(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets of a round are those that left before its first was acknowledged.
    #[test]
    fn a_round_ends_with_a_packet_that_left_after_it_began() {
        let mut round = Round::new();
        // Bytes delivered when the acknowledged packet left, and now; the round that this ACK is
        // of.
        let acks = [(0, 10, 1), (0, 20, 1), (9, 30, 1), (10, 40, 2), (39, 50, 2), (40, 60, 3)];
        for (prior_delivered, delivered, expected) in acks {
            let before = round.count;
            round.update(delivered, prior_delivered);
            assert_eq!((round.count, round.start), (expected, expected > before));
        }
        round.begin(100);
        round.update(110, 60);
        assert!(!round.start, "begun anew");
    }
}
