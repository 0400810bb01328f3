//! What every element of a path can do, and the elements that there are.
//!
//! An enum and not a trait object: the path calls its elements for every packet.

use fullpipe_cc::{Duration, Instant};

use crate::DropReason;
use crate::bottleneck::Bottleneck;
use crate::delay::Delay;
use crate::loss::Loss;

/// A packet on its way through the row.
#[derive(Debug)]
pub(crate) struct Packet<T> {
    pub(crate) wire_bytes: u32,
    /// Time waited so far, in every queue that the packet passed.
    pub(crate) queued: Duration,
    pub(crate) payload: T,
}

/// What an element does with a packet that enters it.
pub(crate) enum Entry<T> {
    /// It enters the next element in the same moment.
    Passed(Packet<T>),
    /// It comes out later.
    Held,
    /// It goes no further.
    Dropped(DropReason, Packet<T>),
}

#[derive(Debug)]
pub(crate) enum Element<T> {
    Loss(Loss),
    Bottleneck(Bottleneck<T>),
    Delay(Delay<T>),
}

impl<T> Element<T> {
    /// A packet enters. The path has dealt with everything that was due until `now`.
    pub(crate) fn enter(&mut self, now: Instant, packet: Packet<T>) -> Entry<T> {
        match self {
            Self::Loss(e) => e.enter(packet),
            Self::Bottleneck(e) => e.enter(now, packet),
            Self::Delay(e) => e.enter(now, packet),
        }
    }

    /// When the next packet leaves this element.
    pub(crate) fn next_exit(&self) -> Option<Instant> {
        match self {
            Self::Loss(_) => None,
            Self::Bottleneck(e) => e.next_exit(),
            Self::Delay(e) => e.next_exit(),
        }
    }

    /// Takes out the packet that leaves at `next_exit`.
    pub(crate) fn exit(&mut self) -> Option<Packet<T>> {
        match self {
            Self::Loss(_) => None,
            Self::Bottleneck(e) => e.exit(),
            Self::Delay(e) => e.exit(),
        }
    }

    /// The earliest time at which a packet can come out of this element when none enters it before
    /// `upstream`. It may be too early, never too late; it saves the clock's holder a wake for
    /// every packet that only moves on inside the path.
    pub(crate) fn earliest_exit(&self, upstream: Option<Instant>) -> Option<Instant> {
        let later = match self {
            Self::Delay(e) => upstream.map(|t| t + e.delay()),
            Self::Loss(_) | Self::Bottleneck(_) => upstream,
        };
        earlier(self.next_exit(), later)
    }
}

/// The earlier of two times, where `None` is never.
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
