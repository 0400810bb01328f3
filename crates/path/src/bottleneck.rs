//! A rate and the queue in front of it.

use fullpipe_cc::{Instant, Rate};

use crate::pool::{Key, Pool};
use crate::probability::Dice;
use crate::queue::Discipline;
use crate::wire::Wire;
use crate::{Count, DropReason, Queue, QueueConfig, RateConfig};

/// Serialises one packet at a time; the others wait as the discipline wills.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    wire: Wire,
    discipline: Discipline,
    /// The packet on the wire, its size, and when its last bit leaves.
    serving: Option<Key>,
    serving_bytes: u32,
    free: Instant,
    carried: Count,
    max: Count,
}

impl Bottleneck {
    pub(crate) fn new(rate: &RateConfig, queue: &QueueConfig, dice: Dice) -> Self {
        Self {
            wire: Wire::new(rate),
            discipline: Discipline::new(queue, dice),
            serving: None,
            serving_bytes: 0,
            free: Instant::default(),
            carried: Count::default(),
            max: Count::default(),
        }
    }

    /// Carries packets at `rate`, not zero, from the next one on: the packet on the wire leaves as it
    /// began.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.wire.set_rate(rate);
    }

    #[inline]
    pub(crate) fn enter(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        key: Key,
    ) -> Result<(), DropReason> {
        self.discipline.enqueue(pool, now, key, self.held())?;
        let held = self.held();
        self.max.bytes = self.max.bytes.max(held.bytes);
        self.max.packets = self.max.packets.max(held.packets);
        if self.serving.is_none() {
            self.wire.restart(now);
            self.begin(pool, now);
        }
        Ok(())
    }

    /// The next packet goes on the wire at `start`.
    #[inline]
    fn begin(&mut self, pool: &mut Pool, start: Instant) {
        self.serving = None;
        self.serving_bytes = 0;
        if let Some(next) = self.discipline.dequeue(pool, start) {
            let packet = &mut pool[next.key];
            packet.queued = packet.queued + start.since(next.arrived);
            self.serving = Some(next.key);
            self.serving_bytes = next.bytes;
            self.wire.carry(u64::from(next.bytes));
            self.free = self.wire.free_at();
        }
    }

    #[inline]
    pub(crate) fn next_exit(&self) -> Option<Instant> {
        self.serving.map(|_| self.free)
    }

    #[inline]
    pub(crate) fn exit(&mut self, pool: &mut Pool) -> Option<Key> {
        let key = self.serving?;
        self.carried.add(self.serving_bytes);
        self.begin(pool, self.free);
        Some(key)
    }

    /// What waits, and the packet on the wire.
    #[inline]
    pub(crate) fn held(&self) -> Count {
        let Count { packets, bytes } = self.discipline.size();
        Count {
            packets: packets + u64::from(self.serving.is_some()),
            bytes: bytes + u64::from(self.serving_bytes),
        }
    }

    /// The queue and what has been carried at `now`, without changing anything: packets whose
    /// serialisation ends until then count as gone. What a discipline will have dropped or put before
    /// others until then is not foreseen.
    pub(crate) fn look(&self, now: Instant) -> (Queue, Count) {
        let (mut size, mut carried) = (self.held(), self.carried);
        if self.serving.is_none() {
            return (Queue::default(), carried);
        }
        let mut wire = self.wire.clone();
        let mut on_wire = self.serving_bytes;
        let mut waiting = self.discipline.fifo().into_iter().flat_map(|fifo| fifo.iter());
        while wire.free_at() <= now {
            size.remove(on_wire);
            carried.add(on_wire);
            let Some(next) = waiting.next() else {
                break;
            };
            on_wire = next.bytes;
            wire.carry(u64::from(on_wire));
        }
        if size.packets == 0 {
            return (Queue::default(), carried);
        }
        // The wire's time is the end of this packet; what is behind it adds to that.
        let on_wire = if wire.free_at() <= now { 0 } else { on_wire };
        wire.carry(size.bytes - u64::from(on_wire));
        let delay = wire.free_at().since(now);
        (Queue { bytes: size.bytes, packets: size.packets, delay }, carried)
    }

    pub(crate) fn max(&self) -> Count {
        self.max
    }
}
