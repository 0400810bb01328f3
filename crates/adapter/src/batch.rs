//! The batch of one ACK, from calls that come one after the other.

use fullpipe_cc::{Controller, Duration, Instant, PacketState};

/// A state that is older than the newest acknowledged packet by more than this and four round
/// trips was acknowledged, lost or dropped long ago: a loss timer is 9/8 of a round trip.
const FORGET_AFTER: Duration = Duration::from_secs(1);

/// The events of one ACK, or of one firing of the loss timer, so far.
///
/// Stacks of quinn's family call their controller for each acknowledged packet, then once at the
/// end of the ACK, and then for losses and marks. The draft wants one batch. So the events are kept
/// until the first call that cannot belong to them, and given to the core together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The time of its events; `None` when nothing is kept.
    now: Option<Instant>,
    /// The ACK has ended: another acknowledged packet belongs to the next one.
    acks_ended: bool,
    acked: Vec<PacketState>,
    lost: Vec<PacketState>,
    in_flight: Option<u64>,
    ce_packets: u64,
    persistent_congestion: bool,
}

impl Batch {
    /// True if it is open and its events are of this time.
    pub fn is_at(&self, now: Instant) -> bool {
        self.now == Some(now)
    }

    /// True if a packet that is acknowledged at this time belongs to its ACK.
    pub fn takes_acked(&self, now: Instant) -> bool {
        self.is_at(now) && !self.acks_ended
    }

    /// Opens it, if it is not open. An older one must have been closed.
    pub fn open(&mut self, now: Instant) -> &mut Self {
        self.now = Some(now);
        self
    }

    /// A packet is newly acknowledged.
    pub fn acked(&mut self, packet: PacketState) {
        self.acked.push(packet);
    }

    /// A packet is newly lost.
    pub fn lost(&mut self, packet: PacketState) {
        self.lost.push(packet);
    }

    /// The ACK ended, and the stack counts so many bytes in flight, before the losses of this ACK.
    pub fn acks_ended(&mut self, in_flight: u64) {
        self.in_flight = Some(in_flight);
        self.acks_ended = true;
    }

    /// More packets were marked with CE.
    pub fn ce(&mut self, packets: u64) {
        self.ce_packets += packets;
    }

    /// Persistent congestion (RFC 9002 section 7.6), which is the draft's retransmission timeout.
    pub fn persistent_congestion(&mut self) {
        self.persistent_congestion = true;
    }

    /// Gives the core what is kept. Returns the time before which the states of packets can be let
    /// go, if packets were acknowledged.
    pub fn close(&mut self, core: &mut Controller) -> Option<Instant> {
        let now = self.now.take()?;
        let lost_bytes: u64 = self.lost.iter().map(PacketState::size).sum();
        let newest_acked = self.acked.iter().map(PacketState::send_time).max();

        let mut ack = core.ack(now);
        for packet in self.acked.drain(..) {
            ack.acked(&packet);
        }
        for packet in self.lost.drain(..) {
            ack.lost(&packet);
        }
        ack.ce(core::mem::take(&mut self.ce_packets));
        if let Some(in_flight) = self.in_flight.take() {
            // Counted after the ACK and before its losses.
            ack.resync_inflight(in_flight.saturating_sub(lost_bytes));
        }
        if core::mem::take(&mut self.persistent_congestion) {
            ack.timeout();
        }
        ack.finish();
        self.acks_ended = false;
        let newest = newest_acked?;
        Some(newest - (FORGET_AFTER + now.since(newest).times(4)))
    }
}
