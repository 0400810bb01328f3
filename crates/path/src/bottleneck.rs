//! A rate and the queue in front of it.

use std::collections::VecDeque;

use fullpipe_cc::units::NANOS_PER_SEC;
use fullpipe_cc::{Duration, Instant, Rate};

use crate::element::{Entry, Packet};
use crate::{Count, DropReason, Queue, QueueLimit};

/// Serialises one packet at a time; the others wait in the order in which they came.
#[derive(Debug)]
pub(crate) struct Bottleneck<T> {
    limit: QueueLimit,
    wire: Wire,
    /// The front is on the wire.
    queue: VecDeque<Waiting<T>>,
    size: Count,
    carried: Count,
    max_bytes: u64,
    max_packets: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    arrived: Instant,
    packet: Packet<T>,
}

/// The exact time at which the wire is free again, `nanos + fraction / rate`.
///
/// The fraction is carried from packet to packet, so a busy wire never drifts from its rate.
#[derive(Clone, Copy, Debug)]
struct Wire {
    rate: u64,
    nanos: u64,
    fraction: u64,
}

impl Wire {
    /// An idle wire takes a packet at `now`.
    fn restart(&mut self, now: Instant) {
        self.nanos = now.as_nanos();
        self.fraction = 0;
    }

    /// Puts `bytes` more on the wire.
    fn carry(&mut self, bytes: u64) {
        let rate = u128::from(self.rate);
        let total = u128::from(bytes) * u128::from(NANOS_PER_SEC) + u128::from(self.fraction);
        let nanos = u64::try_from(total / rate).unwrap_or(u64::MAX);
        self.nanos = self.nanos.saturating_add(nanos);
        self.fraction = (total % rate) as u64;
    }

    /// The first whole nanosecond at which the wire is free: never earlier than the exact time, so
    /// that the rate is never exceeded.
    fn free_at(&self) -> Instant {
        Instant::from_nanos(self.nanos) + Duration::from_nanos(u64::from(self.fraction > 0))
    }
}

impl<T> Bottleneck<T> {
    /// `rate` is not zero and `limit` is not below one packet: the configuration was validated.
    pub(crate) fn new(rate: Rate, limit: QueueLimit) -> Self {
        Self {
            limit,
            wire: Wire { rate: rate.as_bytes_per_sec().max(1), nanos: 0, fraction: 0 },
            queue: VecDeque::new(),
            size: Count::default(),
            carried: Count::default(),
            max_bytes: 0,
            max_packets: 0,
        }
    }

    /// Carries packets at `rate`, not zero, from the next one on: the packet on the wire leaves as it
    /// began.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        let free = self.wire.free_at();
        self.wire =
            Wire { rate: rate.as_bytes_per_sec().max(1), nanos: free.as_nanos(), fraction: 0 };
    }

    pub(crate) fn enter(&mut self, now: Instant, packet: Packet<T>) -> Entry<T> {
        let fits = match self.limit {
            QueueLimit::Bytes(b) => self.size.bytes + u64::from(packet.wire_bytes) <= b,
            QueueLimit::Packets(p) => self.size.packets < p,
        };
        if !fits {
            return Entry::Dropped(DropReason::TailDrop, packet);
        }
        self.size.add(packet.wire_bytes);
        self.max_bytes = self.max_bytes.max(self.size.bytes);
        self.max_packets = self.max_packets.max(self.size.packets);
        let idle = self.queue.is_empty();
        self.queue.push_back(Waiting { arrived: now, packet });
        if idle {
            self.wire.restart(now);
            self.begin(now);
        }
        Entry::Held
    }

    /// The packet at the front goes on the wire at `start`.
    fn begin(&mut self, start: Instant) {
        if let Some(front) = self.queue.front_mut() {
            let waited = start.since(front.arrived);
            front.packet.queued = front.packet.queued + waited;
            self.wire.carry(u64::from(front.packet.wire_bytes));
        }
    }

    pub(crate) fn next_exit(&self) -> Option<Instant> {
        if self.queue.is_empty() { None } else { Some(self.wire.free_at()) }
    }

    pub(crate) fn exit(&mut self) -> Option<Packet<T>> {
        let Waiting { packet, .. } = self.queue.pop_front()?;
        self.size.remove(packet.wire_bytes);
        self.carried.add(packet.wire_bytes);
        self.begin(self.wire.free_at());
        Some(packet)
    }

    /// The queue and what has been carried at `now`, without changing anything: packets whose
    /// serialisation ends until then count as gone.
    pub(crate) fn look(&self, now: Instant) -> (Queue, Count) {
        let (mut size, mut carried, mut wire) = (self.size, self.carried, self.wire);
        for (i, waiting) in self.queue.iter().enumerate() {
            let bytes = waiting.packet.wire_bytes;
            if i > 0 {
                wire.carry(u64::from(bytes));
            }
            if wire.free_at() > now {
                // The wire's time is the end of this packet; what is behind it adds to that.
                wire.carry(size.bytes - u64::from(bytes));
                let delay = wire.free_at().since(now);
                return (Queue { bytes: size.bytes, packets: size.packets, delay }, carried);
            }
            size.remove(bytes);
            carried.add(bytes);
        }
        (Queue::default(), carried)
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(crate) fn max_packets(&self) -> u64 {
        self.max_packets
    }
}
