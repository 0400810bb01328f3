//! "Startup" and "Drain" of the plain model.

use super::{Plain, percent};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::Instant;

impl Plain {
    pub(super) fn reset_full_bw(&mut self) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (0, 0, false);
    }

    pub(super) fn check_full_bw_reached(&mut self, rs: &RateSample) {
        let rate = rs.delivery_rate.as_bytes_per_sec();
        if self.full_bw_now || self.is_round_judged || rs.is_app_limited || rate == 0 {
            self.is_round_judged |= self.full_bw_now;
            return;
        }
        self.is_round_judged = true;
        if rate >= percent(125, self.full_bw) {
            self.reset_full_bw();
            self.full_bw = rate;
            return;
        }
        self.full_bw_count += 1;
        if self.full_bw_count >= 3 {
            (self.full_bw_now, self.full_bw_reached) = (true, true);
        }
    }

    /// CheckStartupDone() and CheckStartupHighLoss(): six ranges in a loss round, or one loss where
    /// ranges cannot be seen, and more than LossThresh.
    pub(super) fn check_startup_done(&mut self, conn: &Conn, rs: &RateSample) {
        if self.loss_round_start {
            let ranges = core::mem::take(&mut self.lost_ranges);
            let enough = if conn.has_selective_acks { 6 } else { 1 };
            let is_high = self.is_inflight_too_high(conn, rs.lost, rs.tx_in_flight);
            if !self.full_bw_reached && ranges >= enough && is_high {
                self.undo_state = Some(State::Startup);
                (self.full_bw_now, self.full_bw_reached) = (true, true);
                self.inflight_longterm = self.bdp(conn, self.bw, 100).max(self.inflight_latest);
            }
        }
        if self.state == State::Startup && self.full_bw_reached {
            self.state = State::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    pub(super) fn check_drain_done(&mut self, conn: &Conn, now: Instant) {
        if self.state == State::Drain
            && (conn.inflight <= self.inflight(conn, self.bw, 100)
                || self.round_count > self.drain_start_round + 3)
        {
            self.start_probe_bw_down(conn, now);
        }
    }
}
