//! ProbeBW: down a little, level for seconds, fill the pipe, up for a moment, and again.
//! Section "ProbeBW", with "ProbeBW Algorithm Details".

use super::params::RENO_ROUNDS;
use super::{AckPhase, Amend, Bbr3, MarkResponse, Rules, TooHigh};
use crate::algo::NotNow;
use crate::conn::{Conn, INFINITE};
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Instant, Rate};

impl<R: Rules> Bbr3<R> {
    /// EnterProbeBW().
    pub(super) fn enter_probe_bw(&mut self, conn: &Conn, now: Instant) {
        self.start_probe_bw_down(conn, now);
    }

    /// StartProbeBW_DOWN().
    #[cold]
    pub(super) fn start_probe_bw_down(&mut self, conn: &Conn, now: Instant) {
        R::reset_congestion_signals(self);
        self.probe.up_acked_per_inc = INFINITE; // inflight_longterm does not grow here
        self.pick_probe_wait();
        self.probe.time = now + self.probe.wait;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.start_round(conn);
        self.enter(State::ProbeBwDown);
    }

    /// StartProbeBW_CRUISE().
    #[cold]
    pub(super) fn start_probe_bw_cruise(&mut self, conn: &Conn) {
        R::begin_cruise(&mut self.bounds);
        let (rules, view) = self.rules_and_view(conn);
        rules.amendments_mut().begin_cruise(&view);
        self.enter(State::ProbeBwCruise);
    }

    /// StartProbeBW_REFILL().
    #[cold]
    pub(super) fn start_probe_bw_refill(&mut self, conn: &Conn) {
        let (rules, view) = self.rules_and_view(conn);
        rules.amendments_mut().begin_refill(&view);
        rules.marks_mut().begin_cycle();
        rules.begin_refill(view.bandwidth.max, view.rtt.min);
        self.bounds.reset_short_term();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.prev_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.start_round(conn);
        self.enter(State::ProbeBwRefill);
    }

    /// StartProbeBW_UP().
    fn start_probe_bw_up(&mut self, conn: &Conn, rs: &RateSample) {
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.start_round(conn);
        self.full_pipe.reset(rs.delivery_rate);
        // The samples of this round left in REFILL: the next one is the first that UP made.
        self.full_pipe.awaits_sample = false;
        self.enter(State::ProbeBwUp);
        self.raise_inflight_longterm_slope(conn);
    }

    /// UpdateProbeBWCyclePhase().
    pub(super) fn update_probe_bw_cycle_phase(&mut self, conn: &Conn, rs: &RateSample) {
        if !self.full_pipe.reached || self.adapt_long_term_model(conn, rs) {
            return;
        }
        if self.state != State::ProbeBwCruise {
            self.check_phase_done(conn, rs);
        } else if self.is_time_to_probe_bw(conn, rs.now) {
            let bw = self.rules.amendments().end_cruise(&self.view(conn), rs);
            self.take_bandwidth(bw);
            self.start_probe_bw_refill(conn);
        } else if self.round.start {
            let (rules, view) = self.rules_and_view(conn);
            let bw = rules.amendments_mut().end_round_of_cruise(&view, rs);
            self.take_bandwidth(bw);
        }
    }

    /// The bandwidth that CRUISE has shown, if it has.
    #[inline]
    fn take_bandwidth(&mut self, bw: Option<Rate>) {
        if let Some(bw) = bw {
            self.bandwidth.restart_filter(bw);
        }
    }

    /// The part of UpdateProbeBWCyclePhase() for the phases that do not last: all but CRUISE.
    #[cold]
    fn check_phase_done(&mut self, conn: &Conn, rs: &RateSample) {
        let state = self.state;
        match state {
            State::ProbeBwDown if self.is_time_to_probe_bw(conn, rs.now) => {
                self.start_probe_bw_refill(conn);
            }
            State::ProbeBwDown if self.is_time_to_cruise(conn) => self.start_probe_bw_cruise(conn),
            State::ProbeBwRefill if self.round.start => {
                self.probe.is_sample = true;
                self.start_probe_bw_up(conn, rs);
            }
            State::ProbeBwUp if self.is_time_to_go_down(conn, rs) => {
                self.probe.prev_too_high = false; // no excess loss so far
                self.start_probe_bw_down(conn, rs.now);
            }
            _ => {}
        }
    }

    /// IsInAProbeBWState().
    pub(super) fn is_in_a_probe_bw_state(&self) -> bool {
        matches!(
            self.state,
            State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    /// IsProbingBW().
    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp)
    }

    /// IsTimeToCruise(): there is headroom, and no queue of ours.
    fn is_time_to_cruise(&self, conn: &Conn) -> bool {
        let bdp = self.inflight(conn, self.bandwidth.max, Gain::ONE);
        conn.inflight <= self.inflight_with_headroom(conn)
            && conn.inflight <= self.rules.amendments().held(self.rtt.min, bdp)
    }

    /// IsTimeToGoDown().
    ///
    /// The precautionary test takes C.inflight from before this ACK removed its bytes, and the
    /// bound as reached when no further full packet fits under it: C.cwnd holds C.inflight below it
    /// otherwise, and the test would never come true. Linux calls it stopped_risky_probe.
    fn is_time_to_go_down(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        if self.probe.prev_too_high
            && rs.prior_inflight.saturating_add(conn.smss) > self.bounds.inflight_longterm
        {
            self.probe.prev_precautionary = true;
            return true;
        }
        let bdp = self.control.bdp;
        let (rules, view) = self.rules_and_view(conn);
        if rules.amendments_mut().ends_up(&view, rs, bdp) {
            return true;
        }
        if conn.is_cwnd_limited() && conn.cwnd >= self.bounds.inflight_longterm {
            // The bound was the limit, not the path: no plateau can be seen under it.
            self.full_pipe.reset(rs.delivery_rate);
            return false;
        }
        self.full_pipe.now
    }

    /// IsTimeToProbeBW(), "Time Scale for Bandwidth Probing", with HasElapsedInPhase(). The caller
    /// starts REFILL.
    fn is_time_to_probe_bw(&self, conn: &Conn, now: Instant) -> bool {
        now > self.probe.time || self.is_reno_coexistence_probe_time(conn)
    }

    /// An application asks for a probe: the wait before the next one ends now, and the next ACK of
    /// CRUISE goes by IsTimeToProbeBW(). Ours; the rest of the probe is the draft's.
    ///
    /// Half of the wait stays, so that a flow whose application asks all the time leaves others at
    /// least half of the time that they would have without it; after a probe with too much loss the
    /// whole wait does.
    #[cold]
    pub(super) fn bring_probe_forward(&mut self, now: Instant) -> Result<(), NotNow> {
        match self.state {
            State::Startup | State::ProbeBwRefill | State::ProbeBwUp => return Ok(()),
            State::ProbeRtt => return Err(NotNow::ProbeRtt),
            State::ProbeBwCruise => {}
            _ => return Err(NotNow::Draining),
        }
        let half = Duration::from_nanos(self.probe.wait.as_nanos() / 2);
        let stays = if self.probe.prev_too_high { Duration::ZERO } else { half };
        if now + stays < self.probe.time {
            return Err(NotNow::TooSoon);
        }
        self.probe.time = self.probe.time.min(now);
        Ok(())
    }

    /// PickProbeWait(), "Design Considerations for Choosing Constant Parameters".
    fn pick_probe_wait(&mut self) {
        let base = self.rules.amendments().probe_wait_base(self.rtt.min);
        self.probe.pick_wait(base, self.rules.random_probe_rounds());
    }

    /// IsRenoCoexistenceProbeTime(). The pseudo-code compares bytes with rounds; rounds are packets
    /// here, and at least one.
    fn is_reno_coexistence_probe_time(&self, conn: &Conn) -> bool {
        // "rounds >= target / smss" without the division, which every ACK would pay.
        let rounds = u64::from(self.probe.rounds_since_up);
        let volume = (rounds + 1) * conn.smss;
        // The target is no less than the smaller one of both, which is at hand.
        rounds >= RENO_ROUNDS
            || (rounds >= 1
                && self.rules.probes_by_bdp()
                && self.control.bdp.min(conn.cwnd) < volume
                && self.target_inflight(conn) < volume)
    }

    /// TargetInflight(): the estimated BDP, unless congestion cut C.cwnd.
    fn target_inflight(&self, conn: &Conn) -> u64 {
        R::target(self, conn, self.control.bdp).min(conn.cwnd)
    }

    /// InflightWithHeadroom(): leaves a share of the long-term bound to other flows.
    pub(super) fn inflight_with_headroom(&self, conn: &Conn) -> u64 {
        if self.bounds.inflight_longterm == INFINITE {
            return INFINITE;
        }
        let headroom = R::HEADROOM.of(self.bounds.inflight_longterm);
        let headroom = R::rounded_down(conn, headroom).max(conn.smss);
        self.bounds.inflight_longterm.saturating_sub(headroom).max(self.min_pipe_cwnd(conn))
    }

    /// RaiseInflightLongtermSlope(): the growth of inflight_longterm doubles each round.
    fn raise_inflight_longterm_slope(&mut self, conn: &Conn) {
        self.probe.raise_slope(|growth| R::rounded_down(conn, conn.cwnd / growth), conn.smss);
    }

    /// ProbeInflightLongtermUpward().
    #[cold]
    fn probe_inflight_longterm_upward(&mut self, conn: &Conn, rs: &RateSample) {
        if !conn.is_cwnd_limited() || conn.cwnd < self.bounds.inflight_longterm {
            return; // the bound is not used up, so nothing was learned about it
        }
        let growth = self.probe.growth(rs.newly_acked).saturating_mul(conn.smss);
        self.bounds.inflight_longterm = self.bounds.inflight_longterm.saturating_add(growth);
        if self.round.start {
            self.raise_inflight_longterm_slope(conn);
        }
    }

    /// AdaptLongTermModel(): follows the feedback of a probe, ends the filter's cycle with it, and
    /// raises the long-term bound while losses allow. True when it decided a transition.
    fn adapt_long_term_model(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        if self.round.start && self.advance_ack_phase(conn, rs) {
            return true;
        }
        R::judge_ack(self, conn, rs);
        false
    }

    /// A path without loss has no long-term bound.
    #[inline]
    pub(super) fn has_longterm_bound(&self) -> bool {
        self.bounds.inflight_longterm != INFINITE
    }

    /// True if losses or marks of the sample of an ACK say that inflight is too high.
    #[inline]
    pub(super) fn is_sample_too_high(&self, conn: &Conn, rs: &RateSample) -> bool {
        self.is_loss_too_high(conn, rs) || self.rules.marks().is_rate_too_high()
    }

    /// The last part of AdaptLongTermModel(): what is in flight without too much loss is a bound.
    #[cold]
    pub(super) fn raise_inflight_longterm(&mut self, conn: &Conn, rs: &RateSample) {
        self.bounds.inflight_longterm = self.bounds.inflight_longterm.max(rs.tx_in_flight);
        if self.state == State::ProbeBwUp {
            self.probe_inflight_longterm_upward(conn, rs);
        }
    }

    /// The part of AdaptLongTermModel() that waits for the start of a round.
    #[cold]
    fn advance_ack_phase(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        if self.probe.ack_phase == AckPhase::ProbeStarting {
            self.probe.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.probe.ack_phase == AckPhase::ProbeStopping {
            // The last sample of the probe is in.
            self.probe.is_sample = false;
            self.probe.ack_phase = AckPhase::Init;
            if self.is_in_a_probe_bw_state() {
                if !rs.is_app_limited {
                    self.bandwidth.advance_filter();
                }
                // The precautionary probe went well: probe again at once, and stay this time.
                if self.probe.prev_precautionary && !self.probe.prev_too_high {
                    self.start_probe_bw_refill(conn);
                    return true;
                }
            }
        }
        false
    }

    /// IsInflightTooHigh(), "Probing for Bandwidth In ProbeBW", for the sample of an ACK.
    pub(super) fn is_loss_too_high(&self, conn: &Conn, rs: &RateSample) -> bool {
        self.is_inflight_too_high(conn, rs.lost, rs.tx_in_flight)
    }

    /// IsInflightTooHigh(), "Probing for Bandwidth In ProbeBW": volumes lost since, and in flight
    /// at, the departure of one packet. Without selective ACKs one loss a round trip is all that
    /// can be seen.
    pub(super) fn is_inflight_too_high(&self, conn: &Conn, lost: u64, tx_in_flight: u64) -> bool {
        lost > 0
            && (!conn.has_selective_acks
                || lost > self.loss_thresh(conn, tx_in_flight).of(tx_in_flight))
    }

    /// BBR.LossThresh for so many bytes in flight.
    #[inline]
    pub(super) fn loss_thresh(&self, conn: &Conn, bytes: u64) -> Gain {
        R::LOSS_THRESH.plus(self.rules.amendments().expected_loss(conn, bytes))
    }

    /// HandleInflightTooHigh(), "Probing for Bandwidth In ProbeBW". `rs` is RS there.
    pub(super) fn handle_inflight_too_high(&mut self, conn: &Conn, rs: TooHigh, now: Instant) {
        self.probe.prev_too_high = true;
        self.probe.is_sample = false; // react once a probe
        if !rs.is_app_limited {
            let cut = R::rounded_down(conn, R::BETA.of(self.target_inflight(conn)));
            self.bounds.inflight_longterm = rs.inflight.max(cut);
        }
        if self.state == State::ProbeBwUp {
            self.undo.state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(conn, now);
        }
    }
}
