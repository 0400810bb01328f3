//! A rate and the queue in front of it.

use fullpipe_units::{Duration, Instant, Rate};

use crate::pool::{Key, Pool};
use crate::probability::RandomSource;
use crate::queue::{Discipline, QueuedPacket};
use crate::schedule::Schedule;
use crate::wire::Wire;
use crate::{Count, DropReason, Queue, QueueConfig, QueueLimit, RateConfig};

/// The state of the wire.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing waits.
    Idle,
    /// Packets wait, and it cannot begin with one before this time: on a trace, or at a rate of 0.
    Pausing(Instant),
    /// This packet is on it, so large, and its last bit leaves then.
    Serving { key: Key, bytes: u32, until: Instant },
}

/// Serialises one packet at a time; the others wait as the discipline wills. A packet leaves the
/// discipline when its own serialisation starts: on a trace at the opportunity that carries its
/// first byte, as in Mahimahi.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    wire: Wire,
    discipline: Discipline,
    /// The rates that a capacity in time follows.
    follows: Option<Box<Follows>>,
    state: State,
    carried: Count,
    max: Count,
}

/// A capacity in time, and the rate over time that makes it one in bytes: never 0.
#[derive(Debug)]
struct Follows {
    limit: QueueLimit,
    rates: Schedule<Rate>,
}

impl Bottleneck {
    pub(crate) fn new(rate: &RateConfig, queue: &QueueConfig, dice: RandomSource) -> Self {
        let limit = queue.limit();
        let follows = matches!(limit, QueueLimit::Time(_))
            .then(|| Box::new(Follows { limit, rates: rate.through_outages() }));
        Self {
            wire: Wire::new(rate),
            discipline: Discipline::new(queue, dice),
            follows,
            state: State::Idle,
            carried: Count::default(),
            max: Count::default(),
        }
    }

    /// Carries packets at `rate`, not zero, from the next one on: the packet on the wire leaves as
    /// it began.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.wire.set_rate(rate);
        if let Some(follows) = &mut self.follows {
            follows.rates = Schedule::new(&[(Duration::ZERO, rate)]);
        }
        if let State::Pausing(_) = self.state {
            self.wire.restart(now);
            self.state = State::Pausing(now);
        }
    }

    #[inline]
    pub(crate) fn enter(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        key: Key,
    ) -> Result<(), DropReason> {
        if let Some(Follows { limit, rates }) = self.follows.as_deref_mut() {
            self.discipline.set_limit(limit.at(rates.at(now)));
        }
        self.discipline.enqueue(pool, now, key, self.held())?;
        let held = self.held();
        self.max.bytes = self.max.bytes.max(held.bytes);
        self.max.packets = self.max.packets.max(held.packets);
        if let State::Idle = self.state {
            self.wire.restart(now);
            self.next(pool, now);
        }
        Ok(())
    }

    /// The wire is free at `now`.
    #[inline]
    fn next(&mut self, pool: &mut Pool, now: Instant) {
        if self.discipline.size().packets > 0 {
            let ready = self.wire.ready_at();
            if ready > now {
                self.state = State::Pausing(ready);
                return;
            }
        }
        self.begin(pool, now);
    }

    /// The next packet goes on the wire at `start`.
    #[inline]
    fn begin(&mut self, pool: &mut Pool, start: Instant) {
        self.state = match self.discipline.dequeue(pool, start) {
            Some(QueuedPacket { arrived, key, bytes }) => {
                let packet = &mut pool[key];
                packet.queued = packet.queued + start.since(arrived);
                self.wire.carry(u64::from(bytes));
                State::Serving { key, bytes, until: self.wire.free_at() }
            }
            None => State::Idle,
        };
    }

    #[inline]
    pub(crate) fn next_exit(&self) -> Option<Instant> {
        match self.state {
            State::Idle => None,
            State::Pausing(at) | State::Serving { until: at, .. } => Some(at),
        }
    }

    #[inline]
    pub(crate) fn exit(&mut self, pool: &mut Pool) -> Option<Key> {
        match self.state {
            State::Idle => None,
            State::Pausing(until) => {
                self.begin(pool, until);
                None
            }
            State::Serving { key, bytes, until } => {
                self.carried.add(bytes);
                pool[key].left_queue = until;
                self.next(pool, until);
                Some(key)
            }
        }
    }

    /// The packets and bytes that wait, and the packet on the wire.
    #[inline]
    pub(crate) fn held(&self) -> Count {
        let mut held = self.discipline.size();
        if let State::Serving { bytes, .. } = self.state {
            held.add(bytes);
        }
        held
    }

    /// The queue and what has been carried at `now`, without changing anything: packets whose
    /// serialisation ends until then count as gone. What a discipline will have dropped or put
    /// before others until then is not foreseen.
    pub(crate) fn look(&self, now: Instant) -> (Queue, Count) {
        let (mut size, mut carried) = (self.held(), self.carried);
        let mut wire = self.wire.clone();
        let mut waiting = self.discipline.fifo().into_iter().flat_map(|fifo| fifo.iter());
        let mut on_wire = match self.state {
            State::Idle => None,
            State::Pausing(_) => waiting.next().map(|first| {
                wire.carry(u64::from(first.bytes));
                first.bytes
            }),
            State::Serving { bytes, .. } => Some(bytes),
        };
        while let Some(bytes) = on_wire
            && wire.free_at() <= now
        {
            size.remove(bytes);
            carried.add(bytes);
            on_wire = waiting.next().map(|next| {
                wire.carry(u64::from(next.bytes));
                next.bytes
            });
        }
        if size.packets == 0 {
            wire.restart(now);
        } else {
            // The wire's time is the end of the packet on it; what is behind that one adds to it.
            wire.carry(size.bytes - on_wire.map_or(0, u64::from));
        }
        let delay = wire.ready_at().since(now);
        (Queue { bytes: size.bytes, packets: size.packets, delay }, carried)
    }

    pub(crate) fn max(&self) -> Count {
        self.max
    }
}
