//! The control parameters: pacing rate, send quantum and window.

use fullpipe_cc::State;

use super::connection::{INFINITY, MILLISECOND, SECOND, bytes_in, scale};
use super::model::Model;
use super::ours::Ours;

impl Model {
    pub(super) fn init_pacing_rate(&mut self, rtt: u64) {
        let nominal_bandwidth = scale(self.c.initial_cwnd, SECOND, rtt);
        self.c.pacing_rate = Self::percent(277, nominal_bandwidth).max(self.least_pacing_rate());
    }

    fn least_pacing_rate(&self) -> u64 {
        if self.c.has(Ours::LeastPacingRate) { self.c.smss } else { 1 }
    }

    pub(super) fn update_control_parameters(&mut self) {
        self.set_pacing_rate_with_gain(self.pacing_gain);
        let quantum = bytes_in(self.c.pacing_rate, MILLISECOND);
        self.c.send_quantum = quantum.min(65_536).max(2 * self.c.smss);
        self.set_cwnd();
    }

    /// The rate is 1 % under what the gain asks for.
    pub(super) fn set_pacing_rate_with_gain(&mut self, gain: u64) {
        let rate = Self::percent(99, Self::percent(gain, self.bw));
        if rate > 0 && (self.full_bw_reached || rate > self.c.pacing_rate) {
            self.c.pacing_rate = rate.max(self.least_pacing_rate());
        }
    }

    pub(super) fn min_pipe_cwnd(&self) -> u64 {
        4 * self.c.smss
    }

    fn bdp_multiple(&self, bw: u64, gain: u64) -> u64 {
        if self.min_rtt == INFINITY {
            return self.c.initial_cwnd;
        }
        Self::percent(gain, bytes_in(bw, self.min_rtt))
    }

    /// BBR.bdp, which only the estimate itself changes.
    pub(super) fn update_bdp(&mut self) {
        self.bdp = self.bdp_multiple(self.bw, 100);
    }

    fn quantization_budget(&self, inflight_cap: u64) -> u64 {
        let quanta = if self.c.is_tcp { 3 } else { 1 };
        let unacknowledged = self.c.ack_frequency.map_or(0, |asked| {
            let threshold = u64::from(asked.threshold_packets) * self.c.smss;
            threshold.min(bytes_in(self.max_bw, asked.max_delay.as_nanos()))
        });
        let offload_budget = quanta * self.c.send_quantum + unacknowledged;
        let cap = inflight_cap.max(offload_budget).max(self.min_pipe_cwnd());
        cap + if self.state == State::ProbeBwUp { 2 * self.c.smss } else { 0 }
    }

    /// Inflight().
    pub(super) fn inflight(&self, bw: u64, gain: u64) -> u64 {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(self.bw, 50).max(self.min_pipe_cwnd())
    }

    fn set_cwnd(&mut self) {
        self.update_bdp();
        let inflight_cap = self.bdp_multiple(self.bw, self.cwnd_gain) + self.extra_acked;
        self.max_inflight = self.quantization_budget(inflight_cap);
        let grown = self.c.cwnd + self.rs.newly_acked;
        if self.full_bw_reached {
            self.c.cwnd = grown.min(self.max_inflight);
        } else if self.c.cwnd < self.max_inflight || self.c.delivered < self.c.initial_cwnd {
            self.c.cwnd = grown;
        }
        self.c.cwnd = self.c.cwnd.max(self.min_pipe_cwnd());
        if self.state == State::ProbeRtt {
            self.c.cwnd = self.c.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            State::Drain if self.c.has(Ours::DrainIsBoundByLongterm) => self.inflight_longterm,
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.inflight_longterm,
            State::ProbeBwCruise | State::ProbeRtt => self.inflight_with_headroom(),
            _ => INFINITY,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd());
        self.c.cwnd = self.c.cwnd.min(cap);
    }
}
