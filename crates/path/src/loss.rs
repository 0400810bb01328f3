//! Loss, by chance or by plan.

use std::sync::Arc;

use fullpipe_units::{Duration, Instant};

use crate::probability::RandomSource;
use crate::schedule::Schedule;
use crate::{LossConfig, Probability, Series};

/// Loses packets without looking at them: by chance, by number or by time.
#[derive(Debug)]
pub(crate) enum Loss {
    /// Each by itself.
    Independent(Probability, RandomSource),
    /// Gilbert and Elliott's chain.
    Chain(Box<Chain>),
    /// By its number: the next number, and how many of the sorted list are done.
    Listed { numbers: Arc<[u64]>, next: u64, done: usize },
    /// The last `length` of every `every`; `count` of them have passed.
    Bursts { every: u64, length: u64, count: u64 },
    /// Each by itself, up to so many in a row; `lost` right before.
    Limited { probability: Probability, in_a_row: u32, lost: u32, dice: RandomSource },
    /// Each with the probability of its time.
    OverTime(Box<Schedule<Probability>>, RandomSource),
    /// All for a while from one that began it; the end of the last one.
    Overflows { begins: Probability, lasts: Duration, until: Instant, dice: RandomSource },
}

/// Two states, each with its own loss; the state changes before a packet is judged.
#[derive(Debug)]
pub(crate) struct Chain {
    bad: bool,
    to_bad: Probability,
    to_good: Probability,
    loss_in_good: Probability,
    loss_in_bad: Probability,
    dice: RandomSource,
}

impl Chain {
    fn loses(&mut self) -> bool {
        let change = if self.bad { self.to_good } else { self.to_bad };
        self.bad ^= self.dice.says(change);
        let loss = if self.bad { self.loss_in_bad } else { self.loss_in_good };
        self.dice.says(loss)
    }
}

impl Loss {
    pub(crate) fn new(config: &LossConfig, dice: RandomSource) -> Self {
        match *config {
            LossConfig::Independent(probability) => Self::Independent(probability, dice),
            LossConfig::GilbertElliott { to_bad, to_good, loss_in_good, loss_in_bad } => {
                let chain = Chain { bad: false, to_bad, to_good, loss_in_good, loss_in_bad, dice };
                Self::Chain(Box::new(chain))
            }
            LossConfig::Listed(ref numbers) => {
                Self::Listed { numbers: numbers.as_slice().into(), next: 0, done: 0 }
            }
            LossConfig::Bursts { every, length } => Self::Bursts { every, length, count: 0 },
            LossConfig::Limited { probability, in_a_row } => {
                Self::Limited { probability, in_a_row, lost: 0, dice }
            }
            LossConfig::Series(ref series) => Self::OverTime(Box::new(Schedule::of(series)), dice),
            LossConfig::Overflows { begins, lasts } => {
                Self::Overflows { begins, lasts, until: Instant::default(), dice }
            }
        }
    }

    #[inline]
    pub(crate) fn loses(&mut self, now: Instant) -> bool {
        match self {
            Self::Independent(probability, dice) => dice.says(*probability),
            Self::Chain(chain) => chain.loses(),
            Self::Listed { numbers, next, done } => {
                let hit = numbers.get(*done) == Some(next);
                *next += 1;
                *done += usize::from(hit);
                hit
            }
            Self::Bursts { every, length, count } => {
                let hit = *count >= *every - *length;
                *count = (*count + 1) % *every;
                hit
            }
            Self::Limited { probability, in_a_row, lost, dice } => {
                // Drawn for each packet, so that the limit changes nothing of the packets after it.
                let hit = dice.says(*probability) && *lost < *in_a_row;
                *lost = if hit { *lost + 1 } else { 0 };
                hit
            }
            Self::OverTime(schedule, dice) => dice.says(schedule.at(now)),
            Self::Overflows { begins, lasts, until, dice } => {
                if now >= *until && dice.says(*begins) {
                    *until = now + *lasts;
                }
                now < *until
            }
        }
    }
}

/// Swallows everything from the start of an outage to its end.
#[derive(Debug)]
pub(crate) struct Blackhole {
    outages: Schedule<bool>,
    /// Nothing is swallowed before this, although a series may begin with an outage.
    start: Instant,
}

impl Blackhole {
    pub(crate) fn new(outages: &[(Duration, Duration)]) -> Self {
        let mut steps = vec![(Duration::ZERO, false)];
        for (from, to) in outages {
            // One that begins at 0, or where the one before it ends.
            steps.pop_if(|(at, _)| at == from);
            steps.extend([(*from, true), (*to, false)]);
        }
        Self { outages: Schedule::new(&steps), start: Instant::default() }
    }

    pub(crate) fn series(series: &Series<bool>) -> Self {
        Self { outages: Schedule::of(series), start: Instant::default() + series.start() }
    }

    pub(crate) fn swallows(&mut self, now: Instant) -> bool {
        now >= self.start && self.outages.at(now)
    }
}
