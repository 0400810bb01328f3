//! BBRv3 beside a plain model of draft-ietf-ccwg-bbr, written by its functions, with what this
//! crate says it does otherwise.

mod aggregation;
mod probe_bw;
mod probe_rtt;
mod startup;

use std::boxed::Box;
use std::vec::Vec;

use proptest::prelude::*;

use self::aggregation::Aggregation;
use self::probe_bw::Phase;
use super::{Bbr3, Draft};
use crate::algo::{Congestion, CongestionControl};
use crate::config::{AckFrequency, Config, Transport};
use crate::conn::Conn;
use crate::custom::CustomAlgorithm;
use crate::options::Bbr3Options;
use crate::oracle::{self, Checked, Event, Model, events};
use crate::rng::Rng;
use crate::sampler::{PacketIndex, PacketState, RateSample};
use crate::snapshot::{Snapshot, State};
use crate::test_link::MS;
use crate::units::{Duration, Instant, Rate};

const INFINITY: u64 = u64::MAX;

/// BBR.*, in bytes and bytes a second. A gain is a number of hundredths.
#[derive(Clone, Debug)]
struct Plain {
    state: State,
    round_count: u64,
    round_start: bool,
    next_round_delivered: u64,
    idle_restart: bool,
    has_seen_rtt: bool,
    /// The maximum of each cycle.
    cycles: Vec<u64>,
    max_bw: u64,
    bw: u64,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    min_rtt: Option<Duration>,
    min_rtt_stamp: Instant,
    probe_rtt_min_delay: Option<Duration>,
    probe_rtt_min_stamp: Option<Instant>,
    probe_rtt_expired: bool,
    probe_rtt_done_stamp: Option<Instant>,
    probe_rtt_round_done: bool,
    prior_cwnd: u64,
    aggregation: Aggregation,
    extra_acked: u64,
    full_bw_reached: bool,
    full_bw_now: bool,
    full_bw: u64,
    full_bw_count: u32,
    /// A round is judged by the first of its samples that can be.
    is_round_judged: bool,
    drain_start_round: u64,
    bw_latest: u64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    lost_ranges: u32,
    last_lost: Option<PacketIndex>,
    /// Inflight at the loss that was too much, and is_app_limited of it.
    too_high: Option<(u64, bool)>,
    undo_state: Option<State>,
    undo_bw_shortterm: u64,
    undo_inflight_shortterm: u64,
    undo_inflight_longterm: u64,
    probe: Phase,
    /// The sample of the ACK at hand.
    sample: Option<RateSample>,
}

fn volume(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * u128::from(time.as_nanos()) / 1_000_000_000) as u64
}

fn percent(gain: u64, of: u64) -> u64 {
    (u128::from(of) * u128::from(gain) / 100) as u64
}

impl Plain {
    /// OnInit().
    fn new(conn: &Conn, now: Instant, config: &Config) -> Self {
        Self {
            state: State::Startup,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            idle_restart: false,
            has_seen_rtt: conn.srtt().is_some(),
            cycles: [0, 0].into(),
            max_bw: 0,
            bw: 0,
            bw_shortterm: INFINITY,
            inflight_shortterm: INFINITY,
            inflight_longterm: INFINITY,
            min_rtt: conn.srtt(),
            min_rtt_stamp: now,
            probe_rtt_min_delay: conn.srtt(),
            probe_rtt_min_stamp: conn.srtt().map(|_| now),
            probe_rtt_expired: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            prior_cwnd: 0,
            aggregation: Aggregation::new(now),
            extra_acked: 0,
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: 0,
            full_bw_count: 0,
            is_round_judged: true,
            drain_start_round: 0,
            bw_latest: 0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            lost_ranges: 0,
            last_lost: None,
            too_high: None,
            undo_state: None,
            undo_bw_shortterm: 0,
            undo_inflight_shortterm: 0,
            undo_inflight_longterm: 0,
            probe: Phase::new(now, Rng::new(config.seed)),
            sample: None,
        }
    }

    /// "Summary of Control Behavior in the State Machine": the gains of rate and window.
    fn gains(&self) -> (u64, u64) {
        match self.state {
            State::Startup => (277, 200),
            State::Drain => (50, 200),
            State::ProbeBwDown => (90, 200),
            State::ProbeBwCruise | State::ProbeBwRefill => (100, 200),
            State::ProbeBwUp => (125, 225),
            State::ProbeRtt => (100, 50),
            other => panic!("{other:?} is no state of BBR"),
        }
    }

    fn start_round(&mut self, conn: &Conn) {
        self.next_round_delivered = conn.delivered();
    }

    fn update_latest_delivery_signals(&mut self, conn: &Conn, rs: &RateSample) {
        let rate = rs.delivery_rate.as_bytes_per_sec();
        if rate > 0 {
            self.bw_latest = self.bw_latest.max(rate);
            self.inflight_latest = self.inflight_latest.max(rs.delivered);
        }
        self.loss_round_start = rs.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = conn.delivered();
        }
    }

    /// UpdateCongestionSignals(), with UpdateMaxBw() and UpdateRound().
    fn update_congestion_signals(&mut self, conn: &Conn, rs: &RateSample) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(conn);
            self.round_count += 1;
            self.probe.rounds_since_up += 1;
            self.is_round_judged = false;
        }
        let rate = rs.delivery_rate.as_bytes_per_sec();
        if rate > 0 && (rate >= self.max_bw || !rs.is_app_limited) {
            let cycle = self.cycles.last_mut().expect("one");
            *cycle = rate.max(*cycle);
            self.max_bw = self.cycles.iter().rev().take(2).copied().max().unwrap_or(0);
        }
        if self.loss_round_start {
            if self.is_loss_in_round && !self.is_probing_bw() {
                self.loss_lower_bounds(conn);
            }
            self.is_loss_in_round = false;
        }
    }

    /// AdvanceMaxBwFilter(): a cycle without a sample goes on, and a maximum goes at once.
    fn advance_max_bw_filter(&mut self) {
        if let Some(cycle) = self.cycles.last().copied().filter(|cycle| *cycle > 0) {
            self.max_bw = cycle;
            self.cycles.push(0);
        }
    }

    /// InitLowerBounds() and LossLowerBounds(): the rate that was measured is one with the margin.
    fn loss_lower_bounds(&mut self, conn: &Conn) {
        if self.bw_shortterm == INFINITY {
            self.bw_shortterm = self.max_bw;
        }
        if self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = conn.cwnd;
        }
        let without_margin = (u128::from(self.bw_latest) * 100 / 99) as u64;
        let latest = self.bw_latest.max(without_margin.min(self.bw_shortterm));
        self.bw_shortterm = latest.max(percent(70, self.bw_shortterm));
        self.inflight_shortterm = self.inflight_latest.max(percent(70, self.inflight_shortterm));
    }

    fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    fn reset_short_term_model(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (INFINITY, INFINITY);
    }

    /// IsInflightTooHigh().
    fn is_inflight_too_high(&self, conn: &Conn, lost: u64, tx_in_flight: u64) -> bool {
        lost > percent(2, tx_in_flight) || lost > 0 && !conn.has_selective_acks
    }

    /// BDPMultiple().
    fn bdp(&self, conn: &Conn, bw: u64, gain: u64) -> u64 {
        self.min_rtt.map_or(conn.initial_cwnd, |rtt| percent(gain, volume(bw, rtt)))
    }

    /// QuantizationBudget(), with what the receiver may leave unacknowledged.
    fn budget(&self, conn: &Conn, cap: u64) -> u64 {
        let quanta = if conn.transport == Transport::Tcp { 3 } else { 1 };
        let delayed = conn.unacknowledged_by_delay(Rate::from_bytes_per_sec(self.max_bw));
        let cap = cap.max(quanta * conn.send_quantum + delayed).max(4 * conn.smss);
        if self.state == State::ProbeBwUp { cap + 2 * conn.smss } else { cap }
    }

    fn inflight(&self, conn: &Conn, bw: u64, gain: u64) -> u64 {
        self.budget(conn, self.bdp(conn, bw, gain))
    }

    fn save_cwnd(&mut self, conn: &Conn) {
        let is_low = conn.in_recovery() || self.state == State::ProbeRtt;
        self.prior_cwnd = if is_low { self.prior_cwnd.max(conn.cwnd) } else { conn.cwnd };
    }

    /// A packet a second is the least.
    fn pace(&self, conn: &mut Conn, rate: u64) {
        conn.set_pacing_rate(Rate::from_bytes_per_sec(rate.max(conn.smss)));
    }

    fn init_pacing_rate(&self, conn: &mut Conn) {
        let bw = Rate::from_volume(conn.initial_cwnd, conn.srtt().unwrap_or(MS));
        self.pace(conn, percent(277, bw.as_bytes_per_sec()));
    }

    /// SetPacingRateWithGain().
    fn set_pacing_rate(&self, conn: &mut Conn, gain: u64) {
        let rate = percent(99, percent(gain, self.bw));
        let rises = rate > conn.pacing_rate.as_bytes_per_sec();
        if rate > 0 && (self.full_bw_reached || rises) {
            self.pace(conn, rate);
        }
    }

    /// UpdateMaxInflight() and SetCwnd().
    fn set_cwnd(&self, conn: &mut Conn, rs: &RateSample) -> u64 {
        let cap = self.bdp(conn, self.bw, self.gains().1) + self.extra_acked;
        let max_inflight = self.budget(conn, cap);
        if self.full_bw_reached {
            conn.cwnd = (conn.cwnd + rs.newly_acked).min(max_inflight);
        } else if conn.cwnd < max_inflight || conn.delivered() < conn.initial_cwnd {
            conn.cwnd += rs.newly_acked;
        }
        conn.cwnd = conn.cwnd.max(4 * conn.smss);
        if self.state == State::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd(conn));
        }
        // The table has the bound for Drain as well.
        let cap = match self.state {
            State::Startup => INFINITY,
            State::ProbeRtt | State::ProbeBwCruise => self.inflight_with_headroom(conn),
            _ => self.inflight_longterm,
        };
        conn.cwnd = conn.cwnd.min(cap.min(self.inflight_shortterm).max(4 * conn.smss));
        max_inflight
    }
}

impl CongestionControl for Plain {
    /// HandleLostPacket() for one packet.
    fn on_packet_lost(&mut self, conn: &Conn, packet: &PacketState) {
        if !self.last_lost.is_some_and(|last| packet.index().continues(last)) {
            self.lost_ranges += 1;
        }
        self.last_lost = Some(packet.index());
        let (inflight, lost) = (packet.tx_in_flight(), conn.sampler.lost_since(packet));
        if self.probe.is_bw_probe_sample
            && self.too_high.is_none()
            && self.is_inflight_too_high(conn, lost, inflight)
        {
            // InflightAtLoss(): nothing of it fitted if there was too much lost before.
            let (before, lost_before) = (inflight - packet.size(), lost - packet.size());
            let fits = percent(2, before).saturating_sub(lost_before) * 100 / 98;
            self.too_high = Some((before + fits, packet.is_app_limited()));
        }
    }

    /// UpdateOnACK().
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.update_latest_delivery_signals(conn, rs);
        self.update_congestion_signals(conn, rs);
        self.update_ack_aggregation(conn, rs);
        self.check_full_bw_reached(rs);
        self.check_startup_done(conn, rs);
        self.check_drain_done(conn, rs.now);
        self.update_probe_bw_cycle_phase(conn, rs);
        self.update_min_rtt(conn, rs);
        self.check_probe_rtt(conn, rs);
        if self.loss_round_start {
            self.bw_latest = rs.delivery_rate.as_bytes_per_sec();
            self.inflight_latest = rs.delivered;
        }
        self.bw = self.max_bw.min(self.bw_shortterm);
        self.sample = Some(*rs);
    }

    /// OnEnterFastRecovery().
    fn on_enter_recovery(&mut self, conn: &mut Conn) {
        self.save_cwnd(conn);
        self.undo_state = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    fn on_exit_recovery(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
    }

    /// NoteLoss(), and HandleInflightTooHigh() for the losses, or for marks, which count as such.
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = conn.delivered();
        }
        self.is_loss_in_round = true;
        let marked = congestion.marks.as_ref().map(|marks| marks.sample).filter(|rs| {
            self.probe.is_bw_probe_sample
                && self.is_inflight_too_high(conn, rs.lost, rs.tx_in_flight)
        });
        let marked = marked.map(|rs| (rs.tx_in_flight, rs.is_app_limited));
        if let Some(sample) = self.too_high.take().or(marked) {
            self.handle_inflight_too_high(conn, sample, congestion.now);
        }
    }

    /// OnEnterRTO(): the baseline of the full pipe goes, and its losses end no Startup.
    fn on_rto(&mut self, conn: &mut Conn) {
        self.save_cwnd(conn);
        self.reset_full_bw();
        self.lost_ranges = 0;
        conn.cwnd = conn.inflight + conn.smss;
    }

    /// HandleSpuriousLossDetection(): the estimate of the full pipe goes only if the losses had
    /// ended Startup or UP.
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        self.is_loss_in_round = false;
        self.lost_ranges = 0;
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        let Some(undo) = self.undo_state.take() else { return };
        self.reset_full_bw();
        if undo == State::Startup && self.state != State::Startup {
            self.full_bw_reached = false;
            if self.state != State::ProbeRtt {
                self.state = State::Startup;
            }
        }
        let has_left_up = ![State::ProbeBwUp, State::ProbeRtt].contains(&self.state);
        if undo == State::ProbeBwUp && has_left_up {
            self.start_probe_bw_refill(conn);
        }
    }

    /// HandleRestartFromIdle().
    fn on_restart_from_idle(&mut self, conn: &mut Conn, now: Instant) {
        self.idle_restart = true;
        self.aggregation.begin(now, conn.delivered());
        if self.is_in_a_probe_bw_state() {
            self.set_pacing_rate(conn, 100);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(conn, now);
        }
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "plain", self.state)
    }
}

/// The model of one call, and the control parameters that follow from it.
impl Model<Bbr3<Draft>> for Plain {
    fn agree(&mut self, real: &Bbr3<Draft>, conn: &Conn, expected: &Conn) {
        assert_eq!(real.state, self.state);
        assert_eq!((real.round.count, real.round.start), (self.round_count, self.round_start));
        assert_eq!(real.round.next_delivered, self.next_round_delivered);
        assert_eq!(real.loss_round.delivered, self.loss_round_delivered);
        assert_eq!(real.loss_round.has_loss, self.is_loss_in_round);
        assert_eq!(real.bandwidth.max.as_bytes_per_sec(), self.max_bw);
        assert_eq!(real.bandwidth.bw.as_bytes_per_sec(), self.bw);
        assert_eq!(real.bounds.bw_shortterm.as_bytes_per_sec(), self.bw_shortterm);
        assert_eq!(real.bounds.inflight_shortterm, self.inflight_shortterm);
        assert_eq!(real.bounds.inflight_longterm, self.inflight_longterm);
        assert_eq!(real.loss_round.bw_latest.as_bytes_per_sec(), self.bw_latest);
        assert_eq!(real.loss_round.inflight_latest, self.inflight_latest);
        let full_bw =
            (real.full_pipe.bw.as_bytes_per_sec(), real.full_pipe.count, real.full_pipe.now);
        assert_eq!(full_bw, (self.full_bw, self.full_bw_count, self.full_bw_now));
        assert_eq!(real.full_pipe.reached, self.full_bw_reached);
        assert_eq!(real.rtt.min, self.min_rtt.unwrap_or(Duration::MAX));
        let (five, ten) = (Duration::from_secs(5), Duration::from_secs(10));
        assert_eq!(real.rtt.min_expiry, self.min_rtt_stamp + ten);
        let expiry = self.probe_rtt_min_stamp.map_or(Instant::MAX, |stamp| stamp + five);
        assert_eq!(real.rtt.probe_expiry, expiry);
        assert_eq!(real.probe_rtt.idle_restart, self.idle_restart);
        assert_eq!(real.control.prior_cwnd, self.prior_cwnd);
        assert_eq!(real.undo.state, self.undo_state);
        assert_eq!(conn.sampler.is_app_limited(), expected.sampler.is_app_limited());
        assert_eq!(conn.was_application_limited, expected.was_application_limited);
        self.probe.agrees(real);
        assert_eq!(real.aggregation.extra_acked(), self.extra_acked);
        let mut expected = expected.clone();
        if let Some(rs) = self.sample.take() {
            if !self.has_seen_rtt && expected.srtt().is_some() {
                self.has_seen_rtt = true;
                self.init_pacing_rate(&mut expected);
            }
            self.set_pacing_rate(&mut expected, self.gains().0);
            let quantum = volume(expected.pacing_rate.as_bytes_per_sec(), MS);
            expected.send_quantum = quantum.min(65_536).max(2 * expected.smss);
            assert_eq!(real.control.max_inflight, self.set_cwnd(&mut expected, &rs));
        }
        assert_eq!(conn.pacing_rate, expected.pacing_rate);
        assert_eq!(conn.send_quantum, expected.send_quantum);
        assert_eq!(conn.cwnd, expected.cwnd);
    }
}

static CHECKED: CustomAlgorithm = CustomAlgorithm {
    name: "bbr3-and-plain",
    new: &|conn, now, config| {
        let real = Bbr3::<Draft>::new(conn, now, config, Bbr3Options::new());
        let model = Plain::new(conn, now, config);
        Box::new(Checked { real, model })
    },
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// After each call state, model and control parameters are those of the draft.
    #[test]
    fn each_step_is_that_of_the_draft(
        seed: u64,
        mbit in 1u64..12,
        rtt_ms in 1u64..150,
        is_tcp: bool,
        handshake: bool,
        has_selective_acks in prop::bool::weighted(0.8),
        packets_an_ack in 0u32..30,
        history in events(),
        between in prop::collection::vec(0u64..3_000, 14),
    ) {
        let rtt = MS.times(rtt_ms);
        let config = Config {
            transport: if is_tcp { Transport::Tcp } else { Transport::Quic },
            handshake_rtt: handshake.then_some(rtt),
            has_selective_acks,
            ack_frequency: (packets_an_ack > 20).then_some(AckFrequency {
                threshold_packets: packets_an_ack,
                max_delay: MS.times(25),
            }),
            ..Config::new(seed)
        };
        let bulk = between.into_iter().map(Event::Bulk);
        let history: Vec<Event> = history.into_iter().zip(bulk).flat_map(|(e, b)| [b, e]).collect();
        oracle::run(&CHECKED, mbit, rtt, config, &history);
    }
}
