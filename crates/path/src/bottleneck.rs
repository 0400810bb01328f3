//! A rate and the queue in front of it.

use std::collections::VecDeque;

use fullpipe_cc::{Instant, Rate};

use crate::element::Entry;
use crate::packet::Packet;
use crate::wire::Wire;
use crate::{Count, DropReason, Queue, QueueLimit};

/// Serialises one packet at a time; the others wait in the order in which they came.
#[derive(Debug)]
pub(crate) struct Bottleneck<T> {
    limit: QueueLimit,
    wire: Wire,
    /// The front is on the wire. Each with the time at which it came.
    queue: VecDeque<Packet<T>>,
    size: Count,
    carried: Count,
    max_bytes: u64,
    max_packets: u64,
}

impl<T> Bottleneck<T> {
    /// `rate` is not zero and `limit` is not below one packet: the configuration was validated.
    pub(crate) fn new(rate: Rate, limit: QueueLimit) -> Self {
        Self {
            limit,
            wire: Wire::new(rate),
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
        self.wire.set_rate(rate);
    }

    pub(crate) fn enter(&mut self, now: Instant, mut packet: Packet<T>) -> Entry<T> {
        let bytes = packet.header.wire_bytes;
        if !self.limit.has_room(self.size, bytes) {
            return Entry::Dropped(DropReason::TailDrop, packet);
        }
        self.size.add(bytes);
        self.max_bytes = self.max_bytes.max(self.size.bytes);
        self.max_packets = self.max_packets.max(self.size.packets);
        let idle = self.queue.is_empty();
        packet.stamp = now;
        self.queue.push_back(packet);
        if idle {
            self.wire.restart(now);
            self.begin(now);
        }
        Entry::Held
    }

    /// The packet at the front goes on the wire at `start`.
    fn begin(&mut self, start: Instant) {
        if let Some(front) = self.queue.front_mut() {
            front.queued = front.queued + start.since(front.stamp);
            self.wire.carry(u64::from(front.header.wire_bytes));
        }
    }

    pub(crate) fn next_exit(&self) -> Option<Instant> {
        if self.queue.is_empty() { None } else { Some(self.wire.free_at()) }
    }

    pub(crate) fn exit(&mut self) -> Option<Packet<T>> {
        let packet = self.queue.pop_front()?;
        self.size.remove(packet.header.wire_bytes);
        self.carried.add(packet.header.wire_bytes);
        self.begin(self.wire.free_at());
        Some(packet)
    }

    /// The queue and what has been carried at `now`, without changing anything: packets whose
    /// serialisation ends until then count as gone.
    pub(crate) fn look(&self, now: Instant) -> (Queue, Count) {
        let (mut size, mut carried, mut wire) = (self.size, self.carried, self.wire);
        for (i, packet) in self.queue.iter().enumerate() {
            let bytes = packet.header.wire_bytes;
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

    pub(crate) fn held(&self) -> Count {
        self.size
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(crate) fn max_packets(&self) -> u64 {
        self.max_packets
    }
}
