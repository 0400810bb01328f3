//! One ACK: what a transport says of it, and what is made of that.

use super::{Algo, Controller, each, each_of};
use crate::algo::{Congestion, CongestionControl, Marks};
#[cfg(feature = "careful-resume")]
use crate::resume::{News, ResumePhase};
use crate::sampler::{MAX_TX_IN_FLIGHT, PacketState, RateSample, RttSample, SendOrder};
#[cfg(feature = "careful-resume")]
use crate::units::Rate;
use crate::units::{Duration, Instant};

/// One ACK, or one firing of the loss timer: say everything that it said, in any order, then
/// [`finish`](Self::finish). The order in which the draft wants it is made here.
#[must_use = "what an ACK said takes effect when the batch is finished"]
pub struct AckBatch<'a> {
    cc: &'a mut Controller,
    said: Said,
}

/// All that was said in a batch.
#[derive(Clone, Copy)]
struct Said {
    now: Instant,
    prior_inflight: u64,
    newest: Option<PacketState>,
    /// The newest of the packets that were lost.
    newest_lost: Option<SendOrder>,
    newly_acked: u64,
    /// The part of `newly_acked` that was marked lost before, and was not in flight.
    acked_late: u64,
    /// The part of `newly_acked` that was sent before the newest recovery episode began.
    acked_before_recovery: u64,
    ce_packets: u64,
    rtt: Option<RttSample>,
    inflight: Option<u64>,
    /// The part of the round trip that the receiver's host took.
    #[cfg(feature = "bbr-swift")]
    receiver_delay: Duration,
    /// The part for which the receiver then waited on purpose.
    #[cfg(feature = "bbr-swift")]
    ack_delay: Duration,
    /// What else was said than which packets are acknowledged: [`MORE`], and with it others.
    more: u8,
}

/// More was said.
const MORE: u8 = 1;
/// There was a timeout.
const TIMEOUT: u8 = 2;
/// A loss was repaired that counts apart from marks.
const REPAIRED_LOSS: u8 = 4;

impl Said {
    const fn has(&self, what: u8) -> bool {
        self.more & what != 0
    }
}

impl<'a> AckBatch<'a> {
    #[inline(always)]
    pub(super) fn new(cc: &'a mut Controller, now: Instant, prior_inflight: u64) -> Self {
        let said = Said {
            now,
            prior_inflight,
            newest: None,
            newest_lost: None,
            newly_acked: 0,
            acked_late: 0,
            acked_before_recovery: 0,
            ce_packets: 0,
            rtt: None,
            inflight: None,
            #[cfg(feature = "bbr-swift")]
            receiver_delay: Duration::ZERO,
            #[cfg(feature = "bbr-swift")]
            ack_delay: Duration::ZERO,
            more: if cc.conn.has_unanswered_marks() { MORE } else { 0 },
        };
        Self { cc, said }
    }

    /// `packet` is newly acknowledged.
    #[inline]
    pub fn acked(&mut self, packet: &PacketState) {
        if self.cc.conn.sampler.is_of_this_path(packet) {
            self.count_acked(packet);
        }
    }

    /// `total` bytes are newly acknowledged; `newest` is the packet among them that was sent last.
    /// For transports that keep no state of the others. Debug builds assert that `newest` is among
    /// them.
    ///
    /// While an episode of recovery lasts, `newest` alone is taken to be sent after it began: that
    /// is what ends it, and RFC 9002 section 7.3.2 grants no growth for the others.
    pub fn acked_bytes(&mut self, newest: &PacketState, total: u64) {
        debug_assert!(total >= newest.size(), "the newest packet is more than all of them");
        if self.cc.conn.sampler.is_of_this_path(newest) {
            let others = total.saturating_sub(newest.size());
            // No flight is larger, and so no counter of 64 bits comes to its end.
            let others = others.min(MAX_TX_IN_FLIGHT);
            self.said.newly_acked = self.said.newly_acked.saturating_add(others);
            if self.cc.conn.in_recovery() || !self.cc.conn.sent_after_recovery_start(newest) {
                self.said.acked_before_recovery =
                    self.said.acked_before_recovery.saturating_add(others);
            }
            self.count_acked(newest);
        }
    }

    /// `packet` was marked lost, and is now acknowledged after all: it counts as delivered, and
    /// takes nothing out of flight a second time.
    #[inline]
    pub fn acked_after_loss(&mut self, packet: &PacketState) {
        if self.cc.conn.sampler.is_of_this_path(packet) {
            self.said.acked_late += packet.size();
            self.count_acked(packet);
        }
    }

    #[inline]
    fn count_acked(&mut self, packet: &PacketState) {
        if self.said.newest.as_ref().is_none_or(|newest| packet.is_newer_than(newest)) {
            self.said.newest = Some(*packet);
        }
        self.said.newly_acked += packet.size();
        if !self.cc.conn.sent_after_recovery_start(packet) {
            self.said.acked_before_recovery += packet.size();
        }
    }

    /// `packet` is newly marked lost. Report losses in the order in which the packets were sent.
    pub fn lost(&mut self, packet: &PacketState) {
        let conn = &mut self.cc.conn;
        if !conn.sampler.is_of_this_path(packet) {
            return;
        }
        conn.leave_flight(packet.size());
        conn.count_lost(packet.size());
        each!(&mut self.cc.algo, a => a.on_packet_lost(conn, packet));
        let sent = packet.order();
        self.said.more |= MORE;
        self.said.newest_lost =
            Some(self.said.newest_lost.map_or(sent, |newest| newest.latest(sent)));
    }

    /// `packet` is out of the transport's sight, as in [`Controller::on_discarded`]: a probe that
    /// was lost for its size, for one, which says nothing of congestion (RFC 4821 section 7.6, RFC
    /// 9000 section 14.4).
    pub fn discarded(&mut self, packet: &PacketState) {
        self.cc.on_discarded(packet);
    }

    /// A retransmission timeout that declares everything lost; in QUIC, persistent congestion
    /// (RFC 9002 section 7.6). Report the lost packets in the same batch; the order is no matter.
    #[inline]
    pub fn timeout(&mut self) {
        self.said.more |= MORE | TIMEOUT;
    }

    /// The transport's own round-trip sample for this ACK, where it knows better than the time
    /// since the newest acknowledged packet was sent (TCP timestamps, for one), or knows that this
    /// time is none. It says how exact the sample is:
    ///
    /// ```compile_fail
    /// # use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant};
    /// # let mut cc = Controller::new(Algorithm::BBR3, Config::new(17), Instant::default());
    /// cc.ack(Instant::default()).rtt(Duration::from_millis(40));
    /// ```
    #[inline]
    pub fn rtt(&mut self, rtt: RttSample) {
        self.said.rtt = Some(rtt);
    }

    /// The part of this ACK's round trip for which the newest acknowledged packet, or its ACK, was
    /// in the receiver's host because the host was busy: from the packet's arrival at the network
    /// interface to the transport, and from the transport to the interface. Swift calls it the
    /// endpoint's delay and measures it with timestamps of the interface. The time for which the
    /// receiver held the ACK back on purpose is not in it: that is [`Self::ack_delay`].
    ///
    /// `bbr-swift` takes the round trip without both, up to [`crate::BbrSwiftOptions`]'
    /// `max_receiver_delay`, for the network's, and compares this part alone with the endpoint's
    /// target. The others ignore it, as does a build without the feature `bbr-swift`. Without this
    /// call the host took no time.
    ///
    /// ```
    /// # use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant};
    /// # let mut cc = Controller::new(Algorithm::BBR3, Config::new(17), Instant::default());
    /// # let packet = cc.on_sent(Instant::default(), 1200);
    /// let mut ack = cc.ack(Instant::from_nanos(180_000));
    /// ack.acked(&packet);
    /// ack.receiver_delay(Duration::from_micros(50)); // 130 us in the network, and waiting
    /// ack.ack_delay(Duration::from_micros(100)); // 30 us in the network
    /// ack.finish();
    /// ```
    #[inline]
    pub fn receiver_delay(&mut self, delay: Duration) {
        #[cfg(feature = "bbr-swift")]
        {
            self.said.receiver_delay = delay;
        }
        #[cfg(not(feature = "bbr-swift"))]
        let _ = delay;
    }

    /// The part of this ACK's round trip for which the receiver's transport held the ACK of the
    /// newest acknowledged packet back, to acknowledge more with it: a delayed ACK (RFC 9000
    /// section 13.2.1, RFC 9293 section 3.8.6.3). QUIC's ACK Delay (RFC 9000 section 19.3) goes
    /// here: it cannot tell this wait from a busy host.
    ///
    /// `bbr-swift` takes it out of the round trip, as RFC 9002 section 5.3 does, and does not take
    /// the host for a slow one; see [`Self::receiver_delay`]. The others ignore it, as does a build
    /// without the feature `bbr-swift`. Without this call the receiver did not wait.
    #[inline]
    pub fn ack_delay(&mut self, delay: Duration) {
        #[cfg(feature = "bbr-swift")]
        {
            self.said.ack_delay = delay;
        }
        #[cfg(not(feature = "bbr-swift"))]
        let _ = delay;
    }

    /// `packets` more packets were marked with CE (RFC 3168).
    #[inline]
    pub fn ce(&mut self, packets: u64) {
        self.said.ce_packets = self.said.ce_packets.saturating_add(packets);
        self.said.more |= if packets > 0 { MORE } else { 0 };
    }

    /// A loss that a probe repaired and that nothing else shows, because the copy arrived in its
    /// place (RFC 8985 section 7.4.2): congestion, though no packet leaves the flight as lost. To
    /// an algorithm that answers marks in a way of its own it is a loss all the same.
    #[inline]
    pub fn repaired_loss(&mut self) {
        if self.cc.conn.marks_are_losses() {
            self.ce(1);
        } else {
            self.said.more |= MORE | REPAIRED_LOSS;
        }
    }

    /// Sets the bytes in flight to the transport's own count after this ACK and its losses: for
    /// transports that drop packets from their count without saying so.
    #[inline]
    pub fn resync_inflight(&mut self, bytes: u64) {
        self.said.inflight = Some(bytes);
        self.said.more |= MORE;
    }

    /// Everything is said: updates the model, the state and the control parameters. Dropping the
    /// batch does the same.
    #[inline]
    pub fn finish(self) {
        core::mem::ManuallyDrop::new(self).close();
    }

    // Inlined into the transport's handling of an ACK, so that the batch need not exist in memory;
    // what is rare is apart.
    #[inline(always)]
    fn close(&mut self) {
        let (cc, said) = (&mut *self.cc, &self.said);
        if said.has(MORE) || cc.conn.in_recovery() || cc.is_resuming() {
            return cc.close_with_more(*said);
        }
        cc.conn.leave_flight(said.newly_acked - said.acked_late);
        cc.conn.sampler.count_delivered(said.newly_acked);
        if let Some(newest) = &said.newest {
            let rs = cc.sample(said, newest);
            each!(&mut cc.algo, a => a.on_ack(&mut cc.conn, &rs));
        }
        cc.update_pacer(said.now);
    }
}

impl Drop for AckBatch<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// The closing of a batch.
impl Controller {
    #[cold]
    fn time_out(&mut self, now: Instant) {
        self.enter_recovery(now);
        each!(&mut self.algo, a => a.on_rto(&mut self.conn));
        self.conn.extend_recovery_past_timeout(now);
    }

    /// Opens a recovery episode at its first loss, before the algorithm hears of the loss; does
    /// nothing within an episode, so that what was saved at its start survives a second round.
    #[cold]
    fn enter_recovery(&mut self, now: Instant) {
        if self.conn.in_recovery() {
            return;
        }
        each!(&mut self.algo, a => a.on_enter_recovery(&mut self.conn));
        self.conn.begin_recovery(now);
    }

    /// An episode ends with the first packet acknowledged that left after it began (RFC 9002
    /// section 7.3.2); a loss of the same ACK may begin the next one.
    #[cold]
    fn check_recovery_done(&mut self, said: &Said) {
        let newest = said.newest.as_ref();
        if newest.is_some_and(|newest| self.conn.sent_after_recovery_start(newest)) {
            self.conn.end_recovery(said.newest_lost.is_some());
            each!(&mut self.algo, a => a.on_exit_recovery(&mut self.conn));
        }
    }

    #[inline(always)]
    fn sample(&mut self, said: &Said, newest: &PacketState) -> RateSample {
        let mut rs = self.conn.sample(said.now, newest, said.rtt);
        rs.newly_acked = said.newly_acked;
        rs.newly_acked_after_recovery = said.newly_acked - said.acked_before_recovery;
        rs.prior_inflight = said.prior_inflight;
        #[cfg(feature = "careful-resume")]
        {
            self.most_in_round_trip = self.most_in_round_trip.max(rs.delivered);
        }
        #[cfg(feature = "bbr-swift")]
        rs.set_delays_at_receiver(said.receiver_delay, said.ack_delay);
        rs
    }

    /// Closes a batch in which more was said than which packets are acknowledged, or that may end a
    /// recovery.
    #[cold]
    fn close_with_more(&mut self, mut said: Said) {
        self.lift_jump();
        self.conn.leave_flight(said.newly_acked - said.acked_late);
        self.conn.sampler.count_delivered(said.newly_acked);
        if let Some(inflight) = said.inflight {
            self.conn.set_inflight(inflight);
        }
        if self.conn.in_recovery() {
            if self.conn.has_timed_out() {
                said.acked_before_recovery = 0;
            }
            self.check_recovery_done(&said);
        }
        if said.ce_packets > 0 {
            self.conn.count_marks(said.ce_packets);
        }
        // The answer needs a sample. TCP's count comes with any ACK, also one without new data: it
        // waits for the next one with some.
        let unanswered = self.conn.take_unanswered_marks().saturating_add(said.ce_packets);
        if said.newest.is_some() {
            said.ce_packets = unanswered;
        } else {
            self.conn.keep_unanswered_marks(unanswered);
        }
        if said.has(REPAIRED_LOSS) {
            self.conn.count_repaired_loss();
        }
        if let Some(newest) = &said.newest {
            let mut rs = self.sample(&said, newest);
            #[cfg(feature = "careful-resume")]
            self.discard_rate_in_retreat(&mut rs);
            if self.answer_congestion(&said, newest, &rs) {
                // All of it was sent before the episode that this ACK has begun.
                rs.newly_acked_after_recovery = 0;
            }
            each!(&mut self.algo, a => a.on_ack(&mut self.conn, &rs));
        } else if let Some(sent) = said.newest_lost {
            self.on_congestion(said.now, sent, true, None);
        }
        if said.has(TIMEOUT) {
            self.time_out(said.now);
        }
        #[cfg(feature = "careful-resume")]
        self.resume_with(&said);
        self.update_pacer(said.now);
    }

    /// RFC 9959, appendix on BBR: rates that are measured in Safe Retreat say what this flow pushed
    /// others out of.
    #[cfg(feature = "careful-resume")]
    fn discard_rate_in_retreat(&self, rs: &mut RateSample) {
        if self.resume.is_some_and(|resume| resume.phase() == ResumePhase::SafeRetreat) {
            rs.delivery_rate = Rate::ZERO;
        }
    }

    /// Careful Resume, after the algorithm.
    #[cfg(feature = "careful-resume")]
    fn resume_with(&mut self, said: &Said) {
        self.resume_after_batch(&News {
            now: said.now,
            newest: said.newest.as_ref(),
            newly_acked: said.newly_acked,
            is_congested: said.newest_lost.is_some()
                || said.ce_packets > 0
                || said.has(REPAIRED_LOSS),
            has_timed_out: said.has(TIMEOUT),
        });
    }

    /// The losses and marks of an ACK, if there are any; whether they began an episode.
    fn answer_congestion(&mut self, said: &Said, newest: &PacketState, rs: &RateSample) -> bool {
        // RFC 9002 appendix B.7 has marks be those of the newest packet of the ACK.
        let marked = (said.ce_packets > 0).then_some(newest.order());
        // What a probe repaired was sent no later.
        let repaired = said.has(REPAIRED_LOSS).then_some(newest.order());
        let lost = match (repaired, said.newest_lost) {
            (Some(repaired), Some(lost)) => Some(repaired.latest(lost)),
            (repaired, lost) => repaired.or(lost),
        };
        let sent = match (lost, marked) {
            (Some(lost), Some(_)) if self.conn.marks_are_apart() => lost,
            (Some(lost), Some(marked)) => lost.latest(marked),
            (Some(sent), None) | (None, Some(sent)) => sent,
            (None, None) => return false,
        };
        let smss = self.conn.smss;
        let marks = marked.map(|_| Marks {
            sample: rs,
            newly_marked: said.ce_packets.saturating_mul(smss),
            marked: self.conn.sampler.marks_since(newest).saturating_mul(smss),
        });
        self.on_congestion(said.now, sent, lost.is_some(), marks)
    }

    /// All losses and marks of one ACK or timer; `sent` is the newest of the packets. Returns
    /// whether it began an episode.
    #[cold]
    fn on_congestion(
        &mut self,
        now: Instant,
        sent: SendOrder,
        has_losses: bool,
        marks: Option<Marks<'_>>,
    ) -> bool {
        let may_begin = has_losses || !self.conn.marks_are_apart();
        let new_episode =
            may_begin && !self.conn.in_recovery() && self.conn.is_in_recovery_order(sent);
        if new_episode {
            self.enter_recovery(now);
        }
        if marks.is_some() {
            self.conn.note_marks_in_episode();
        }
        let congestion = Congestion { now, new_episode, has_losses, marks };
        each!(&mut self.algo, a => a.on_congestion(&mut self.conn, &congestion));
        new_episode
    }
}
