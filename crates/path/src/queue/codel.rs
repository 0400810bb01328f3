//! CoDel: controlled delay (RFC 8289).

use fullpipe_units::{Duration, Instant};

use crate::pool::{Key, Pool};
use crate::queue::{Fifo, QueuedPacket};
use crate::{CoDelConfig, Count, DropReason, MTU_BYTES};

/// The state machine of RFC 8289's pseudocode, for one queue.
#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    config: CoDelConfig,
    /// The time at which the sojourn time will have been above the target for an interval; `None`
    /// below it.
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl CoDel {
    pub(crate) fn new(config: CoDelConfig) -> Self {
        Self {
            config,
            first_above: None,
            drop_next: Instant::default(),
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// `control_law`. The square root of IEEE 754 is exactly rounded on every machine.
    fn control_law(&self, from: Instant) -> Instant {
        let nanos = self.config.interval.as_nanos() as f64 / (self.count as f64).sqrt();
        from + Duration::from_nanos(nanos as u64)
    }

    /// `dodequeue`: the front, and whether it may be dropped. `others` is what waits in other
    /// queues for the same link: section 4.4 asks for the occupancy of all of them.
    fn take(&mut self, fifo: &mut Fifo, others: u64, now: Instant) -> (Option<QueuedPacket>, bool) {
        let Some(front) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let sojourn = now.since(front.arrived);
        // Section 4.1: a drop that leaves no more than a packet would starve the link.
        let left = fifo.size().bytes + others;
        if sojourn < self.config.target || left <= u64::from(MTU_BYTES) {
            self.first_above = None;
            return (Some(front), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.config.interval);
                (Some(front), false)
            }
            Some(at) => (Some(front), now >= at),
        }
    }

    /// `dequeue`. A mark takes the place of a drop where there is ECN, and its packet
    /// goes on, so that no other is looked at in the same step.
    pub(crate) fn dequeue(
        &mut self,
        fifo: &mut Fifo,
        others: u64,
        pool: &mut Pool,
        now: Instant,
    ) -> Option<QueuedPacket> {
        let (mut front, mut may_drop) = self.take(fifo, others, now);
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let Some(packet) = front else { break };
                self.count += 1;
                if pool.mark_or_drop(self.config.ecn, packet.key) {
                    self.drop_next = self.control_law(self.drop_next);
                    break;
                }
                (front, may_drop) = self.take(fifo, others, now);
                if may_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop && let Some(packet) = front {
            if !pool.mark_or_drop(self.config.ecn, packet.key) {
                (front, _) = self.take(fifo, others, now);
            }
            self.start_dropping(now);
        }
        if let (Some(packet), Some(threshold)) = (front, self.config.ce_threshold)
            && now.since(packet.arrived) > threshold
        {
            pool.mark(packet.key);
        }
        front
    }

    /// That number of packets of the queue was dropped because there was no room: a stronger signal
    /// is due. RFC 8290 does not say so; Linux's FQ-CoDel does it.
    pub(crate) fn overflowed(&mut self, packets: u64) {
        self.count += packets;
    }

    /// A recent dropping state is taken up where it controlled the queue.
    fn start_dropping(&mut self, now: Instant) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next) < self.config.interval.times(16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.last_count = self.count;
    }
}

/// One queue with CoDel.
#[derive(Debug)]
pub(crate) struct CoDelQueue {
    pub(super) config: CoDelConfig,
    codel: CoDel,
    pub(crate) fifo: Fifo,
}

impl CoDelQueue {
    pub(crate) fn new(config: CoDelConfig) -> Self {
        Self { config, codel: CoDel::new(config), fifo: Fifo::default() }
    }

    pub(crate) fn enqueue(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        key: Key,
        held: Count,
    ) -> Result<(), DropReason> {
        let bytes = pool.bytes(key);
        if !self.config.limit.has_room(held, bytes) {
            return Err(DropReason::TailDrop);
        }
        self.fifo.push(now, key, bytes);
        Ok(())
    }

    pub(crate) fn dequeue(&mut self, pool: &mut Pool, now: Instant) -> Option<QueuedPacket> {
        self.codel.dequeue(&mut self.fifo, 0, pool, now)
    }
}
