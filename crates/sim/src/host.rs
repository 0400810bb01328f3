//! A receiver's host that takes its time.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};

use crate::random::Jitter;

/// Packets that have arrived at the receiver's host, and that it has not got to
/// ([`FlowConfig::receiver_delay`](crate::FlowConfig::receiver_delay)).
#[derive(Debug)]
pub struct Host<P> {
    delay: Jitter,
    /// Each with its arrival time and the time at which the host gets to it.
    held: VecDeque<(Instant, Instant, P)>,
}

impl<P> Host<P> {
    /// A host that gets to each packet less than `most` after its arrival; `seed` decides when.
    pub fn new(most: Duration, seed: u64) -> Self {
        Self { delay: Jitter::new(most, seed), held: VecDeque::new() }
    }

    /// Takes a packet in; the time at which the host gets to it: not before the one ahead of it.
    pub fn hold(&mut self, now: Instant, packet: P) -> Instant {
        let ahead = self.held.back().map_or(now, |(_, due, _)| *due);
        let due = self.delay.after(now).max(ahead);
        self.held.push_back((now, due, packet));
        due
    }

    /// The time at which the host gets to its next packet.
    pub fn due(&self) -> Option<Instant> {
        self.held.front().map(|(_, due, _)| *due)
    }

    /// The next packet that the host has got to, with its arrival time.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, P)> {
        self.due().filter(|due| *due <= now)?;
        let (arrived, _, packet) = self.held.pop_front()?;
        Some((arrived, packet))
    }
}
