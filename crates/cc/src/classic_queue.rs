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
//! their gain changes; logarithms are straight between powers of two, at most 0.09 too low. The
//! mean begins at the minimum, so that one late first sample is no evidence. The minimum is that of
//! the last half minute to a minute, so that a route that became longer is not taken for a queue
//! for the rest of the connection. Linux's Prague has the minimum of five minutes.

use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::units::{Duration, Instant};

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
/// A minimum round trip is remembered for so long, and up to as long again.
const LEAST_LASTS: Duration = Duration::from_secs(30);

/// The evidence for a classic queue.
#[derive(Clone, Debug)]
pub(crate) struct ClassicQueue {
    /// True if it is looked for.
    is_on: bool,
    score: i32,
    /// The mean of the round trip and its mean deviation, in 1/2^16 ns; zero before the first.
    mean: u64,
    deviation: u64,
    least: Least,
}

/// The minimum round trip since `began`, and that of the time before; [`Duration::MAX`] without a
/// sample.
#[derive(Clone, Debug)]
struct Least {
    began: Instant,
    newest: Duration,
    before: Duration,
}

impl Least {
    const fn new() -> Self {
        Self { began: Instant::from_nanos(0), newest: Duration::MAX, before: Duration::MAX }
    }

    fn note(&mut self, rtt: Duration, now: Instant) {
        if now.since(self.began) >= LEAST_LASTS {
            let is_old = now.since(self.began) >= LEAST_LASTS.times(2);
            let before = if is_old { Duration::MAX } else { self.newest };
            *self = Self { began: now, newest: rtt, before };
        }
        self.newest = self.newest.min(rtt);
    }

    fn get(&self) -> Duration {
        self.newest.min(self.before)
    }
}

impl ClassicQueue {
    pub(crate) const fn new(is_on: bool) -> Self {
        Self { is_on, score: 0, mean: 0, deviation: 0, least: Least::new() }
    }

    /// Takes a round trip in for the minimum alone: one in a queue that the sender makes itself.
    pub(crate) fn note_least(&mut self, rs: &RateSample) {
        if let Some(rtt) = rs.rtt() {
            self.least.note(rtt, rs.now);
        }
    }

    /// Takes a round trip in. The memory lasts about as many ACKs as the window to the power of
    /// 1.5, so that it sees past one sawtooth of the window, as in Linux's.
    pub(crate) fn observe(&mut self, conn: &Conn, rs: &RateSample) {
        let Some(rtt) = rs.rtt().filter(|_| self.is_on) else { return };
        self.least.note(rtt, rs.now);
        let packets_log = (conn.cwnd / conn.smss).max(1).ilog2();
        let shift = (packets_log + packets_log / 2 + 1).min(MAX_SHIFT);
        let scaled =
            |rtt: Duration| rtt.as_nanos().min(u64::MAX >> (FRACTION_BITS + 1)) << FRACTION_BITS;
        let rtt = scaled(rtt);
        if self.mean == 0 {
            self.mean = scaled(self.least.get());
        }
        let off = rtt.abs_diff(self.mean);
        self.mean = approach(self.mean, rtt, shift);
        self.deviation = approach(self.deviation, off, shift + 1);
    }

    /// Once a virtual round trip that had marks.
    pub(crate) fn judge(&mut self) {
        if let Some((varies, queue)) = self.evidence() {
            self.add((varies + queue.max(0)) / 2);
        }
    }

    /// As [`Self::judge`], once a round trip with marks or without, for senders whose probes make
    /// the round trip vary in a queue of L4S too. Only a mean queue that is long adds to the score.
    /// One of less than half of that subtracts: nobody is pushed aside in it, and a sender that has
    /// given way may have no more marks there.
    pub(crate) fn judge_by_mean(&mut self, is_marked: bool) {
        let Some((varies, queue)) = self.evidence() else { return };
        let above_half = queue + SCORE_ONE;
        if is_marked && queue > 0 {
            self.add((varies + queue) / 2);
        } else if above_half < 0 {
            self.add((varies.min(0) + above_half) / 2);
        }
    }

    /// The logarithms of the deviation and of the mean queue against what says nothing.
    fn evidence(&self) -> Option<(i32, i32)> {
        if self.mean == 0 {
            return None;
        }
        let varies = log2(self.deviation >> FRACTION_BITS) - log2(STEADY.as_nanos());
        let queue = Duration::from_nanos(self.mean >> FRACTION_BITS) - self.least.get();
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

    const BASE: Duration = Duration::from_millis(20);

    fn conn_of_100_packets() -> Conn {
        let mut conn = Conn::new(&Config::new(1), Instant::default());
        conn.cwnd = 100 * conn.smss;
        conn
    }

    /// An ACK at `now` whose round trip is `rtt`.
    fn ack(rtt: Duration, now: Duration) -> RateSample {
        let mut conn = conn_of_100_packets();
        let packet = conn.sampler.on_sent(Instant::default(), 1_200, 1_200);
        let now = Instant::default() + now;
        RateSample { rtt, now, ..conn.sample(now, &packet, None) }
    }

    /// A queue of nobody, once.
    fn with_base() -> ClassicQueue {
        let mut classic = ClassicQueue::new(true);
        classic.note_least(&ack(BASE, Duration::ZERO));
        classic
    }

    /// RTTs of 20 ms and a queue that swings by `swing` around its mean of `queue`, each window of
    /// 100 packets in turn; then the score of each round in which something was marked.
    fn score_after(rounds: u32, queue: Duration, swing: Duration) -> i32 {
        let conn = conn_of_100_packets();
        let mut classic = with_base();
        for round in 0..rounds {
            for i in 0..100 {
                let phase = (round * 100 + i) % 400;
                let up = u64::from(phase.min(400 - phase)); // 0 to 200
                let at = Duration::from_nanos(swing.as_nanos() * up / 100);
                classic.observe(&conn, &ack(BASE + queue + at - swing, Duration::ZERO));
            }
            classic.judge();
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
        let after = |score, queue_us: u64, deviation, is_marked| {
            let mean = (BASE + Duration::from_micros(queue_us)).as_nanos() << FRACTION_BITS;
            let deviation = Duration::from_micros(deviation).as_nanos() << FRACTION_BITS;
            let mut classic = ClassicQueue { score, mean, deviation, ..with_base() };
            (0..100).for_each(|_| classic.judge_by_mean(is_marked));
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
            let mean = BASE + Duration::from_micros(queue_us);
            let mut classic = ClassicQueue {
                score: score as i32 * SCORE_ONE,
                mean: mean.as_nanos() << FRACTION_BITS,
                deviation: Duration::from_micros(deviation_us).as_nanos() << FRACTION_BITS,
                ..with_base()
            };
            if by_mean {
                classic.judge_by_mean(is_marked);
            } else {
                classic.judge();
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
            classic.observe(&conn, &ack(rtt, Duration::ZERO));
            classic.mean
        };
        let longest = Duration::from_nanos((1 << 47) - 1);
        assert_eq!(mean(Duration::from_nanos(u64::MAX - 1)), mean(longest));
        assert!(mean(longest) > mean(longest - Duration::from_nanos(1)));
    }

    /// A route becomes longer by 40 ms, with some jitter: for a minute it looks like a queue, and
    /// then no more.
    #[test]
    fn a_longer_route_is_taken_for_a_queue_for_a_minute_at_most() {
        let conn = conn_of_100_packets();
        let mut classic = with_base();
        let mut score_at = |from: u64, to: u64| {
            for round in from..to {
                let now = Duration::from_millis(60 * round);
                for i in 0..100 {
                    let jitter = Duration::from_micros(i % 4 * 400);
                    classic.observe(&conn, &ack(BASE.times(3) + jitter, now));
                }
                classic.judge_by_mean(true);
            }
            classic.score
        };
        assert_eq!(score_at(0, 400), MOST);
        assert_eq!(score_at(400, 1_400), 0);
    }

    /// A minimum counts for half a minute to a minute, also where nothing came meanwhile.
    #[test]
    fn a_minimum_is_forgotten_in_a_pause() {
        let after = |pauses: &[u64]| {
            let (mut classic, mut now) = (with_base(), Duration::ZERO);
            for pause in pauses {
                now = now + Duration::from_secs(*pause);
                classic.note_least(&ack(BASE.times(3), now));
            }
            classic.least.get()
        };
        assert_eq!([after(&[29]), after(&[59]), after(&[29, 30])], [BASE; 3]);
        assert_eq!([after(&[60]), after(&[600]), after(&[30, 30])], [BASE.times(3); 3]);
    }

    /// One packet that another path or a radio kept for 200 ms, before any other in CRUISE.
    #[test]
    fn one_late_first_sample_is_no_evidence() {
        let conn = conn_of_100_packets();
        let mut classic = with_base();
        for i in 0..3_000 {
            let late = Duration::from_millis(if i == 0 { 200 } else { 0 });
            classic.observe(&conn, &ack(BASE + late, Duration::ZERO));
            if i % 100 == 0 {
                classic.judge_by_mean(true);
            }
            assert_eq!(classic.score, 0, "after {i} packets");
        }
    }

    #[test]
    fn it_is_sure_from_a_score_of_nine_on_and_not_at_all_up_to_eight() {
        let of = |score| ClassicQueue { score, ..ClassicQueue::new(true) }.certainty();
        assert_eq!([0, L4S, CLASSIC, MOST].map(of), [0, 0, SURE, SURE]);
        assert_eq!(of(L4S + SCORE_ONE / 4), SURE / 4);
    }
}
