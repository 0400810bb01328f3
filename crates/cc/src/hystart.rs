//! Slow start with HyStart++ (RFC 9406), as CUBIC and Reno have it, or with Rapid Start or SEARCH.
//!
//! Plain slow start doubles its window until something is lost, and by then a window too much is on
//! its way. HyStart++ watches the smallest round-trip time of each round. When it has risen, growth
//! goes on at a quarter for five rounds (Conservative Slow Start, CSS). If it falls again, the rise
//! was jitter, and slow start goes on; if not, congestion avoidance begins, and nothing was lost.
//!
//! RFC 9406 section 4.3 wants it in the initial slow start only: later ones have a threshold from
//! the congestion before them.

use crate::config::Start;
use crate::conn::{Conn, INFINITE};
use crate::rapid_start::{Convergence, RapidStart};
use crate::sampler::RateSample;
use crate::search::Search;
use crate::snapshot::State;
use crate::units::{Duration, Gain};

/// The least rise that counts, MIN_RTT_THRESH: less is noise of hosts and timers.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
/// The largest rise that is waited for, MAX_RTT_THRESH: on long paths an eighth is a deep queue.
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// The rise that counts in between is this part of the round trip, MIN_RTT_DIVISOR.
const MIN_RTT_DIVISOR: u64 = 8;
/// Samples in a round before its minimum is believed, N_RTT_SAMPLE.
const N_RTT_SAMPLE: u32 = 8;
/// CSS grows by this part of what slow start would, CSS_GROWTH_DIVISOR.
const CSS_GROWTH_DIVISOR: u64 = 4;
/// Rounds of CSS until it is believed, CSS_ROUNDS.
const CSS_ROUNDS: u32 = 5;
/// L for a sender that does not pace, in SMSS: the most that one ACK may add, and so the largest
/// burst that it may release. A sender that paces has no such limit.
const UNPACED_ACK_LIMIT: u64 = 8;

/// Pacing in slow start: the window doubles within a round trip, and the pacer must let it.
const SLOW_START_PACING: Gain = Gain::percent(200);
/// Pacing in CSS, which grows by a quarter a round, and in congestion avoidance: N of RFC 9002
/// section 7.7.
const AVOIDANCE_PACING: Gain = Gain::percent(125);

/// The slow-start threshold, and the rounds of the initial slow start.
#[derive(Clone, Debug)]
pub(crate) struct SlowStart {
    ssthresh: u64,
    /// The round ends with the first ACK of a packet that was sent when C.delivered was this or
    /// more. RFC 9406's windowEnd is the last packet before that one.
    round_end: u64,
    /// rttSampleCount, currentRoundMinRTT and lastRoundMinRTT; "infinity" is the largest value.
    samples: u32,
    min_rtt: Duration,
    last_min_rtt: Duration,
    css: Option<Css>,
    start: Start,
    rapid: RapidStart,
    convergence: Option<Convergence>,
    /// C.lost as of the newest ACK.
    lost: u64,
    search: Search,
}

#[derive(Clone, Copy, Debug)]
struct Css {
    /// cssBaselineMinRtt.
    baseline: Duration,
    /// Rounds that ended in CSS; the one in which it began is one of them.
    rounds: u32,
}

impl SlowStart {
    pub(crate) const fn new(start: Start) -> Self {
        Self {
            ssthresh: INFINITE,
            round_end: 0,
            samples: 0,
            min_rtt: Duration::MAX,
            last_min_rtt: Duration::MAX,
            css: None,
            start,
            rapid: RapidStart::new(matches!(start, Start::RapidStart)),
            convergence: None,
            lost: 0,
            search: Search::new(),
        }
    }

    /// The threshold in bytes; [`INFINITE`] before the first congestion.
    pub(crate) const fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Congestion was met, or was none after all: the threshold is `bytes` from now on.
    pub(crate) const fn set_ssthresh(&mut self, bytes: u64) {
        self.ssthresh = bytes;
        self.css = None;
        self.rapid.end();
        self.convergence = None;
        if bytes == INFINITE {
            // What was lost and arrived after all counts twice in what was sent.
            self.search = Search::new();
        }
    }

    /// Congestion begins an episode. The window falls to `beta` of it at once, or after Rapid Start
    /// in the course of the recovery.
    pub(crate) fn reduce(&mut self, conn: &mut Conn, beta: Gain) {
        let converges = self.start == Start::RapidStart && self.ssthresh == INFINITE;
        let convergence = converges.then(|| Convergence::begin(conn, beta, self.lost));
        if convergence.is_none() {
            conn.cwnd = beta.of(conn.cwnd).max(conn.min_window());
        }
        self.set_ssthresh(conn.cwnd);
        self.convergence = convergence;
    }

    /// True while the window comes down after Rapid Start.
    pub(crate) const fn converges(&self) -> bool {
        self.convergence.is_some()
    }

    /// Takes an ACK in while [`Self::converges`]. True if the recovery is over: the window is then
    /// beta of what the path delivered in a round trip. The ACK that ends it may bring the last
    /// losses, and acknowledge much that was sent before.
    pub(crate) fn converge(&mut self, conn: &mut Conn, rs: &RateSample) -> bool {
        let Some(convergence) = &mut self.convergence else { return false };
        convergence.on_ack(conn, rs.newly_acked - rs.newly_acked_after_recovery);
        if !conn.in_recovery() {
            self.end_convergence(conn);
        }
        self.ssthresh = conn.cwnd;
        self.convergence.is_none()
    }

    /// The window has no more to follow: a timeout, or Careful Resume, sets another one.
    pub(crate) fn end_convergence(&mut self, conn: &mut Conn) {
        if let Some(convergence) = self.convergence.take() {
            convergence.end(conn);
            self.ssthresh = conn.cwnd;
        }
    }

    /// A timeout: the threshold is what the losses have left.
    pub(crate) fn time_out(&mut self, conn: &mut Conn) {
        self.rapid.end();
        if let Some(convergence) = &mut self.convergence {
            convergence.on_ack(conn, 0);
        }
        self.end_convergence(conn);
        conn.cwnd = conn.timeout_window();
    }

    pub(crate) const fn is_in(&self, conn: &Conn) -> bool {
        conn.cwnd < self.ssthresh
    }

    /// Takes the RTT of one ACK in, RFC 9406 section 4.2. Sets the threshold when CSS was right.
    pub(crate) fn observe(&mut self, conn: &Conn, rs: &RateSample) {
        self.lost = conn.lost();
        if self.ssthresh != INFINITE {
            return;
        }
        self.rapid.observe(conn, rs);
        if self.start == Start::Search {
            if self.search.observe(conn, rs) {
                self.set_ssthresh(conn.cwnd);
            }
            return;
        }
        if rs.prior_delivered >= self.round_end {
            self.start_round(conn);
        }
        let Some(rtt) = rs.rtt() else { return };
        self.samples = self.samples.saturating_add(1);
        self.min_rtt = self.min_rtt.min(rtt);
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match self.css {
            None if self.has_risen() => {
                self.css = Some(Css { baseline: self.min_rtt, rounds: 0 });
            }
            Some(css) if self.min_rtt < css.baseline => self.css = None,
            _ => {}
        }
    }

    fn start_round(&mut self, conn: &Conn) {
        self.round_end = conn.sampler.delivered;
        self.last_min_rtt = core::mem::replace(&mut self.min_rtt, Duration::MAX);
        self.samples = 0;
        if let Some(css) = &mut self.css {
            css.rounds += 1;
            if css.rounds >= CSS_ROUNDS {
                self.set_ssthresh(conn.cwnd);
            }
        }
    }

    fn has_risen(&self) -> bool {
        let part = Duration::from_nanos(self.last_min_rtt.as_nanos() / MIN_RTT_DIVISOR);
        let threshold = part.clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        self.last_min_rtt != Duration::MAX && self.min_rtt >= self.last_min_rtt + threshold
    }

    /// Raises the window by what an ACK of `acked` bytes adds in slow start, at most to the
    /// threshold: one ACK may cover more than the flight, as after an outage.
    pub(crate) fn grow(&self, conn: &mut Conn, rs: &RateSample, acked: u64) {
        let grown = conn.grown_in_slow_start(rs, self.growth(conn, acked));
        conn.cwnd = grown.min(self.ssthresh.max(conn.cwnd));
    }

    /// Growth of the window by `acked` bytes in slow start: bytes, not ACKs, are counted (RFC
    /// 3465), so that neither delayed nor split ACKs change the growth.
    ///
    /// RFC 3465 section 2.3 has L = 1 after a timeout, because an ACK then may cover much that was
    /// sent before it; such bytes are not in `acked`.
    const fn growth(&self, conn: &Conn, acked: u64) -> u64 {
        let limit = UNPACED_ACK_LIMIT * conn.smss;
        let counted = if conn.is_paced || acked < limit { acked } else { limit };
        match self.css {
            Some(_) => counted / CSS_GROWTH_DIVISOR,
            None if self.rapid.triples() => counted.saturating_mul(2),
            None => counted,
        }
    }

    /// True in CSS.
    pub(crate) const fn is_conservative(&self) -> bool {
        self.css.is_some()
    }

    /// Paces by the window, if the flow is paced.
    pub(crate) fn pace(&self, conn: &mut Conn) {
        let doubles = self.is_in(conn) && self.css.is_none();
        conn.pace_by_window(if doubles { SLOW_START_PACING } else { AVOIDANCE_PACING });
    }

    /// The state of a window-based algorithm, for display only: no decision depends on it.
    pub(crate) const fn state(&self, conn: &Conn) -> State {
        if conn.in_recovery() {
            State::Recovery
        } else if !self.is_in(conn) {
            State::CongestionAvoidance
        } else if self.css.is_some() {
            State::ConservativeSlowStart
        } else {
            State::SlowStart
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::units::Instant;

    const SMSS: u64 = 1_200;

    /// Rounds of ACKs of one packet each, with a round-trip time for each round.
    struct Rounds {
        conn: Conn,
        slow_start: SlowStart,
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    impl Rounds {
        fn new() -> Self {
            let conn = Conn::new(&Config::new(1), Instant::default());
            Self { conn, slow_start: SlowStart::new(Start::Standard) }
        }

        fn round(&mut self, rtt: Duration, acks: u32) {
            let packets: std::vec::Vec<_> = (0..acks)
                .map(|_| self.conn.sampler.on_sent(Instant::default(), SMSS, SMSS))
                .collect();
            for p in &packets {
                self.conn.sampler.count_delivered(SMSS);
                let rs = self.conn.sample(Instant::default() + rtt, p, None);
                self.slow_start.observe(&self.conn, &rs);
                if self.slow_start.is_in(&self.conn) {
                    self.conn.cwnd += self.slow_start.growth(&self.conn, SMSS);
                }
            }
        }

        fn state(&self) -> State {
            self.slow_start.state(&self.conn)
        }
    }

    /// RttThresh = max(4 ms, min(lastRoundMinRTT / 8, 16 ms)), and the rise that is as large
    /// counts.
    #[test]
    fn an_eighth_of_the_round_trip_between_4_and_16_ms_is_a_rise() {
        for (rtt, threshold) in [(1, 4), (16, 4), (32, 4), (64, 8), (128, 16), (400, 16)] {
            let rise = |rise: Duration| {
                let mut rounds = Rounds::new();
                rounds.round(ms(rtt), 10);
                rounds.round(ms(rtt) + rise, 10);
                rounds.state()
            };
            let just_under = ms(threshold) - Duration::from_nanos(1);
            assert_eq!(rise(just_under), State::SlowStart, "{rtt} ms");
            assert_eq!(rise(ms(threshold)), State::ConservativeSlowStart, "{rtt} ms");
        }
    }

    #[test]
    fn a_round_of_seven_samples_says_nothing() {
        for (samples, state) in [(7, State::SlowStart), (8, State::ConservativeSlowStart)] {
            let mut rounds = Rounds::new();
            rounds.round(ms(40), 10);
            rounds.round(ms(60), samples);
            assert_eq!(rounds.state(), state);
        }
    }

    /// Doubling before; afterwards a quarter more in each round, from the eighth sample on.
    #[test]
    fn css_grows_at_a_quarter_of_slow_starts_pace() {
        let mut rounds = Rounds::new();
        rounds.round(ms(40), 10);
        assert_eq!(rounds.conn.cwnd, 20 * SMSS);
        rounds.round(ms(60), 20);
        assert_eq!(rounds.conn.cwnd, 20 * SMSS + 7 * SMSS + 13 * SMSS / 4);
        let before = rounds.conn.cwnd;
        rounds.round(ms(60), 32);
        assert_eq!(rounds.conn.cwnd, before + 8 * SMSS);
    }

    /// CSS_ROUNDS is 5, and the round in which CSS began is the first of them.
    #[test]
    fn after_five_rounds_of_css_the_window_is_the_threshold() {
        let mut rounds = Rounds::new();
        rounds.round(ms(40), 10);
        for _ in 0..5 {
            rounds.round(ms(60), 10);
            assert_eq!(rounds.state(), State::ConservativeSlowStart);
        }
        let cwnd = rounds.conn.cwnd;
        rounds.round(ms(60), 1);
        assert_eq!(rounds.state(), State::CongestionAvoidance);
        assert_eq!((rounds.slow_start.ssthresh(), rounds.conn.cwnd), (cwnd, cwnd));
    }

    /// A round in CSS whose minimum is under that of its beginning, with enough samples, says that
    /// the rise was jitter; a later rise is looked at anew, for five rounds.
    #[test]
    fn a_lower_round_trip_brings_slow_start_back() {
        for (samples, state) in [(7, State::ConservativeSlowStart), (8, State::SlowStart)] {
            let mut rounds = Rounds::new();
            rounds.round(ms(40), 10);
            rounds.round(ms(60), 10);
            rounds.round(ms(60), 10);
            rounds.round(ms(59), samples);
            assert_eq!(rounds.state(), state);
        }
        let mut rounds = Rounds::new();
        for rtt in [40, 60, 60, 59] {
            rounds.round(ms(rtt), 10);
        }
        for _ in 0..5 {
            rounds.round(ms(80), 10);
            assert_eq!(rounds.state(), State::ConservativeSlowStart);
        }
        rounds.round(ms(80), 10);
        assert_eq!(rounds.state(), State::CongestionAvoidance);
    }

    /// Section 4.3: a threshold that congestion has set is enough.
    #[test]
    fn a_later_slow_start_does_not_look_at_the_round_trip() {
        let mut rounds = Rounds::new();
        rounds.slow_start.set_ssthresh(1_000 * SMSS);
        for rtt in [40, 60, 100, 200] {
            rounds.round(ms(rtt), 10);
            assert_eq!(rounds.state(), State::SlowStart);
        }
        // Nor does what it saw before the congestion slow it down.
        let mut rounds = Rounds::new();
        rounds.round(ms(40), 10);
        rounds.round(ms(60), 10);
        assert_eq!(rounds.state(), State::ConservativeSlowStart);
        rounds.slow_start.set_ssthresh(1_000 * SMSS);
        assert_eq!(rounds.slow_start.growth(&rounds.conn, SMSS), SMSS);
    }

    /// L: 8 SMSS an ACK without pacing, and none with it; CSS takes its quarter of that.
    #[test]
    fn without_pacing_one_ack_adds_at_most_eight_packets() {
        let acked = 100 * SMSS;
        for (paced, slow_start, css) in [(true, 100, 25), (false, 8, 2)] {
            let mut rounds = Rounds::new();
            rounds.conn.is_paced = paced;
            rounds.round(ms(40), 10);
            assert_eq!(rounds.slow_start.growth(&rounds.conn, acked), slow_start * SMSS);
            rounds.round(ms(60), 10);
            assert_eq!(rounds.slow_start.growth(&rounds.conn, acked), css * SMSS);
        }
    }
}
