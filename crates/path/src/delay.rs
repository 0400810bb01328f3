//! Propagation delay.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};

use crate::element::Entry;
use crate::packet::Packet;

/// Lets every packet out the same time after it came in, so they keep their order.
#[derive(Debug)]
pub(crate) struct Delay<T> {
    delay: Duration,
    /// Each with the time at which it leaves.
    line: VecDeque<Packet<T>>,
}

impl<T> Delay<T> {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, line: VecDeque::new() }
    }

    pub(crate) fn enter(&mut self, now: Instant, mut packet: Packet<T>) -> Entry<T> {
        if self.delay == Duration::ZERO {
            return Entry::Passed(packet);
        }
        packet.stamp = now + self.delay;
        self.line.push_back(packet);
        Entry::Held
    }

    pub(crate) fn next_exit(&self) -> Option<Instant> {
        self.line.front().map(|packet| packet.stamp)
    }

    pub(crate) fn exit(&mut self) -> Option<Packet<T>> {
        self.line.pop_front()
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = &Packet<T>> {
        self.line.iter()
    }
}
