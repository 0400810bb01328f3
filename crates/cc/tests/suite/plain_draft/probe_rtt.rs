//! min_rtt, ProbeRTT, and the restart from idle.

use fullpipe_cc::State;

use super::connection::{INFINITY, MILLISECOND, SECOND};
use super::model::{AckPhase, Model};
use super::ours::Ours;

impl Model {
    pub(super) fn update_min_rtt(&mut self) {
        let rtt = self.rs.rtt.unwrap_or(INFINITY);
        let is_short = rtt <= self.min_rtt.saturating_add(self.min_rtt / 32);
        if self.c.has(Ours::LimitedFlowNeedsNoProbeRtt)
            && self.is_in_a_probe_bw_state()
            && self.rs.is_app_limited
            && self.c.was_application_limited
            && is_short
        {
            self.probe_rtt_min_stamp = self.now;
        }
        // Nothing expires that there is not.
        self.probe_rtt_expired = self.probe_rtt_min_delay != INFINITY
            && self.now > self.probe_rtt_min_stamp + 5 * SECOND;
        if self.rs.rtt.is_some() && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired) {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = self.now;
        }
        let may_rise = !self.c.has(Ours::MinRttWaitsForProbeRtt)
            || (!self.probe_rtt_expired && self.state != State::ProbeRtt);
        let is_known = self.rs.rtt.is_some() || !self.c.has(Ours::MinRttWaitsForSample);
        let has_expired = self.now > self.min_rtt_stamp + 10 * SECOND && may_rise && is_known;
        if self.probe_rtt_min_delay < self.min_rtt || has_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    pub(super) fn check_probe_rtt(&mut self) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            let is_probe = self.is_in_a_probe_bw_state() && self.ack_phase != AckPhase::Init;
            if is_probe && self.c.has(Ours::CutProbeEndsCycle) {
                self.advance_max_bw_filter();
            }
            if self.c.has(Ours::WindowIsSavedBeforeProbeRtt) {
                self.save_cwnd();
            }
            self.enter(State::ProbeRtt);
            if !self.c.has(Ours::WindowIsSavedBeforeProbeRtt) {
                self.save_cwnd();
            }
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt();
        }
        if self.rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self) {
        self.c.mark_connection_app_limited();
        if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done();
            }
        } else if self.c.inflight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done_stamp = Some(self.now + 200 * MILLISECOND);
            self.probe_rtt_round_done = false;
            self.start_round();
        }
    }

    fn check_probe_rtt_done(&mut self) {
        if self.probe_rtt_done_stamp.is_some_and(|done| self.now > done) {
            self.probe_rtt_min_stamp = self.now;
            self.restore_cwnd();
            self.exit_probe_rtt();
        }
    }

    fn exit_probe_rtt(&mut self) {
        self.c.was_application_limited = false;
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down();
            self.enter(State::ProbeBwCruise);
        } else {
            self.enter(State::Startup);
        }
    }

    pub(super) fn handle_restart_from_idle(&mut self) {
        self.idle_restart = true;
        self.extra_acked_interval_start = self.now;
        if self.c.has(Ours::RestartResetsExtraAcked) {
            self.extra_acked_delivered = 0;
        }
        if self.is_in_a_probe_bw_state() {
            self.set_pacing_rate_with_gain(100);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done();
        }
    }
}
