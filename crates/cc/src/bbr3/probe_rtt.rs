//! ProbeRTT and the restart from idle: the moments in which the queue is known to be empty.
//! Sections "ProbeRTT" and "Restarting From Idle".

use super::params::{Flavour, MIN_PIPE_PACKETS, PROBE_RTT_CWND_GAIN, PROBE_RTT_DURATION};
use super::swift::Swift;
use super::{AckPhase, Bbr3};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Gain, Instant};

/// The state of ProbeRTT, and of the restart from idle, which takes its place.
#[derive(Clone, Debug)]
pub(super) struct ProbeRtt {
    /// BBR.probe_rtt_done_stamp; [`Instant::MAX`] while ProbeRTT has not reached its window.
    done_stamp: Instant,
    /// BBR.probe_rtt_round_done.
    round_done: bool,
    /// BBR.idle_restart.
    pub(super) idle_restart: bool,
}

impl ProbeRtt {
    pub(super) const fn new() -> Self {
        Self { done_stamp: Instant::MAX, round_done: false, idle_restart: false }
    }
}

impl<F: Flavour> Bbr3<F> {
    /// CheckProbeRTT(), "ProbeRTT Logic", but for BBR.idle_restart, which every ACK ends.
    ///
    /// A probe that ProbeRTT cuts short, or whose last samples are still on their way, ends its
    /// cycle of the max filter here. In the draft it ends none, and where a probe and the round
    /// after it take longer than ProbeRTTInterval leaves (round trips of more than half a second,
    /// or a path that became slower behind a deep buffer) none is ever completed: the old maximum
    /// stays, so does the queue, and min_rtt grows by it. Whether this ACK's sample is
    /// application-limited does not count: where a round trip takes longer than the 5 s, every
    /// sample of this moment bears the mark of the ProbeRTT before. A cycle in which all samples
    /// were limited does not end here either. Linux's flavour is as Linux.
    #[cold]
    pub(super) fn check_probe_rtt(
        &mut self,
        conn: &mut Conn,
        rs: &RateSample,
        probe_rtt_expired: bool,
    ) {
        if self.state != State::ProbeRtt && probe_rtt_expired && !self.probe_rtt.idle_restart {
            let probing = self.is_in_a_probe_bw_state() && self.probe.ack_phase != AckPhase::Init;
            if F::P.ends_cycle_of_cut_probe && probing {
                self.advance_max_bw_filter();
            }
            self.enter_probe_rtt(conn);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(conn, rs);
        }
    }

    /// EnterProbeRTT(), "ProbeRTT Logic".
    fn enter_probe_rtt(&mut self, conn: &Conn) {
        self.save_cwnd(conn);
        self.begin_probe_rtt_for_amendments();
        self.enter(State::ProbeRtt);
        self.probe_rtt.done_stamp = Instant::MAX;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.start_round(conn);
    }

    /// HandleProbeRTT(), "ProbeRTT Logic".
    fn handle_probe_rtt(&mut self, conn: &mut Conn, rs: &RateSample) {
        // The low rate of ProbeRTT says nothing about the path.
        conn.sampler.mark_app_limited(conn.inflight);
        if self.probe_rtt.done_stamp == Instant::MAX {
            if conn.inflight <= self.probe_rtt_cwnd(conn) {
                self.probe_rtt.done_stamp = rs.now + PROBE_RTT_DURATION;
                self.probe_rtt.round_done = false;
                self.start_round(conn);
            }
            return;
        }
        if self.round.start {
            self.probe_rtt.round_done = true;
        }
        if self.probe_rtt.round_done {
            self.check_probe_rtt_done(conn, rs.now);
        }
    }

    /// CheckProbeRTTDone(), "ProbeRTT Logic".
    fn check_probe_rtt_done(&mut self, conn: &mut Conn, now: Instant) {
        if now > self.probe_rtt.done_stamp {
            self.renew_probe_rtt_expiry(conn, now);
            self.restore_cwnd(conn);
            self.exit_probe_rtt(conn, now);
        }
    }

    /// BBR.probe_rtt_min_stamp is `now`.
    pub(super) fn renew_probe_rtt_expiry(&mut self, conn: &Conn, now: Instant) {
        self.rtt.probe_expiry = now + self.probe_rtt_interval(conn);
    }

    /// ExitProbeRTT(), "Exiting ProbeRTT".
    fn exit_probe_rtt(&mut self, conn: &mut Conn, now: Instant) {
        self.end_probe_rtt_for_amendments(conn, now);
        conn.was_application_limited = false;
        self.bounds.reset_short_term();
        if self.full_pipe.reached {
            self.start_probe_bw_down(conn, now);
            self.start_probe_bw_cruise(conn);
        } else {
            self.enter_startup();
        }
    }

    /// ProbeRTTCwnd(), "Modulating cwnd in ProbeRTT".
    pub(super) fn probe_rtt_cwnd(&self, conn: &Conn) -> u64 {
        let cwnd = self.bdp_multiple(conn, self.bandwidth.bw, PROBE_RTT_CWND_GAIN);
        cwnd.min(self.most_of_probe_rtt(conn)).max(self.min_pipe_cwnd(conn))
    }

    /// HandleRestartFromIdle(), "Actions when Restarting from Idle". The controller calls it only
    /// when nothing was in flight and the application was the limit.
    ///
    /// The pseudo-code starts a new interval of extra_acked and keeps the bytes of the old one,
    /// although BBR.extra_acked_delivered is what was acknowledged since the interval began. So
    /// each answer of a request/response flow would add its bytes, and the window would grow
    /// without bound. Here both begin anew, as in Linux.
    pub(super) fn handle_restart_from_idle(&mut self, conn: &mut Conn, now: Instant) {
        self.probe_rtt.idle_restart = true;
        self.schedule_rtt_check();
        self.aggregation.begin(now);
        if self.is_in_a_probe_bw_state() {
            self.set_pacing_rate_with_gain(conn, Gain::ONE);
            self.is_model_new = true; // the next ACK has the state's own gain again
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(conn, now);
        }
    }

    /// The end of BBR.idle_restart, in UpdateOnACK().
    pub(super) fn end_idle_restart(&mut self, rs: &RateSample) {
        if self.probe_rtt.idle_restart && rs.delivered > 0 {
            self.probe_rtt.idle_restart = false;
            self.schedule_rtt_check();
        }
    }

    /// BBR.MinPipeCwnd in bytes. In `bbr-swift` one packet, or as many as make the receiver
    /// acknowledge, and less by pacing: four packets of each of a thousand flows are a queue that
    /// no law can empty.
    pub(super) fn min_pipe_cwnd(&self, conn: &Conn) -> u64 {
        F::swift(&self.own).map_or(MIN_PIPE_PACKETS, Swift::min_pipe_packets) * conn.smss
    }
}
