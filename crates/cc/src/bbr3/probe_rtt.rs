//! ProbeRTT and the restart from idle: the moments in which the queue is known to be empty.
//! Sections "ProbeRTT" and "Restarting From Idle".

use super::amend::Found;
use super::min_rtt::is_short;
use super::params::{PROBE_RTT_CWND_GAIN, PROBE_RTT_DURATION};
use super::{AckPhase, Amend, Bbr3, Rules};
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

impl<R: Rules> Bbr3<R> {
    /// CheckProbeRTT(), "ProbeRTT Logic".
    #[inline]
    pub(super) fn check_probe_rtt(&mut self, conn: &mut Conn, rs: &RateSample) {
        if self.rtt.probe_expired && self.state != State::ProbeRtt && !self.probe_rtt.idle_restart {
            self.enter_probe_rtt(conn);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(conn, rs);
        }
        if rs.delivered > 0 {
            self.probe_rtt.idle_restart = false;
        }
    }

    /// True if an application-limited sample says what ProbeRTT would find.
    #[cold]
    pub(super) fn shows_no_queue(&self, rs: &RateSample) -> bool {
        let may_leave_out = self.is_in_a_probe_bw_state()
            || self.state == State::Startup
                && self.rules.amendments().may_leave_out_first_probe_rtt();
        may_leave_out && is_short(rs.rtt, self.rtt.min)
    }

    /// EnterProbeRTT(), "ProbeRTT Logic", with what CheckProbeRTT() does beside it.
    ///
    /// SaveCwnd() comes before the state: behind it, as in the draft and in Linux, it would keep an
    /// older window that was larger, which nothing bounds in Startup.
    #[cold]
    fn enter_probe_rtt(&mut self, conn: &Conn) {
        if self.is_in_a_probe_bw_state()
            && self.probe.ack_phase != AckPhase::Init
            && self.rules.amendments().is_probe_cut()
        {
            R::cut_probe(self);
        }
        self.save_cwnd(conn);
        self.rules.amendments_mut().begin_probe_rtt();
        self.enter(State::ProbeRtt);
        self.probe_rtt.done_stamp = Instant::MAX;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.start_round(conn);
    }

    /// HandleProbeRTT(), "ProbeRTT Logic".
    #[cold]
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

    /// ExitProbeRTT(), "Exiting ProbeRTT".
    fn exit_probe_rtt(&mut self, conn: &mut Conn, now: Instant) {
        let (rules, view) = self.rules_and_view(conn);
        match rules.amendments_mut().end_probe_rtt(&view, now) {
            Found::Rtt => {}
            Found::LongerPath => self.take_probe_rtt_min_delay(conn),
            Found::SlowerLink(bw) => self.bandwidth.restart_filter(bw),
        }
        // ProbeRTT's own marks are none of the application's.
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
        let most = self.rules.amendments().most_probe_rtt_cwnd(&self.view(conn));
        cwnd.min(most).max(self.min_pipe_cwnd(conn))
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
        self.aggregation.begin(now);
        if self.is_in_a_probe_bw_state() {
            self.set_pacing_rate_with_gain(conn, Gain::ONE);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(conn, now);
        }
    }

    /// BBR.MinPipeCwnd in bytes.
    #[inline]
    pub(super) fn min_pipe_cwnd(&self, conn: &Conn) -> u64 {
        self.rules.min_pipe_packets() * conn.smss
    }
}
