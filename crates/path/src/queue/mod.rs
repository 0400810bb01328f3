//! Queue disciplines: which packets wait for a wire, in which order, and which are dropped or
//! marked.
//!
//! A discipline sees each packet twice: when it comes, and when the wire is free for it. The packet
//! on the wire is no longer in the discipline; limits count it all the same.

mod codel;
mod dualpi2;
mod fifo;
mod fq_codel;
mod pie;
mod red;
mod step;

use fullpipe_units::Instant;

use self::codel::CoDelQueue;
use self::dualpi2::DualPi2;
pub(crate) use self::fifo::{Fifo, QueuedPacket};
use self::fq_codel::FqCoDel;
use self::pie::Pie;
use self::red::Red;
use self::step::Step;
use crate::pool::{Key, Pool};
use crate::probability::RandomSource;
use crate::{Count, DropReason, QueueConfig, QueueLimit};

/// Queues in front of a wire.
#[derive(Debug)]
pub(crate) enum Discipline {
    TailDrop(QueueLimit, Fifo),
    Step(Step),
    CoDel(Box<CoDelQueue>),
    FqCoDel(Box<FqCoDel>),
    Pie(Box<Pie>),
    Red(Box<Red>),
    DualPi2(Box<DualPi2>),
}

impl Discipline {
    pub(crate) fn new(config: &QueueConfig, dice: RandomSource) -> Self {
        match *config {
            QueueConfig::TailDrop(limit) => Self::TailDrop(limit, Fifo::default()),
            QueueConfig::Step(config) => Self::Step(Step::new(config)),
            QueueConfig::CoDel(config) => Self::CoDel(Box::new(CoDelQueue::new(config))),
            QueueConfig::FqCoDel(config) => Self::FqCoDel(Box::new(FqCoDel::new(config))),
            QueueConfig::Pie(config) => Self::Pie(Box::new(Pie::new(config, dice))),
            QueueConfig::Red(config) => Self::Red(Box::new(Red::new(config, dice))),
            QueueConfig::DualPi2(config) => Self::DualPi2(Box::new(DualPi2::new(config))),
        }
    }

    /// Another capacity from now on. What waits stays.
    pub(crate) fn set_limit(&mut self, limit: QueueLimit) {
        *match self {
            Self::TailDrop(limit, _) => limit,
            Self::Step(q) => &mut q.config.limit,
            Self::CoDel(q) => &mut q.config.limit,
            Self::FqCoDel(q) => &mut q.config.codel.limit,
            Self::Pie(q) => &mut q.config.limit,
            Self::Red(q) => &mut q.config.limit,
            Self::DualPi2(q) => &mut q.config.limit,
        } = limit;
    }

    /// A packet comes, behind `held`, which includes the one on the wire.
    #[inline]
    pub(crate) fn enqueue(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        key: Key,
        held: Count,
    ) -> Result<(), DropReason> {
        let bytes = pool.bytes(key);
        match self {
            Self::TailDrop(limit, fifo) => {
                if !limit.has_room(held, bytes) {
                    return Err(DropReason::TailDrop);
                }
                fifo.push(now, key, bytes);
                Ok(())
            }
            Self::Step(q) => q.enqueue(pool, now, key, held),
            Self::CoDel(q) => q.enqueue(pool, now, key, held),
            Self::FqCoDel(q) => q.enqueue(pool, now, key, held),
            Self::Pie(q) => q.enqueue(pool, now, key, held),
            Self::Red(q) => q.enqueue(pool, now, key, held),
            Self::DualPi2(q) => q.enqueue(pool, now, key, held),
        }
    }

    /// The wire is free: the packet that goes on it, and when it came.
    #[inline]
    pub(crate) fn dequeue(&mut self, pool: &mut Pool, now: Instant) -> Option<QueuedPacket> {
        match self {
            Self::TailDrop(_, fifo) => fifo.pop(),
            Self::Step(q) => q.fifo.pop(),
            Self::CoDel(q) => q.dequeue(pool, now),
            Self::FqCoDel(q) => q.dequeue(pool, now),
            Self::Pie(q) => q.dequeue(now),
            Self::Red(q) => q.dequeue(now),
            Self::DualPi2(q) => q.dequeue(pool, now),
        }
    }

    /// The packets and bytes that wait.
    #[inline]
    pub(crate) fn size(&self) -> Count {
        match self {
            Self::TailDrop(_, fifo) => fifo.size(),
            Self::Step(q) => q.fifo.size(),
            Self::CoDel(q) => q.fifo.size(),
            Self::FqCoDel(q) => q.size(),
            Self::Pie(q) => q.fifo.size(),
            Self::Red(q) => q.fifo.size(),
            Self::DualPi2(q) => q.size(),
        }
    }

    /// The queue in the order in which it leaves, if that is known before.
    pub(crate) fn fifo(&self) -> Option<&Fifo> {
        match self {
            Self::TailDrop(_, fifo) => Some(fifo),
            Self::Step(q) => Some(&q.fifo),
            Self::CoDel(q) => Some(&q.fifo),
            Self::Pie(q) => Some(&q.fifo),
            Self::Red(q) => Some(&q.fifo),
            Self::FqCoDel(_) | Self::DualPi2(_) => None,
        }
    }
}
