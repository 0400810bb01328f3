//! Linux's CUBIC beside a plain model of net/ipv4/tcp_cubic.c, written by its functions, with what
//! this crate says it does otherwise.

use std::boxed::Box;

use proptest::prelude::*;

use super::LinuxCubic;
use crate::algo::{Congestion, CongestionControl};
use crate::config::{Config, Transport};
use crate::conn::{Conn, INFINITE};
use crate::custom::CustomAlgorithm;
use crate::options::CubicOptions;
use crate::oracle::{self, Checked, Model, events};
use crate::sampler::RateSample;
use crate::snapshot::{Snapshot, State};
use crate::test_link::MS;
use crate::units::{Duration, Gain, Instant};

/// struct bictcp, and what it needs of struct tcp_sock. Windows are segments, but for those that
/// outlive a change of the segment size, which are bytes.
#[derive(Clone, Debug)]
struct Bictcp {
    cnt: u64,
    last_max_bytes: u64,
    last_cwnd: u64,
    last_time: Instant,
    origin_point: u64,
    k: u64,
    delay_min: Option<Duration>,
    epoch_start: Option<Instant>,
    ack_cnt: u64,
    tcp_cwnd: u64,
    hystart: Hystart,
    ssthresh: Option<u64>,
    cwnd_cnt: u64,
    bytes_acked: u64,
    newest_ack: Option<Instant>,
    prior: Option<(u64, Option<u64>)>,
}

#[derive(Clone, Debug)]
struct Hystart {
    found: bool,
    round_start: Instant,
    end_seq: u64,
    last_ack: Instant,
    curr_rtt: Option<Duration>,
    sample_cnt: u32,
}

impl Hystart {
    /// bictcp_hystart_reset().
    const fn reset(now: Instant, end_seq: u64) -> Self {
        let (round_start, last_ack) = (now, now);
        Self { found: false, round_start, end_seq, last_ack, curr_rtt: None, sample_cnt: 0 }
    }
}

impl Bictcp {
    /// bictcp_reset().
    const fn reset(now: Instant) -> Self {
        Self {
            cnt: 2,
            last_max_bytes: 0,
            last_cwnd: 0,
            last_time: now,
            origin_point: 0,
            k: 0,
            delay_min: None,
            epoch_start: None,
            ack_cnt: 0,
            tcp_cwnd: 0,
            hystart: Hystart::reset(now, 0),
            ssthresh: None,
            cwnd_cnt: 0,
            bytes_acked: 0,
            newest_ack: None,
            prior: None,
        }
    }

    fn is_in_slow_start(&self, conn: &Conn) -> bool {
        self.ssthresh.is_none_or(|ssthresh| conn.cwnd < ssthresh)
    }

    /// tcp_update_pacing_rate().
    fn pace(&self, conn: &mut Conn) {
        let doubles = conn.cwnd < self.ssthresh.unwrap_or(INFINITE) / 2;
        conn.pace_by_window(Gain::percent(if doubles { 200 } else { 120 }));
    }

    /// hystart_update().
    fn hystart_update(&mut self, conn: &Conn, rs: &RateSample, rtt: Duration, min: Duration) {
        let (now, cwnd) = (rs.now, conn.cwnd);
        if rs.prior_delivered >= self.hystart.end_seq {
            self.hystart = Hystart::reset(now, conn.delivered());
        }
        let hystart = &mut self.hystart;
        if cwnd < 16 * conn.smss {
            return;
        }
        let min_us = min.as_nanos() as f64 / 1e3;
        if now.since(hystart.last_ack) <= Duration::from_micros(2_000) {
            hystart.last_ack = now;
            // hystart_ack_delay(), at the rate of two windows in a round trip.
            let srtt_us = conn.srtt().map_or(0.0, |srtt| srtt.as_nanos() as f64 / 1e3);
            let delay_us = (4.0 * 65_536.0 / (2.0 * cwnd as f64) * srtt_us).min(1_000.0);
            let part = if conn.is_paced { 1.0 } else { 0.5 };
            let length_us = now.since(hystart.round_start).as_nanos() as f64 / 1e3;
            hystart.found |= length_us > part * (min_us + delay_us) + 0.01;
        }
        hystart.curr_rtt = Some(hystart.curr_rtt.map_or(rtt, |least| least.min(rtt)));
        if hystart.sample_cnt < 8 {
            hystart.sample_cnt += 1;
        } else {
            let least_us = hystart.curr_rtt.map_or(0.0, |rtt| rtt.as_nanos() as f64 / 1e3);
            hystart.found |= least_us > min_us + (min_us / 8.0).clamp(4_000.0, 16_000.0) + 0.001;
        }
        if hystart.found {
            self.ssthresh = Some(cwnd);
        }
    }

    /// cubictcp_acked().
    fn acked(&mut self, conn: &Conn, rs: &RateSample) {
        let Some(rtt) = rs.rtt() else { return };
        if self.epoch_start.is_some_and(|start| rs.now.since(start) < Duration::from_secs(1)) {
            return;
        }
        let min = self.delay_min.map_or(rtt, |min| min.min(rtt));
        self.delay_min = Some(min);
        if !self.hystart.found && self.is_in_slow_start(conn) {
            self.hystart_update(conn, rs, rtt, min);
        }
    }

    /// bictcp_update().
    fn update(&mut self, now: Instant, cwnd: u64, acked: u64, smss: u64) {
        self.ack_cnt += acked;
        if self.last_cwnd == cwnd && 32 * now.since(self.last_time).as_nanos() <= 1_000_000_000 {
            return;
        }
        (self.last_cwnd, self.last_time) = (cwnd, now);
        let last_max = self.last_max_bytes / smss;
        let start = *self.epoch_start.get_or_insert_with(|| {
            (self.ack_cnt, self.tcp_cwnd) = (acked, cwnd);
            (self.k, self.origin_point) = (0, cwnd);
            if last_max > cwnd {
                let distance = (last_max - cwnd) as f64;
                self.k = ((1u64 << 40) as f64 / 410.0 * distance).cbrt() as u64;
                self.origin_point = last_max;
            }
            now
        });
        let time = now.since(start) + self.delay_min.unwrap_or_default();
        let t = u128::from(time.as_nanos()) * 1_024 / 1_000_000_000;
        let offs = t.abs_diff(u128::from(self.k));
        let delta = (410 * offs * offs * offs) >> 40;
        let (origin, cwnd) = (u128::from(self.origin_point), u128::from(cwnd));
        let target = if t < u128::from(self.k) { origin - delta } else { origin + delta };
        let mut cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if last_max == 0 {
            cnt = cnt.min(20);
        }
        // The window of Reno.
        let delta = (cwnd as u64 * 15 / 8).max(1);
        while self.ack_cnt > delta {
            self.ack_cnt -= delta;
            self.tcp_cwnd += 1;
        }
        let cwnd = cwnd as u64;
        if self.tcp_cwnd > cwnd {
            cnt = cnt.min((cwnd / (self.tcp_cwnd - cwnd)).into());
        }
        self.cnt = cnt.max(2) as u64;
    }

    /// cubictcp_cong_avoid() with tcp_slow_start() and tcp_cong_avoid_ai(). In slow start a window
    /// that was not full may grow as well.
    fn cong_avoid(&mut self, conn: &mut Conn, rs: &RateSample, mut acked: u64) {
        let is_limited = conn.may_grow(rs);
        let mut cwnd = conn.cwnd / conn.smss;
        if self.is_in_slow_start(conn) {
            let ssthresh = self.ssthresh.map_or(INFINITE, |bytes| bytes.div_ceil(conn.smss));
            let more = acked.min(ssthresh - cwnd);
            acked -= more;
            cwnd = cwnd.max(conn.grown_in_slow_start(rs, more * conn.smss) / conn.smss);
        } else if !is_limited {
            return;
        }
        if acked > 0 && is_limited {
            self.update(rs.now, cwnd, acked, conn.smss);
            if self.cwnd_cnt >= self.cnt {
                self.cwnd_cnt = 0;
                cwnd += 1;
            }
            self.cwnd_cnt += acked;
            while self.cwnd_cnt >= self.cnt {
                self.cwnd_cnt -= self.cnt;
                cwnd += 1;
            }
        }
        conn.cwnd = cwnd * conn.smss;
    }
}

impl CongestionControl for Bictcp {
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.acked(conn, rs);
        self.newest_ack = Some(rs.now);
        self.bytes_acked += rs.newly_acked_after_recovery;
        let acked = self.bytes_acked / conn.smss;
        self.bytes_acked -= acked * conn.smss;
        if acked > 0 {
            self.cong_avoid(conn, rs, acked);
        }
        self.pace(conn);
    }

    /// cubictcp_cwnd_event_tx_start().
    fn on_pause(&mut self, _: &mut Conn, now: Instant) {
        if let (Some(start), Some(last)) = (&mut self.epoch_start, self.newest_ack) {
            *start += now.since(last);
        }
        self.newest_ack = Some(now);
    }

    /// cubictcp_recalc_ssthresh().
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if !congestion.new_episode {
            return;
        }
        self.prior = Some((conn.cwnd, self.ssthresh));
        self.epoch_start = None;
        let cwnd = conn.cwnd / conn.smss;
        let converges = cwnd < self.last_max_bytes / conn.smss;
        let last_max = if converges { cwnd * (1_024 + 717) / 2_048 } else { cwnd };
        self.last_max_bytes = last_max * conn.smss;
        conn.cwnd = (cwnd * 717 / 1_024).max(2) * conn.smss;
        self.ssthresh = Some(conn.cwnd);
        self.pace(conn);
    }

    /// cubictcp_state() to TCP_CA_Loss.
    fn on_rto(&mut self, conn: &mut Conn) {
        conn.note_timeout_answered();
        conn.cwnd = conn.timeout_window();
        let (ssthresh, prior) = (self.ssthresh, self.prior);
        *self = Self { ssthresh, prior, ..Self::reset(self.newest_ack.unwrap_or_default()) };
        self.pace(conn);
    }

    /// tcp_undo_cwnd_reduction().
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            conn.cwnd = conn.cwnd.max(cwnd);
            self.ssthresh = ssthresh.and_then(|before| self.ssthresh.map(|now| now.max(before)));
            self.pace(conn);
        }
    }

    /// tcp_cwnd_restart(), with tcp_current_ssthresh().
    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        if cwnd < conn.cwnd {
            let known = conn.cwnd - conn.cwnd / 4;
            self.ssthresh = self.ssthresh.map(|ssthresh| ssthresh.max(known));
            conn.cwnd = cwnd.max(conn.smss);
            self.pace(conn);
        }
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "bictcp", State::SlowStart)
    }
}

impl Model<LinuxCubic> for Bictcp {
    fn agree(&mut self, real: &LinuxCubic, conn: &Conn, expected: &Conn) {
        assert_eq!(real.ssthresh, self.ssthresh.unwrap_or(INFINITE));
        assert_eq!(real.plateau, self.last_max_bytes);
        assert_eq!(real.delay_min, self.delay_min.unwrap_or(Duration::MAX));
        assert_eq!(real.hystart.found, self.hystart.found);
        assert_eq!(real.stage.map(|stage| stage.start), self.epoch_start);
        if let Some(stage) = real.stage {
            assert!(stage.k.abs_diff(self.k) <= 1, "{} ticks, expected {}", stage.k, self.k);
            assert_eq!(stage.origin, self.origin_point);
            assert_eq!((stage.reno, stage.acked), (self.tcp_cwnd, self.ack_cnt));
        }
        assert_eq!((real.each, real.acked, real.acked_bytes), {
            // A tick of K is decided by rounding.
            let is_same = real.stage.is_none_or(|stage| stage.k == self.k);
            (if is_same { self.cnt } else { real.each }, self.cwnd_cnt, self.bytes_acked)
        });
        self.k = real.stage.map_or(0, |stage| stage.k);
        self.cnt = real.each;
        assert_eq!(conn.cwnd, expected.cwnd);
        assert_eq!(conn.pacing_rate, expected.pacing_rate);
        assert_eq!(conn.send_quantum, expected.send_quantum);
    }
}

static CHECKED: CustomAlgorithm = CustomAlgorithm {
    name: "cubic-and-bictcp",
    new: &|conn, now, config| {
        let real = LinuxCubic::new(conn, now, config, CubicOptions::new());
        Box::new(Checked { real, model: Bictcp::reset(now) })
    },
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each call window, threshold and stage are those of Linux.
    #[test]
    fn each_step_is_that_of_linux(
        mbit in 1u64..30,
        // Below 10 ms the ACKs of the first window are a train.
        rtt_ms in prop_oneof![1u64..10, 1u64..200],
        is_tcp: bool,
        paced: bool,
        history in events(),
    ) {
        let transport = if is_tcp { Transport::Tcp } else { Transport::Quic };
        let config = Config { transport, paced, ..Config::new(1) };
        oracle::run(&CHECKED, mbit, MS.times(rtt_ms), config, &history);
    }
}
