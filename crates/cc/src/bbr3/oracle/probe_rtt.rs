//! "ProbeRTT" and the windows of min_rtt of the plain model.

use super::Plain;
use crate::bbr3::AckPhase;
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::test_link::MS;
use crate::units::{Duration, Instant};

impl Plain {
    /// UpdateMinRTT(): min_rtt does not rise on the ACK that calls for ProbeRTT, nor within it. An
    /// application-limited sample near min_rtt makes ProbeRTT unnecessary for an interval.
    pub(super) fn update_min_rtt(&mut self, conn: &Conn, rs: &RateSample) {
        let is_near = |rtt: Duration| {
            self.min_rtt.is_some_and(|min| rtt.as_nanos() <= min.as_nanos() + min.as_nanos() / 32)
        };
        let is_limited = rs.is_app_limited && conn.was_application_limited;
        if is_limited && self.is_in_a_probe_bw_state() && rs.rtt().is_some_and(is_near) {
            self.probe_rtt_min_stamp = Some(rs.now);
        }
        let interval = Duration::from_secs(5);
        self.probe_rtt_expired =
            self.probe_rtt_min_stamp.is_some_and(|stamp| rs.now > stamp + interval);
        let Some(rtt) = rs.rtt() else { return };
        if self.probe_rtt_expired || self.probe_rtt_min_delay.is_none_or(|delay| rtt < delay) {
            self.probe_rtt_min_delay = Some(rtt);
            self.probe_rtt_min_stamp = Some(rs.now);
        }
        let min_rtt_expired = rs.now > self.min_rtt_stamp + Duration::from_secs(10)
            && !self.probe_rtt_expired
            && self.state != State::ProbeRtt;
        let is_shorter =
            self.min_rtt.is_none_or(|min| self.probe_rtt_min_delay.is_some_and(|d| d < min));
        if is_shorter || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp.expect("a sample");
        }
    }

    /// CheckProbeRTT(): a probe that is cut short ends its cycle of the filter.
    pub(super) fn check_probe_rtt(&mut self, conn: &mut Conn, rs: &RateSample) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            if self.is_in_a_probe_bw_state() && self.probe.ack_phase != AckPhase::Init {
                self.advance_max_bw_filter();
            }
            self.save_cwnd(conn);
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.probe.ack_phase = AckPhase::ProbeStopping;
            self.start_round(conn);
        }
        if self.state == State::ProbeRtt {
            conn.sampler.mark_app_limited(conn.inflight);
            if self.probe_rtt_done_stamp.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(conn, rs.now);
                }
            } else if conn.inflight <= self.probe_rtt_cwnd(conn) {
                self.probe_rtt_done_stamp = Some(rs.now + MS.times(200));
                self.probe_rtt_round_done = false;
                self.start_round(conn);
            }
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// CheckProbeRTTDone() and ExitProbeRTT().
    pub(super) fn check_probe_rtt_done(&mut self, conn: &mut Conn, now: Instant) {
        if self.probe_rtt_done_stamp.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = Some(now);
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        conn.was_application_limited = false;
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down(conn, now);
            self.state = State::ProbeBwCruise;
        } else {
            self.state = State::Startup;
        }
    }

    pub(super) fn probe_rtt_cwnd(&self, conn: &Conn) -> u64 {
        self.bdp(conn, self.bw, 50).max(4 * conn.smss)
    }
}
