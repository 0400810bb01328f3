//! Prague beside the formulas of its draft, and of the passive test for a classic queue, in
//! floating point.

use std::boxed::Box;

use proptest::prelude::*;

use super::{ALPHA_ONE, Mark, Prague};
use crate::algo::{Congestion, CongestionControl};
use crate::classic_queue::ClassicQueue;
use crate::config::Config;
use crate::config::Start;
use crate::conn::{Conn, INFINITE, MarksAre};
use crate::custom::{CustomAlgorithm, CustomControl};
use crate::hystart::SlowStart;
use crate::options::PragueOptions;
use crate::oracle::{self, Checked, Model, events, near};
use crate::sampler::RateSample;
use crate::snapshot::{Snapshot, State};
use crate::units::{Duration, Instant};

#[derive(Clone, Debug)]
struct Formulas {
    slow_start: SlowStart,
    cwnd: f64,
    alpha: f64,
    /// Bytes marked since alpha moved, and by this ACK; `None` before the first mark of all.
    marked: Option<f64>,
    newly_marked: u64,
    is_marked: bool,
    alpha_moved: Mark,
    reduced: Option<Mark>,
    /// The window and the threshold before the newest loss.
    undo: Option<(u64, u64)>,
    classic: Passive,
    /// The call at hand paces.
    paces: bool,
}

/// The passive test: the score of the round trips, in seconds.
#[derive(Clone, Debug)]
struct Passive {
    is_on: bool,
    score: f64,
    mean: f64,
    deviation: f64,
}

impl Passive {
    fn observe(&mut self, conn: &Conn, rtt: f64) {
        if !self.is_on {
            return;
        }
        let packets = ((conn.cwnd / conn.smss).max(1) as f64).log2().floor();
        let acks = 2f64.powf(packets + (packets / 2.0).floor() + 1.0).min(2f64.powi(18));
        if self.mean == 0.0 {
            self.mean = rtt;
            return;
        }
        let off = rtt - self.mean;
        self.mean += off / acks;
        self.deviation += (off.abs() - self.deviation) / (2.0 * acks);
    }

    fn judge(&mut self, conn: &Conn) {
        let Some(min_rtt) = conn.min_rtt().filter(|_| self.is_on) else { return };
        let log2 = |seconds: f64| (seconds.max(1e-9) * 1e9).log2();
        let queue = self.mean - min_rtt.as_nanos() as f64 / 1e9;
        let long = (log2(queue) - log2(2e-3)).max(0.0);
        self.score += (log2(self.deviation) - log2(750e-6) + long) / 2.0;
        self.score = self.score.clamp(0.0, 17.0);
    }

    /// As the test knows it, within the error of logarithms that are straight between powers.
    fn agree(&mut self, real: &ClassicQueue) {
        let (score, mean, deviation) = real.in_seconds();
        near("score", score, self.score, 0.19);
        near("mean RTT", mean, self.mean, 2e-9);
        near("deviation", deviation, self.deviation, 2e-9);
        (self.score, self.mean, self.deviation) = (score, mean, deviation);
    }
}

impl Formulas {
    fn new(prague: &Prague, conn: &Conn, options: PragueOptions) -> Self {
        Self {
            slow_start: SlowStart::new(Start::Standard),
            cwnd: conn.cwnd as f64,
            alpha: 1.0,
            marked: None,
            newly_marked: 0,
            is_marked: false,
            alpha_moved: prague.alpha_updated,
            reduced: None,
            undo: None,
            classic: Passive {
                is_on: options.classic_fallback(),
                score: 0.0,
                mean: 0.0,
                deviation: 0.0,
            },
            paces: false,
        }
    }

    /// A packet-timed round trip and RTT_virt are over.
    fn is_over(since: Mark, rs: &RateSample, virtual_rtt: f64) -> bool {
        let passed = rs.now.since(since.at).as_nanos() as f64 / 1e9;
        rs.prior_delivered >= since.delivered && passed >= virtual_rtt
    }

    fn whole(&self) -> f64 {
        self.cwnd.floor()
    }

    fn halve(&mut self, conn: &Conn) {
        self.undo = Some((conn.cwnd, self.slow_start.ssthresh()));
        self.cwnd = (self.whole() / 2.0).floor().max(2.0 * conn.smss as f64);
        self.slow_start.set_ssthresh(self.cwnd as u64);
    }
}

impl CongestionControl for Formulas {
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.paces = true;
        let rtt = conn.srtt().map_or(0.025, |rtt| rtt.as_nanos() as f64 / 1e9);
        let virtual_rtt = rtt.max(0.025);
        let marked = core::mem::take(&mut self.newly_marked);
        self.slow_start.observe(conn, rs);
        if let Some(rtt) = rs.rtt() {
            self.classic.observe(conn, rtt.as_nanos() as f64 / 1e9);
        }
        if Self::is_over(self.alpha_moved, rs, virtual_rtt) {
            let delivered = (conn.delivered() - self.alpha_moved.delivered).max(1) as f64;
            self.alpha_moved = Mark::now(conn, rs.now);
            if let Some(marked) = &mut self.marked {
                let fraction = (*marked / delivered).min(1.0);
                self.alpha += (fraction - self.alpha) / 16.0;
                if *marked > 0.0 {
                    self.classic.judge(conn);
                }
                *marked = 0.0;
            }
        }
        let acked = rs.newly_acked_after_recovery.saturating_sub(marked);
        if self.slow_start.is_in(conn) {
            self.slow_start.grow(conn, rs, acked);
            self.cwnd += conn.cwnd as f64 - self.whole();
        } else if acked > 0 && conn.may_grow(rs) {
            let slower = (rtt / virtual_rtt).powi(2);
            let grown = acked as f64 * conn.smss as f64 / conn.cwnd as f64 * slower;
            self.cwnd += grown.min(acked as f64);
        }
        let may_reduce = self.reduced.is_none_or(|at| Self::is_over(at, rs, virtual_rtt));
        if core::mem::take(&mut self.is_marked) && !conn.in_recovery() && may_reduce {
            let classic = 0.6 * (self.classic.score - 8.0).clamp(0.0, 1.0);
            let share = self.alpha.max(classic) / 2.0;
            let fraction = self.cwnd.fract();
            let left = (self.whole() * (1.0 - share)).max(2.0 * conn.smss as f64);
            self.cwnd = left.ceil() + fraction;
            self.slow_start.set_ssthresh(self.cwnd as u64);
            self.reduced = Some(Mark::now(conn, rs.now));
            self.undo = None;
        }
    }

    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if let Some(marks) = congestion.marks.as_ref().filter(|_| conn.marks_are_apart()) {
            if self.marked.is_none() {
                self.alpha_moved = Mark::now(conn, congestion.now);
            }
            self.is_marked = true;
            self.newly_marked = marks.newly_marked;
            *self.marked.get_or_insert(0.0) += marks.newly_marked as f64;
        }
        if congestion.new_episode {
            self.halve(conn);
        }
    }

    fn on_rto(&mut self, conn: &mut Conn) {
        conn.note_timeout_answered();
        self.cwnd = conn.timeout_window() as f64;
    }

    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if let Some((cwnd, ssthresh)) = self.undo.take().filter(|(cwnd, _)| conn.cwnd < *cwnd) {
            self.cwnd = cwnd as f64 + self.cwnd.fract();
            self.slow_start.set_ssthresh(ssthresh);
        }
    }

    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        if cwnd < conn.cwnd {
            let known = conn.cwnd - conn.cwnd / 4;
            self.slow_start.set_ssthresh(self.slow_start.ssthresh().max(known));
            self.cwnd = cwnd as f64 + self.cwnd.fract();
        }
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "formulas", State::SlowStart)
    }
}

impl Model<Prague> for Formulas {
    fn agree(&mut self, real: &Prague, conn: &Conn, _: &Conn) {
        let window = conn.cwnd as f64 + f64::from(real.cwnd_part) / 2f64.powi(32);
        let alpha = f64::from(real.alpha) / f64::from(ALPHA_ONE);
        near("cwnd", window, self.cwnd, 1.1 + 1e-5 * self.cwnd);
        near("alpha", alpha, self.alpha, 2e-6);
        near("marked", real.marked as f64, self.marked.unwrap_or(0.0), 0.5);
        assert_eq!(real.has_marks, self.marked.is_some());
        assert!(real.slow_start.ssthresh().abs_diff(self.slow_start.ssthresh()) <= 2);
        if core::mem::take(&mut self.paces) {
            self.check_pace(conn);
        }
        self.classic.agree(&real.classic);
        let shown = real.snapshot(conn);
        let ssthresh = Some(real.slow_start.ssthresh()).filter(|bytes| *bytes != INFINITE);
        assert_eq!((shown.ssthresh, shown.ecn_alpha.is_some()), (ssthresh, real.has_marks));
        self.cwnd = window;
        self.alpha = alpha;
        self.undo = real.undo.map(|undo| (undo.cwnd, undo.ssthresh));
        self.slow_start = real.slow_start.clone();
    }
}

impl Formulas {
    /// One window in a round trip, and 2 ln 2 of it while it doubles; bursts of 250 us.
    fn check_pace(&self, conn: &Conn) {
        let (Some(rate), Some(srtt)) = (conn.pacing_rate(), conn.srtt()) else { return };
        let rate = rate.as_bytes_per_sec() as f64;
        let doubles = self.slow_start.is_in(conn) && !self.slow_start.is_conservative();
        let gain = if doubles { 2.0 * 2f64.ln() } else { 1.0 };
        let by_window = gain * conn.cwnd as f64 / (srtt.as_nanos() as f64 / 1e9);
        let is_first = doubles && conn.delivered() < conn.initial_cwnd;
        let first = if is_first { conn.initial_cwnd as f64 / 0.025 } else { 0.0 };
        near("pacing rate", rate, by_window.max(first), 2.0 + rate / 200.0);
        let burst = (rate * 250e-6).clamp(2.0 * conn.smss as f64, 65_536.0);
        near("quantum", conn.send_quantum as f64, burst, 2.0);
    }
}

/// Without the fallback, and with it.
static CHECKED: [CustomAlgorithm; 2] = [
    CustomAlgorithm {
        name: "prague-and-its-formulas",
        new: &|conn, now, config| checked(conn, now, config, false),
    },
    CustomAlgorithm {
        name: "prague-and-its-formulas",
        new: &|conn, now, config| checked(conn, now, config, true),
    },
];

fn checked(
    conn: &mut Conn,
    now: Instant,
    config: &Config,
    has_fallback: bool,
) -> Box<dyn CustomControl> {
    let options = PragueOptions::new().with_classic_fallback(has_fallback);
    let real = Prague::new(conn, now, config, options);
    assert_eq!(conn.marks == MarksAre::Apart, config.ecn);
    let model = Formulas::new(&real, conn, options);
    Box::new(Checked { real, model })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each call window, alpha, pacing and the score of the passive test are those of the
    /// formulas, whether marks are L4S's or not.
    #[test]
    fn the_window_is_that_of_the_formulas(
        mbit in 1u64..30,
        rtt_us in 1_000u64..100_000,
        ecn in prop::bool::weighted(0.8),
        fallback: bool,
        handshake: bool,
        history in events(),
    ) {
        let rtt = Duration::from_micros(rtt_us);
        let config = Config {
            ecn,
            handshake_rtt: handshake.then_some(rtt),
            ..Config::new(1)
        };
        oracle::run(&CHECKED[usize::from(fallback)], mbit, rtt, config, &history);
    }
}
