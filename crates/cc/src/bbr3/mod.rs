//! BBR version 3, draft-ietf-ccwg-bbr. What its flavours have apart are their [`Rules`]. A reader
//! of the parts, the steps and the default methods of [`Rules`] reads the draft.
//!
//! BBR keeps two beliefs about the path: how fast it delivers (`max_bw`) and how long it takes
//! when nobody queues (`min_rtt`). Their product is what must be in flight, no more and no less.
//! The two can't be measured at once (seeing the bandwidth needs a queue, seeing the delay needs
//! none), so a state machine takes turns: faster for a moment, slower for a moment, then level.
//!
//! ```text
//!             |
//!             V
//!    +---> Startup ------------+     the rate doubles in each round,
//!    |        |                |     until the pipe is full
//!    |        V                |
//!    |      Drain -------------+     below the rate, until the queue is gone
//!    |        |                |
//!    |        V                |
//!    |   ProbeBW_DOWN <----+   |     below the rate, until there is room
//!    |        |            |   |
//!    |        V            |   |
//!    |   ProbeBW_CRUISE    |   |     at the rate, two to three seconds from DOWN on, or 63 rounds
//!    |        |            |   +---> ProbeRTT    half a BDP, after 5 s without a shorter
//!    |        V            |   |        |        round trip: 200 ms and a round, and back
//!    |   ProbeBW_REFILL    |   |        |        to CRUISE, or to Startup if it is not over
//!    |        |            |   |        |
//!    |        V            |   |        |
//!    |   ProbeBW_UP -------+---+        |
//!    |                                  |
//!    +----------------------------------+
//! ```
//!
//! DOWN goes on to REFILL at once where the wait is over, and DOWN and CRUISE where a probe that
//! was cut short as a precaution went well. Too much loss, or too many marks, end Startup and UP.
//! If these losses were spurious, Startup comes back, or REFILL for UP.
//!
//! - `mod.rs`: the parts, and the steps of one ACK in their order.
//! - The parts: [`bandwidth`], [`min_rtt`], [`aggregation`], [`full_pipe`],
//!   [`loss_round`], [`bounds`], [`undo`], [`probe`].
//! - [`model`]: what each ACK does to them. [`startup`]: Startup and Drain. [`probe_bw`]: the cycle
//!   of ProbeBW. [`probe_rtt`]: ProbeRTT and the restart from idle.
//! - [`congestion`]: what losses do to the model, and how that is undone.
//! - [`control`]: from the model to pacing rate, quantum and window. [`params`]: the constants.
//!
//! - [`rules`]: what flavours have apart, and the draft's. [`linux`]: Linux's.
//! - [`amend`]: where `bbr3x` does otherwise; [`amended`]: how. [`mark_response`]: where marks are
//!   answered; [`ecn`]: those of L4S, and [`fallback`]: those of other queues. [`swift`]: the law
//!   of `bbr-swift`.

mod aggregation;
mod amend;
mod amended;
#[cfg(test)]
mod amended_path_tests;
#[cfg(test)]
mod amended_tests;
mod bandwidth;
mod bounds;
mod classic_window;
mod congestion;
mod control;
mod ecn;
mod fallback;
#[cfg(test)]
mod flavour_tests;
mod full_pipe;
#[cfg(all(test, feature = "l4s"))]
mod l4s_tests;
mod linux;
mod loss_round;
mod mark_response;
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
mod rules;
mod startup;
mod swift;
#[cfg(all(test, feature = "bbr-swift"))]
mod swift_tests;
#[cfg(test)]
mod tests;
mod undo;

use crate::algo::{Congestion, CongestionControl, NotNow};
use crate::config::{Config, Start};
use crate::conn::{Conn, INFINITE, MarksAre};
use crate::options::FlavourOptions;
use crate::rapid_start::RapidStart;
use crate::round::Round;
use crate::sampler::{PacketState, RateSample};
use crate::snapshot::{BbrSnapshot, Snapshot, State};
use crate::units::{Duration, Gain, Instant, Rate};
use aggregation::Aggregation;
use amend::{Amend, View};
use bandwidth::Bandwidth;
use bounds::Bounds;
use control::Control;
use full_pipe::FullPipe;
use loss_round::LossRound;
use mark_response::MarkResponse;
use min_rtt::MinRtt;
use probe::{AckPhase, Probe};
use probe_rtt::ProbeRtt;
use rules::{Rules, Verdict};
use undo::Undo;

pub(crate) type Draft = rules::Draft<()>;
pub(crate) type DraftAmended = rules::Draft<amended::Amended>;
pub(crate) type DraftSwift = swift::Swift;
pub(crate) type Linux = linux::Linux<()>;
pub(crate) type LinuxAmended = linux::Linux<amended::Amended>;

/// The point at which losses or marks crossed the threshold.
#[derive(Clone, Copy, Debug)]
struct TooHigh {
    /// C.inflight in bytes at which they did.
    inflight: u64,
    is_app_limited: bool,
}

impl From<&RateSample> for TooHigh {
    fn from(rs: &RateSample) -> Self {
        Self { inflight: rs.tx_in_flight, is_app_limited: rs.is_app_limited }
    }
}

/// The draft's BBR.* variables; each part gives their names. "Infinity" is the largest value of the
/// type.
///
/// OnInit in the draft leaves some of them unset; here every one has its start in [`Bbr3::new`],
/// and an instant that is not set yet is never 0: a clock may start anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Bbr3<R: Rules> {
    state: State,
    control: Control,
    round: Round,
    bandwidth: Bandwidth,
    rtt: MinRtt,
    aggregation: Aggregation<R::ExtraAcked>,
    full_pipe: FullPipe,
    loss_round: LossRound,
    bounds: Bounds,
    undo: Undo,
    probe: Probe,
    probe_rtt: ProbeRtt,
    rules: R,
}

impl<R: Rules> Bbr3<R> {
    /// OnInit(), section "Initialization", with InitWindowedMaxFilter() and InitRoundCounting().
    pub(crate) fn new(
        conn: &mut Conn,
        now: Instant,
        config: &Config,
        options: impl Into<FlavourOptions>,
    ) -> Self {
        let options = options.into();
        let startup_gains = options.startup_gains.unwrap_or(R::STARTUP_GAINS);
        let rapid_start = RapidStart::new(config.start == Start::RapidStart);
        let mut bbr = Self {
            state: State::Startup,
            control: Control::new(startup_gains, rapid_start, conn.initial_cwnd),
            round: Round::new(),
            bandwidth: Bandwidth::new(),
            rtt: MinRtt::new(now, conn.srtt()),
            aggregation: Aggregation::new(now),
            full_pipe: FullPipe::new(),
            loss_round: LossRound::new(),
            bounds: Bounds::NONE,
            undo: Undo::NONE,
            probe: Probe::new(now, config.seed),
            probe_rtt: ProbeRtt::new(),
            rules: R::new(config, &options),
        };
        if bbr.rules.marks().is_there() || bbr.rules.answers_classic_marks() {
            conn.marks = MarksAre::NoLosses;
        }
        bbr.update_bdp(conn);
        bbr.init_pacing_rate(conn);
        bbr.enter_startup();
        bbr
    }

    /// Enters a state with its gains, from the table of "Summary of Control Behavior in the State
    /// Machine". The draft's StartProbeBW_*() leave the gains to that table; here no transition can
    /// forget one.
    fn enter(&mut self, state: State) {
        use params::{
            DEFAULT_CWND_GAIN, PROBE_RTT_CWND_GAIN, PROBE_UP_CWND_GAIN, PROBE_UP_PACING_GAIN,
            RAPID_START_GAINS,
        };
        let (startup, amendments) = (self.control.startup_gains, self.rules.amendments());
        (self.control.pacing_gain, self.control.cwnd_gain) = match state {
            State::Startup if self.control.rapid_start.triples() => RAPID_START_GAINS,
            State::Startup => (startup.pacing, startup.cwnd),
            State::Drain => (R::DRAIN_PACING_GAIN, startup.cwnd),
            State::ProbeBwDown => {
                (amendments.down_pacing_gain(R::PROBE_DOWN_PACING_GAIN), DEFAULT_CWND_GAIN)
            }
            State::ProbeBwCruise => (Gain::ONE, amendments.cruise_cwnd_gain()),
            State::ProbeBwUp => (PROBE_UP_PACING_GAIN, PROBE_UP_CWND_GAIN),
            State::ProbeRtt => (Gain::ONE, PROBE_RTT_CWND_GAIN),
            // REFILL; the rest are other algorithms' states.
            _ => (Gain::ONE, DEFAULT_CWND_GAIN),
        };
        self.state = state;
        self.control.forget_basis();
    }

    /// The model, to be read.
    #[inline]
    fn view<'a>(&'a self, conn: &'a Conn) -> View<'a> {
        View {
            conn,
            state: self.state,
            control: &self.control,
            round: &self.round,
            bandwidth: &self.bandwidth,
            rtt: &self.rtt,
            full_pipe: &self.full_pipe,
            loss_round: &self.loss_round,
        }
    }

    /// The rules, to be changed, beside the model, to be read.
    #[inline]
    fn rules_and_view<'a>(&'a mut self, conn: &'a Conn) -> (&'a mut R, View<'a>) {
        let view = View {
            conn,
            state: self.state,
            control: &self.control,
            round: &self.round,
            bandwidth: &self.bandwidth,
            rtt: &self.rtt,
            full_pipe: &self.full_pipe,
            loss_round: &self.loss_round,
        };
        (&mut self.rules, view)
    }

    /// UpdateModelAndState(), section "Per-ACK Steps".
    #[inline]
    fn update_model_and_state(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.update_latest_delivery_signals(conn, rs);
        self.update_congestion_signals(conn, rs);
        self.watch_rapid_start(conn, rs);
        self.update_ack_aggregation(conn, rs);
        self.check_full_bw_reached(rs);
        self.check_startup_high_loss(conn, rs);
        let has_ended_probe = self.judge_delay(conn, rs);
        self.check_startup_done();
        self.check_drain_done(conn, rs);
        // A round that this ACK has ended is of the probe: what follows a probe waits for the next.
        if !has_ended_probe {
            self.update_probe_bw_cycle_phase(conn, rs);
        }
        self.update_min_rtt(conn, rs);
        self.check_probe_rtt(conn, rs);
        self.advance_latest_delivery_signals(rs);
        self.bound_bw_for_model();
    }

    /// UpdateControlParameters(), section "Per-ACK Steps".
    #[inline]
    fn update_control_parameters(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.follow_model(conn);
        self.set_cwnd(conn, rs);
    }
}

impl<R: Rules> CongestionControl for Bbr3<R> {
    /// UpdateOnACK(), section "Per-ACK Steps". The rate sample is made already.
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let mut own = None;
        let rs = self.rules.sample(rs, self.rtt.min, &mut own);
        self.update_model_and_state(conn, rs);
        self.update_control_parameters(conn, rs);
        self.rules.marks_mut().end_ack();
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
        if self.control.rapid_start.triples() {
            self.end_rapid_start(conn);
        }
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
        self.control.forget_basis();
        self.end_startup_for_safe_retreat();
        self.set_pacing_rate(conn);
        self.set_send_quantum(conn);
        self.update_max_inflight(conn);
    }

    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        self.handle_spurious_loss_detection(conn);
    }

    /// The draft takes CE for congestion.
    fn wants_ecn(&self) -> bool {
        self.rules.marks().wants_ecn()
    }

    fn request_probe(&mut self, _: &Conn, now: Instant) -> Result<(), NotNow> {
        self.bring_probe_forward(now)
    }

    /// As Linux: a flight that recovers is twice its window, and one is written meanwhile.
    fn send_buffer_windows(&self) -> u64 {
        3
    }

    fn on_mtu_update(&mut self, conn: &mut Conn) {
        self.control.forget_basis();
        self.update_bdp(conn);
        if self.rtt.is_measured {
            self.keep_least_pacing_rate(conn);
        } else {
            self.init_pacing_rate(conn);
        }
        conn.cwnd = conn.cwnd.max(self.min_pipe_cwnd(conn));
    }

    fn state(&self, _: &Conn) -> State {
        self.state
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        let volume = |v: u64| (v != INFINITE).then_some(v);
        let time = |d: Duration| (d != Duration::MAX).then_some(d);
        let rate = |r: Rate| (r != Rate::MAX).then_some(r);
        let shortterm = self.bounds.inflight_shortterm.min(self.rules.most_inflight(1));
        let bbr = BbrSnapshot {
            max_bw: self.bandwidth.max,
            bw: self.bandwidth.bw,
            bw_shortterm: rate(self.bounds.bw_shortterm),
            inflight_shortterm: volume(shortterm),
            inflight_longterm: volume(self.bounds.inflight_longterm),
            min_rtt: time(self.rtt.min),
            bdp: self.bdp_multiple(conn, self.bandwidth.bw, Gain::ONE),
            extra_acked: self.aggregation.extra_acked(),
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
            ecn_alpha: self.rules.marks().alpha(),
            drain_start_round: self.full_pipe.drain_start_round,
            bw_latest: self.loss_round.bw_latest,
            inflight_latest: self.loss_round.inflight_latest,
            bw_probe_up_rounds: self.probe.up_rounds.into(),
            probe_up_acked_per_inc: volume(self.probe.up_acked_per_inc),
            undo_state: self.undo.state,
            undo_bw_shortterm: rate(self.undo.bounds.bw_shortterm),
            undo_inflight_shortterm: volume(self.undo.bounds.inflight_shortterm),
            undo_inflight_longterm: volume(self.undo.bounds.inflight_longterm),
        };
        Snapshot { bbr: Some(bbr), ..Snapshot::of(conn, R::NAME, self.state) }
    }
}
