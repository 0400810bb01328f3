//! The state machine: Startup, Drain, the cycle of ProbeBW, ProbeRTT, and the restart from idle.

use super::Bbr1;
use super::params::{
    CWND_GAIN, CYCLE, DRAIN_GAIN, HIGH_GAIN, MIN_CWND_PACKETS, PROBE_RTT_DURATION,
};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Gain, Instant};

impl Bbr1 {
    /// The gain on the bandwidth, of the state and its phase. A policer's rate is never probed:
    /// what exceeds it is dropped.
    pub(super) fn pacing_gain(&self) -> Gain {
        match self.state {
            State::Startup => HIGH_GAIN,
            State::Drain => DRAIN_GAIN,
            State::ProbeBw if self.policer.bw().is_none() => CYCLE[self.cycle_index],
            _ => Gain::ONE,
        }
    }

    /// The gain on the BDP, of the state.
    pub(super) fn cwnd_gain(&self) -> Gain {
        match self.state {
            State::Startup | State::Drain => HIGH_GAIN,
            State::ProbeBw => CWND_GAIN,
            _ => Gain::ONE,
        }
    }

    /// Begins ProbeBW at a random phase, so that flows do not probe together; never with the one of
    /// 3/4, which would have nothing to drain.
    pub(super) fn enter_probe_bw(&mut self) {
        self.state = State::ProbeBw;
        // 0, or 2 to 7.
        self.cycle_index = match self.rng.below(7) {
            0 => 0,
            n => n as usize + 1,
        };
        self.cycle_stamp = self.delivered_time;
    }

    /// The next phase of the cycle, when this one has done its work.
    pub(super) fn update_cycle_phase(&mut self, conn: &Conn, rs: &RateSample) {
        if self.state == State::ProbeBw && self.is_phase_over(conn, rs) {
            self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
            self.cycle_stamp = rs.now;
        }
    }

    /// A phase lasts one min_rtt. One that probes goes on until the probe is in flight or loses;
    /// one that drains ends early once the queue is gone.
    fn is_phase_over(&self, conn: &Conn, rs: &RateSample) -> bool {
        let gain = self.pacing_gain();
        let full_length = rs.now.since(self.cycle_stamp) > self.min_rtt;
        if gain > Gain::ONE {
            let target = self.inflight(conn, self.max_bw(), gain);
            // "Reached" when no further packet fits under it: bytes come in packets.
            let reached = rs.prior_inflight.saturating_add(conn.smss) > target;
            full_length && (self.newly_lost > 0 || reached)
        } else if gain < Gain::ONE {
            full_length || rs.prior_inflight <= self.inflight(conn, self.max_bw(), Gain::ONE)
        } else {
            full_length
        }
    }

    /// Startup ends when the pipe is full, Drain when one BDP is left in flight.
    #[inline(always)]
    pub(super) fn check_drain(&mut self, conn: &Conn) {
        if self.state == State::Startup && self.full_bw_reached {
            self.state = State::Drain;
        }
        if self.state == State::Drain
            && conn.inflight <= self.inflight(conn, self.max_bw(), Gain::ONE)
        {
            self.enter_probe_bw();
        }
    }

    /// ProbeRTT: four packets in flight for 200 ms and a round, when min_rtt was not seen again for
    /// ten seconds.
    pub(super) fn update_probe_rtt(&mut self, conn: &mut Conn, rs: &RateSample, expired: bool) {
        if expired && !self.idle_restart && self.state != State::ProbeRtt {
            self.save_cwnd(conn);
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
        }
        if self.state == State::ProbeRtt {
            // The low rate of ProbeRTT says nothing about the path.
            conn.sampler.mark_app_limited(conn.inflight);
            self.hold_probe_rtt(conn, rs.now);
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn hold_probe_rtt(&mut self, conn: &mut Conn, now: Instant) {
        if self.probe_rtt_done_stamp.is_none() {
            if conn.inflight <= self.min_cwnd(conn) {
                self.probe_rtt_done_stamp = Some(now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.round.begin(conn.sampler.delivered);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round.start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(conn, now);
        }
    }

    fn check_probe_rtt_done(&mut self, conn: &mut Conn, now: Instant) {
        if self.probe_rtt_done_stamp.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt_stamp = now;
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw();
        } else {
            self.state = State::Startup;
        }
    }

    /// The application has data again after nothing was in flight: paced at the bandwidth, because
    /// there is no queue to drain and nothing yet to probe with.
    pub(super) fn restart_from_idle(&mut self, conn: &mut Conn, now: Instant) {
        self.idle_restart = true;
        if let Some(aggregation) = &mut self.aggregation {
            aggregation.restart(now);
        }
        if self.state == State::ProbeBw {
            self.set_pacing_rate_with_gain(conn, Gain::ONE);
            self.made_of = None; // the next ACK has the phase's own gain again
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(conn, now);
        }
    }

    /// The smallest window in bytes.
    pub(super) fn min_cwnd(&self, conn: &Conn) -> u64 {
        MIN_CWND_PACKETS.saturating_mul(conn.smss)
    }
}
