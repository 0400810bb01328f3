//! CUBIC beside the formulas of RFC 9438 in floating point.

use std::boxed::Box;

use proptest::prelude::*;

use super::{Cubic, Epoch, TIME_BITS};
use crate::algo::{Congestion, CongestionControl};
use crate::config::Config;
use crate::config::Start;
use crate::conn::{Conn, INFINITE};
use crate::custom::CustomAlgorithm;
use crate::hystart::SlowStart;
use crate::options::CubicOptions;
use crate::oracle::{self, Checked, Model, events, near};
use crate::sampler::RateSample;
use crate::snapshot::{Snapshot, State};
use crate::test_link::MS;
use crate::units::Instant;

/// Section 4.2 and the variables of section 4.1.2; windows in bytes, with their fractions.
#[derive(Clone, Debug)]
struct Formulas {
    slow_start: SlowStart,
    cwnd: f64,
    w_max: f64,
    cwnd_prior: f64,
    epoch: Option<Stage>,
    last_ack: Option<Instant>,
    undo: Option<Box<Self>>,
    /// The larger of the two windows is not decided by more than rounding.
    is_tie: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stage {
    start: Instant,
    k: f64,
    w_max: f64,
    w_est: f64,
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.since(from).as_nanos() as f64 / 1e9
}

impl Formulas {
    fn new(conn: &Conn) -> Self {
        Self {
            slow_start: SlowStart::new(Start::Standard),
            cwnd: conn.cwnd as f64,
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            last_ack: None,
            undo: None,
            is_tie: false,
        }
    }

    fn avoid_congestion(&mut self, conn: &Conn, rs: &RateSample, acked: f64) {
        let smss = conn.smss as f64;
        let (cwnd, w_max) = (conn.cwnd as f64, self.w_max);
        let mut stage = self.epoch.unwrap_or_else(|| Stage {
            start: rs.now,
            // Figure 2; 0 where the window is above W_max already.
            k: ((w_max - cwnd).max(0.0) / smss / 0.4).cbrt(),
            w_max: w_max.max(cwnd),
            w_est: cwnd,
        });
        // Figure 1.
        let w_cubic = |t: f64| 0.4 * (t - stage.k).powi(3) * smss + stage.w_max;
        let t = seconds(stage.start, rs.now);
        // Figure 4, with the alpha of section 4.3.
        let alpha = if stage.w_est < self.cwnd_prior { 3.0 * 0.3 / 1.7 } else { 1.0 };
        let w_est = stage.w_est + alpha * acked / cwnd * smss;
        self.is_tie =
            (w_cubic(t) - w_est).abs() < 4.0 || (stage.w_est - self.cwnd_prior).abs() < 4.0;
        if w_cubic(t) < w_est {
            self.cwnd = self.cwnd.max(w_est.floor());
        } else {
            let rtt = conn.srtt().map_or(0.0, |rtt| rtt.as_nanos() as f64 / 1e9);
            let target = w_cubic(t + rtt).clamp(cwnd, 1.5 * cwnd);
            self.cwnd += (target - cwnd) / cwnd * acked;
        }
        stage.w_est = w_est;
        self.epoch = Some(stage);
    }

    /// Section 5.8.
    fn skip_to(&mut self, now: Instant) {
        if let (Some(stage), Some(last)) = (&mut self.epoch, self.last_ack.replace(now)) {
            stage.start += now.since(last);
        }
    }
}

impl CongestionControl for Formulas {
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let acked = rs.newly_acked_after_recovery;
        self.slow_start.observe(conn, rs);
        if self.slow_start.is_in(conn) {
            self.slow_start.grow(conn, rs, acked);
            self.cwnd = conn.cwnd as f64;
        } else if !conn.may_grow(rs) {
            self.skip_to(rs.now);
        } else if acked > 0 {
            self.avoid_congestion(conn, rs, acked as f64);
        }
        self.last_ack = Some(rs.now);
    }

    fn on_pause(&mut self, _: &mut Conn, now: Instant) {
        self.skip_to(now);
    }

    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if congestion.new_episode {
            self.undo = Some(Box::new(Self { undo: None, ..self.clone() }));
            // Section 4.7, then 4.6.
            let factor = if self.cwnd.floor() < self.w_max { (1.0 + 0.7) / 2.0 } else { 1.0 };
            self.w_max = self.cwnd.floor() * factor;
            self.cwnd_prior = self.cwnd.floor();
            self.cwnd = (0.7 * self.cwnd.floor()).floor().max(2.0 * conn.smss as f64);
            self.slow_start.set_ssthresh(self.cwnd as u64);
            self.epoch = None;
        }
    }

    /// Section 4.8.
    fn on_rto(&mut self, conn: &mut Conn) {
        conn.note_timeout_answered();
        self.cwnd = conn.timeout_window() as f64;
        self.w_max = 0.0;
        self.epoch = None;
    }

    /// Section 4.9.2.
    fn on_spurious_loss(&mut self, _: &mut Conn) {
        if let Some(undo) = self.undo.take().filter(|undo| self.cwnd.floor() < undo.cwnd.floor()) {
            let (slow_start, last_ack) = (self.slow_start.clone(), self.last_ack);
            *self = Self { slow_start, last_ack, ..*undo.clone() };
            self.slow_start.set_ssthresh(undo.slow_start.ssthresh());
        }
    }

    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        if cwnd < conn.cwnd {
            let known = conn.cwnd - conn.cwnd / 4;
            self.slow_start.set_ssthresh(self.slow_start.ssthresh().max(known));
            self.cwnd = cwnd as f64;
            self.epoch = None;
        }
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "formulas", State::SlowStart)
    }
}

impl Model<Cubic> for Formulas {
    fn agree(&mut self, real: &Cubic, conn: &Conn, _: &Conn) {
        let part = real.epoch.map_or(0, |epoch| epoch.cwnd_part) as f64 / conn.cwnd as f64;
        let window = conn.cwnd as f64 + part;
        if !self.is_tie {
            near("cwnd", window, self.cwnd, 0.6 + part + 1e-4 * self.cwnd);
            near("W_max", real.w_max as f64, self.w_max, 1.0);
            near("cwnd_prior", real.cwnd_prior as f64, self.cwnd_prior, 1.0);
            assert!(real.slow_start.ssthresh().abs_diff(self.slow_start.ssthresh()) <= 1);
        }
        assert_eq!(real.epoch.is_some(), self.epoch.is_some());
        if let (Some(epoch), Some(stage)) = (real.epoch, &mut self.epoch) {
            // A remainder of one window counts otherwise in another.
            let part = epoch.w_est_part as f64 / conn.cwnd as f64;
            let w_est = epoch.w_est as f64 + part;
            if !self.is_tie {
                near("K", epoch.k as f64 / f64::from(1 << TIME_BITS), stage.k, 1e-3);
                near("W_est", w_est, stage.w_est, 0.1 + part + 1e-5 * w_est);
                near("start", seconds(epoch.start, stage.start), 0.0, 1e-9);
            }
            *stage = Stage { w_est, k: epoch.k as f64 / f64::from(1 << TIME_BITS), ..*stage };
        }
        assert!(real.slow_start.ssthresh() == INFINITE || conn.cwnd >= conn.timeout_window());
        self.cwnd = window;
        (self.w_max, self.cwnd_prior) = (real.w_max as f64, real.cwnd_prior as f64);
        self.slow_start = real.slow_start.clone();
        self.is_tie = false;
    }
}

static CHECKED: CustomAlgorithm = CustomAlgorithm {
    name: "cubic-and-its-formulas",
    new: &|conn, now, config| {
        let model = Formulas::new(conn);
        Box::new(Checked { real: Cubic::new(conn, now, config, CubicOptions::new()), model })
    },
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each call the window, W_max, K and W_est are those of the RFC's figures.
    #[test]
    fn the_window_is_that_of_the_formulas(
        mbit in 1u64..30,
        rtt_ms in 1u64..200,
        history in events(),
    ) {
        oracle::run(&CHECKED, mbit, MS.times(rtt_ms), Config::new(1), &history);
    }

    /// Figure 1 at any distance from the plateau, with packets of any size: near it 64 bits are
    /// enough, elsewhere not.
    #[test]
    fn the_curve_is_that_of_the_figure(
        k_ms in 0u64..100_000,
        t_ms in 0u64..200_000,
        smss in prop_oneof![Just(1_200u64), 1..1u64 << 18],
        w_max in 1u64..1 << 40,
    ) {
        let ticks = |ms: u64| (ms << TIME_BITS) / 1_000;
        let (k, t) = (ticks(k_ms), ticks(t_ms));
        let epoch =
            Epoch { start: Instant::default(), k, w_max, w_est: 0, w_est_part: 0, cwnd_part: 0 };
        let seconds = (t as f64 - k as f64) / f64::from(1 << TIME_BITS);
        let expected = (0.4 * seconds.powi(3) * smss as f64 + w_max as f64).max(0.0);
        near("W_cubic", epoch.w_cubic(t, smss) as f64, expected, 2.0 + 1e-9 * expected);
    }
}
