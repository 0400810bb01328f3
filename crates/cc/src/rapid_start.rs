//! Rapid Start (draft-kazuho-ccwg-rapid-start-02): the window triples in a round trip while no queue
//! builds up, and doubles after.
//!
//! A path of 600 ms that carries 3.7 MB in flight takes eight round trips to find by doubling, and
//! five by tripling. The price is a larger overshoot where the queue shows late: up to three times
//! what the path holds, in place of twice.
//!
//! Four things differ from the draft. Its `rtt_floor` is the smallest RTT of about one round trip;
//! here it is that of the last [`QUEUE_SAMPLES`] samples or of a round trip, whichever is shorter,
//! so that tripling ends within the round trip in which the queue appears. Tripling does not come
//! back after a queue was seen: the draft lets it, and a flow that fills the path then triples each
//! time that a queue drains. The initial window is not doubled. And a recovery leaves at most beta
//! of the window, also where not all of it was in flight.

use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::units::{Duration, Gain};

/// The rise of the RTT over the shortest that is no queue: at most this, and a tenth of it.
const QUEUE_THRESH: Duration = Duration::from_millis(4);
const QUEUE_THRESH_DIVISOR: u64 = 10;
/// Samples in a row above the threshold that are a queue. With the eight that RFC 9406 wants in a
/// round, a flow of 10 MB in a buffer of one BDP loses half as much again.
const QUEUE_SAMPLES: u8 = 4;
/// K of "Reduction Factors", two thirds; in thousandths, as the share of which it is taken.
const K: (u64, u64) = (2_000, 3_000);

/// A flow's first growth, until a queue or congestion is met.
#[derive(Clone, Debug)]
pub(crate) struct RapidStart {
    triples: bool,
    /// Samples above the threshold since the last that was not.
    above: u8,
    /// C.delivered at the first of them, modulo 2^32.
    above_since: u32,
}

impl RapidStart {
    /// `is_on`: the flow was configured to start so.
    pub(crate) const fn new(is_on: bool) -> Self {
        Self { triples: is_on, above: 0, above_since: 0 }
    }

    /// True while the window triples in a round trip: two bytes for each that is acknowledged.
    #[inline]
    pub(crate) const fn triples(&self) -> bool {
        self.triples
    }

    /// Congestion was met, or the start is over.
    pub(crate) const fn end(&mut self) {
        self.triples = false;
    }

    /// Takes the RTT of an ACK in. True if it has ended the tripling.
    pub(crate) fn observe(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        let (true, Some(rtt), Some(min_rtt)) = (self.triples, rs.rtt(), conn.min_rtt()) else {
            return false;
        };
        let part = Duration::from_nanos(min_rtt.as_nanos() / QUEUE_THRESH_DIVISOR);
        if rtt <= min_rtt + part.min(QUEUE_THRESH) {
            self.above = 0;
            return false;
        }
        if self.above == 0 {
            self.above_since = conn.delivered() as u32;
        }
        self.above += 1;
        let behind = (rs.prior_delivered as u32).wrapping_sub(self.above_since);
        let lasts_a_round = behind < u32::MAX / 2;
        self.triples = self.above < QUEUE_SAMPLES && !lasts_a_round;
        !self.triples
    }
}

/// The first recovery of a window-based flow after Rapid Start, "Congestion Handling": the window
/// comes down with what is acknowledged and lost, and ends at beta times what the path delivered in
/// a round trip, or of the window if that is less: not all of a window need be in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convergence {
    /// ack_factor and silence_factor, which is loss_factor too.
    ack_factor: Gain,
    silence_factor: Gain,
    /// Beta of the window before: the most that is left, and a third of it the least.
    most: u64,
    /// C.lost that the window has followed.
    lost: u64,
}

impl Convergence {
    /// Begins with the first loss or mark, for a window decrease factor of `beta`; `lost` is C.lost
    /// before this ACK.
    pub(crate) fn begin(conn: &mut Conn, beta: Gain, lost: u64) -> Self {
        let ack_factor = Gain::ratio(beta.complement().of(K.0), K.1);
        let silence_factor = beta.plus(ack_factor);
        let most = beta.of(conn.cwnd);
        conn.cwnd = silence_factor.of(conn.cwnd).max(conn.min_window());
        Self { ack_factor, silence_factor, most, lost }
    }

    /// Takes an ACK in that has `acked` bytes of before the recovery.
    pub(crate) fn on_ack(&mut self, conn: &mut Conn, acked: u64) {
        let lost = conn.lost() - self.lost;
        self.lost = conn.lost();
        let cut = self.ack_factor.of(acked).saturating_add(self.silence_factor.of(lost));
        let least = (self.most / 3).max(conn.min_window());
        conn.cwnd = conn.cwnd.saturating_sub(cut).max(least);
    }

    /// The recovery is over.
    pub(crate) fn end(self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.min(self.most).max(conn.min_window());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::units::Instant;

    const SMSS: u64 = 1_200;

    /// A flow whose shortest RTT is `min_rtt`; the packets of its first flight are acknowledged one
    /// by one, with the RTTs of a test.
    struct Flow {
        conn: Conn,
        start: RapidStart,
    }

    impl Flow {
        fn new(min_rtt: Duration) -> Self {
            let conn = Conn::new(&Config::new(1), Instant::default());
            let mut flow = Self { conn, start: RapidStart::new(true) };
            flow.ack(min_rtt, false);
            flow
        }

        /// True if the flow still triples after an ACK with this RTT, of a packet that was sent at
        /// the start, or `now`.
        fn ack(&mut self, rtt: Duration, now: bool) -> bool {
            let mut first = Conn::new(&Config::new(1), Instant::default());
            let sender = if now { &mut self.conn } else { &mut first };
            let packet = sender.sampler.on_sent(Instant::default(), SMSS, SMSS);
            self.conn.sampler.count_delivered(SMSS);
            let rs = self.conn.sample(Instant::default() + rtt, &packet, None);
            self.start.observe(&self.conn, &rs);
            self.start.triples()
        }
    }

    /// min(min_rtt + 4 ms, min_rtt * 1.10), and what is equal to it is no queue.
    #[test]
    fn a_tenth_of_the_round_trip_and_at_most_4_ms_is_no_queue() {
        for (rtt, most) in [(1, 1_100), (10, 11_000), (40, 44_000), (50, 54_000), (600, 604_000)] {
            let (rtt, most) = (Duration::from_millis(rtt), Duration::from_micros(most));
            let mut flow = Flow::new(rtt);
            assert!((0..20).all(|_| flow.ack(most, false)), "{rtt}");
            let longer = most + Duration::from_nanos(1);
            let tripled = (0..20).take_while(|_| flow.ack(longer, false)).count();
            assert_eq!(tripled + 1, usize::from(QUEUE_SAMPLES), "{rtt}");
            assert!(!flow.ack(rtt, false), "it does not come back");
        }
    }

    #[test]
    fn a_short_round_trip_between_long_ones_begins_the_count_anew() {
        let (rtt, long) = (Duration::from_millis(40), Duration::from_millis(50));
        let mut flow = Flow::new(rtt);
        for _ in 0..10 {
            assert!((1..QUEUE_SAMPLES).all(|_| flow.ack(long, false)));
            assert!(flow.ack(rtt, false));
        }
    }

    /// Where one ACK covers a flight, two samples are a round trip.
    #[test]
    fn a_round_trip_of_long_samples_is_a_queue_however_few_they_are() {
        let mut flow = Flow::new(Duration::from_millis(40));
        assert!(flow.ack(Duration::from_millis(50), false));
        assert!(!flow.ack(Duration::from_millis(50), true));
    }
}
