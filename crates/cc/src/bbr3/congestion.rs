//! The model's response to losses, and the undo of that response if the losses were spurious.
//! Sections "Updating the Model Upon Packet Loss" and "... Detecting a Spurious Loss Recovery".

use super::{Amend, Bbr3, MarkResponse, Rules, TooHigh};
use crate::algo::Congestion;
use crate::conn::Conn;
use crate::sampler::{PacketState, RateSample};
use crate::snapshot::State;
use crate::units::Rate;

impl<R: Rules> Bbr3<R> {
    /// UpdateLatestDeliverySignals().
    #[inline]
    pub(super) fn update_latest_delivery_signals(&mut self, conn: &Conn, rs: &RateSample) {
        self.loss_round.update_latest(conn.sampler.delivered, rs);
    }

    /// AdvanceLatestDeliverySignals().
    #[inline]
    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &RateSample) {
        self.loss_round.advance_latest(rs);
    }

    /// UpdateCongestionSignals(), with UpdateMaxBw() and UpdateRound(): once a loss round the
    /// short-term bounds follow the losses.
    #[inline]
    pub(super) fn update_congestion_signals(&mut self, conn: &Conn, rs: &RateSample) {
        self.update_round(conn, rs);
        self.bandwidth.update_max(rs);
        if self.loss_round.start {
            self.adapt_lower_bounds_from_congestion(conn, rs);
            self.loss_round.has_loss = false;
            self.rules.marks_mut().end_loss_round();
        }
    }

    /// AdaptLowerBoundsFromCongestion(). While probing, losses speak to the long-term model only.
    #[cold]
    fn adapt_lower_bounds_from_congestion(&mut self, conn: &Conn, rs: &RateSample) {
        if self.is_probing_bw() {
            return;
        }
        let marks = self.rules.marks();
        let bound_of_marks = marks.lower_bound::<R>(conn, &mut self.bounds);
        if self.loss_round.has_loss && !self.rules.amendments().is_small_loss(conn, rs) {
            self.loss_lower_bounds(conn);
        }
        self.bounds.inflight_shortterm = self.bounds.inflight_shortterm.min(bound_of_marks);
    }

    /// LossLowerBounds().
    fn loss_lower_bounds(&mut self, conn: &Conn) {
        self.bounds.init_lower(self.bandwidth.max, conn.cwnd);
        let bw_shortterm = self.bounds.bw_shortterm;
        let bw = R::bw_of_lossy_round(self.loss_round.bw_latest, bw_shortterm);
        self.bounds.bw_shortterm = bw.max(R::BETA.of_rate(bw_shortterm));
        let cut = R::rounded_down(conn, R::BETA.of(self.bounds.inflight_shortterm));
        self.bounds.inflight_shortterm = self.loss_round.inflight_latest.max(cut);
    }

    /// HandleLostPacket(), "Probing for Bandwidth In ProbeBW", for one packet: finds where the
    /// losses crossed the threshold. What follows from that waits until the whole batch is counted,
    /// so that the order of the caller's words does not matter.
    pub(super) fn handle_lost_packet(&mut self, conn: &Conn, packet: &PacketState) {
        R::count_lost_packet(&mut self.loss_round, packet);
        if !self.probe.is_sample || self.loss_round.too_high.is_some() {
            return; // no packet of a probe, or the probe was judged already
        }
        let lost = conn.sampler.lost_since(packet);
        if self.is_inflight_too_high(conn, lost, packet.tx_in_flight()) {
            self.loss_round.too_high = Some(TooHigh {
                inflight: self.inflight_at_loss(conn, packet, lost),
                is_app_limited: packet.is_app_limited(),
            });
        }
    }

    /// InflightAtLoss(), "Probing for Bandwidth In ProbeBW": the packet may be an aggregate of
    /// which a part still fitted.
    fn inflight_at_loss(&self, conn: &Conn, packet: &PacketState, lost: u64) -> u64 {
        let inflight_prev = packet.tx_in_flight().saturating_sub(packet.size());
        let lost_prev = lost.saturating_sub(packet.size());
        // Losses before this packet may be above the threshold already: then none of it fitted.
        let loss_thresh = self.loss_thresh(conn, packet.tx_in_flight());
        let budget = R::rounded_up(conn, loss_thresh.of(inflight_prev));
        let fits = loss_thresh.complement().divide(budget.saturating_sub(lost_prev));
        inflight_prev.saturating_add(R::rounded_down(conn, fits))
    }

    /// The response to all losses and marks of one ACK or timer.
    pub(super) fn respond_to_congestion(&mut self, conn: &Conn, congestion: &Congestion<'_>) {
        let marks = congestion.marks.as_ref();
        let has_response = self.rules.marks().is_there();
        if has_response {
            if let Some(marks) = marks {
                self.rules.marks_mut().note(marks);
                R::judge_marks(self, conn, marks, congestion.now);
            }
            if !congestion.has_losses {
                return; // what else marks ask for waits for the ACK
            }
        } else if self.rules.answers_classic_marks() {
            if let Some(marks) = marks {
                let (rules, view) = self.rules_and_view(conn);
                rules.amendments_mut().answer_marks(&view, marks.sample);
            }
            if !congestion.has_losses {
                return;
            }
        }
        self.loss_round.note(conn.sampler.delivered);
        R::count_loss_report(&mut self.loss_round);
        // The draft leaves ECN's response open, and wants CE to be congestion: marks count as lost
        // volume, and are judged by the sample of the ACK that brought them.
        let marked = marks.map(|marks| marks.sample).filter(|rs| {
            !has_response
                && !self.rules.answers_classic_marks()
                && self.probe.is_sample
                && self.is_loss_too_high(conn, rs)
        });
        if let Some(rs) = self.loss_round.too_high.take().or(marked.map(TooHigh::from)) {
            self.handle_inflight_too_high(conn, rs, congestion.now);
        }
    }

    /// OnEnterRTO(), "Modulating cwnd in Loss Recovery". "+ 1" there means one SMSS. The estimates
    /// of the path stay: an ACK that did not come does not make them wrong.
    ///
    /// The baseline of the full-pipe estimate goes, which the draft forgets: after a timeout the
    /// window grows from one packet, and rounds that deliver less than those before are no plateau.
    /// Linux (bbr_set_state()) and BBRv1 do so too. Nor do the losses of a timeout end Startup: the
    /// draft wants fast recovery for that, and Linux TCP_CA_Recovery. SaveStateUponLoss() is for
    /// the first loss of an episode: a timeout within one keeps what that saved.
    #[cold]
    pub(super) fn enter_rto(&mut self, conn: &mut Conn) {
        self.save_cwnd(conn);
        self.full_pipe.reset(Rate::ZERO);
        self.loss_round.events = 0;
        R::begin_rto(self);
        conn.cwnd = conn.inflight.saturating_add(conn.smss);
    }

    /// HandleSpuriousLossDetection(), "Handling a Spurious Loss Recovery".
    ///
    /// The draft and Linux reset the full-pipe estimate in any case. Here it is reset only if the
    /// losses of this episode had ended Startup or UP. On a path that reorders all the time,
    /// episodes follow one another, and an estimate that each of them resets never sees three
    /// rounds: the flow stays in Startup with a full queue for ever. What a plateau of spurious
    /// losses would cost is little: neither Startup nor UP lowers its rate for a loss.
    pub(super) fn handle_spurious_loss_detection(&mut self, conn: &mut Conn) {
        self.restore_cwnd(conn);
        // What was no loss ends no Startup.
        self.loss_round.has_loss = false;
        self.loss_round.events = 0;
        if self.undo.state.is_some() {
            self.full_pipe.reset(Rate::ZERO);
        }
        self.bounds.raise_to(&self.undo.bounds);
        R::undo_transition(self, conn);
    }

    /// The transition that the losses had caused is taken back.
    pub(super) fn undo_transition(&mut self, conn: &Conn) {
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::ProbeBwUp)
                if self.state != State::ProbeBwUp && self.state != State::ProbeRtt =>
            {
                self.start_probe_bw_refill(conn);
            }
            _ => {}
        }
    }
}
