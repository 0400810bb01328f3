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

mod aggregation;
mod amended;
#[cfg(test)]
mod amended_tests;
mod bandwidth;
mod bounds;
mod congestion;
mod control;
mod ecn;
mod fallback;
#[cfg(test)]
mod flavour_tests;
mod full_pipe;
#[cfg(all(test, feature = "l4s"))]
mod l4s_tests;
mod loss_round;
mod min_rtt;
mod model;
#[cfg(all(test, feature = "custom"))]
mod oracle;
#[cfg(test)]
mod packets_tests;
mod params;
mod probe;
mod probe_bw;
mod probe_rtt;
mod round;
mod startup;
mod swift;
#[cfg(all(test, feature = "bbr-swift"))]
mod swift_tests;
#[cfg(test)]
mod tests;
mod undo;

use crate::algo::{Congestion, CongestionControl};
use crate::bandwidth::NotNow;
use crate::config::{Amendment, Config};
use crate::conn::{Conn, INFINITE, MarksAre};
use crate::rng::Rng;
use crate::sampler::{PacketState, RateSample};
use crate::snapshot::{BbrSnapshot, Snapshot, State};
use crate::units::{Duration, Gain, Instant, Rate};
use aggregation::Aggregation;
use bandwidth::Bandwidth;
use bounds::Bounds;
use control::Control;
use full_pipe::FullPipe;
use loss_round::LossRound;
use min_rtt::MinRtt;
use params::Flavour;
pub(crate) use params::{Draft, DraftAmended, DraftSwift, Linux, LinuxAmended};
use probe::{AckPhase, Probe};
use probe_rtt::ProbeRtt;
use round::Round;
use undo::Undo;

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
    /// The state or the model changed since the control parameters were made of them.
    is_model_new: bool,
    control: Control,

    round: Round,
    bandwidth: Bandwidth,
    rtt: MinRtt,
    aggregation: Aggregation<F>,
    full_pipe: FullPipe,
    bounds: Bounds,
    loss_round: LossRound,
    undo: Undo,

    probe: Probe,
    probe_rtt: ProbeRtt,

    /// The flavour's own state.
    own: F::Own,
    rng: Rng,
}

impl<F: Flavour> Bbr3<F> {
    /// OnInit(), section "Initialization", with InitWindowedMaxFilter() and InitRoundCounting().
    pub(crate) fn new(conn: &mut Conn, now: Instant, config: &Config) -> Self {
        let startup_gains = config.startup_gains.unwrap_or(F::P.startup_gains);
        let mut bbr = Self {
            state: State::Startup,
            is_model_new: true,
            control: Control::new(startup_gains, conn.initial_cwnd),
            round: Round::new(),
            bandwidth: Bandwidth::new(conn.initial_cwnd),
            rtt: MinRtt::new(now, conn.srtt()),
            aggregation: Aggregation::new(now),
            full_pipe: FullPipe::new(),
            bounds: Bounds::NONE,
            loss_round: LossRound::new(),
            undo: Undo::NONE,
            probe: Probe::new(now),
            probe_rtt: ProbeRtt::new(),
            own: F::own(config),
            rng: Rng::new(config.seed),
        };
        // To Linux marks are no losses, nor to the draft where they are those of L4S.
        if bbr.answers_ecn() {
            conn.marks = MarksAre::NoLosses;
        }
        bbr.init_pacing_rate(conn);
        bbr.enter_startup();
        if bbr.rtt.is_measured {
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
        (self.control.pacing_gain, self.control.cwnd_gain) = match state {
            State::Startup => (self.control.startup_gains.pacing, self.control.startup_gains.cwnd),
            State::Drain => (F::P.drain_pacing_gain, self.control.startup_gains.cwnd),
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
        self.loss_round.update_latest(conn.sampler.delivered, rs);
        self.update_congestion_signals(conn, rs);
        self.update_ack_aggregation(conn, rs);
        let rises = F::P.full_bw_rises_on_any_ack && !self.full_pipe.now;
        if self.full_pipe.is_round_unjudged | self.loss_round.start | rises {
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
        if self.is_model_new | self.loss_round.start {
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
        self.undo.save(&self.bounds);
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
        self.control.prior_cwnd = conn.cwnd;
        self.undo = Undo::NONE;
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
        if self.rtt.is_measured {
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
            max_bw: self.bandwidth.max,
            bw: self.bandwidth.bw,
            bw_shortterm: rate(self.bounds.bw_shortterm),
            inflight_shortterm: volume(
                self.bounds
                    .inflight_shortterm
                    .min(self.swift_inflight())
                    .min(self.classic_inflight(conn)),
            ),
            inflight_longterm: volume(self.bounds.inflight_longterm),
            min_rtt: time(self.rtt.min),
            bdp: self.bdp_multiple(conn, self.bandwidth.bw, Gain::ONE),
            extra_acked: self.aggregation.extra_acked,
            max_inflight: self.control.max_inflight,
            pacing_gain: self.control.pacing_gain,
            cwnd_gain: self.control.cwnd_gain,
            round_count: self.round.count,
            round_start: self.round.start,
            full_bw_reached: self.full_pipe.reached,
            full_bw_now: self.full_pipe.now,
            full_bw: self.full_pipe.bw,
            full_bw_count: self.full_pipe.count,
            idle_restart: self.probe_rtt.idle_restart,
            prev_probe_too_high: self.probe.prev_too_high,
            prev_probe_precautionary: self.probe.prev_precautionary,
            bw_probe_wait: self.probe.wait,
            rounds_since_probe_up: self.probe.rounds_since_up.into(),
            probe_rtt_min_delay: time(self.rtt.probe_min_delay),
            ecn_alpha: F::ecn(&self.own).and_then(|ecn| ecn.alpha()),
            drain_start_round: self.full_pipe.drain_start_round,
            bw_latest: self.loss_round.bw_latest,
            inflight_latest: self.loss_round.inflight_latest,
            bw_probe_up_rounds: self.probe.up_rounds,
            probe_up_acked_per_inc: volume(self.probe.up_acked_per_inc),
            undo_state: self.undo.state,
            undo_bw_shortterm: rate(self.undo.bounds.bw_shortterm),
            undo_inflight_shortterm: volume(self.undo.bounds.inflight_shortterm),
            undo_inflight_longterm: volume(self.undo.bounds.inflight_longterm),
        };
        Snapshot { bbr: Some(bbr), ..Snapshot::of(conn, F::NAME, self.state) }
    }
}
