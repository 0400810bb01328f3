//! The delivery-rate sampler: for each ACK, how fast did the network deliver?
//!
//! draft-ietf-ccwg-bbr, "Delivery Rate Samples". Each packet carries away a copy of the
//! connection's delivery counters ([`PacketState`]); when it comes back, the difference between
//! then and now is a volume, and the longer of the send and the ACK interval is the time it took.

use crate::units::{Duration, Instant, Rate};

/// Per-packet state of the sampler (the draft's P): what the transport keeps beside each packet
/// from [`crate::Controller::on_sent`] until the packet is acknowledged or lost.
///
/// 48 bytes. Nothing but `on_sent` makes one, so a sample can't be paired with a made-up packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the transport keeps this beside the packet, and gives it back with the ACK or loss"]
pub struct PacketState {
    /// P.delivered: C.delivered in bytes when the packet was sent.
    delivered: u64,
    /// C.lost (P.lost) and the CE marks when the packet was sent, as [`Losses`].
    losses: Losses,
    delivered_time: Instant,
    first_send_time: Instant,
    send_time: Instant,
    /// From the low end: tx_in_flight (34 bits), is_app_limited (1), index (12), size (17). An ACK
    /// asks each of its packets for the size, which needs no mask there.
    packed: u64,
}

const TX_IN_FLIGHT_BITS: u32 = 34;
const INDEX_BITS: u32 = 12;
const SIZE_BITS: u32 = 17;
const INDEX_SHIFT: u32 = TX_IN_FLIGHT_BITS + 1;
const SIZE_SHIFT: u32 = INDEX_SHIFT + INDEX_BITS;
/// The largest flight in bytes.
pub(crate) const MAX_TX_IN_FLIGHT: u64 = (1 << TX_IN_FLIGHT_BITS) - 1;
/// The largest packet in bytes.
pub(crate) const MAX_SIZE: u64 = (1 << SIZE_BITS) - 1;
const INDEX_MASK: u16 = (1 << INDEX_BITS) - 1;

impl PacketState {
    /// Bytes of the packet, or of the aggregate that was sent as one.
    pub const fn size(&self) -> u64 {
        self.packed >> SIZE_SHIFT
    }

    /// P.send_time: when the packet left.
    pub const fn send_time(&self) -> Instant {
        self.send_time
    }

    /// P.tx_in_flight: C.inflight in bytes just after the packet was sent. Counts to 16 GiB.
    pub const fn tx_in_flight(&self) -> u64 {
        self.packed & MAX_TX_IN_FLIGHT
    }

    /// P.is_app_limited: whether C.app_limited was set when the packet was sent.
    pub const fn is_app_limited(&self) -> bool {
        (self.packed >> TX_IN_FLIGHT_BITS) & 1 == 1
    }

    /// Two states for the two parts of an aggregate: its first `bytes`, and the rest. For a
    /// transport whose peer acknowledges, or that loses, a part of what was sent as one. Use the
    /// parts from then on, and the whole no more.
    ///
    /// Debug builds assert that the aggregate has so many bytes.
    pub fn split(self, bytes: u32) -> (Self, Self) {
        let first = u64::from(bytes).min(self.size());
        debug_assert_eq!(first, u64::from(bytes), "split beyond the end of the aggregate");
        let with_size = |size: u64| Self {
            packed: self.packed & !(MAX_SIZE << SIZE_SHIFT) | size << SIZE_SHIFT,
            ..self
        };
        (with_size(first), with_size(self.size() - first))
    }

    pub(crate) const fn index(&self) -> PacketIndex {
        PacketIndex((self.packed >> INDEX_SHIFT) as u16 & INDEX_MASK)
    }

    /// The place of this packet in the order of sending.
    pub(crate) const fn order(&self) -> SendOrder {
        SendOrder { time: self.send_time, index: self.index() }
    }

    /// IsNewestPacket(): whether this packet was sent after `other`.
    #[inline]
    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        let (mine, others) = (self.send_time.as_nanos(), other.send_time.as_nanos());
        mine > others || (mine == others && self.index().is_after(other.index()))
    }
}

/// A place in the order of sending: the time, and the number among packets of the same instant. A
/// transport often sends several packets at one reading of its clock, so the time alone is no
/// order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SendOrder {
    pub(crate) time: Instant,
    index: PacketIndex,
}

impl SendOrder {
    /// True if this place is after `other`. Within one instant this is known for 2047 packets.
    pub(crate) const fn is_after(self, other: Self) -> bool {
        let (mine, others) = (self.time.as_nanos(), other.time.as_nanos());
        mine > others || (mine == others && self.index.is_after(other.index))
    }

    /// The later of the two places.
    pub(crate) const fn latest(self, other: Self) -> Self {
        if other.is_after(self) { other } else { self }
    }
}

/// Bytes lost or taken for lost, of which the low 36 bits; above them the CE marks in packets, of
/// which the low 22; and above these the generation of the path, of which the low 6. Losses and
/// marks are only asked for what they grew by within a round trip, and a packet has 48 bytes. A
/// flight has 34 bits; four million packets of 1200 bytes are 400 Gbit/s at 100 ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Losses(u64);

impl Losses {
    const MARKS_SHIFT: u32 = 36;
    const LOST_MASK: u64 = (1 << Self::MARKS_SHIFT) - 1;
    const PATH_SHIFT: u32 = 58;
    const MARKS_MASK: u64 = (1 << (Self::PATH_SHIFT - Self::MARKS_SHIFT)) - 1;

    const fn marks(self) -> u64 {
        self.0 >> Self::MARKS_SHIFT & Self::MARKS_MASK
    }

    const fn add(self, lost: u64, marks: u64) -> Self {
        let lost = self.0.wrapping_add(lost) & Self::LOST_MASK;
        let marks = self.marks().wrapping_add(marks) & Self::MARKS_MASK;
        let path = self.0 >> Self::PATH_SHIFT << Self::PATH_SHIFT;
        Self(lost | marks << Self::MARKS_SHIFT | path)
    }

    /// The same volumes on the next path.
    const fn on_next_path(self) -> Self {
        Self(self.0.wrapping_add(1 << Self::PATH_SHIFT))
    }

    /// True if both are of the same path.
    #[inline]
    const fn is_same_path(self, other: Self) -> bool {
        (self.0 ^ other.0) >> Self::PATH_SHIFT == 0
    }

    #[inline]
    fn lost_since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & Self::LOST_MASK
    }

    const fn marks_since(self, earlier: Self) -> u64 {
        self.marks().wrapping_sub(earlier.marks()) & Self::MARKS_MASK
    }
}

/// A packet's number modulo 4096: enough to see that two packets were neighbours, and which of two
/// that left in the same instant was the later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PacketIndex(u16);

impl PacketIndex {
    /// True if this packet was sent right after `other`, or is a part of the same aggregate.
    pub(crate) const fn continues(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) & INDEX_MASK <= 1
    }

    const fn is_after(self, other: Self) -> bool {
        let ahead = self.0.wrapping_sub(other.0) & INDEX_MASK;
        ahead != 0 && ahead <= INDEX_MASK / 2
    }
}

/// A transport's round-trip sample for one ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RttSample {
    /// Measured as finely as the clock that [`crate::Controller::on_sent`] is told.
    Exact(Duration),
    /// Measured by a coarse clock, as by TCP timestamps of a millisecond: up to `granularity` more
    /// than the truth. It is a sample like any other, but rates are judged by what is certain of
    /// it.
    Coarse {
        /// The sample.
        rtt: Duration,
        /// The step of the clock.
        granularity: Duration,
    },
    /// No sample: the ACK may be that of the first copy or of the second (Karn's algorithm, RFC
    /// 6298 section 3).
    Ambiguous,
}

/// A round-trip sample as the sampler takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// [`Duration::MAX`] for none.
    rtt: Duration,
    /// No round trip was shorter.
    at_least: Duration,
}

/// An RTT below this counts as this: a zero would make every rate infinite.
const MIN_RTT_SAMPLE: Duration = Duration::from_micros(1);

impl Measured {
    #[inline]
    pub(crate) const fn exactly(rtt: Duration) -> Self {
        let nanos = rtt.as_nanos();
        let least = MIN_RTT_SAMPLE.as_nanos();
        let rtt = Duration::from_nanos(if nanos > least { nanos } else { least });
        Self { rtt, at_least: rtt }
    }

    /// Converts a transport's sample.
    pub(crate) fn by_transport(sample: RttSample) -> Self {
        match sample {
            RttSample::Exact(rtt) => Self::exactly(rtt),
            RttSample::Coarse { rtt, granularity } => {
                let at_least = (rtt - granularity).max(MIN_RTT_SAMPLE);
                Self { at_least, ..Self::exactly(rtt) }
            }
            RttSample::Ambiguous => Self { rtt: Duration::MAX, at_least: Duration::MAX },
        }
    }

    /// [`Duration::MAX`] for none.
    #[inline]
    pub(crate) const fn rtt(self) -> Duration {
        self.rtt
    }
}

/// Rate sample of one ACK (the draft's RS).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct RateSample {
    /// The time of the ACK.
    pub now: Instant,
    /// RS.rtt; [`Duration::MAX`] when the transport has no sample for this ACK.
    pub(crate) rtt: Duration,
    /// RS.delivery_rate; zero when there is no reliable sample.
    pub delivery_rate: Rate,
    /// RS.is_app_limited: whether the newest acknowledged packet was sent while the application was
    /// the limit.
    pub is_app_limited: bool,
    /// RS.delivered: bytes delivered since the newest acknowledged packet was sent.
    pub delivered: u64,
    /// RS.prior_delivered: C.delivered in bytes when the newest acknowledged packet was sent.
    pub prior_delivered: u64,
    /// RS.newly_acked in bytes.
    pub newly_acked: u64,
    /// The part of `newly_acked` that was sent after the current recovery episode began.
    pub newly_acked_after_recovery: u64,
    /// RS.tx_in_flight, of the newest acknowledged packet (erratum: also set on plain ACKs).
    pub tx_in_flight: u64,
    /// RS.lost: bytes lost between the newest acknowledged packet's departure and now, with those
    /// that were marked where a mark counts as a loss.
    pub lost: u64,
    /// C.inflight before this ACK removed anything.
    pub prior_inflight: u64,
    /// The part of the round trip that the receiver's host took, as the transport said.
    #[cfg(feature = "bbr-swift")]
    pub receiver_delay: Duration,
    /// The part for which the receiver then waited on purpose, as the transport said.
    #[cfg(feature = "bbr-swift")]
    pub ack_delay: Duration,
}

impl RateSample {
    /// RS.rtt; `None` when the transport has no sample for this ACK.
    #[inline]
    pub fn rtt(&self) -> Option<Duration> {
        (self.rtt != Duration::MAX).then_some(self.rtt)
    }

    /// [`Self::receiver_delay`] and [`Self::ack_delay`], in a build that has them.
    pub(crate) const fn delays_at_receiver(&self) -> (Duration, Duration) {
        #[cfg(feature = "bbr-swift")]
        return (self.receiver_delay, self.ack_delay);
        #[cfg(not(feature = "bbr-swift"))]
        (Duration::ZERO, Duration::ZERO)
    }

    pub(crate) const fn set_delays_at_receiver(&mut self, _host: Duration, _wait: Duration) {
        #[cfg(feature = "bbr-swift")]
        {
            self.receiver_delay = _host;
            self.ack_delay = _wait;
        }
    }
}

/// C.app_limited of a connection whose application is not the limit.
const NOT_LIMITED: u64 = u64::MAX;

/// The connection's side of the sampler (the draft's C).
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    /// C.delivered in bytes.
    pub(crate) delivered: u64,
    // What a packet takes along, in its order, so that it is copied in as few moves.
    losses: Losses,
    delivered_time: Instant,
    first_send_time: Instant,
    /// C.lost in bytes. What was marked with CE has arrived, and is not in here.
    lost: u64,
    /// C.app_limited: the value of C.delivered at which the bubble has left the path;
    /// [`NOT_LIMITED`] for none, so that one comparison answers both questions of an ACK.
    app_limited: u64,
    /// C.min_rtt over the lifetime of the connection.
    min_rtt: Duration,
    next_index: u64,
}

impl Sampler {
    /// `min_rtt` is [`Duration::MAX`] before the first sample.
    pub(crate) fn new(now: Instant, min_rtt: Duration) -> Self {
        Self {
            delivered: 0,
            lost: 0,
            losses: Losses(0),
            delivered_time: now,
            first_send_time: now,
            app_limited: NOT_LIMITED,
            min_rtt,
            next_index: 0,
        }
    }

    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited != NOT_LIMITED
    }

    /// MarkConnectionAppLimited(). At least 1, so that the first byte delivered does not end it.
    pub(crate) fn mark_app_limited(&mut self, inflight: u64) {
        self.app_limited = self.delivered.saturating_add(inflight).clamp(1, NOT_LIMITED - 1);
    }

    /// The part of OnPacketSent() where nothing was unacknowledged before.
    pub(crate) const fn begin_flight(&mut self, now: Instant) {
        self.first_send_time = now;
        self.delivered_time = now;
    }

    /// OnPacketSent(), after [`Self::begin_flight`] where that is due. `inflight` is with this
    /// packet.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Instant, size: u64, inflight: u64) -> PacketState {
        let index = self.next_index;
        self.next_index = index.wrapping_add(1);
        PacketState {
            delivered: self.delivered,
            losses: self.losses,
            delivered_time: self.delivered_time,
            first_send_time: self.first_send_time,
            send_time: now,
            packed: inflight.min(MAX_TX_IN_FLIGHT)
                | (self.is_app_limited() as u64) << TX_IN_FLIGHT_BITS
                | (index & u64::from(INDEX_MASK)) << INDEX_SHIFT
                | size << SIZE_SHIFT,
        }
    }

    /// UpdateRateSample() for all packets of one ACK: the newest is the caller's to find.
    #[inline]
    pub(crate) fn count_delivered(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    /// C.lost in bytes.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    /// The draft lets the application-limited mark stand when packets are lost. They are never
    /// delivered, so that the phase would last until as much was delivered in their place: seconds
    /// on a slow path.
    pub(crate) fn count_lost(&mut self, bytes: u64) {
        self.lost = self.lost.saturating_add(bytes);
        if self.is_app_limited() {
            self.app_limited = self.app_limited.saturating_sub(bytes).max(1);
        }
        self.losses = self.losses.add(bytes, 0);
    }

    /// `packets` were marked with CE. RS.lost grows by `as_lost` bytes, which C.lost does not.
    pub(crate) fn count_marks(&mut self, packets: u64, as_lost: u64) {
        let packets = packets.min(Losses::MARKS_MASK);
        self.losses = self.losses.add(as_lost.min(Losses::LOST_MASK), packets);
    }

    /// The place in the order of sending that the next packet will have if it leaves `now`.
    pub(crate) const fn next_order(&self, now: Instant) -> SendOrder {
        SendOrder { time: now, index: PacketIndex(self.next_index as u16 & INDEX_MASK) }
    }

    /// The flow goes on over another path: packets from before are not of this path.
    pub(crate) fn begin_path(&mut self) {
        self.losses = self.losses.on_next_path();
    }

    /// Begins the path after that of `before`, for a sampler made anew.
    pub(crate) fn begin_path_after(&mut self, before: &Self) {
        self.losses = Losses(before.losses.0 >> Losses::PATH_SHIFT << Losses::PATH_SHIFT);
        self.begin_path();
    }

    /// The number of the path, modulo 64.
    pub(crate) const fn path(&self) -> u8 {
        (self.losses.0 >> Losses::PATH_SHIFT) as u8
    }

    /// True if `p` was sent over the path that the flow uses now.
    #[inline]
    pub(crate) const fn is_of_this_path(&self, p: &PacketState) -> bool {
        self.losses.is_same_path(p.losses)
    }

    /// The shortest round trip of the connection; [`Duration::MAX`] before the first sample.
    pub(crate) const fn min_rtt(&self) -> Duration {
        self.min_rtt
    }

    /// Bytes lost since `p` was sent, with those that were marked where a mark counts as a loss.
    pub(crate) fn lost_since(&self, p: &PacketState) -> u64 {
        self.losses.lost_since(p.losses)
    }

    /// Packets marked since `p` was sent, of at most four million.
    pub(crate) fn marks_since(&self, p: &PacketState) -> u64 {
        self.losses.marks_since(p.losses)
    }

    /// GenerateRateSample(), for an ACK whose newest packet is `p`. The sample is new for each ACK,
    /// so that InitRateSample() has nothing left to reset (the pseudo-code forgets RS.delivered and
    /// RS.prior_delivered). The volumes of the ACK itself are the caller's to fill in.
    #[inline]
    pub(crate) fn generate(&mut self, now: Instant, p: &PacketState, rtt: Measured) -> RateSample {
        self.min_rtt = self.min_rtt.min(rtt.at_least);
        self.delivered_time = now;
        self.first_send_time = p.send_time;
        if self.delivered > self.app_limited {
            self.app_limited = NOT_LIMITED;
        }
        let send_elapsed = p.send_time.since(p.first_send_time);
        let ack_elapsed = now.since(p.delivered_time);
        let interval = send_elapsed.max(ack_elapsed);
        let delivered = self.delivered.saturating_sub(p.delivered);
        // An interval under the shortest round trip is no measurement of this path.
        let reliable = interval >= self.min_rtt;
        RateSample {
            now,
            rtt: rtt.rtt,
            delivery_rate: if reliable {
                Rate::from_volume(delivered, interval)
            } else {
                Rate::ZERO
            },
            is_app_limited: p.is_app_limited(),
            delivered,
            prior_delivered: p.delivered,
            tx_in_flight: p.tx_in_flight(),
            lost: self.losses.lost_since(p.losses),
            newly_acked: 0,
            newly_acked_after_recovery: 0,
            prior_inflight: 0,
            #[cfg(feature = "bbr-swift")]
            receiver_delay: Duration::ZERO,
            #[cfg(feature = "bbr-swift")]
            ack_delay: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;
