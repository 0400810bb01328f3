//! Statistics of a path.

use std::fmt;

use fullpipe_units::{Duration, Instant};

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes, headers included.
    pub bytes: u64,
}

impl Count {
    /// Counts one more packet.
    pub fn add(&mut self, wire_bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(wire_bytes);
    }

    pub(crate) fn remove(&mut self, wire_bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(wire_bytes);
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}

/// The reason for a drop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// The queue had no room for it.
    TailDrop,
    /// A loss element lost it.
    RandomLoss,
    /// It came during an outage.
    Blackhole,
    /// The queue's active management dropped it, before there was no room.
    Aqm,
    /// A policer had no tokens for it.
    Policed,
    /// A later packet of its flow in the same batch says as much: ACK decimation.
    Thinned,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TailDrop => "tail drop",
            Self::RandomLoss => "random loss",
            Self::Blackhole => "blackhole",
            Self::Aqm => "active queue management",
            Self::Policed => "policed",
            Self::Thinned => "thinned out",
        })
    }
}

/// Everything that happened to packets on a path so far.
///
/// `arrived + duplicated = delivered + dropped() + inside`, in packets and in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathStats {
    /// Sent into the path.
    pub arrived: Count,
    /// Serialised by the first bottleneck: what its utilisation is computed from. On a path without
    /// a bottleneck the same as `delivered`.
    pub carried: Count,
    /// Came out at the far end.
    pub delivered: Count,
    /// Dropped because a queue had no room.
    pub tail_dropped: Count,
    /// Lost by a loss element.
    pub random_lost: Count,
    /// Sent into an outage.
    pub blackholed: Count,
    /// Dropped by a queue's active management.
    pub aqm_dropped: Count,
    /// Dropped by a policer.
    pub policed: Count,
    /// Thinned out of a batch.
    pub thinned: Count,
    /// Came into being on the way: copies.
    pub duplicated: Count,
    /// Marked with congestion experienced, counted at each element that did so.
    pub marked: Count,
    /// Waiting, on the wire, or propagating. A packet that is due, or dropped
    /// after it had been taken in, counts here until it is polled.
    pub inside: Count,
    /// The most bytes that were ever in the first bottleneck's queue.
    pub max_queue_bytes: u64,
    /// The most packets that were ever in the first bottleneck's queue.
    pub max_queue_packets: u64,
}

impl PathStats {
    /// All packets dropped, for whatever reason.
    pub fn dropped(&self) -> Count {
        let Self { tail_dropped, random_lost, blackholed, aqm_dropped, policed, thinned, .. } =
            self;
        [tail_dropped, random_lost, blackholed, aqm_dropped, policed, thinned]
            .into_iter()
            .fold(Count::default(), |sum, count| sum.plus(*count))
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason, wire_bytes: u32) {
        match reason {
            DropReason::TailDrop => &mut self.tail_dropped,
            DropReason::RandomLoss => &mut self.random_lost,
            DropReason::Blackhole => &mut self.blackholed,
            DropReason::Aqm => &mut self.aqm_dropped,
            DropReason::Policed => &mut self.policed,
            DropReason::Thinned => &mut self.thinned,
        }
        .add(wire_bytes);
    }
}

/// A bottleneck's queue at one moment, the packet on the wire included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// Bytes on the wire, headers included. A packet counts whole until its last bit has left.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// The wait of a packet that arrives now until its own serialisation starts: the remaining
    /// bytes ahead of it, divided by the rate.
    pub delay: Duration,
}

/// A path at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathSample {
    /// The moment.
    pub at: Instant,
    /// The first bottleneck's queue; empty on a path without a bottleneck.
    pub queue: Queue,
    /// The counters so far.
    pub stats: PathStats,
}

/// Counters of one element so far:
/// `entered + duplicated = left + dropped + inside`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ElementStats {
    /// Came from the element before it, or into the path.
    pub entered: Count,
    /// Went on.
    pub left: Count,
    /// Went no further.
    pub dropped: Count,
    /// Came into being here.
    pub duplicated: Count,
    /// Was marked here with congestion experienced.
    pub marked: Count,
    /// Is held.
    pub inside: Count,
    /// The most bytes that were ever held: only a bottleneck counts them.
    pub max_bytes: u64,
    /// The most packets that were ever held: only a bottleneck counts them.
    pub max_packets: u64,
    /// The queue, for a bottleneck; else empty.
    pub queue: Queue,
}
