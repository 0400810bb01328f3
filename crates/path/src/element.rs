//! What every element of a path can do, and the elements that there are.
//!
//! An enum and not a trait object: the path calls its elements for every packet.

use fullpipe_cc::{Duration, Instant};

use crate::aggregation::Aggregation;
use crate::bottleneck::Bottleneck;
use crate::delay::Delay;
use crate::loss::Loss;
use crate::packet::Packet;
use crate::probability::Dice;
use crate::reordering::{Chooser, Reordering};
use crate::token_bucket::TokenBucket;
use crate::{Count, DropReason, ElementConfig};

/// What an element does with a packet that enters it.
pub(crate) enum Entry<T> {
    /// It enters the next element in the same moment.
    Passed(Packet<T>),
    /// It comes out later.
    Held,
    /// It goes no further.
    Dropped(DropReason, Packet<T>),
}

impl<T> Packet<T> {
    /// The packet goes on, unless it is `dropped`.
    fn unless(self, dropped: bool, reason: DropReason) -> Entry<T> {
        if dropped { Entry::Dropped(reason, self) } else { Entry::Passed(self) }
    }
}

/// What comes of an element's next exit.
pub(crate) enum Exit<T> {
    /// A packet enters the next element.
    Passed(Packet<T>),
    /// A packet is taken out and goes no further.
    Dropped(DropReason, Packet<T>),
    /// Nothing.
    Nothing,
}

impl<T> From<Option<Packet<T>>> for Exit<T> {
    fn from(packet: Option<Packet<T>>) -> Self {
        packet.map_or(Self::Nothing, Self::Passed)
    }
}

#[derive(Debug)]
pub(crate) enum Element<T> {
    Loss(Loss),
    Policer(TokenBucket),
    Bottleneck(Bottleneck<T>),
    Delay(Delay<T>),
    Reordering(Reordering<T>),
    Aggregation(Aggregation<T>),
}

impl<T> Element<T> {
    /// The element that a valid `config` describes.
    pub(crate) fn new(config: &ElementConfig, dice: Dice) -> Self {
        match *config {
            ElementConfig::Loss(p) => Self::Loss(Loss::new(p, dice)),
            ElementConfig::Policer { rate, bucket_bytes } => {
                Self::Policer(TokenBucket::new(rate, bucket_bytes))
            }
            ElementConfig::Bottleneck { rate, queue } => {
                Self::Bottleneck(Bottleneck::new(rate, queue))
            }
            ElementConfig::Delay(delay) => Self::Delay(Delay::new(delay)),
            ElementConfig::Reordering { packets, delay } => {
                Self::Reordering(Reordering::new(Chooser::new(packets, dice), delay))
            }
            ElementConfig::Aggregation { interval, burst, keep_one_in } => {
                Self::Aggregation(Aggregation::new(interval, burst, keep_one_in))
            }
        }
    }

    /// A packet enters. The path has dealt with everything that was due until `now`.
    #[inline]
    pub(crate) fn enter(&mut self, now: Instant, packet: Packet<T>) -> Entry<T> {
        match self {
            Self::Loss(e) => packet.unless(e.loses(), DropReason::RandomLoss),
            Self::Policer(e) => {
                let bytes = packet.header.wire_bytes;
                packet.unless(!e.take(now, bytes), DropReason::Policed)
            }
            Self::Bottleneck(e) => e.enter(now, packet),
            Self::Delay(e) => e.enter(now, packet),
            Self::Reordering(e) => e.enter(now, packet),
            Self::Aggregation(e) => {
                e.enter(now, packet);
                Entry::Held
            }
        }
    }

    /// When the next packet leaves this element, or is dropped inside.
    #[inline]
    pub(crate) fn next_exit(&self) -> Option<Instant> {
        match self {
            Self::Loss(_) | Self::Policer(_) => None,
            Self::Bottleneck(e) => e.next_exit(),
            Self::Delay(e) => e.next_exit(),
            Self::Reordering(e) => e.next_exit(),
            Self::Aggregation(e) => e.next_exit(),
        }
    }

    /// What happens at `next_exit`.
    #[inline]
    pub(crate) fn exit(&mut self) -> Exit<T> {
        match self {
            Self::Loss(_) | Self::Policer(_) => Exit::Nothing,
            Self::Bottleneck(e) => e.exit().into(),
            Self::Delay(e) => e.exit().into(),
            Self::Reordering(e) => e.exit().into(),
            Self::Aggregation(e) => e.exit(),
        }
    }

    /// What is inside.
    pub(crate) fn held(&self) -> Count {
        match self {
            Self::Loss(_) | Self::Policer(_) => Count::default(),
            Self::Bottleneck(e) => e.held(),
            Self::Delay(e) => sum(e.held()),
            Self::Reordering(e) => sum(e.held()),
            Self::Aggregation(e) => sum(e.held()),
        }
    }
}

fn sum<'a, T: 'a>(packets: impl Iterator<Item = &'a Packet<T>>) -> Count {
    let mut count = Count::default();
    packets.for_each(|p| count.add(p.header.wire_bytes));
    count
}

impl ElementConfig {
    /// The least time that a packet spends in this element, whatever else is in it.
    pub(crate) fn least_delay(&self) -> Duration {
        match self {
            Self::Delay(delay) => *delay,
            _ => Duration::ZERO,
        }
    }
}
