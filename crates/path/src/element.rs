//! The elements of a path and their common operations.
//!
//! An enum and not a trait object: the path calls its elements for every packet.

use fullpipe_units::{Duration, Instant};

use crate::aggregation::Aggregation;
use crate::bottleneck::Bottleneck;
use crate::delay::Delay;
use crate::jitter::Jitter;
use crate::loss::{Blackhole, Loss};
use crate::pool::{Key, Pool};
use crate::probability::RandomSource;
use crate::reordering::{Chooser, Reordering};
use crate::shaper::{Shaped, Shaper};
use crate::token_bucket::TokenBucket;
use crate::{Count, DropReason, Ecn, ElementConfig, Probability};

/// The result of a packet's entry into an element.
pub(crate) enum EntryResult {
    /// It enters the next element in the same moment.
    Passed,
    /// It comes out later.
    Held,
    /// It goes no further.
    Dropped(DropReason),
    /// It enters the next element, and so does another one like it.
    Doubled,
}

impl EntryResult {
    #[inline]
    fn unless(dropped: bool, reason: DropReason) -> Self {
        if dropped { Self::Dropped(reason) } else { Self::Passed }
    }
}

#[derive(Debug)]
pub(crate) enum Element {
    Loss(Loss),
    Bottleneck(Bottleneck),
    Delay(Delay),
    Blackhole(Blackhole),
    Corruption(Probability, RandomSource),
    Marking(Probability, RandomSource),
    Mangling(Probability, RandomSource),
    Bleaching(Probability, RandomSource),
    Duplication(Probability, RandomSource),
    Policer(TokenBucket),
    Shaper(Box<Shaper>),
    Reordering(Box<Reordering>),
    Aggregation(Box<Aggregation>),
}

impl Element {
    /// The element that a valid `config` describes.
    pub(crate) fn new(config: &ElementConfig, dice: RandomSource) -> Self {
        match *config {
            ElementConfig::Loss(ref loss) => Self::Loss(Loss::new(loss, dice)),
            ElementConfig::Blackhole(ref outages) => Self::Blackhole(Blackhole::new(outages)),
            ElementConfig::BlackholeSeries(ref series) => {
                Self::Blackhole(Blackhole::series(series))
            }
            ElementConfig::Corruption(probability) => Self::Corruption(probability, dice),
            ElementConfig::Marking(probability) => Self::Marking(probability, dice),
            ElementConfig::Mangling(probability) => Self::Mangling(probability, dice),
            ElementConfig::Bleaching(probability) => Self::Bleaching(probability, dice),
            ElementConfig::Duplication(probability) => Self::Duplication(probability, dice),
            ElementConfig::Policer { rate, bucket_bytes, initial_bytes } => {
                Self::Policer(TokenBucket::new(rate, bucket_bytes).holding(initial_bytes))
            }
            ElementConfig::Shaper { rate, bucket_bytes, queue } => {
                Self::Shaper(Box::new(Shaper::new(rate, bucket_bytes, queue)))
            }
            ElementConfig::Bottleneck { ref rate, ref queue } => {
                Self::Bottleneck(Bottleneck::new(rate, queue, dice))
            }
            ElementConfig::Delay(delay) => Self::Delay(Delay::fixed(delay)),
            ElementConfig::DelaySteps(ref steps) => Self::Delay(Delay::steps(steps)),
            ElementConfig::DelaySeries(ref series) => Self::Delay(Delay::series(series)),
            ElementConfig::Jitter(jitter) => Self::Delay(Delay::random(Jitter::new(jitter, dice))),
            ElementConfig::JitterSeries(ref series) => {
                Self::Delay(Delay::random(Jitter::series(series, dice)))
            }
            ElementConfig::Reordering { packets, delay } => {
                Self::Reordering(Box::new(Reordering::new(Chooser::new(packets, dice), delay)))
            }
            ElementConfig::Aggregation { interval, burst, keep_one_in } => {
                Self::Aggregation(Box::new(Aggregation::new(interval, burst, keep_one_in)))
            }
        }
    }

    /// A packet enters. The row has dealt with everything that was due until `now`.
    #[inline]
    pub(crate) fn enter(&mut self, pool: &mut Pool, now: Instant, key: Key) -> EntryResult {
        match self {
            Self::Loss(e) => EntryResult::unless(e.loses(now), DropReason::RandomLoss),
            Self::Bottleneck(e) => match e.enter(pool, now, key) {
                Ok(()) => EntryResult::Held,
                Err(reason) => EntryResult::Dropped(reason),
            },
            Self::Delay(e) => {
                e.enter(now, key);
                EntryResult::Held
            }
            Self::Blackhole(e) => EntryResult::unless(e.swallows(now), DropReason::Blackhole),
            Self::Corruption(probability, dice) => {
                pool[key].corrupted |= dice.says(*probability);
                EntryResult::Passed
            }
            Self::Marking(probability, dice) => {
                if dice.says(*probability) {
                    pool.mark(key);
                }
                EntryResult::Passed
            }
            Self::Mangling(probability, dice) => {
                if dice.says(*probability) {
                    pool[key].header.ecn = Ecn::Ce;
                }
                EntryResult::Passed
            }
            Self::Bleaching(probability, dice) => {
                if dice.says(*probability) {
                    pool[key].header.ecn = Ecn::NotEct;
                }
                EntryResult::Passed
            }
            Self::Duplication(probability, dice) => {
                if dice.says(*probability) {
                    EntryResult::Doubled
                } else {
                    EntryResult::Passed
                }
            }
            Self::Policer(e) => {
                EntryResult::unless(!e.take(now, pool.bytes(key)), DropReason::Policed)
            }
            Self::Shaper(e) => match e.enter(pool, now, key) {
                Shaped::Passed => EntryResult::Passed,
                Shaped::Held => EntryResult::Held,
                Shaped::NoRoom => EntryResult::Dropped(DropReason::TailDrop),
            },
            Self::Reordering(e) => {
                if e.enter(now, key) {
                    EntryResult::Held
                } else {
                    EntryResult::Passed
                }
            }
            Self::Aggregation(e) => {
                e.enter(now, key, pool.bytes(key));
                EntryResult::Held
            }
        }
    }

    /// The time at which the next packet leaves this element, or is dropped inside.
    #[inline]
    pub(crate) fn next_exit(&self) -> Option<Instant> {
        match self {
            Self::Bottleneck(e) => e.next_exit(),
            Self::Delay(e) => e.line.next_exit(),
            Self::Shaper(e) => e.next_exit(),
            Self::Reordering(e) => e.back.next_exit(),
            Self::Aggregation(e) => e.next_exit(),
            _ => None,
        }
    }

    /// Processes the exit due at `next_exit`; returns the packet that leaves, if one does.
    #[inline]
    pub(crate) fn exit(&mut self, pool: &mut Pool) -> Option<Key> {
        match self {
            Self::Bottleneck(e) => e.exit(pool),
            Self::Delay(e) => e.line.pop(),
            Self::Shaper(e) => e.exit(pool),
            Self::Reordering(e) => e.back.pop(),
            Self::Aggregation(e) => e.exit(pool),
            _ => None,
        }
    }

    /// The packets and bytes inside.
    pub(crate) fn held(&self, pool: &Pool) -> Count {
        match self {
            Self::Bottleneck(e) => e.held(),
            Self::Delay(e) => e.line.held(pool),
            Self::Shaper(e) => e.held(),
            Self::Reordering(e) => e.back.held(pool),
            Self::Aggregation(e) => e.held(pool),
            _ => Count::default(),
        }
    }
}

impl ElementConfig {
    /// The least time that a packet spends in this element, whatever else is in it.
    pub(crate) fn least_delay(&self) -> Duration {
        match self {
            Self::Delay(delay) => *delay,
            Self::DelaySteps(steps) => {
                steps.iter().map(|(_, delay)| *delay).min().unwrap_or(Duration::ZERO)
            }
            Self::DelaySeries(series) => {
                series.steps().iter().map(|(_, delay)| *delay).min().unwrap_or(Duration::ZERO)
            }
            _ => Duration::ZERO,
        }
    }
}
