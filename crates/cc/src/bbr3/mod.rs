//! BBR version 3, draft-ietf-ccwg-bbr, in two flavours: the draft's own, and that of Linux
//! (google/bbr, branch v3), each also with the amendments of [`amended`]. What they have apart is a
//! table, [`params::Params`], read at compile time: the one costs the other nothing.
//!
//! BBR keeps two beliefs about the path: how fast it delivers (`max_bw`) and how long it takes
//! when nobody queues (`min_rtt`). Their product is what must be in flight, no more and no less.
//! The two can't be measured at once (seeing the bandwidth needs a queue, seeing the delay needs
//! none), so a state machine takes turns: faster for a moment, slower for a moment, then level.
//!
//! - `mod.rs`: the state, and the steps of one ACK in their order. What happens once a round trip
//!   or less is `#[cold]` throughout, which keeps its code out of the way of what every ACK does.
//! - [`model`]: rounds, bandwidth, round-trip time, aggregation.
//! - [`startup`]: Startup and Drain. [`probe_bw`]: the cycle of ProbeBW. [`probe_rtt`]: ProbeRTT
//!   and the restart from idle.
//! - [`congestion`]: what losses do to the model, and how that is undone. [`ecn`]: what marks of
//!   L4S do, and [`fallback`]: what those of other queues do. [`swift`]: what delays do, in
//!   `bbr-swift`.
//! - [`control`]: from the model to pacing rate, quantum and window.

mod amended;
#[cfg(test)]
mod amended_tests;
mod congestion;
mod control;
mod ecn;
mod fallback;
#[cfg(test)]
mod flavour_tests;
#[cfg(all(test, feature = "l4s"))]
mod l4s_tests;
mod model;
#[cfg(all(test, feature = "custom"))]
mod oracle;
#[cfg(test)]
mod packets_tests;
mod params;
mod probe_bw;
mod probe_rtt;
mod startup;
mod swift;
#[cfg(all(test, feature = "bbr-swift"))]
mod swift_tests;
#[cfg(test)]
mod tests;

use crate::algo::{Congestion, CongestionControl};
use crate::bandwidth::NotNow;
use crate::config::{Amendment, Config, StartupGains};
use crate::conn::{Conn, INFINITE, MarksAre};
use crate::rng::Rng;
use crate::sampler::{PacketIndex, PacketState, RateSample};
use crate::snapshot::{BbrSnapshot, Snapshot, State};
use crate::units::{Duration, Gain, Instant, Rate};
use params::Flavour;
pub(crate) use params::{Draft, DraftAmended, DraftSwift, Linux, LinuxAmended};

/// BBR.ack_phase: what the ACKs that come in now say about the probing for bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    /// ACKS_INIT: not probing, no feedback of a probe.
    Init,
    /// ACKS_REFILLING: sending at the estimated bandwidth to fill the pipe.
    Refilling,
    /// ACKS_PROBE_STARTING: inflight rises to probe.
    ProbeStarting,
    /// ACKS_PROBE_FEEDBACK: the feedback of the probe comes in.
    ProbeFeedback,
    /// ACKS_PROBE_STOPPING: no longer probing, feedback still comes in.
    ProbeStopping,
}

/// The point at which the losses of this batch crossed the threshold.
#[derive(Clone, Copy, Debug)]
struct TooHigh {
    /// C.inflight in bytes at which they did.
    inflight: u64,
    is_app_limited: bool,
}

/// The draft's BBR.* variables, by its names. "Infinity" is the largest value of the type.
///
/// OnInit in the draft leaves some of them unset; here every one has its start in [`Bbr3::new`],
/// and an instant that is not set yet is `None`, never 0: a clock may start anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Bbr3<F: Flavour> {
    state: State,
    pacing_gain: Gain,
    cwnd_gain: Gain,
    startup_gains: StartupGains,
    /// The state or the model changed since the control parameters were made of them.
    is_model_new: bool,

    round_count: u64,
    round_start: bool,
    next_round_delivered: u64,
    idle_restart: bool,
    has_seen_rtt: bool,

    max_bw: Rate,
    /// BBR.max_bw_filter: the maximum of this ProbeBW cycle and of the one before.
    max_bw_filter: [Rate; 2],
    bw: Rate,
    /// BBR.bdp: BDPMultiple(bw, 1), renewed when the bandwidth or min_rtt changes: few ACKs do
    /// that.
    bdp: u64,
    bw_shortterm: Rate,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    max_inflight: u64,

    min_rtt: Duration,
    /// BBR.min_rtt_stamp + BBR.MinRTTFilterLen: the moment is compared with each ACK's.
    min_rtt_expiry: Instant,
    probe_rtt_min_delay: Duration,
    /// BBR.probe_rtt_min_stamp + BBR.ProbeRTTInterval; never before the first sample.
    probe_rtt_min_expiry: Instant,
    /// The first moment at which an ACK is asked what ProbeRTT and min_rtt are due for.
    next_rtt_check: Instant,
    /// [`Instant::MAX`] while ProbeRTT has not reached its window.
    probe_rtt_done_stamp: Instant,
    probe_rtt_round_done: bool,
    prior_cwnd: u64,

    extra_acked: u64,
    extra_acked_interval_start: Instant,
    extra_acked_delivered: u64,
    extra_acked_filter: F::ExtraAcked,
    /// Number and age in rounds of the newer of Linux's two buckets.
    extra_acked_bucket: u32,
    extra_acked_bucket_rounds: u32,

    full_bw_reached: bool,
    full_bw_now: bool,
    full_bw: Rate,
    full_bw_count: u32,
    /// No sample of this round has been asked yet whether the pipe is full.
    is_round_unjudged: bool,
    drain_start_round: u64,

    bw_latest: Rate,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    /// Discontiguous ranges lost in this loss round (Linux: reports of losses), and the last packet
    /// of the last range.
    loss_events_in_round: u32,
    last_lost: Option<PacketIndex>,
    too_high: Option<TooHigh>,

    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: u64,
    probe_up_acked_per_inc: u64,
    rounds_since_probe_up: u32,
    bw_probe_wait: Duration,
    /// BBR.cycle_stamp + BBR.bw_probe_wait: the moment is compared with each ACK's.
    bw_probe_time: Instant,

    undo_state: Option<State>,
    undo_bw_shortterm: Rate,
    undo_inflight_shortterm: u64,
    undo_inflight_longterm: u64,

    /// The flavour's own state.
    own: F::Own,
    rng: Rng,
}

impl<F: Flavour> Bbr3<F> {
    /// OnInit(), section "Initialization", with InitWindowedMaxFilter() and InitRoundCounting().
    pub(crate) fn new(conn: &mut Conn, now: Instant, config: &Config) -> Self {
        let mut bbr = Self {
            state: State::Startup,
            pacing_gain: Gain::ONE,
            cwnd_gain: Gain::ONE,
            startup_gains: config.startup_gains.unwrap_or(F::P.startup_gains),
            is_model_new: true,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            idle_restart: false,
            has_seen_rtt: false,
            max_bw: Rate::ZERO,
            max_bw_filter: [Rate::ZERO; 2],
            bw: Rate::ZERO,
            bdp: conn.initial_cwnd,
            bw_shortterm: Rate::MAX,
            inflight_shortterm: INFINITE,
            inflight_longterm: INFINITE,
            max_inflight: conn.initial_cwnd,
            min_rtt: Duration::MAX,
            min_rtt_expiry: now + params::MIN_RTT_FILTER_LEN,
            probe_rtt_min_delay: Duration::MAX,
            probe_rtt_min_expiry: Instant::MAX,
            next_rtt_check: now,
            probe_rtt_done_stamp: Instant::MAX,
            probe_rtt_round_done: false,
            prior_cwnd: 0,
            extra_acked: 0,
            extra_acked_interval_start: now,
            extra_acked_delivered: 0,
            extra_acked_filter: F::ExtraAcked::default(),
            extra_acked_bucket: 0,
            extra_acked_bucket_rounds: 0,
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: Rate::ZERO,
            full_bw_count: 0,
            is_round_unjudged: false,
            drain_start_round: 0,
            bw_latest: Rate::ZERO,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            loss_events_in_round: 0,
            last_lost: None,
            too_high: None,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITE,
            rounds_since_probe_up: 0,
            bw_probe_wait: Duration::ZERO,
            bw_probe_time: now,
            undo_state: None,
            undo_bw_shortterm: Rate::ZERO,
            undo_inflight_shortterm: 0,
            undo_inflight_longterm: 0,
            own: F::own(config),
            rng: Rng::new(config.seed),
        };
        // To Linux marks are no losses, nor to the draft where they are those of L4S.
        if bbr.answers_ecn() {
            conn.marks = MarksAre::NoLosses;
        }
        bbr.init_pacing_rate(conn);
        bbr.enter_startup();
        if let Some(rtt) = conn.srtt() {
            // The handshake's: "BBR.min_rtt = C.srtt ? C.srtt : Infinity".
            bbr.has_seen_rtt = true;
            bbr.min_rtt = rtt;
            bbr.probe_rtt_min_delay = rtt;
            bbr.probe_rtt_min_expiry = now + params::PROBE_RTT_INTERVAL;
            bbr.renew_bdp(conn);
            bbr.schedule_rtt_check();
        }
        bbr
    }

    /// Enters a state with its gains, from the table of "Summary of Control Behavior in the State
    /// Machine". The draft's StartProbeBW_*() leave the gains to that table; here no transition can
    /// forget one.
    fn enter(&mut self, state: State) {
        use params::{
            CRUISE_CWND_GAIN, DEFAULT_CWND_GAIN, PROBE_DOWN_PACING_GAIN, PROBE_RTT_CWND_GAIN,
            PROBE_UP_CWND_GAIN, PROBE_UP_PACING_GAIN,
        };
        (self.pacing_gain, self.cwnd_gain) = match state {
            State::Startup => (self.startup_gains.pacing, self.startup_gains.cwnd),
            State::Drain => (F::P.drain_pacing_gain, self.startup_gains.cwnd),
            State::ProbeBwDown if self.amended(Amendment::DeeperDown).is_some() => {
                (PROBE_DOWN_PACING_GAIN, DEFAULT_CWND_GAIN)
            }
            State::ProbeBwDown => (F::P.probe_down_pacing_gain, DEFAULT_CWND_GAIN),
            State::ProbeBwUp => (PROBE_UP_PACING_GAIN, PROBE_UP_CWND_GAIN),
            State::ProbeBwCruise if self.amended(Amendment::SmallerCruiseWindow).is_some() => {
                (Gain::ONE, CRUISE_CWND_GAIN)
            }
            State::ProbeRtt => (Gain::ONE, PROBE_RTT_CWND_GAIN),
            // CRUISE and REFILL; the rest are other algorithms' states.
            _ => (Gain::ONE, DEFAULT_CWND_GAIN),
        };
        self.state = state;
        self.is_model_new = true;
        self.schedule_rtt_check();
    }
}

impl<F: Flavour> CongestionControl for Bbr3<F> {
    /// UpdateOnACK(), section "Per-ACK Steps": UpdateModelAndState(), then
    /// UpdateControlParameters(). The rate sample is made already.
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let network;
        let rs = if F::swift(&self.own).is_some() {
            network = self.network_sample(rs);
            &network
        } else {
            rs
        };
        self.update_latest_delivery_signals(conn, rs);
        self.update_congestion_signals(conn, rs);
        self.update_ack_aggregation(conn, rs);
        let rises = F::P.full_bw_rises_on_any_ack && !self.full_bw_now;
        if self.is_round_unjudged | self.loss_round_start | rises {
            self.judge_round(conn, rs);
        }
        let has_ended_probe = self.follow_swift(conn, rs);
        if matches!(self.state, State::Startup | State::Drain) {
            self.check_startup_done();
            self.check_drain_done(conn, rs);
        }
        // The round that this ACK may have ended is not the one after the probe.
        if !has_ended_probe {
            self.update_probe_bw_cycle_phase(conn, rs);
        }
        self.note_rtt(conn, rs);
        self.update_min_rtt(conn, rs);
        self.bound_bw_for_model(conn);

        // Most ACKs only confirm what is known, and leave these as they are.
        if self.is_model_new | self.loss_round_start {
            self.renew_what_changed(conn, rs);
        }
        debug_assert!(self.control_parameters_are_current(conn), "changed without is_model_new");
        self.follow_classic_queue(conn, rs);
        self.set_cwnd(conn, rs);
        if let Some(ecn) = F::ecn_mut(&mut self.own) {
            ecn.is_mark_rate_too_high = false;
        }
    }

    /// OnTransmit(), section "Per-Transmit Steps".
    fn on_restart_from_idle(&mut self, conn: &mut Conn, now: Instant) {
        self.handle_restart_from_idle(conn, now);
    }

    fn on_packet_lost(&mut self, conn: &Conn, packet: &PacketState) {
        self.handle_lost_packet(conn, packet);
    }

    /// OnEnterFastRecovery(), section "Modulating cwnd in Loss Recovery".
    fn on_enter_recovery(&mut self, conn: &mut Conn) {
        self.save_cwnd(conn);
        self.save_state_upon_loss();
    }

    fn on_exit_recovery(&mut self, conn: &mut Conn) {
        self.restore_cwnd(conn);
    }

    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        self.respond_to_congestion(conn, congestion);
    }

    fn on_rto(&mut self, conn: &mut Conn) {
        self.enter_rto(conn);
    }

    /// RFC 9959, appendix on BBR. The recovery that begins with it does not bring back the window
    /// of the jump, which the path did not carry.
    fn on_safe_retreat(&mut self, conn: &mut Conn) {
        self.prior_cwnd = conn.cwnd;
        self.forget_undo();
        self.end_startup_for_safe_retreat();
        self.renew_control_parameters(conn);
    }

    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        self.handle_spurious_loss_detection(conn);
    }

    /// The draft takes CE for congestion. Linux's flavour answers it where the path has low-latency
    /// ECN.
    fn wants_ecn(&self) -> bool {
        F::ecn(&self.own).is_none_or(|ecn| ecn.is_on())
    }

    fn request_probe(&mut self, _: &Conn, now: Instant) -> Result<(), NotNow> {
        self.bring_probe_forward(now)
    }

    /// As Linux: a flight that recovers is twice its window, and one is written meanwhile.
    fn send_buffer_windows(&self) -> u64 {
        3
    }

    /// BBR.max_inflight has room for the packets whose ACK waits, from the next ACK on.
    fn on_ack_frequency(&mut self) {
        self.is_model_new = true;
    }

    fn on_mtu_update(&mut self, conn: &mut Conn) {
        if self.has_seen_rtt {
            self.keep_least_pacing_rate(conn);
        } else {
            self.init_pacing_rate(conn);
        }
        self.renew_bdp(conn); // the initial window; quantum and budget count in packets too
        conn.cwnd = conn.cwnd.max(self.min_pipe_cwnd(conn));
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        let volume = |v: u64| (v != INFINITE).then_some(v);
        let time = |d: Duration| (d != Duration::MAX).then_some(d);
        let rate = |r: Rate| (r != Rate::MAX).then_some(r);
        let bbr = BbrSnapshot {
            max_bw: self.max_bw,
            bw: self.bw,
            bw_shortterm: rate(self.bw_shortterm),
            inflight_shortterm: volume(
                self.inflight_shortterm.min(self.swift_inflight()).min(self.classic_inflight(conn)),
            ),
            inflight_longterm: volume(self.inflight_longterm),
            min_rtt: time(self.min_rtt),
            bdp: self.bdp_multiple(conn, self.bw, Gain::ONE),
            extra_acked: self.extra_acked,
            max_inflight: self.max_inflight,
            pacing_gain: self.pacing_gain,
            cwnd_gain: self.cwnd_gain,
            round_count: self.round_count,
            round_start: self.round_start,
            full_bw_reached: self.full_bw_reached,
            full_bw_now: self.full_bw_now,
            full_bw: self.full_bw,
            full_bw_count: self.full_bw_count,
            idle_restart: self.idle_restart,
            prev_probe_too_high: self.prev_probe_too_high,
            prev_probe_precautionary: self.prev_probe_precautionary,
            bw_probe_wait: self.bw_probe_wait,
            rounds_since_probe_up: self.rounds_since_probe_up.into(),
            probe_rtt_min_delay: time(self.probe_rtt_min_delay),
            ecn_alpha: F::ecn(&self.own).and_then(|ecn| ecn.alpha()),
            drain_start_round: self.drain_start_round,
            bw_latest: self.bw_latest,
            inflight_latest: self.inflight_latest,
            bw_probe_up_rounds: self.bw_probe_up_rounds,
            probe_up_acked_per_inc: volume(self.probe_up_acked_per_inc),
            undo_state: self.undo_state,
            undo_bw_shortterm: rate(self.undo_bw_shortterm),
            undo_inflight_shortterm: volume(self.undo_inflight_shortterm),
            undo_inflight_longterm: volume(self.undo_inflight_longterm),
        };
        Snapshot { bbr: Some(bbr), ..Snapshot::of(conn, F::NAME, self.state) }
    }
}
