//! Way back that is longer for some clients than for others: what they send is held after the
//! uplink.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::Delivered;

/// A packet that is held, ordered by its time and then by its arrival.
#[derive(Debug)]
struct Held<P> {
    at: Instant,
    number: u64,
    packet: Delivered<P>,
}

impl<P> PartialEq for Held<P> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<P> Eq for Held<P> {}

impl<P> PartialOrd for Held<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Held<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Packets that left the uplink and have not arrived.
#[derive(Debug)]
pub(crate) struct WayBack<P> {
    /// By a port at either end.
    delays: HashMap<u16, Duration>,
    held: BinaryHeap<Reverse<Held<P>>>,
    number: u64,
}

impl<P> WayBack<P> {
    pub(crate) fn new() -> Self {
        Self { delays: HashMap::new(), held: BinaryHeap::new(), number: 0 }
    }

    /// Packets with this port take so much longer from now on.
    pub(crate) fn set_delay(&mut self, port: u16, delay: Duration) {
        self.delays.insert(port, delay);
    }

    /// True if no client has a delay: the usual case.
    pub(crate) fn is_short(&self) -> bool {
        self.delays.is_empty()
    }

    /// Holds a packet with these ports; gives back one that is not held.
    pub(crate) fn hold(&mut self, ports: &[u16], mut packet: Delivered<P>) -> Option<Delivered<P>> {
        let Some(delay) = ports.iter().find_map(|port| self.delays.get(port)) else {
            return Some(packet);
        };
        packet.at += *delay;
        self.number += 1;
        self.held.push(Reverse(Held { at: packet.at, number: self.number, packet }));
        None
    }

    /// The time of the next packet.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.at)
    }

    /// The next packet that arrives until `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Delivered<P>> {
        if self.next_due()? > now {
            return None;
        }
        self.held.pop().map(|Reverse(held)| held.packet)
    }
}
