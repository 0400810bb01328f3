//! Validation of ECN by a sender: whether the field of its packets arrives as it left, or with a
//! mark that a queue can have made.
//!
//! RFC 9000 section 13.4.2.1: of the packets that an ACK newly acknowledges each has to be counted,
//! as ECT or as CE. One that is not was bleached. And no queue marks everything from the first
//! packet on whatever the sender does: after a second and sixteen round trips of nothing but marks
//! a router is taken for one that writes the field by mistake, as RFC 9768 section 3.2.2.3 has it
//! for TCP. Either way the sender stops: its packets say no more that they can be marked, and marks
//! mean nothing to it.

use fullpipe_cc::{Duration, Instant};

/// Round trips with nothing but marks, from the first packet on, and the time of them. Flows that
/// start into a queue of others, or all at once, have some, and those of which the least windows
/// fill the queue have nothing else. So the sender must have come down to the least window of RFC
/// 9002, and the packets must not wait: the smoothed round trip is at most an eighth above the
/// shortest one. BBR, which keeps four packets in flight, does not conclude anything.
const MARKED_ROUNDS: u32 = 16;
const MARKED_TIME: Duration = Duration::from_secs(1);
/// Packets of a round trip with the least window, and one more for an ACK that came late.
const LEAST_WINDOW: u64 = 3;
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
    /// The time since which rounds have the least window and no wait, and their number.
    begun: Instant,
    marked_rounds: u32,
    has_unmarked: bool,
    has_failed: bool,
}

impl Validation {
    /// An ACK acknowledges `newly_acked` packets and has these counts. `largest` is the newest
    /// packet that was acknowledged so far, `next` the one that will be sent next; `rtt` the smoothed
    /// and the shortest round trip.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        newly_acked: u64,
        (counted, marked): (u64, u64),
        (largest, next): (u64, u64),
        rtt: (Duration, Duration),
    ) {
        self.acked += newly_acked;
        // ACKs overtake each other.
        self.counted = self.counted.max(counted);
        self.marked = self.marked.max(marked);
        self.has_failed |= self.acked > self.counted;
        if !self.has_unmarked {
            self.look_for_unmarked(now, (largest, next), rtt);
        }
    }

    #[cold]
    fn look_for_unmarked(
        &mut self,
        now: Instant,
        (largest, next): (u64, u64),
        (smoothed, shortest): (Duration, Duration),
    ) {
        self.has_unmarked = self.marked < self.acked;
        if self.has_unmarked || largest < self.round_end {
            return;
        }
        // The first round is of no window that answers a mark.
        let is_least = self.round_end > 0 && next.saturating_sub(self.round_end) <= LEAST_WINDOW;
        self.round_end = next;
        if !is_least || smoothed.times(8) > shortest.times(9) {
            (self.marked_rounds, self.begun) = (0, now);
            return;
        }
        self.marked_rounds = self.marked_rounds.saturating_add(1);
        self.has_failed |= self.marked_rounds >= MARKED_ROUNDS
            && self.acked >= LEAST_PACKETS
            && now.since(self.begun) >= MARKED_TIME;
    }

    /// True if packets must say no more that they are ECN-capable.
    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of so many packets, one each 100 ms, and an ACK for each packet. Of every ten packets
    /// `counted` and `marked`.
    fn after(rounds: u64, window: u64, (counted, marked): (u64, u64), queue_ms: u64) -> bool {
        let mut validation = Validation::default();
        for pn in 0..window * rounds {
            let so_far = |of_ten: u64| pn / 10 * of_ten + (pn % 10 + 1).min(of_ten);
            let counts = (so_far(counted), so_far(marked));
            let rtt = [100 + queue_ms, 100].map(Duration::from_millis);
            let now = Instant::default() + Duration::from_millis(pn / window * 100);
            validation.on_ack(now, 1, counts, (pn, (pn / window + 1) * window), rtt.into());
        }
        validation.has_failed()
    }

    #[test]
    fn a_packet_that_is_not_counted_ends_it() {
        assert!(!after(100, 10, (10, 0), 0));
        assert!(!after(100, 2, (10, 9), 0));
        assert!(after(1, 10, (9, 0), 0));
    }

    #[test]
    fn so_do_sixteen_round_trips_of_marks_alone_with_the_least_window() {
        assert!(!after(16, 2, (10, 10), 0), "the end of the last one shows with the next one");
        assert!(after(18, 2, (10, 10), 0));
        assert!(!after(1_000, 2, (10, 10), 13), "a queue marks what waits in it");
        assert!(!after(1_000, 4, (10, 10), 0), "the queue may be this sender's");
    }

    #[test]
    fn acks_that_overtake_each_other_are_no_failure() {
        let mut validation = Validation::default();
        let rtt = (Duration::from_millis(1), Duration::from_millis(1));
        validation.on_ack(Instant::default(), 8, (10, 0), (9, 20), rtt);
        validation.on_ack(Instant::default(), 2, (2, 0), (9, 20), rtt);
        assert!(!validation.has_failed());
    }
}
