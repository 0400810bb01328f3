//! The test for a queue that marks by RFC 3168, as packets of CUBIC or Reno want it: there a sender
//! of L4S would push those aside, and RFC 9331 section 4.3 asks it to fall back. Prague's draft,
//! "Fall-Back to Reno-Friendly Congestion Control on Classic ECN"; the passive test of Briscoe and
//! Ahmed, "TCP Prague Fall-back on Detection of a Classic ECN AQM" (arXiv:1911.00710).
//!
//! A queue of L4S is short, and so the round trip is steady. A classic one is some milliseconds
//! long and moves. Each round trip with marks adds to a score, by the logarithms of the mean
//! deviation of the round trip and of its mean above its minimum, against 750 us and 2 ms. The
//! first may also subtract; BBR's probes want another rule ([`ClassicQueue::judge_by_mean`]).
//!
//! Ours: the mean and the deviation are kept in 1/2^16 ns, so that neither has to be scaled when
//! their gain changes; logarithms are straight between powers of two, at most 0.09 too low.

use crate::conn::Conn;
use crate::units::Duration;

/// Deviation of the round trip that says nothing: V0.
const STEADY: Duration = Duration::from_micros(750);
/// Mean queue below which none is taken for a classic one: D0.
const SHORT: Duration = Duration::from_millis(2);
/// A score is in 1/2^16. Each logarithm counts half.
const SCORE_ONE: i32 = 1 << 16;
/// Up to here the queue is one of L4S; so much above, a classic one, as far again to come back.
const L4S: i32 = 8 * SCORE_ONE;
const CLASSIC: i32 = L4S + SCORE_ONE;
/// The most of [`ClassicQueue::certainty`].
pub(crate) const SURE: u32 = SCORE_ONE as u32;
const MOST: i32 = CLASSIC + L4S;
/// Fractional bits of the mean and the deviation, in ns. A round trip counts up to 2^47 ns, 39
/// hours.
const FRACTION_BITS: u32 = 16;
/// The longest memory, as a shift: 2^18 ACKs.
const MAX_SHIFT: u32 = 18;

/// The evidence for a classic queue.
#[derive(Clone, Debug)]
pub(crate) struct ClassicQueue {
    /// True if it is looked for.
    is_on: bool,
    score: i32,
    /// The mean of the round trip and its mean deviation, in 1/2^16 ns; zero before the first.
    mean: u64,
    deviation: u64,
}

impl ClassicQueue {
    pub(crate) const fn new(is_on: bool) -> Self {
        Self { is_on, score: 0, mean: 0, deviation: 0 }
    }

    /// Takes a round trip in. The memory lasts about as many ACKs as the window to the power of
    /// 1.5, so that it sees past one sawtooth of the window, as in Linux's.
    pub(crate) fn observe(&mut self, conn: &Conn, rtt: Duration) {
        if !self.is_on {
            return;
        }
        let packets_log = (conn.cwnd / conn.smss).max(1).ilog2();
        let shift = (packets_log + packets_log / 2 + 1).min(MAX_SHIFT);
        let rtt = rtt.as_nanos().min(u64::MAX >> (FRACTION_BITS + 1)) << FRACTION_BITS;
        if self.mean == 0 {
            self.mean = rtt;
            return;
        }
        let off = rtt.abs_diff(self.mean);
        self.mean = approach(self.mean, rtt, shift);
        self.deviation = approach(self.deviation, off, shift + 1);
    }

    /// Once a virtual round trip that had marks.
    pub(crate) fn judge(&mut self, conn: &Conn) {
        if let Some((varies, queue)) = self.evidence(conn) {
            self.add((varies + queue.max(0)) / 2);
        }
    }

    /// As [`Self::judge`], once a round trip with marks or without, for senders whose probes make
    /// the round trip vary in a queue of L4S too. Only a mean queue that is long adds to the score.
    /// One of less than half of that subtracts: nobody is pushed aside in it, and a sender that has
    /// given way may have no more marks there.
    pub(crate) fn judge_by_mean(&mut self, conn: &Conn, is_marked: bool) {
        let Some((varies, queue)) = self.evidence(conn) else { return };
        let above_half = queue + SCORE_ONE;
        if is_marked && queue > 0 {
            self.add((varies + queue) / 2);
        } else if above_half < 0 {
            self.add((varies.min(0) + above_half) / 2);
        }
    }

    /// The logarithms of the deviation and of the mean queue against what says nothing.
    fn evidence(&self, conn: &Conn) -> Option<(i32, i32)> {
        let min_rtt = conn.min_rtt().filter(|_| self.is_on)?;
        let varies = log2(self.deviation >> FRACTION_BITS) - log2(STEADY.as_nanos());
        let queue = Duration::from_nanos(self.mean >> FRACTION_BITS) - min_rtt;
        Some((varies, log2(queue.as_nanos()) - log2(SHORT.as_nanos())))
    }

    fn add(&mut self, evidence: i32) {
        self.score = (self.score + evidence).clamp(0, MOST);
    }

    /// How sure it is that the queue is a classic one, of [`SURE`].
    pub(crate) fn certainty(&self) -> u32 {
        (self.score.clamp(L4S, CLASSIC) - L4S) as u32
    }
}

/// `from`, nearer to `to` by 1/2^shift of the distance.
const fn approach(from: u64, to: u64, shift: u32) -> u64 {
    if to >= from { from + ((to - from) >> shift) } else { from - ((from - to) >> shift) }
}

/// The logarithm to the base of two in 1/2^16; that of 0 is 0.
fn log2(x: u64) -> i32 {
    let x = x.max(1);
    let whole = x.ilog2();
    let rest = if whole >= 16 { x >> (whole - 16) } else { x << (16 - whole) };
    (whole << 16) as i32 + (rest as i32 - SCORE_ONE)
}

#[cfg(all(test, feature = "prague", feature = "custom"))]
impl ClassicQueue {
    /// The score, and the mean and the deviation in seconds.
    pub(crate) fn in_seconds(&self) -> (f64, f64, f64) {
        let seconds = |ns: u64| ns as f64 / f64::from(1 << FRACTION_BITS) / 1e9;
        let score = f64::from(self.score) / f64::from(SCORE_ONE);
        (score, seconds(self.mean), seconds(self.deviation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::units::Instant;
    use proptest::prelude::*;

    #[test]
    fn a_logarithm_is_exact_at_powers_of_two_and_never_far_off() {
        for (x, expected) in
            [(1, 0), (2, 1 << 16), (1 << 20, 20 << 16), (3 << 20, 21 << 16 | 1 << 15)]
        {
            assert_eq!(log2(x), expected, "{x}");
        }
    }

    /// RTTs of 20 ms and a queue that swings by `swing` around its mean of `queue`, each window of
    /// 100 packets in turn; then the score of each round in which something was marked.
    fn score_after(rounds: u32, queue: Duration, swing: Duration) -> i32 {
        let mut conn = Conn::new(&Config::new(1), Instant::default());
        conn.cwnd = 100 * conn.smss;
        let base = Duration::from_millis(20);
        let mut classic = ClassicQueue::new(true);
        let p = conn.sampler.on_sent(Instant::default(), 1_200, false, 1_200);
        let _ = conn.sample(Instant::default() + base, &p, None);
        for round in 0..rounds {
            for i in 0..100 {
                let phase = (round * 100 + i) % 400;
                let up = u64::from(phase.min(400 - phase)); // 0 to 200
                let at = Duration::from_nanos(swing.as_nanos() * up / 100);
                classic.observe(&conn, base + queue + at - swing);
            }
            classic.judge(&conn);
        }
        classic.score
    }

    /// A queue of L4S: half a millisecond that swings as much. A classic one of 15 ms.
    #[test]
    fn a_long_queue_that_moves_is_a_classic_one_and_a_short_one_is_not() {
        let us = Duration::from_micros;
        assert_eq!(score_after(1_000, us(500), us(500)), 0);
        assert_eq!(score_after(1_000, us(15_000), us(5_000)), MOST);
    }

    /// A queue of L4S in which others probe: a mean of half a millisecond to 2, which moves as much
    /// as a queue of that mean can. A classic one needs marks to show itself.
    #[test]
    fn by_the_mean_a_queue_that_moves_is_not_enough() {
        let ms = Duration::from_millis;
        let mut conn = Conn::new(&Config::new(1), Instant::default());
        let p = conn.sampler.on_sent(Instant::default(), 1_200, false, 1_200);
        let _ = conn.sample(Instant::default() + ms(20), &p, None);
        let after = |score, queue_us: u64, deviation, is_marked| {
            let mean = (ms(20) + Duration::from_micros(queue_us)).as_nanos() << FRACTION_BITS;
            let deviation = Duration::from_micros(deviation).as_nanos() << FRACTION_BITS;
            let mut classic = ClassicQueue { is_on: true, score, mean, deviation };
            (0..100).for_each(|_| classic.judge_by_mean(&conn, is_marked));
            classic.score
        };
        for is_marked in [false, true] {
            assert_eq!(after(0, 1_900, 3_800, is_marked), 0);
            assert_eq!(after(MOST, 1_100, 2_200, is_marked), MOST);
            assert_eq!(after(MOST, 500, 1_000, is_marked), 0);
        }
        assert_eq!(after(MOST, 10_000, 5_000, false), MOST);
        assert_eq!(after(0, 10_000, 5_000, false), 0);
        assert_eq!(after(0, 10_000, 5_000, true), MOST);
    }

    proptest! {
        /// The score of one round trip beside the formulas of [`ClassicQueue::judge`] and
        /// [`ClassicQueue::judge_by_mean`], in floating point; logarithms are at most 0.09 too low.
        #[test]
        fn a_round_trip_is_judged_by_the_formula(
            queue_us in prop_oneof![Just(1_000u64), Just(2_000), 1u64..60_000],
            deviation_us in prop_oneof![1u64..750, 1u64..60_000],
            score in 0u32..=17,
            is_marked: bool,
            by_mean: bool,
        ) {
            let mut conn = Conn::new(&Config::new(1), Instant::default());
            let min_rtt = Duration::from_millis(20);
            let p = conn.sampler.on_sent(Instant::default(), 1_200, false, 1_200);
            let _ = conn.sample(Instant::default() + min_rtt, &p, None);
            let mean = min_rtt + Duration::from_micros(queue_us);
            let mut classic = ClassicQueue {
                score: score as i32 * SCORE_ONE,
                mean: mean.as_nanos() << FRACTION_BITS,
                deviation: Duration::from_micros(deviation_us).as_nanos() << FRACTION_BITS,
                ..ClassicQueue::new(true)
            };
            if by_mean {
                classic.judge_by_mean(&conn, is_marked);
            } else {
                classic.judge(&conn);
            }
            let varies = (deviation_us as f64 / 750.0).log2();
            let above = |us: f64| (queue_us as f64 / us).log2();
            let evidence = if !by_mean {
                (varies + above(2_000.0).max(0.0)) / 2.0
            } else if is_marked && above(2_000.0) > 0.0 {
                (varies + above(2_000.0)) / 2.0
            } else if above(1_000.0) < 0.0 {
                (varies.min(0.0) + above(1_000.0)) / 2.0
            } else {
                0.0
            };
            let expected = (f64::from(score) + evidence).clamp(0.0, 17.0);
            let real = f64::from(classic.score) / f64::from(SCORE_ONE);
            prop_assert!((real - expected).abs() < 0.19, "{real}, expected {expected}");
        }
    }

    /// A round trip that is longer than the mean can hold counts as the longest that it can.
    #[test]
    fn the_longest_round_trip_is_39_hours() {
        let conn = Conn::new(&Config::new(1), Instant::default());
        let mean = |rtt: Duration| {
            let mut classic = ClassicQueue::new(true);
            classic.observe(&conn, rtt);
            classic.mean
        };
        let longest = Duration::from_nanos((1 << 47) - 1);
        assert_eq!(mean(Duration::MAX), mean(longest));
        assert!(mean(longest) > mean(longest - Duration::from_nanos(1)));
    }

    #[test]
    fn it_is_sure_from_a_score_of_nine_on_and_not_at_all_up_to_eight() {
        let of = |score| ClassicQueue { score, ..ClassicQueue::new(true) }.certainty();
        assert_eq!([0, L4S, CLASSIC, MOST].map(of), [0, 0, SURE, SURE]);
        assert_eq!(of(L4S + SCORE_ONE / 4), SURE / 4);
    }
}
