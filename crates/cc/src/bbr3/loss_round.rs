//! What one round of losses shows, "Updating the Model Upon Packet Loss": what was delivered at the
//! best, and what was lost.

use super::TooHigh;
use crate::sampler::{PacketIndex, RateSample};
use crate::units::Rate;

/// The delivery signals and the losses of a loss round.
#[derive(Clone, Debug)]
pub(crate) struct LossRound {
    /// BBR.loss_round_start: this ACK began one.
    pub(super) start: bool,
    /// BBR.loss_round_delivered.
    pub(super) delivered: u64,
    /// BBR.bw_latest and BBR.inflight_latest.
    pub(super) bw_latest: Rate,
    pub(super) inflight_latest: u64,
    /// BBR.is_loss_in_round.
    pub(super) has_loss: bool,
    /// Discontiguous ranges that were lost (Linux's loss_events_in_round: reports of losses).
    pub(super) events: u16,
    /// The last packet of the last range.
    last_lost: Option<PacketIndex>,
    /// The losses of the batch at hand crossed the threshold there.
    pub(super) too_high: Option<TooHigh>,
}

impl LossRound {
    pub(super) const fn new() -> Self {
        Self {
            start: false,
            delivered: 0,
            bw_latest: Rate::ZERO,
            inflight_latest: 0,
            has_loss: false,
            events: 0,
            last_lost: None,
            too_high: None,
        }
    }

    /// UpdateLatestDeliverySignals(), near the start of an ACK. Only samples with a rate count,
    /// which the draft does not ask: one without says nothing of the path.
    #[inline]
    pub(super) fn update_latest(&mut self, delivered: u64, rs: &RateSample) {
        if rs.delivery_rate > Rate::ZERO {
            self.bw_latest = self.bw_latest.max(rs.delivery_rate);
            self.inflight_latest = self.inflight_latest.max(rs.delivered);
        }
        self.start = rs.prior_delivered >= self.delivered;
        if self.start {
            self.delivered = delivered;
        }
    }

    /// AdvanceLatestDeliverySignals(), near the end of an ACK.
    pub(super) const fn advance_latest(&mut self, rs: &RateSample) {
        if self.start {
            self.bw_latest = rs.delivery_rate;
            self.inflight_latest = rs.delivered;
        }
    }

    /// ResetCongestionSignals().
    pub(super) const fn reset_signals(&mut self) {
        self.has_loss = false;
        self.bw_latest = Rate::ZERO;
        self.inflight_latest = 0;
    }

    /// NoteLoss(), "Probing for Bandwidth In ProbeBW". The state was saved when the episode began,
    /// once: the pseudo-code saves it at the first loss of every round, and the second round would
    /// wipe undo_state and save bounds that the first had cut.
    pub(super) const fn note(&mut self, delivered: u64) {
        if !self.has_loss {
            self.delivered = delivered;
        }
        self.has_loss = true;
    }

    /// A packet was lost: it is of the last range, or begins one.
    pub(super) fn count_range(&mut self, packet: PacketIndex) {
        if !self.last_lost.is_some_and(|last| packet.continues(last)) {
            self.count_event();
        }
        self.last_lost = Some(packet);
    }

    /// An event of [`Self::events`].
    pub(super) const fn count_event(&mut self) {
        self.events = self.events.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr3::flavour_tests::sample;

    /// The best of a round; a sample without a rate says nothing of the volume.
    #[test]
    fn the_latest_signals_are_those_of_a_round() {
        let rate = Rate::from_bytes_per_sec;
        let mut round = LossRound::new();
        let ack = |round: &mut LossRound, bw, volume, prior, delivered| {
            let rs = RateSample { delivered: volume, prior_delivered: prior, ..sample(rate(bw)) };
            round.update_latest(delivered, &rs);
            let latest = (round.bw_latest, round.inflight_latest, round.start);
            round.advance_latest(&rs);
            latest
        };
        assert_eq!(ack(&mut round, 5, 70, 0, 10), (rate(5), 70, true));
        assert_eq!(ack(&mut round, 9, 60, 9, 20), (rate(9), 70, false));
        assert_eq!(ack(&mut round, 0, 99, 9, 30), (rate(9), 70, false));
        assert_eq!(ack(&mut round, 3, 40, 10, 40), (rate(9), 70, true));
        assert_eq!((round.bw_latest, round.inflight_latest), (rate(3), 40));
    }

    /// The round begins with its first loss; later ones do not move it.
    #[test]
    fn the_first_loss_begins_a_round() {
        let mut round = LossRound::new();
        round.note(30);
        round.note(50);
        assert!(round.has_loss && round.delivered == 30);
        round.reset_signals();
        round.note(70);
        assert_eq!(round.delivered, 70);
    }
}
