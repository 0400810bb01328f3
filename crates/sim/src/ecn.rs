//! Validation of ECN by a sender: whether the field of its packets arrives as it left, or with a
//! mark that a queue can have made.
//!
//! RFC 9000 section 13.4.2.1: of the packets that an ACK newly acknowledges each has to be counted,
//! as ECT or as CE. One that is not was bleached. And no queue marks everything from the first
//! packet on whatever the sender does: after sixteen round trips of nothing but marks a router is
//! taken for one that writes the field by mistake, as RFC 9768 section 3.2.2.3 has it for TCP.
//! Either way the sender stops: its packets say no more that they can be marked, and marks mean
//! nothing to it.

/// Round trips with nothing but marks, from the first packet on. A flow that starts into a queue of
/// others may have some: with four, flows of L4S that share a link were taken for mangled ones.
const MARKED_ROUNDS: u32 = 16;
/// Fewer packets than these say nothing: two a round trip.
const LEAST_PACKETS: u64 = 32;

/// The sender's account.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Validation {
    /// Packets that were acknowledged; of those that the receiver counted, ECT and CE together, and
    /// CE alone.
    acked: u64,
    counted: u64,
    marked: u64,
    /// The first packet of the next round, while everything was marked so far.
    round_end: u64,
    marked_rounds: u32,
    has_unmarked: bool,
    has_failed: bool,
}

impl Validation {
    /// An ACK acknowledges `newly_acked` packets and has these counts. `largest` is the newest
    /// packet that was acknowledged so far, `next` the one that will be sent next.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        newly_acked: u64,
        (counted, marked): (u64, u64),
        largest: u64,
        next: u64,
    ) {
        self.acked += newly_acked;
        // ACKs overtake each other.
        self.counted = self.counted.max(counted);
        self.marked = self.marked.max(marked);
        self.has_failed |= self.acked > self.counted;
        if !self.has_unmarked {
            self.look_for_unmarked(largest, next);
        }
    }

    #[cold]
    fn look_for_unmarked(&mut self, largest: u64, next: u64) {
        self.has_unmarked = self.marked < self.acked;
        if self.has_unmarked || largest < self.round_end {
            return;
        }
        // The first call begins the first round.
        self.marked_rounds += u32::from(self.round_end > 0);
        self.round_end = next;
        self.has_failed |= self.marked_rounds >= MARKED_ROUNDS && self.acked >= LEAST_PACKETS;
    }

    /// True if packets must say no more that they are ECN-capable.
    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of ten packets and an ACK for each packet; of every ten `counted` and `marked`.
    fn after(rounds: u64, counted: u64, marked: u64) -> bool {
        let mut validation = Validation::default();
        for pn in 0..10 * rounds {
            let so_far = |of_ten: u64| pn / 10 * of_ten + (pn % 10 + 1).min(of_ten);
            let counts = (so_far(counted), so_far(marked));
            validation.on_ack(1, counts, pn, (pn / 10 + 1) * 10);
        }
        validation.has_failed()
    }

    #[test]
    fn a_packet_that_is_not_counted_ends_it() {
        assert!(!after(100, 10, 0));
        assert!(!after(100, 10, 9));
        assert!(after(1, 9, 0));
    }

    #[test]
    fn so_do_sixteen_round_trips_of_marks_alone() {
        assert!(!after(16, 10, 10), "the end of the last one shows with the next one");
        assert!(after(18, 10, 10));
    }

    #[test]
    fn acks_that_overtake_each_other_are_no_failure() {
        let mut validation = Validation::default();
        validation.on_ack(8, (10, 0), 9, 20);
        validation.on_ack(2, (2, 0), 9, 20);
        assert!(!validation.has_failed());
    }
}
