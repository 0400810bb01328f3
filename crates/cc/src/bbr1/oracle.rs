//! BBRv1 beside a plain model of Linux's net/ipv4/tcp_bbr.c, written by its functions, with what
//! this crate says it does otherwise.

mod estimates;

use std::boxed::Box;
use std::vec::Vec;

use proptest::prelude::*;

use self::estimates::{Extra, LongTerm};
use super::window::Conservation;
use super::{Bbr1, Conserved};
use crate::algo::{Congestion, CongestionControl};
use crate::config::{Config, Transport};
use crate::conn::Conn;
use crate::custom::CustomAlgorithm;
use crate::options::Bbr1Options;
use crate::oracle::{self, Checked, Event, Model, events};
use crate::sampler::{PacketState, RateSample};
use crate::snapshot::{Snapshot, State};
use crate::test_link::MS;
use crate::units::{Duration, Instant, Rate};

/// struct bbr, in bytes and bytes a second. A gain is a number of 256ths.
#[derive(Clone, Debug)]
struct Linux {
    mode: State,
    min_rtt: Option<Duration>,
    min_rtt_stamp: Instant,
    probe_rtt_done: Option<Instant>,
    probe_rtt_round_done: bool,
    /// The samples of the last rounds, and the largest as of the newest.
    samples: Vec<(u64, u64)>,
    max_bw: u64,
    rtt_cnt: u64,
    next_rtt_delivered: u64,
    round_start: bool,
    cycle_idx: usize,
    cycle_mstamp: Instant,
    last_ack: Instant,
    idle_restart: bool,
    has_seen_rtt: bool,
    full_bw: u64,
    full_bw_cnt: u32,
    full_bw_reached: bool,
    prior_cwnd: u64,
    recovers: bool,
    loses_in_recovery: bool,
    conserves: bool,
    enters: bool,
    conserve_from: u64,
    held_back: Conserved,
    has_counted_held_back: bool,
    lost: u64,
    newly_lost: u64,
    lt: LongTerm,
    aggregation: Option<Extra>,
    /// The sample of the ACK at hand.
    sample: Option<RateSample>,
}

fn volume(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * u128::from(time.as_nanos()) / 1_000_000_000) as u64
}

fn gained(gain: u64, bytes: u64) -> u64 {
    (u128::from(bytes) * u128::from(gain) / 256) as u64
}

const HIGH_GAIN: u64 = 2885 * 256 / 1000 + 1;
const UNIT: u64 = 256;

impl Linux {
    fn new(conn: &Conn, now: Instant, options: Bbr1Options) -> Self {
        Self {
            mode: State::Startup,
            min_rtt: conn.srtt(),
            min_rtt_stamp: now,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            samples: Vec::new(),
            max_bw: 0,
            rtt_cnt: 0,
            next_rtt_delivered: 0,
            round_start: false,
            cycle_idx: 0,
            cycle_mstamp: now,
            last_ack: now,
            idle_restart: false,
            has_seen_rtt: conn.srtt().is_some(),
            full_bw: 0,
            full_bw_cnt: 0,
            full_bw_reached: false,
            prior_cwnd: 0,
            recovers: false,
            loses_in_recovery: false,
            conserves: false,
            enters: false,
            conserve_from: 0,
            held_back: Conserved::No,
            has_counted_held_back: false,
            lost: 0,
            newly_lost: 0,
            lt: LongTerm::new(now),
            aggregation: options.ack_aggregation().then(|| Extra::new(now)),
            sample: None,
        }
    }

    /// bbr_bw().
    fn bw(&self) -> u64 {
        if self.lt.use_bw { self.lt.bw.unwrap_or(0) } else { self.max_bw }
    }

    fn pacing_gain(&self) -> u64 {
        match self.mode {
            State::Startup => HIGH_GAIN,
            State::Drain => UNIT * 1000 / 2885,
            State::ProbeBw if self.lt.use_bw => UNIT,
            State::ProbeBw => [UNIT * 5 / 4, UNIT * 3 / 4].get(self.cycle_idx).map_or(UNIT, |g| *g),
            _ => UNIT,
        }
    }

    fn cwnd_gain(&self) -> u64 {
        match self.mode {
            State::Startup | State::Drain => HIGH_GAIN,
            State::ProbeBw => 2 * UNIT,
            _ => UNIT,
        }
    }

    /// bbr_bdp().
    fn bdp(&self, conn: &Conn, bw: u64, gain: u64) -> u64 {
        self.min_rtt.map_or(conn.initial_cwnd, |rtt| gained(gain, volume(bw, rtt)))
    }

    /// bbr_quantization_budget(). QUIC has one quantum that is not in the network.
    fn budget(&self, conn: &Conn, cwnd: u64) -> u64 {
        let quanta = if conn.transport == Transport::Tcp { 3 } else { 1 };
        let cwnd = cwnd + quanta * conn.send_quantum;
        let even = cwnd.div_ceil(2 * conn.smss) * 2 * conn.smss;
        let probes = self.mode == State::ProbeBw && self.cycle_idx == 0;
        even + if probes { 2 * conn.smss } else { 0 }
    }

    fn inflight(&self, conn: &Conn, bw: u64, gain: u64) -> u64 {
        self.budget(conn, self.bdp(conn, bw, gain))
    }

    /// bbr_save_cwnd().
    fn save_cwnd(&mut self, conn: &Conn) {
        let is_low = self.recovers || self.mode == State::ProbeRtt;
        self.prior_cwnd = if is_low { self.prior_cwnd.max(conn.cwnd) } else { conn.cwnd };
    }

    /// bbr_init_pacing_rate_from_rtt().
    fn init_pacing_rate(&self, conn: &mut Conn) {
        let rtt = conn.srtt().unwrap_or(MS);
        let bw = Rate::from_volume(conn.initial_cwnd, rtt).as_bytes_per_sec();
        self.pace(conn, gained(HIGH_GAIN, bw) * 99 / 100);
    }

    fn pace(&self, conn: &mut Conn, rate: u64) {
        conn.set_pacing_rate(Rate::from_bytes_per_sec(rate));
    }

    /// bbr_set_pacing_rate().
    fn set_pacing_rate(&mut self, conn: &mut Conn, gain: u64) {
        let rate = gained(gain, self.bw()) * 99 / 100;
        let rises = rate > conn.pacing_rate.as_bytes_per_sec();
        if rate > 0 && (self.full_bw_reached || rises) {
            self.pace(conn, rate);
        }
    }

    fn reset_probe_bw_mode(&mut self) {
        self.mode = State::ProbeBw;
        // The phase is the generator's: it is taken over from the real one.
        self.cycle_idx = usize::MAX;
        self.cycle_mstamp = self.last_ack;
    }

    /// bbr_update_bw().
    fn update_bw(&mut self, conn: &Conn, rs: &RateSample) {
        self.round_start = rs.prior_delivered >= self.next_rtt_delivered;
        if self.round_start {
            self.next_rtt_delivered = conn.delivered();
            self.rtt_cnt += 1;
            (self.conserves, self.enters) = (false, false);
        }
        self.lt_bw_sampling(conn, rs.is_app_limited);
        let bw = rs.delivery_rate.as_bytes_per_sec();
        if bw > 0 && (!rs.is_app_limited || bw >= self.max_bw) {
            let oldest = self.rtt_cnt.saturating_sub(9);
            self.samples.retain(|(round, _)| *round >= oldest);
            self.samples.push((self.rtt_cnt, bw));
            self.max_bw = self.samples.iter().map(|(_, bw)| *bw).max().unwrap_or(0);
        }
    }

    /// bbr_update_cycle_phase() and bbr_is_next_cycle_phase(). A target is reached where no other
    /// packet fits below it.
    fn update_cycle_phase(&mut self, conn: &Conn, rs: &RateSample) {
        if self.mode != State::ProbeBw || self.cycle_idx == usize::MAX {
            return;
        }
        let min_rtt = self.min_rtt.unwrap_or(Duration::MAX);
        let is_full_length = rs.now.since(self.cycle_mstamp) > min_rtt;
        let gain = self.pacing_gain();
        let is_next = if gain == UNIT {
            is_full_length
        } else if gain > UNIT {
            let target = self.inflight(conn, self.max_bw, gain);
            is_full_length && (self.newly_lost > 0 || rs.prior_inflight + conn.smss > target)
        } else {
            is_full_length || rs.prior_inflight <= self.inflight(conn, self.max_bw, UNIT)
        };
        if is_next {
            self.cycle_idx = (self.cycle_idx + 1) & 7;
            self.cycle_mstamp = rs.now;
        }
    }

    /// bbr_check_full_bw_reached(). A round that was held back for losses that were none does not
    /// count.
    fn check_full_bw_reached(&mut self, rs: &RateSample) {
        if !self.round_start {
            return;
        }
        let held_back = core::mem::replace(&mut self.held_back, Conserved::No);
        if self.full_bw_reached || rs.is_app_limited || rs.delivery_rate == Rate::ZERO {
            return;
        }
        if self.max_bw == 0 {
            return;
        }
        if self.max_bw >= gained(UNIT * 5 / 4, self.full_bw) {
            self.full_bw = self.max_bw;
            self.full_bw_cnt = 0;
            self.has_counted_held_back = false;
        } else if held_back != Conserved::ForNothing {
            self.has_counted_held_back = held_back == Conserved::Yes;
            self.full_bw_cnt += 1;
            self.full_bw_reached = self.full_bw_cnt >= 3;
        }
    }

    /// bbr_check_drain().
    fn check_drain(&mut self, conn: &Conn) {
        if self.mode == State::Startup && self.full_bw_reached {
            self.mode = State::Drain;
        }
        if self.mode == State::Drain && conn.inflight <= self.inflight(conn, self.max_bw, UNIT) {
            self.reset_probe_bw_mode();
        }
    }

    /// bbr_check_probe_rtt_done() and bbr_reset_mode().
    fn check_probe_rtt_done(&mut self, conn: &mut Conn, now: Instant) {
        if self.probe_rtt_done.is_some_and(|done| now > done) {
            self.min_rtt_stamp = now;
            conn.cwnd = conn.cwnd.max(self.prior_cwnd);
            if self.full_bw_reached {
                self.reset_probe_bw_mode();
            } else {
                self.mode = State::Startup;
            }
        }
    }

    /// bbr_update_min_rtt().
    fn update_min_rtt(&mut self, conn: &mut Conn, rs: &RateSample) {
        let is_expired = rs.now > self.min_rtt_stamp + Duration::from_secs(10);
        if let Some(rtt) = rs.rtt()
            && (self.min_rtt.is_none_or(|min| rtt < min) || is_expired)
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_stamp = rs.now;
        }
        if is_expired && !self.idle_restart && self.mode != State::ProbeRtt {
            self.save_cwnd(conn);
            self.mode = State::ProbeRtt;
            self.probe_rtt_done = None;
        }
        if self.mode == State::ProbeRtt {
            conn.sampler.mark_app_limited(conn.inflight);
            if self.probe_rtt_done.is_none() && conn.inflight <= 4 * conn.smss {
                self.probe_rtt_done = Some(rs.now + Duration::from_millis(200));
                self.probe_rtt_round_done = false;
                self.next_rtt_delivered = conn.delivered();
            } else if self.probe_rtt_done.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(conn, rs.now);
                }
            }
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// bbr_tso_segs_goal(): a millisecond, of two packets from 1.2 Mbit/s on.
    fn set_send_quantum(&self, conn: &mut Conn) {
        let rate = conn.pacing_rate.as_bytes_per_sec();
        let least = if rate < 1_200_000 / 8 { 1 } else { 2 };
        conn.send_quantum = (rate / 1_000).min(65_536).max(least * conn.smss);
    }

    /// bbr_set_cwnd() and bbr_set_cwnd_to_recover_or_restore().
    fn set_cwnd(&mut self, conn: &mut Conn, rs: &RateSample) {
        conn.cwnd = conn.cwnd.saturating_sub(self.newly_lost).max(conn.smss);
        if self.enters {
            (self.enters, self.conserves) = (false, true);
            self.conserve_from = self.rtt_cnt + 2;
            self.next_rtt_delivered = conn.delivered();
            conn.cwnd = conn.inflight + rs.newly_acked;
        } else if self.conserves {
            conn.cwnd = conn.cwnd.max(conn.inflight + rs.newly_acked);
        } else {
            let bdp = self.bdp(conn, self.bw(), self.cwnd_gain());
            let target = self.budget(conn, bdp + self.ack_aggregation_cwnd());
            if self.full_bw_reached {
                conn.cwnd = (conn.cwnd + rs.newly_acked).min(target);
            } else if conn.cwnd < target || conn.delivered() < conn.initial_cwnd {
                conn.cwnd += rs.newly_acked;
            }
            conn.cwnd = conn.cwnd.max(4 * conn.smss);
        }
        conn.cwnd = conn.cwnd.max(conn.smss);
        if self.mode == State::ProbeRtt {
            conn.cwnd = conn.cwnd.min(4 * conn.smss);
        }
    }

    /// bbr_set_state() to TCP_CA_Open.
    fn leave_recovery(&mut self, conn: &mut Conn) {
        if core::mem::take(&mut self.recovers) {
            self.loses_in_recovery = false;
            (self.conserves, self.enters) = (false, false);
            if self.mode != State::ProbeRtt {
                conn.cwnd = conn.cwnd.max(self.prior_cwnd);
            }
        }
    }
}

impl CongestionControl for Linux {
    fn on_packet_lost(&mut self, _: &Conn, packet: &PacketState) {
        self.lost += packet.size();
        self.newly_lost += packet.size();
    }

    /// bbr_main().
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.last_ack = rs.now;
        self.update_bw(conn, rs);
        self.update_ack_aggregation(conn, rs);
        self.update_cycle_phase(conn, rs);
        self.check_full_bw_reached(rs);
        self.check_drain(conn);
        self.update_min_rtt(conn, rs);
        if !self.has_seen_rtt && conn.srtt().is_some() {
            self.has_seen_rtt = true;
            self.init_pacing_rate(conn);
        }
        self.sample = Some(*rs);
    }

    fn on_enter_recovery(&mut self, conn: &mut Conn) {
        self.save_cwnd(conn);
        self.recovers = true;
    }

    fn on_exit_recovery(&mut self, conn: &mut Conn) {
        self.leave_recovery(conn);
    }

    /// The first loss of a recovery, but none in the round after one of conservation.
    fn on_congestion(&mut self, _: &mut Conn, _: &Congestion<'_>) {
        let begins = self.recovers && self.newly_lost > 0 && !self.loses_in_recovery;
        if begins && self.rtt_cnt >= self.conserve_from {
            self.loses_in_recovery = true;
            (self.enters, self.conserves) = (true, false);
            self.held_back = Conserved::Yes;
            self.has_counted_held_back = false;
        }
    }

    /// bbr_set_state() to TCP_CA_Loss.
    fn on_rto(&mut self, conn: &mut Conn) {
        self.save_cwnd(conn);
        self.full_bw = 0;
        self.round_start = true;
        self.newly_lost = self.newly_lost.max(1);
        self.lt_bw_sampling(conn, false);
        self.newly_lost = 0;
        (self.conserves, self.enters) = (false, false);
        self.loses_in_recovery = true;
        conn.cwnd = conn.inflight + conn.smss;
    }

    /// bbr_undo_cwnd(); the rounds that nothing held back count.
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if self.held_back == Conserved::Yes {
            self.held_back = Conserved::ForNothing;
        }
        if core::mem::take(&mut self.has_counted_held_back) && !self.full_bw_reached {
            self.full_bw_cnt -= 1;
        }
        self.lt_reset();
        self.leave_recovery(conn);
    }

    /// bbr_cwnd_event() of CA_EVENT_TX_START.
    fn on_restart_from_idle(&mut self, conn: &mut Conn, now: Instant) {
        self.idle_restart = true;
        if let Some(extra) = &mut self.aggregation {
            extra.begin_epoch(now);
        }
        if self.mode == State::ProbeBw {
            self.set_pacing_rate(conn, UNIT);
        } else if self.mode == State::ProbeRtt {
            self.check_probe_rtt_done(conn, now);
        }
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "linux", self.mode)
    }
}

/// The model of one call, and the control parameters that follow once the phase of the cycle is
/// known.
impl Model<Bbr1> for Linux {
    fn agree(&mut self, real: &Bbr1, conn: &Conn, expected: &Conn) {
        if self.cycle_idx == usize::MAX {
            assert!(real.cycle_index < 8 && real.cycle_index != 1, "no queue is to be drained");
            self.cycle_idx = real.cycle_index;
        }
        assert_eq!((real.state, real.cycle_index), (self.mode, self.cycle_idx));
        assert_eq!(real.cycle_stamp, self.cycle_mstamp);
        assert_eq!(real.round.count, self.rtt_cnt);
        assert_eq!(real.bw().as_bytes_per_sec(), self.bw());
        assert_eq!(real.max_bw().as_bytes_per_sec(), self.max_bw);
        assert_eq!(real.min_rtt, self.min_rtt.unwrap_or(Duration::MAX));
        assert_eq!(real.min_rtt_stamp, self.min_rtt_stamp);
        assert_eq!(real.full_bw.as_bytes_per_sec(), self.full_bw);
        assert_eq!(real.full_bw_count, self.full_bw_cnt);
        assert_eq!(real.full_bw_reached, self.full_bw_reached);
        assert_eq!(real.idle_restart, self.idle_restart);
        assert_eq!(real.prior_cwnd, self.prior_cwnd);
        assert_eq!(real.probe_rtt_done_stamp, self.probe_rtt_done);
        assert_eq!(real.extra_acked(), self.ack_aggregation_cwnd());
        assert_eq!(real.policer.is_active(), self.lt.use_bw || self.lt.is_sampling);
        assert_eq!(conn.sampler.is_app_limited(), expected.sampler.is_app_limited());
        let mut expected = expected.clone();
        if let Some(rs) = self.sample.take() {
            self.set_pacing_rate(&mut expected, self.pacing_gain());
            self.set_send_quantum(&mut expected);
            self.set_cwnd(&mut expected, &rs);
            self.newly_lost = 0;
        }
        assert_eq!(conn.pacing_rate, expected.pacing_rate);
        assert_eq!(conn.send_quantum, expected.send_quantum);
        assert_eq!(conn.cwnd, expected.cwnd);
        assert_eq!(real.conservation == Conservation::On, self.conserves);
        assert_eq!(real.conservation == Conservation::Entering, self.enters);
        assert_eq!(real.round.next_delivered, self.next_rtt_delivered);
    }
}

static CHECKED: CustomAlgorithm = CustomAlgorithm {
    name: "bbr1-and-linux",
    new: &|conn, now, config| {
        let options = Bbr1Options::new();
        let real = Bbr1::new(conn, now, config, options);
        let model = Linux::new(conn, now, options);
        Box::new(Checked { real, model })
    },
};

/// A Startup with losses, of which many turn out to be none.
fn reordered_startup() -> impl Strategy<Value = Vec<Event>> {
    let turn = (2u64..40, 1u64..150, 0u64..200)
        .prop_map(|(n, ms, then)| [Event::Losses(n, ms), Event::Bulk(then), Event::Spurious]);
    prop::collection::vec(turn, 1..8).prop_map(|turns| turns.concat())
}

/// A flow that is in ProbeRTT when its application pauses.
fn pause_in_probe_rtt() -> impl Strategy<Value = Vec<Event>> {
    (10_000u64..10_600, 1u64..600).prop_map(|(ms, pause)| {
        [Event::Bulk(ms), Event::Pause(pause, None), Event::Bulk(500)].into()
    })
}

/// Much loss, at a steady rate or not, with rounds between that lose nothing.
fn policed() -> impl Strategy<Value = Vec<Event>> {
    let turn = prop_oneof![
        3 => (2u64..8, 2u64..60, 5u64..80)
            .prop_map(|(part, burst, rounds)| Event::Policer(part, burst, rounds)),
        2 => (2u64..6, 1u64..400).prop_map(|(n, ms)| Event::Losses(n, ms)),
        2 => (1u64..400).prop_map(Event::Bulk),
        1 => (1u64..200).prop_map(|ms| Event::Pause(ms, None)),
        1 => (1u64..300).prop_map(Event::Timeout),
    ];
    prop::collection::vec(turn, 2..10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each call state, model and control parameters are those of Linux.
    #[test]
    fn each_step_is_that_of_linux(
        mbit in 1u64..30,
        rtt_ms in 1u64..150,
        is_tcp: bool,
        handshake: bool,
        history in prop_oneof![
            3 => events(),
            1 => reordered_startup(),
            1 => pause_in_probe_rtt(),
            1 => policed(),
        ],
    ) {
        let rtt = MS.times(rtt_ms);
        let config = Config {
            transport: if is_tcp { Transport::Tcp } else { Transport::Quic },
            handshake_rtt: handshake.then_some(rtt),
            ..Config::new(1)
        };
        oracle::run(&CHECKED, mbit, rtt, config, &history);
    }
}
