//! The connection's own state (the draft's C): what every algorithm shares.

use crate::config::{AckFrequency, Config, Transport, initial_cwnd};
use crate::sampler::{
    MAX_TX_IN_FLIGHT, Measured, PacketState, RateSample, RttSample, Sampler, SendOrder,
};
use crate::units::{Duration, Gain, Instant, Rate};

/// The largest send quantum in bytes: what one segmentation offload takes.
pub(crate) const MAX_QUANTUM: u64 = 65_536;

/// "Infinity" of a volume in bytes.
pub(crate) const INFINITE: u64 = u64::MAX;

/// The answer of an algorithm to CE marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MarksAre {
    /// Losses of packets that arrived all the same.
    Losses,
    /// No losses; but they begin an episode of recovery.
    NoLosses,
    /// No losses, and no episode begins: the algorithm has a rhythm of its own for them.
    #[cfg(feature = "prague")]
    Apart,
}

/// State shared by all algorithms: the connection as the sampler and the controller keep it, and
/// the three control parameters, which the algorithm sets: window, pacing rate and send quantum.
#[derive(Clone, Debug)]
pub struct Conn {
    /// C.SMSS in bytes.
    pub(crate) smss: u64,
    /// C.InitialCwnd in bytes.
    pub(crate) initial_cwnd: u64,
    pub(crate) transport: Transport,
    /// C.has_selective_acks.
    pub(crate) has_selective_acks: bool,
    /// Config::ack_frequency in packets and microseconds; 0 packets without.
    ack_threshold: u32,
    max_ack_delay_us: u32,
    /// Config::pacing_granularity in nanoseconds.
    pub(crate) pacing_granularity: u32,
    /// True if a window-based algorithm is paced.
    pub(crate) is_paced: bool,
    /// C.cwnd in bytes.
    pub(crate) cwnd: u64,
    /// C.inflight in bytes.
    pub(crate) inflight: u64,
    /// The transport has overwritten C.inflight. It need not be the sum of what is outstanding from
    /// then on: packets that the transport no longer counts may be acknowledged all the same.
    inflight_was_set: bool,
    /// C.pacing_rate; [`Rate::MAX`] holds nothing back.
    pub(crate) pacing_rate: Rate,
    /// The most that [`Self::set_pacing_rate`] sets.
    max_pacing_rate: Rate,
    /// C.send_quantum in bytes.
    pub(crate) send_quantum: u64,
    pub(crate) sampler: Sampler,
    /// C.srtt, RFC 9002 section 5.3 without the ACK delay, which not every transport knows.
    /// Zero before the first sample, as `latest_rtt`: no sample is.
    srtt: Duration,
    latest_rtt: Duration,
    /// The first packet that was, or will be, sent after the newest recovery episode began, RFC
    /// 9002 section 7.3.2, if there was one. Stays after the episode's end: packets sent before
    /// this still belong to it.
    recovery_start: SendOrder,
    has_recovery_start: bool,
    /// TCP: the episode that lasts has a timeout in it.
    has_timed_out: bool,
    in_recovery: bool,
    /// CE marks were answered in the newest episode: its losses may be none, but not its
    /// congestion.
    episode_has_marks: bool,
    /// Lost data may still wait to be sent again.
    awaits_repair: bool,
    /// The application had nothing to send since BBR's last ProbeRTT, whose samples bear its mark
    /// too.
    pub(crate) was_application_limited: bool,
    /// The answer to a CE mark.
    pub(crate) marks: MarksAre,
    /// CE marks that came with an ACK of nothing new.
    unanswered_marks: u32,
    /// C.is_cwnd_limited holds while less than this has left the path: see
    /// [`Self::mark_cwnd_limited`].
    cwnd_limited_before: u64,
    /// The most in flight, for [`Self::grown_in_slow_start`], while less than
    /// `most_in_flight_until` has left the path.
    most_in_flight: u64,
    most_in_flight_until: u64,
}

impl Conn {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let smss = u64::from(config.smss.max(1));
        let initial_cwnd = initial_cwnd(config.initial_cwnd, smss);
        let max_pacing_rate = config.max_pacing_rate.unwrap_or(Rate::MAX);
        let max_pacing_rate = max_pacing_rate.max(Rate::from_bytes_per_sec(1));
        let handshake = config.handshake_rtt.map(Measured::exactly);
        let handshake_rtt = handshake.map(Measured::rtt);
        let mut conn = Self {
            smss,
            initial_cwnd,
            transport: config.transport,
            has_selective_acks: config.has_selective_acks,
            ack_threshold: 0,
            max_ack_delay_us: 0,
            pacing_granularity: u32::try_from(config.pacing_granularity.as_nanos())
                .unwrap_or(u32::MAX),
            is_paced: config.paced,
            cwnd: initial_cwnd,
            inflight: 0,
            inflight_was_set: false,
            pacing_rate: max_pacing_rate,
            max_pacing_rate,
            send_quantum: 2 * smss,
            sampler: Sampler::new(now, handshake_rtt.unwrap_or(Duration::MAX)),
            srtt: handshake_rtt.unwrap_or(Duration::ZERO),
            latest_rtt: handshake_rtt.unwrap_or(Duration::ZERO),
            recovery_start: SendOrder::default(),
            has_recovery_start: false,
            has_timed_out: false,
            in_recovery: false,
            episode_has_marks: false,
            awaits_repair: false,
            was_application_limited: false,
            marks: MarksAre::Losses,
            unanswered_marks: 0,
            cwnd_limited_before: 0,
            most_in_flight: 0,
            most_in_flight_until: 0,
        };
        conn.set_ack_frequency(config.ack_frequency);
        conn
    }

    /// C.pacing_rate; `None` before the first estimate of an algorithm that needs one.
    pub fn pacing_rate(&self) -> Option<Rate> {
        (self.pacing_rate != Rate::MAX).then_some(self.pacing_rate)
    }

    /// Paces at `rate` from now on, within what the caller of the crate allows. A rate of zero
    /// would never end, and is taken for one byte per second.
    #[inline]
    pub fn set_pacing_rate(&mut self, rate: Rate) {
        self.pacing_rate = self.possible_pacing_rate(rate);
    }

    /// The pacing rate that [`Self::set_pacing_rate`] sets for `rate`.
    #[inline]
    pub(crate) fn possible_pacing_rate(&self, rate: Rate) -> Rate {
        rate.max(Rate::from_bytes_per_sec(1)).min(self.max_pacing_rate)
    }

    /// Bytes that the receiver may leave unacknowledged before it sends an ACK:
    /// draft-ietf-ccwg-bbr, "BBR.offload_budget", for QUIC with fewer ACKs. `bw` is BBR.max_bw.
    #[inline]
    pub(crate) fn unacknowledged_by_delay(&self, bw: Rate) -> u64 {
        if self.ack_threshold == 0 {
            return 0;
        }
        let max_delay = Duration::from_micros(self.max_ack_delay_us.into());
        u64::from(self.ack_threshold).saturating_mul(self.smss).min(bw.bytes_in(max_delay))
    }

    /// True if the receiver was asked to acknowledge less often.
    #[inline]
    pub(crate) const fn has_ack_frequency(&self) -> bool {
        self.ack_threshold != 0
    }

    pub(crate) fn set_ack_frequency(&mut self, ack_frequency: Option<AckFrequency>) {
        let micros = |d: Duration| u32::try_from(d.as_nanos() / 1_000).unwrap_or(u32::MAX);
        (self.ack_threshold, self.max_ack_delay_us) =
            ack_frequency.map_or((0, 0), |f| (f.threshold_packets, micros(f.max_delay)));
    }

    /// The flow goes on over another path, on which nothing is in flight yet.
    pub(crate) fn begin_path(&mut self) {
        self.sampler.begin_path();
        self.inflight = 0;
        self.unanswered_marks = 0;
        self.awaits_repair = false;
    }

    /// Takes acknowledged or lost packets out of C.inflight.
    #[inline]
    pub(crate) fn leave_flight(&mut self, bytes: u64) {
        debug_assert!(
            self.inflight_was_set || self.inflight >= bytes,
            "acknowledged or lost twice, or not told of its sending"
        );
        self.inflight = self.inflight.saturating_sub(bytes);
    }

    /// Overwrites C.inflight with the transport's own count.
    pub(crate) fn set_inflight(&mut self, bytes: u64) {
        self.inflight = bytes.min(MAX_TX_IN_FLIGHT);
        self.inflight_was_set = true;
    }

    /// True if an episode of recovery lasts: since a loss or a mark, and until a packet is
    /// acknowledged that was sent after it.
    pub const fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    /// An episode begins `now`: it lasts until the acknowledgement of a packet that is not sent
    /// yet.
    pub(crate) fn begin_recovery(&mut self, now: Instant) {
        self.recovery_start = self.sampler.next_order(now);
        self.has_recovery_start = true;
        self.in_recovery = true;
        self.episode_has_marks = false;
    }

    /// `awaits_repair`: the ACK that ends the episode has lost data too.
    pub(crate) fn end_recovery(&mut self, awaits_repair: bool) {
        self.in_recovery = false;
        self.has_timed_out = false;
        self.awaits_repair = awaits_repair;
    }

    /// A loss-based algorithm has answered a timeout. In QUIC that is persistent congestion, after
    /// which every packet counts again, whenever it was sent (RFC 9002 appendix B.8). In TCP the
    /// episode goes on until something that was sent again arrives: a segment that times out once
    /// more leaves ssthresh as it is (RFC 5681 section 3.1). What that first ACK covers counts for
    /// growth (section 3.1 as well: slow start).
    pub(crate) fn note_timeout_answered(&mut self) {
        if self.transport == Transport::Tcp {
            self.has_timed_out = true;
            return;
        }
        self.recovery_start = SendOrder::default();
        self.has_recovery_start = false;
        self.in_recovery = false;
    }

    /// The episode of a TCP timeout lasts until something arrives that left after it, also where it
    /// had begun before, with a fast recovery.
    pub(crate) fn extend_recovery_past_timeout(&mut self, now: Instant) {
        if self.has_timed_out {
            self.recovery_start = self.sampler.next_order(now);
        }
    }

    /// True if the episode that lasts has a timeout of TCP's in it.
    pub(crate) const fn has_timed_out(&self) -> bool {
        self.has_timed_out
    }

    /// True if a packet left after the newest recovery episode began, or there was none.
    #[inline]
    pub(crate) fn sent_after_recovery_start(&self, packet: &PacketState) -> bool {
        packet.send_time() > self.recovery_start.time || self.is_in_recovery_order(packet.order())
    }

    /// The rest of the question, where the time does not answer it.
    #[cold]
    pub(crate) fn is_in_recovery_order(&self, sent: SendOrder) -> bool {
        !self.has_recovery_start || !self.recovery_start.is_after(sent)
    }

    /// A mark is the loss of a packet that arrived all the same ("ECN": CE is congestion), if the
    /// algorithm has no other answer. It counts in RS.lost, from which the algorithm takes its
    /// share of losses, and in RS.delivered, as the packet was delivered. It does not count in
    /// C.lost.
    #[cold]
    pub(crate) fn count_marks(&mut self, packets: u64) {
        let as_lost =
            if self.marks == MarksAre::Losses { packets.saturating_mul(self.smss) } else { 0 };
        self.sampler.count_marks(packets, as_lost);
    }

    /// True if marks came that the algorithm has not heard of.
    #[inline]
    pub(crate) const fn has_unanswered_marks(&self) -> bool {
        self.unanswered_marks > 0
    }

    #[cold]
    pub(crate) fn take_unanswered_marks(&mut self) -> u64 {
        core::mem::take(&mut self.unanswered_marks).into()
    }

    /// The algorithm hears of them with the next ACK of something new.
    #[cold]
    pub(crate) fn keep_unanswered_marks(&mut self, packets: u64) {
        self.unanswered_marks = u32::try_from(packets).unwrap_or(u32::MAX);
    }

    /// A loss that no packet shows: it counts in RS.lost as a mark does.
    #[cold]
    pub(crate) fn count_repaired_loss(&mut self) {
        self.sampler.count_marks(0, self.smss);
    }

    /// True if the algorithm has no other answer to a mark than to a loss.
    pub(crate) const fn marks_are_losses(&self) -> bool {
        matches!(self.marks, MarksAre::Losses)
    }

    /// True if marks begin no episode of recovery.
    pub(crate) const fn marks_are_apart(&self) -> bool {
        #[cfg(feature = "prague")]
        return matches!(self.marks, MarksAre::Apart);
        #[cfg(not(feature = "prague"))]
        false
    }

    /// Marks belong to the newest episode, if they count as losses.
    pub(crate) fn note_marks_in_episode(&mut self) {
        self.episode_has_marks |= self.marks == MarksAre::Losses;
    }

    /// True if the newest episode answered CE marks as it would losses.
    pub(crate) const fn episode_has_marks(&self) -> bool {
        self.episode_has_marks
    }

    pub(crate) fn count_lost(&mut self, bytes: u64) {
        self.sampler.count_lost(bytes);
        self.awaits_repair = true;
    }

    /// The transport has nothing to send, so that nothing waits to be sent again either.
    pub(crate) fn note_nothing_to_send(&mut self) {
        self.awaits_repair = false;
        self.was_application_limited = true;
    }

    /// Nothing is unacknowledged. C.inflight of 0 alone does not say so: loss marking brings it to
    /// 0 while the data is still to be repaired, which is no idleness of the application.
    pub(crate) fn is_idle(&self) -> bool {
        self.inflight == 0 && !self.awaits_repair
    }

    /// True if another full packet does not fit into the window.
    pub(crate) fn is_window_full(&self) -> bool {
        self.inflight + self.smss > self.cwnd
    }

    /// Bytes that have left the path, delivered or lost: the clock of a packet-timed round trip.
    pub(crate) fn departed(&self) -> u64 {
        self.sampler.delivered.saturating_add(self.sampler.lost())
    }

    /// Notes that the window is full now. Like the app-limited mark it holds for one packet-timed
    /// round trip: until all that is now in flight has left the path.
    pub(crate) fn mark_cwnd_limited(&mut self) {
        self.cwnd_limited_before = self.departed().saturating_add(self.inflight).saturating_add(1);
    }

    /// C.is_cwnd_limited: whether C.cwnd was fully used at any point of the last round trip.
    pub fn is_cwnd_limited(&self) -> bool {
        self.departed() < self.cwnd_limited_before
    }

    /// Paces a window-based algorithm: `gain` windows in a smoothed round trip. Above one, so that
    /// the window stays the limit (RFC 9002 section 7.7). Without pacing the window is all there
    /// is.
    pub fn pace_by_window(&mut self, gain: Gain) {
        if !self.is_paced {
            self.send_quantum = MAX_QUANTUM.max(2 * self.smss);
        } else if let Some(srtt) = self.srtt() {
            let rate = gain.of_rate(Rate::from_volume(self.cwnd, srtt));
            self.set_pacing_rate(rate);
            let quantum = self.pacing_rate.bytes_in(Duration::from_millis(1));
            self.send_quantum = quantum.min(MAX_QUANTUM).max(2 * self.smss);
        }
    }

    /// True if the newest ACK may raise a loss-based window in congestion avoidance: RFC 9002
    /// section 7.8 forbids it when the window was not used (as RFC 9438 section 5.8), whatever it
    /// was that held the flow back: the application, the receiver's flow control, or
    /// [`Config::max_pacing_rate`]. A flow that only its own pacer held back fills its window.
    pub fn may_grow(&self, rs: &RateSample) -> bool {
        // Before this ACK, which may cover more than the flight: what was taken for lost as well.
        let departed = self.departed().saturating_sub(rs.newly_acked);
        departed.saturating_add(1) < self.cwnd_limited_before
    }

    /// The window after an ACK that adds `growth` in slow start. A window that was not full may
    /// still be twice the most that was in flight in this round trip or the one before, as Linux has
    /// it (tcp_is_cwnd_limited): a window that doubles in a round trip while its packets are spread
    /// over it is not full all the time.
    pub(crate) fn grown_in_slow_start(&mut self, rs: &RateSample, growth: u64) -> u64 {
        // The flight is the largest just before an ACK.
        let departed = self.departed().saturating_sub(rs.newly_acked);
        if departed >= self.most_in_flight_until || rs.prior_inflight >= self.most_in_flight {
            self.most_in_flight = rs.prior_inflight;
            self.most_in_flight_until = departed.saturating_add(rs.prior_inflight);
        }
        let grown = self.cwnd.saturating_add(growth);
        if self.may_grow(rs) {
            return grown;
        }
        // An application that chooses its rate by the window would find twice of it each time.
        if rs.is_app_limited {
            return self.cwnd;
        }
        let in_flight = self.most_in_flight.max(rs.tx_in_flight);
        grown.min(in_flight.saturating_mul(2)).max(self.cwnd)
    }

    /// C.SMSS in bytes.
    pub fn smss(&self) -> u64 {
        self.smss
    }

    /// C.InitialCwnd in bytes.
    pub fn initial_cwnd(&self) -> u64 {
        self.initial_cwnd
    }

    /// C.cwnd in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// The window is `bytes` from now on, and at least one SMSS.
    pub fn set_cwnd(&mut self, bytes: u64) {
        self.cwnd = bytes.max(self.smss);
    }

    /// C.inflight in bytes.
    pub fn inflight(&self) -> u64 {
        self.inflight
    }

    /// C.send_quantum in bytes.
    pub fn send_quantum(&self) -> u64 {
        self.send_quantum
    }

    /// Sends up to `bytes` at once from now on: no more than one segmentation offload takes, and no
    /// less than two packets.
    pub fn set_send_quantum(&mut self, bytes: u64) {
        self.send_quantum = bytes.min(MAX_QUANTUM).max(2 * self.smss);
    }

    /// C.delivered in bytes.
    pub fn delivered(&self) -> u64 {
        self.sampler.delivered
    }

    /// C.lost in bytes.
    pub fn lost(&self) -> u64 {
        self.sampler.lost()
    }

    /// The shortest round trip of the connection.
    pub fn min_rtt(&self) -> Option<Duration> {
        let min_rtt = self.sampler.min_rtt();
        (min_rtt != Duration::MAX).then_some(min_rtt)
    }

    /// The smallest window of a loss-based algorithm, RFC 9002 section 7.2.
    pub fn min_window(&self) -> u64 {
        2 * self.smss
    }

    /// The window of a loss-based algorithm after a timeout: RFC 9002 section 7.6.2 has the
    /// smallest window, RFC 5681 section 3.1 one full segment.
    pub fn timeout_window(&self) -> u64 {
        match self.transport {
            Transport::Quic => self.min_window(),
            Transport::Tcp => self.smss,
        }
    }

    /// C.srtt, after the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt != Duration::ZERO).then_some(self.srtt)
    }

    /// The newest round-trip sample.
    pub fn latest_rtt(&self) -> Option<Duration> {
        (self.latest_rtt != Duration::ZERO).then_some(self.latest_rtt)
    }

    /// The sample of an ACK whose newest packet is `p`; `rtt` is the transport's own, if it has
    /// one.
    // Inlined, so that the sample is made where the algorithm reads it.
    #[inline(always)]
    pub(crate) fn sample(
        &mut self,
        now: Instant,
        p: &PacketState,
        rtt: Option<RttSample>,
    ) -> RateSample {
        if let Some(rtt) = rtt {
            return self.sample_by_transport(now, p, rtt);
        }
        if now < p.send_time() {
            // The clock has stepped back, and the round trip is unknown.
            return self.sample_by_transport(now, p, RttSample::Ambiguous);
        }
        let measured = Measured::exactly(now.since(p.send_time()));
        self.update_srtt(measured.rtt());
        self.sampler.generate(now, p, measured)
    }

    #[cold]
    fn sample_by_transport(&mut self, now: Instant, p: &PacketState, rtt: RttSample) -> RateSample {
        let measured = Measured::by_transport(rtt);
        if measured.rtt() != Duration::MAX {
            self.update_srtt(measured.rtt());
        }
        self.sampler.generate(now, p, measured)
    }

    #[inline]
    fn update_srtt(&mut self, rtt: Duration) {
        // 7/8 old, 1/8 new, ordered so that no product can overflow.
        let (old, new) = (self.srtt.as_nanos(), rtt.as_nanos());
        let mean = Duration::from_nanos(old - old / 8 + new / 8);
        self.srtt = if self.srtt == Duration::ZERO { rtt } else { mean };
        self.latest_rtt = rtt;
    }
}

#[cfg(test)]
mod tests;
