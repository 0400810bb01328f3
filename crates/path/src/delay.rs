//! Propagation delay.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};

use crate::element::{Entry, Packet};

/// Lets every packet out the same time after it came in, so they keep their order.
#[derive(Debug)]
pub(crate) struct Delay<T> {
    delay: Duration,
    line: VecDeque<(Instant, Packet<T>)>,
}

impl<T> Delay<T> {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, line: VecDeque::new() }
    }

    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    pub(crate) fn enter(&mut self, now: Instant, packet: Packet<T>) -> Entry<T> {
        if self.delay == Duration::ZERO {
            return Entry::Passed(packet);
        }
        self.line.push_back((now + self.delay, packet));
        Entry::Held
    }

    pub(crate) fn next_exit(&self) -> Option<Instant> {
        self.line.front().map(|(at, _)| *at)
    }

    pub(crate) fn exit(&mut self) -> Option<Packet<T>> {
        self.line.pop_front().map(|(_, packet)| packet)
    }
}
