//! The answers to loss: the bounds, recovery and its undo.

use fullpipe_cc::State;

use super::connection::{INFINITY, Packet, RateSample, scale};
use super::model::Model;
use super::ours::Ours;

impl Model {
    pub(super) fn update_latest_delivery_signals(&mut self) {
        if self.rs.delivery_rate > 0 || !self.c.has(Ours::RatelessSampleSaysNothing) {
            self.bw_latest = self.bw_latest.max(self.rs.delivery_rate);
            self.inflight_latest = self.inflight_latest.max(self.rs.delivered);
        }
        self.loss_round_start = self.rs.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = self.c.delivered;
        }
    }

    pub(super) fn advance_latest_delivery_signals(&mut self) {
        if self.loss_round_start {
            self.bw_latest = self.rs.delivery_rate;
            self.inflight_latest = self.rs.delivered;
        }
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    pub(super) fn update_congestion_signals(&mut self) {
        self.update_max_bw();
        if !self.loss_round_start {
            return;
        }
        if self.is_loss_in_round && !self.is_probing_bw() {
            self.adapt_lower_bounds();
        }
        self.is_loss_in_round = false;
    }

    /// InitLowerBounds() and LossLowerBounds().
    fn adapt_lower_bounds(&mut self) {
        if self.bw_shortterm == INFINITY {
            self.bw_shortterm = self.max_bw;
        }
        if self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = self.c.cwnd;
        }
        let mut latest = self.bw_latest;
        if self.c.has(Ours::MarginIsNoLoss) {
            latest = latest.max(scale(latest, 100, 99).min(self.bw_shortterm));
        }
        self.bw_shortterm = latest.max(Self::percent(70, self.bw_shortterm));
        self.inflight_shortterm =
            self.inflight_latest.max(Self::percent(70, self.inflight_shortterm));
    }

    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = INFINITY;
        self.inflight_shortterm = INFINITY;
    }

    pub(super) fn is_inflight_too_high(&self, rs: &RateSample) -> bool {
        rs.lost * 50 > rs.tx_in_flight || (rs.lost > 0 && !self.c.has_selective_acks)
    }

    fn handle_inflight_too_high(&mut self, rs: &RateSample) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !rs.is_app_limited {
            let least = Self::percent(70, self.target_inflight());
            self.inflight_longterm = rs.tx_in_flight.max(least);
        }
        if self.state == State::ProbeBwUp {
            self.undo_state = Some(State::ProbeBwUp);
            self.start_probe_bw_down();
        }
    }

    /// HandleLostPacket() for the losses of one ACK or timer, before which C.lost was `lost`.
    pub(super) fn handle_lost_packets(&mut self, packets: &[Packet], mut lost: u64) {
        let mut too_high = None;
        for packet in packets {
            lost += packet.size;
            self.note_loss(packet);
            let Some(rs) = self.judge_lost_packet(packet, lost) else { continue };
            if !self.c.has(Ours::LossesOfAnAckAreOneEvent) {
                self.handle_inflight_too_high(&rs);
            } else if too_high.is_none() {
                too_high = Some(rs);
            }
        }
        if let Some(rs) = too_high {
            self.handle_inflight_too_high(&rs);
        }
    }

    /// NoteLoss().
    fn note_loss(&mut self, packet: &Packet) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.c.delivered;
            if !self.c.has(Ours::SaveOncePerEpisode) {
                self.save_state_upon_loss();
            }
        }
        self.is_loss_in_round = true;
        if self.last_lost.is_none_or(|last| last + 1 != packet.id) {
            self.lost_ranges += 1;
        }
        self.last_lost = Some(packet.id);
    }

    /// The loss as a sample, if it is of a probe and says that too much was in flight; `lost` is
    /// C.lost with this packet.
    fn judge_lost_packet(&self, packet: &Packet, lost: u64) -> Option<RateSample> {
        if !self.is_bw_probe_sample {
            return None;
        }
        let mut rs = RateSample {
            tx_in_flight: packet.tx_in_flight,
            lost: lost - packet.lost,
            is_app_limited: packet.is_app_limited,
            ..self.rs
        };
        if !self.is_inflight_too_high(&rs) {
            return None;
        }
        rs.tx_in_flight = self.inflight_at_loss(packet, &rs);
        Some(rs)
    }

    fn inflight_at_loss(&self, packet: &Packet, rs: &RateSample) -> u64 {
        let inflight_prev = rs.tx_in_flight - packet.size;
        let lost_prev = rs.lost - packet.size;
        let threshold = Self::percent(2, inflight_prev);
        let before = if self.c.has(Ours::PrefixIsNotNegative) {
            inflight_prev
        } else {
            inflight_prev.saturating_sub(scale(lost_prev.saturating_sub(threshold), 100, 98))
        };
        before + scale(threshold.saturating_sub(lost_prev), 100, 98)
    }

    pub(super) fn on_enter_fast_recovery(&mut self) {
        self.save_cwnd();
        self.save_state_upon_loss();
        self.c.begin_recovery();
    }

    pub(super) fn on_enter_rto(&mut self) {
        if !self.c.is_in_recovery {
            self.on_enter_fast_recovery();
        } else {
            self.save_cwnd();
            if !self.c.has(Ours::SaveOncePerEpisode) {
                self.save_state_upon_loss();
            }
        }
        self.c.cwnd = self.c.inflight + self.c.smss;
        if self.c.has(Ours::TimeoutResetsFullBw) {
            self.reset_full_bw();
        }
        // A timeout is no fast recovery.
        self.lost_ranges = 0;
    }

    fn save_state_upon_loss(&mut self) {
        self.undo_state = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if !self.c.is_in_recovery && self.state != State::ProbeRtt {
            self.c.cwnd
        } else {
            self.prior_cwnd.max(self.c.cwnd)
        };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.c.cwnd = self.c.cwnd.max(self.prior_cwnd);
    }

    /// HandleSpuriousLossDetection().
    pub(crate) fn on_spurious_loss(&mut self, now: u64) {
        self.now = now;
        self.c.end_recovery(false);
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.lost_ranges = 0;
        if self.undo_state.is_some() || !self.c.has(Ours::UndoResetsOwnEpisode) {
            self.reset_full_bw();
        }
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        if self.undo_state == Some(State::Startup) && self.state != State::Startup {
            self.full_bw_reached = false;
            if self.state != State::ProbeRtt {
                self.enter(State::Startup);
            }
        } else if self.undo_state == Some(State::ProbeBwUp)
            && self.state != State::ProbeBwUp
            && self.state != State::ProbeRtt
        {
            self.start_probe_bw_refill();
        }
        self.undo_state = None;
    }
}
