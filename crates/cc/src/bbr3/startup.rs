//! Startup and Drain: find the bandwidth by doubling, then empty the queue that this made.
//! Sections "Startup" and "Drain".

use super::params::{FULL_BW_GROWTH, FULL_BW_ROUNDS, STARTUP_FULL_LOSS_COUNT};
use super::{Amend, Bbr3, Rules};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Gain, Rate};

impl<R: Rules> Bbr3<R> {
    /// EnterStartup(), "Startup Dynamics".
    pub(super) fn enter_startup(&mut self) {
        self.enter(State::Startup);
    }

    /// Rapid Start: the first queue or congestion ends the tripling, and Startup goes on with its
    /// own gains.
    #[inline]
    pub(super) fn watch_rapid_start(&mut self, conn: &mut Conn, rs: &RateSample) {
        if self.control.rapid_start.triples() {
            self.judge_rapid_start(conn, rs);
        }
    }

    #[cold]
    fn judge_rapid_start(&mut self, conn: &mut Conn, rs: &RateSample) {
        if self.control.rapid_start.observe(conn, rs) || self.full_pipe.reached {
            self.end_rapid_start(conn);
        }
    }

    /// The rate and the window of the tripling must not outlive it, although Startup's else only
    /// rise: they are those of a Startup that has found the same bandwidth. ProbeRTT goes back to
    /// Startup with them.
    #[cold]
    pub(super) fn end_rapid_start(&mut self, conn: &mut Conn) {
        self.control.rapid_start.end();
        if self.full_pipe.reached {
            return;
        }
        if self.state == State::Startup {
            self.enter_startup();
        }
        let gains = self.control.startup_gains;
        self.init_pacing_rate(conn);
        self.set_pacing_rate_with_gain(conn, gains.pacing);
        let most = self.inflight(conn, self.bandwidth.max, gains.cwnd).max(conn.initial_cwnd);
        conn.cwnd = conn.cwnd.min(most);
        self.control.prior_cwnd = self.control.prior_cwnd.min(most);
    }

    /// CheckStartupDone(), "Startup Dynamics". Its losses were looked at before.
    #[inline]
    pub(super) fn check_startup_done(&mut self) {
        if self.state == State::Startup {
            self.end_full_startup();
        }
    }

    #[cold]
    fn end_full_startup(&mut self) {
        if self.full_pipe.reached {
            self.enter_drain();
        }
    }

    /// CheckStartupHighLoss(), "Exiting Startup Based on Packet Loss", which the draft has in prose
    /// only.
    ///
    /// Asked at the end of each loss round: such a round begins at its first loss, so that recovery
    /// has lasted one full round trip by then. "At least 6 ranges" means that the sixth counts.
    /// Without selective ACKs any loss will do, at the same time.
    #[inline]
    pub(super) fn check_startup_high_loss(&mut self, conn: &Conn, rs: &RateSample) {
        if self.loss_round.start {
            self.judge_losses_of_startup(conn, rs);
        }
    }

    #[cold]
    fn judge_losses_of_startup(&mut self, conn: &Conn, rs: &RateSample) {
        let events = core::mem::take(&mut self.loss_round.events);
        let enough = if conn.has_selective_acks { STARTUP_FULL_LOSS_COUNT } else { 1 };
        if self.full_pipe.reached
            || events < enough
            || !self.is_loss_too_high(conn, rs)
            || self.rules.amendments().is_loss_of_path_in_startup(
                &self.view(conn),
                rs,
                R::LOSS_THRESH,
            )
        {
            return;
        }
        self.undo.state = Some(State::Startup);
        self.end_startup(conn);
    }

    /// The queue is full: inflight_longterm begins with what was delivered at the best, and at
    /// least with the BDP.
    pub(super) fn end_startup(&mut self, conn: &Conn) {
        self.full_pipe.fill();
        let bdp = R::bdp_of_startup(self, conn);
        self.bounds.inflight_longterm = bdp.max(self.loss_round.inflight_latest);
    }

    /// RFC 9959, appendix on BBR: congestion while the saved parameters are in use ends Startup.
    pub(super) fn end_startup_for_safe_retreat(&mut self) {
        self.full_pipe.fill();
        self.check_startup_done();
    }

    /// CheckFullBWReached(), "Exiting Acceleration Based on Bandwidth Plateau", once a round: by
    /// its first sample that has a rate and is not application-limited.
    ///
    /// The pseudo-code asks the first sample of the round alone, and counts no round in which that
    /// one is limited. Where a round trip is longer than some 1.7 s that is every round: ProbeRTT
    /// comes every five seconds and marks what is sent in it and for a round trip after, and a
    /// round that begins behind the marks is cut by the next ProbeRTT. Such a flow would be in
    /// Startup for ever, with Startup's queue. The text wants rounds counted that are not
    /// application-limited, and one that has a sample that is not is one of them.
    #[inline]
    pub(super) fn check_full_bw_reached(&mut self, rs: &RateSample) {
        if R::asks_full_bw(&self.full_pipe) {
            self.judge_growth(rs);
        }
    }

    fn judge_growth(&mut self, rs: &RateSample) {
        if self.full_pipe.now {
            self.full_pipe.awaits_sample = false;
            return;
        }
        if rs.is_app_limited || rs.delivery_rate == Rate::ZERO {
            return;
        }
        self.full_pipe.awaits_sample = false;
        let growth = match self.state {
            State::ProbeBwUp => self.rules.amendments().up_growth(),
            _ => FULL_BW_GROWTH,
        };
        if !self.full_pipe.grows(rs.delivery_rate, growth) && R::counts_plateau(&self.round) {
            self.full_pipe.count_plateau(FULL_BW_ROUNDS);
        }
    }

    /// EnterDrain(), "Drain".
    fn enter_drain(&mut self) {
        R::begin_drain(self);
        self.enter(State::Drain);
        self.full_pipe.drain_start_round = self.round.count;
    }

    /// CheckDrainDone(), "Drain". C.inflight is that after this ACK: with the one before it, a flow
    /// whose window equals the target would never leave.
    pub(super) fn check_drain_done(&mut self, conn: &Conn, rs: &RateSample) {
        if self.state != State::Drain {
            return;
        }
        if conn.inflight <= self.inflight(conn, R::bw_of_drain(self), Gain::ONE)
            || self.round.count - self.full_pipe.drain_start_round > R::DRAIN_ROUNDS
        {
            self.enter_probe_bw(conn, rs.now);
        }
    }
}
