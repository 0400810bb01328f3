//! The model of the path: rounds, bandwidth, full pipe and round-trip time.

use super::params::{BW_ROUNDS, FULL_BW_GROWTH, FULL_BW_ROUNDS, MIN_RTT_WINDOW};
use super::policer::Event;
use super::window::Conservation;
use super::{Bbr1, Conserved};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::Rate;

impl Bbr1 {
    /// The windowed maximum of the delivery rate.
    pub(super) fn max_bw(&self) -> Rate {
        Rate::from_bytes_per_sec(self.bw_filter.max())
    }

    /// The bandwidth to pace at: the policer's, while there seems to be one.
    pub(super) fn bw(&self) -> Rate {
        self.policer.bw().unwrap_or(self.max_bw())
    }

    /// Packet-timed rounds. Linux skips ACKs without a reliable rate here; a round is over with or
    /// without one, and a flow whose samples are all unreliable would never see another.
    pub(super) fn update_round(&mut self, conn: &Conn, rs: &RateSample) {
        self.round.update(conn.sampler.delivered, rs.prior_delivered);
        if self.round.start {
            self.conservation = Conservation::Off;
        }
    }

    /// The bandwidth filter. A sample that the application limited counts only upwards, and one
    /// without a rate not at all.
    pub(super) fn update_bw(&mut self, rs: &RateSample) {
        let rate = rs.delivery_rate;
        if rate > Rate::ZERO && (!rs.is_app_limited || rate >= self.max_bw()) {
            self.bw_filter.update(rate.as_bytes_per_sec(), self.round.count, BW_ROUNDS);
        }
    }

    /// The search for a policer. When its rate was used for long enough, ProbeBW begins anew.
    #[cold]
    pub(super) fn update_policer(&mut self, conn: &Conn, is_app_limited: bool) {
        let event = Event {
            now: self.delivered_time,
            delivered: conn.sampler.delivered,
            lost: self.lost,
            has_losses: self.newly_lost > 0,
            is_app_limited,
            round_start: self.round.start,
            in_probe_bw: self.state == State::ProbeBw,
        };
        if self.policer.update(&event) {
            self.enter_probe_bw();
        }
    }

    /// Three rounds in which the bandwidth did not grow by a quarter: the pipe is full. A sample
    /// without a rate, which begins no round in Linux, is no round without growth.
    #[cold]
    pub(super) fn check_full_bw_reached(&mut self, rs: &RateSample) {
        let conserved = core::mem::replace(&mut self.conserved, Conserved::No);
        if self.full_bw_reached || rs.is_app_limited || rs.delivery_rate == Rate::ZERO {
            return;
        }
        let max_bw = self.max_bw();
        if max_bw == Rate::ZERO {
            return;
        }
        if max_bw >= FULL_BW_GROWTH.of_rate(self.full_bw) {
            self.full_bw = max_bw;
            self.full_bw_count = 0;
            self.has_counted_conserved = false;
            return;
        }
        if conserved == Conserved::ForNothing {
            return;
        }
        self.has_counted_conserved = conserved == Conserved::Yes;
        self.full_bw_count += 1;
        self.full_bw_reached = self.full_bw_count >= FULL_BW_ROUNDS;
    }

    /// The shortest round trip of ten seconds. Returns whether the old one expired.
    ///
    /// Linux keeps the sample of a delayed ACK out of an expired filter; no transport tells this
    /// crate which ACK was delayed, and ProbeRTT follows at once.
    pub(super) fn update_min_rtt(&mut self, rs: &RateSample) -> bool {
        let expired = rs.now > self.min_rtt_stamp + MIN_RTT_WINDOW;
        let Some(rtt) = rs.rtt() else { return expired };
        if rtt < self.min_rtt || expired {
            self.min_rtt = rtt;
            self.min_rtt_stamp = rs.now;
        }
        expired
    }
}
