//! ProbeBW: down a little, level for seconds, fill the pipe, up for a moment, and again.
//! Section "ProbeBW", with "ProbeBW Algorithm Details".

use super::params::{Flavour, PROBE_ROUNDS_RANDOM, PROBE_WAIT_RANDOM, RENO_ROUNDS};
use super::{AckPhase, Bbr3, TooHigh};
use crate::bandwidth::NotNow;
use crate::conn::{Conn, INFINITE};
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Instant};

impl<F: Flavour> Bbr3<F> {
    /// EnterProbeBW().
    pub(super) fn enter_probe_bw(&mut self, conn: &Conn, now: Instant) {
        self.start_probe_bw_down(conn, now);
    }

    /// StartProbeBW_DOWN().
    #[cold]
    pub(super) fn start_probe_bw_down(&mut self, conn: &Conn, now: Instant) {
        self.reset_congestion_signals();
        self.probe.up_acked_per_inc = INFINITE; // inflight_longterm does not grow here
        self.pick_probe_wait();
        self.probe.time = now + self.probe.wait;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.start_round(conn);
        self.enter(State::ProbeBwDown);
    }

    /// StartProbeBW_CRUISE(). Linux takes the long-term bound for the short-term one where that is
    /// above it: the window leaves headroom below the one, and a later cut starts from the other.
    #[cold]
    pub(super) fn start_probe_bw_cruise(&mut self, conn: &Conn) {
        if F::P.cruise_clamps_shortterm && self.bounds.inflight_shortterm != INFINITE {
            self.bounds.inflight_shortterm =
                self.bounds.inflight_shortterm.min(self.bounds.inflight_longterm);
        }
        self.begin_cruise_for_amendments(conn);
        self.enter(State::ProbeBwCruise);
    }

    /// StartProbeBW_REFILL().
    #[cold]
    pub(super) fn start_probe_bw_refill(&mut self, conn: &Conn) {
        self.end_cruise_for_amendments(conn);
        self.bounds.reset_short_term();
        self.refill_for_swift();
        if let Some(fallback) = F::fallback_mut(&mut self.own) {
            fallback.begin_cycle();
        }
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
        self.full_pipe.is_round_unjudged = false;
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
            self.take_bandwidth_of_cruise(conn, rs);
            self.start_probe_bw_refill(conn);
        } else if self.round.start {
            self.end_round_of_cruise(conn, rs);
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
        conn.inflight <= self.inflight_with_headroom(conn)
            && conn.inflight <= self.inflight(conn, self.bandwidth.max, Gain::ONE)
    }

    /// IsTimeToGoDown().
    ///
    /// The precautionary test takes C.inflight from before this ACK removed its bytes, and the
    /// bound as reached when no further full packet fits under it: C.cwnd holds C.inflight below it
    /// otherwise, and the test would never come true. Linux calls it stopped_risky_probe, and
    /// compares whole packets.
    fn is_time_to_go_down(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        if self.probe.prev_too_high
            && rs.prior_inflight.saturating_add(conn.smss) > self.bounds.inflight_longterm
        {
            self.probe.prev_precautionary = true;
            return true;
        }
        if self.is_up_at_target(conn, rs) {
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
        let rounds = if self.has_own_probe_rounds() { PROBE_ROUNDS_RANDOM } else { 2 };
        self.probe.rounds_since_up = self.rng.below(rounds) as u32;
        let random = self.rng.below(PROBE_WAIT_RANDOM.as_nanos() + 1);
        self.probe.wait = self.probe_wait_base() + Duration::from_nanos(random);
    }

    /// IsRenoCoexistenceProbeTime(). The pseudo-code compares bytes with rounds; rounds are packets
    /// here, and at least one.
    ///
    /// `bbr-swift` waits for the rounds alone: where a flow's share of the path is a few packets,
    /// it would probe in every few rounds, and so would all the others.
    fn is_reno_coexistence_probe_time(&self, conn: &Conn) -> bool {
        // "rounds >= target / smss" without the division, which every ACK would pay.
        let rounds = u64::from(self.probe.rounds_since_up);
        rounds >= RENO_ROUNDS
            || (rounds >= 1
                && !self.has_own_probe_rounds()
                && self.target_inflight(conn) < (rounds + 1) * conn.smss)
    }

    /// TargetInflight(): the estimated BDP, unless congestion cut C.cwnd. In Linux with the offload
    /// budget, which is more than a small BDP.
    fn target_inflight(&self, conn: &Conn) -> u64 {
        let bdp = self.estimated_bdp(conn);
        let target =
            if F::P.targets_have_budget { self.quantization_budget(conn, bdp) } else { bdp };
        target.min(conn.cwnd)
    }

    /// InflightWithHeadroom(): leaves a share of the long-term bound to other flows.
    pub(super) fn inflight_with_headroom(&self, conn: &Conn) -> u64 {
        if self.bounds.inflight_longterm == INFINITE {
            return INFINITE;
        }
        let headroom = F::P.headroom.of(self.bounds.inflight_longterm);
        let headroom = Self::packets_down(conn, headroom).max(conn.smss);
        self.bounds.inflight_longterm.saturating_sub(headroom).max(self.min_pipe_cwnd(conn))
    }

    /// RaiseInflightLongtermSlope(): the growth of inflight_longterm doubles each round.
    fn raise_inflight_longterm_slope(&mut self, conn: &Conn) {
        self.probe.raise_slope(|growth| Self::packets_down(conn, conn.cwnd / growth), conn.smss);
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
        if F::P.judges_acks {
            self.judge_ack(conn, rs);
        } else if self.bounds.inflight_longterm != INFINITE
            && !self.is_loss_too_high(conn, rs)
            && !self.is_mark_rate_too_high()
        {
            self.raise_inflight_longterm(conn, rs);
        }
        false
    }

    /// Linux judges the sample of each ACK as it judges each lost packet: a probe may end although
    /// the packets that were lost since left before it, or were only marked.
    fn judge_ack(&mut self, conn: &Conn, rs: &RateSample) {
        if !self.is_loss_too_high(conn, rs) && !self.is_mark_rate_too_high() {
            if self.bounds.inflight_longterm != INFINITE {
                self.raise_inflight_longterm(conn, rs);
            }
        } else if self.probe.is_sample {
            let sample = TooHigh { inflight: rs.tx_in_flight, is_app_limited: rs.is_app_limited };
            self.handle_inflight_too_high(conn, sample, rs.now);
        }
    }

    /// The last part of AdaptLongTermModel(), apart because a path without loss has no bound.
    #[cold]
    fn raise_inflight_longterm(&mut self, conn: &Conn, rs: &RateSample) {
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
                    self.advance_max_bw_filter();
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
        lost > self.loss_thresh(conn, tx_in_flight).of(tx_in_flight)
            || (lost > 0 && !conn.has_selective_acks)
    }

    /// HandleInflightTooHigh(), "Probing for Bandwidth In ProbeBW". `rs` is RS there.
    pub(super) fn handle_inflight_too_high(&mut self, conn: &Conn, rs: TooHigh, now: Instant) {
        self.probe.prev_too_high = true;
        self.probe.is_sample = false; // react once a probe
        if !rs.is_app_limited {
            let cut = Self::packets_down(conn, F::P.beta.of(self.target_inflight(conn)));
            self.bounds.inflight_longterm = rs.inflight.max(cut);
        }
        if self.state == State::ProbeBwUp {
            self.undo.state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(conn, now);
        }
    }
}
