//! Startup and Drain: find the bandwidth by doubling, then empty the queue that this made.
//! Sections "Startup" and "Drain".

use super::Bbr3;
use super::params::{FULL_BW_GROWTH, FULL_BW_ROUNDS, Flavour, STARTUP_FULL_LOSS_COUNT, UP_GROWTH};
use crate::config::Amendment;
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Gain, Rate};

impl<F: Flavour> Bbr3<F> {
    /// EnterStartup(), "Startup Dynamics".
    pub(super) fn enter_startup(&mut self) {
        self.enter(State::Startup);
    }

    /// CheckStartupDone(), "Startup Dynamics". Its losses were looked at before.
    pub(super) fn check_startup_done(&mut self) {
        if self.state == State::Startup && self.full_pipe.reached {
            self.enter_drain();
        }
    }

    /// CheckFullBWReached() and CheckStartupHighLoss(): few ACKs call for one.
    #[cold]
    pub(super) fn judge_round(&mut self, conn: &Conn, rs: &RateSample) {
        if self.full_pipe.is_round_unjudged || F::P.full_bw_rises_on_any_ack {
            self.check_full_bw_reached(rs);
        }
        if self.loss_round.start {
            self.check_startup_high_loss(conn, rs);
        }
    }

    /// CheckStartupHighLoss(), "Exiting Startup Based on Packet Loss", which the draft has in prose
    /// only.
    ///
    /// Asked at the end of each loss round: such a round begins at its first loss, so that recovery
    /// has lasted one full round trip by then. "At least 6 ranges" means that the sixth counts.
    /// Linux counts ACKs that report losses (loss_events_in_round), whatever the number of ranges.
    /// Without selective ACKs any loss will do.
    fn check_startup_high_loss(&mut self, conn: &Conn, rs: &RateSample) {
        let events = core::mem::take(&mut self.loss_round.events);
        let enough = if conn.has_selective_acks { STARTUP_FULL_LOSS_COUNT } else { 1 };
        if self.full_pipe.reached
            || events < enough
            || !self.is_loss_too_high(conn, rs)
            || self.is_loss_of_path_in_startup(rs)
        {
            return;
        }
        self.undo.state = Some(State::Startup);
        self.end_startup(conn);
    }

    /// The queue is full: inflight_longterm begins with what was delivered at the best, and at least
    /// with the BDP.
    pub(super) fn end_startup(&mut self, conn: &Conn) {
        self.full_pipe.fill();
        let bdp = if F::P.targets_have_budget {
            self.inflight(conn, self.bandwidth.max, Gain::ONE)
        } else {
            self.bdp_multiple(conn, self.bandwidth.bw, Gain::ONE)
        };
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
    ///
    /// Linux asks on every ACK, so that a round's best sample is the baseline, and counts rounds by
    /// their first.
    fn check_full_bw_reached(&mut self, rs: &RateSample) {
        if !self.full_pipe.now && (rs.is_app_limited || rs.delivery_rate == Rate::ZERO) {
            return;
        }
        self.full_pipe.is_round_unjudged = false;
        if self.full_pipe.now {
            return;
        }
        let growth = match self.amended(Amendment::UpEndsAtTarget) {
            Some(_) if self.state == State::ProbeBwUp => UP_GROWTH,
            _ => FULL_BW_GROWTH,
        };
        if self.full_pipe.grows(rs.delivery_rate, growth)
            || (F::P.full_bw_rises_on_any_ack && !self.round.start)
        {
            return;
        }
        self.full_pipe.count_plateau(FULL_BW_ROUNDS);
    }

    /// EnterDrain(), "Drain". Linux forgets what was lost and delivered in Startup: the losses of a
    /// probe that is over say nothing about the rate below it.
    #[cold]
    fn enter_drain(&mut self) {
        if F::P.drain_resets_congestion_signals {
            self.reset_congestion_signals();
        }
        self.enter(State::Drain);
        self.full_pipe.drain_start_round = self.round.count;
    }

    /// CheckDrainDone(), "Drain". C.inflight is that after this ACK: with the one before it, a flow
    /// whose window equals the target would never leave.
    #[cold]
    pub(super) fn check_drain_done(&mut self, conn: &mut Conn, rs: &RateSample) {
        if self.state != State::Drain {
            return;
        }
        let bw = if F::P.drain_ignores_bounds { self.bandwidth.max } else { self.bandwidth.bw };
        if conn.inflight <= self.inflight(conn, bw, Gain::ONE)
            || self.round.count - self.full_pipe.drain_start_round > F::P.drain_rounds
        {
            self.enter_probe_bw(conn, rs.now);
        }
    }
}
