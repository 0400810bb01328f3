//! ProbeBW: its four phases and the long-term bound.

use fullpipe_cc::State;

use super::connection::{INFINITY, SECOND};
use super::model::{AckPhase, Model};
use super::ours::Ours;

impl Model {
    pub(super) fn start_probe_bw_down(&mut self) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = INFINITY;
        self.pick_probe_wait();
        self.cycle_stamp = self.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.enter(State::ProbeBwDown);
    }

    /// Draws from the generator of the core, with the same seed: first the rounds, then the time.
    fn pick_probe_wait(&mut self) {
        self.rounds_since_probe_up = self.rng.below(2);
        self.bw_probe_wait = 2 * SECOND + self.rng.below(SECOND + 1);
    }

    pub(super) fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.enter(State::ProbeBwRefill);
    }

    fn start_probe_bw_up(&mut self) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full_bw();
        self.full_bw = self.rs.delivery_rate;
        self.is_round_judged = true; // its packets left in REFILL
        self.enter(State::ProbeBwUp);
        self.raise_inflight_longterm_slope();
    }

    pub(super) fn update_probe_bw_cycle_phase(&mut self) {
        if !self.full_bw_reached || self.adapt_long_term_model() {
            return;
        }
        let state = self.state;
        match state {
            State::ProbeBwDown if !self.is_time_to_probe_bw() && self.is_time_to_cruise() => {
                self.enter(State::ProbeBwCruise);
            }
            State::ProbeBwCruise => _ = self.is_time_to_probe_bw(),
            State::ProbeBwRefill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_probe_bw_up();
            }
            State::ProbeBwUp if self.is_time_to_go_down() => {
                self.prev_probe_too_high = false;
                self.start_probe_bw_down();
            }
            _ => {}
        }
    }

    fn is_time_to_probe_bw(&mut self) -> bool {
        let is_late = self.now > self.cycle_stamp + self.bw_probe_wait;
        // A round for each packet of the target: the volume is of bytes, and a window of none
        // would probe at once.
        let reno_rounds = (self.target_inflight() / self.c.smss).clamp(1, 63);
        if is_late || self.rounds_since_probe_up >= reno_rounds {
            self.start_probe_bw_refill();
            return true;
        }
        false
    }

    fn is_time_to_cruise(&self) -> bool {
        self.c.inflight <= self.inflight_with_headroom()
            && self.c.inflight <= self.inflight(self.max_bw, 100)
    }

    fn is_time_to_go_down(&mut self) -> bool {
        let reaches_bound = if self.c.has(Ours::PrecautionByPriorInflight) {
            self.rs.prior_inflight.saturating_add(self.c.smss) > self.inflight_longterm
        } else {
            self.c.inflight >= self.inflight_longterm
        };
        if self.prev_probe_too_high && reaches_bound {
            self.prev_probe_precautionary = true;
            return true;
        }
        if self.c.is_cwnd_limited() && self.c.cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = self.rs.delivery_rate;
            return false;
        }
        self.full_bw_now
    }

    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = Self::percent(15, self.inflight_longterm).max(self.c.smss);
        self.inflight_longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
    }

    fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = 1 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (self.c.cwnd / growth_this_round).max(self.c.smss);
    }

    fn probe_inflight_longterm_upward(&mut self) {
        if !self.c.is_cwnd_limited() || self.c.cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += self.rs.newly_acked;
        let delta = self.bw_probe_up_acked / self.probe_up_acked_per_inc;
        self.bw_probe_up_acked -= delta * self.probe_up_acked_per_inc;
        self.inflight_longterm += delta * self.c.smss;
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// Returns true if it left for another state.
    fn adapt_long_term_model(&mut self) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.is_in_a_probe_bw_state() && !self.rs.is_app_limited {
                self.advance_max_bw_filter();
            }
            let was_safe = self.prev_probe_precautionary && !self.prev_probe_too_high;
            if self.is_in_a_probe_bw_state() && was_safe {
                self.start_probe_bw_refill();
                return true;
            }
        }
        if !self.is_inflight_too_high(&self.rs) && self.inflight_longterm != INFINITY {
            self.inflight_longterm = self.inflight_longterm.max(self.rs.tx_in_flight);
            if self.state == State::ProbeBwUp {
                self.probe_inflight_longterm_upward();
            }
        }
        false
    }
}
