//! The row of elements and the time that moves through it.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant, Rate};

use crate::bottleneck::Bottleneck;
use crate::delay::Delay;
use crate::element::{Element, Entry, Packet};
use crate::loss::Loss;
use crate::stats::{Count, PathStats, Queue};
use crate::{ConfigError, DropReason, ElementConfig, PathConfig, PathSample, Probability};

/// A packet that came out at the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered<T> {
    /// The exact time at which it leaves the path, however late it was polled.
    pub at: Instant,
    /// Queueing delay: the time between its arrival at the bottleneck and the start of its own
    /// serialisation.
    pub queued: Duration,
    /// Its size on the wire.
    pub wire_bytes: u32,
    /// What the sender gave.
    pub payload: T,
}

/// A packet that went no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped<T> {
    /// The exact time of the drop.
    pub at: Instant,
    /// Why.
    pub reason: DropReason,
    /// Its size on the wire.
    pub wire_bytes: u32,
    /// What the sender gave, handed back.
    pub payload: T,
}

/// What comes out of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<T> {
    /// A packet at the far end.
    Delivered(Delivered<T>),
    /// A packet dropped after it had been taken in: by an element behind one that holds packets. A
    /// path made from a [`PathConfig`] decides every drop in [`Path::send`] and never gives this.
    Dropped(Dropped<T>),
}

impl<T> Event<T> {
    /// When it happened.
    pub fn at(&self) -> Instant {
        match self {
            Self::Delivered(d) => d.at,
            Self::Dropped(d) => d.at,
        }
    }
}

/// One direction of a network path. `T` is what the caller needs to know its packet again: a
/// number, a buffer.
///
/// Time never goes back on a path: a call with an earlier time than one before counts as made at
/// the latest time so far.
#[derive(Debug)]
pub struct Path<T> {
    row: Vec<Element<T>>,
    /// Where in the row the bottleneck is.
    bottleneck: Option<usize>,
    /// What came out and was not polled yet.
    out: VecDeque<Event<T>>,
    now: Instant,
    stats: PathStats,
}

impl<T> Path<T> {
    /// A path of loss, bottleneck and delay.
    ///
    /// # Errors
    /// As [`PathConfig::validate`].
    pub fn new(config: &PathConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Self::from_row(&config.row(), config.seed)
    }

    /// A path of elements in any order; packets pass them from first to last. No elements at all
    /// are a perfect wire.
    ///
    /// # Errors
    /// When an element makes no sense, or when there are two bottlenecks.
    pub fn from_row(row: &[ElementConfig], seed: u64) -> Result<Self, ConfigError> {
        let mut elements = Vec::with_capacity(row.len());
        let mut bottleneck = None;
        for (i, config) in row.iter().enumerate() {
            config.validate()?;
            elements.push(match *config {
                ElementConfig::Loss(p) => Element::Loss(Loss::new(p, element_seed(seed, i))),
                ElementConfig::Delay(d) => Element::Delay(Delay::new(d)),
                ElementConfig::Bottleneck { rate, queue } => {
                    if bottleneck.replace(i).is_some() {
                        return Err(ConfigError::SecondBottleneck);
                    }
                    Element::Bottleneck(Bottleneck::new(rate, queue))
                }
            });
        }
        Ok(Self {
            row: elements,
            bottleneck,
            out: VecDeque::new(),
            now: Instant::default(),
            stats: PathStats::default(),
        })
    }

    /// A packet of `wire_bytes`, IP and UDP headers included, enters the path at `now` and meets the
    /// queue as it is at `now`: everything due until then happens first.
    ///
    /// # Errors
    /// The packet itself with the reason, when it is dropped on the spot.
    pub fn send(&mut self, now: Instant, wire_bytes: u32, payload: T) -> Result<(), Dropped<T>> {
        self.advance(now);
        self.stats.arrived.add(wire_bytes);
        self.stats.inside.add(wire_bytes);
        let packet = Packet { wire_bytes, queued: Duration::ZERO, payload };
        self.enter(0, self.now, packet)
    }

    /// The bottleneck's rate is `rate` from `now` on; the packet on the wire leaves as it began.
    ///
    /// # Errors
    /// When the rate is 0, or there is no bottleneck.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<(), ConfigError> {
        if rate == Rate::ZERO {
            return Err(ConfigError::ZeroRate);
        }
        self.advance(now);
        match self.bottleneck.and_then(|i| self.row.get_mut(i)) {
            Some(Element::Bottleneck(bottleneck)) => {
                bottleneck.set_rate(rate);
                Ok(())
            }
            _ => Err(ConfigError::NoBottleneck),
        }
    }

    /// Packets that enter from `now` on are lost with `probability`, in front of all other elements.
    pub fn set_loss(&mut self, now: Instant, probability: Probability, seed: u64) {
        self.advance(now);
        let loss = Element::Loss(Loss::new(probability, element_seed(seed, 0)));
        if let Some(first @ Element::Loss(_)) = self.row.first_mut() {
            *first = loss;
        } else {
            self.row.insert(0, loss);
            self.bottleneck = self.bottleneck.map(|i| i + 1);
        }
    }

    /// The next time to call [`Self::poll`]: nothing is delivered before. `None` while nothing is
    /// inside. A poll at this time may still find nothing; then there is a later time. A packet that
    /// is dropped inside the path makes no wake of its own: it is handed back with the next poll.
    pub fn next_event(&self) -> Option<Instant> {
        match self.out.front() {
            Some(event) => Some(event.at()),
            None => self.row.iter().fold(None, |upstream, e| e.earliest_exit(upstream)),
        }
    }

    /// The next packet that came out until `now`, in the order of [`Event::at`].
    pub fn poll(&mut self, now: Instant) -> Option<Event<T>> {
        if self.out.is_empty() {
            self.advance(now);
        }
        let event = self.out.pop_front()?;
        if let Event::Delivered(d) = &event {
            self.stats.inside.remove(d.wire_bytes);
            self.stats.delivered.add(d.wire_bytes);
        }
        Some(event)
    }

    /// Lets everything happen that is due until `now`.
    pub fn advance(&mut self, now: Instant) {
        while let Some((at, i)) = self.next_move().filter(|(at, _)| *at <= now) {
            self.now = self.now.max(at);
            let Some(packet) = self.row[i].exit() else { return };
            if let Err(dropped) = self.enter(i + 1, at, packet) {
                self.out.push_back(Event::Dropped(dropped));
            }
        }
        self.now = self.now.max(now);
    }

    /// The next exit from any element. Of several at the same time the last in the row goes first:
    /// it makes room for the others.
    fn next_move(&self) -> Option<(Instant, usize)> {
        let mut next: Option<(Instant, usize)> = None;
        for (i, element) in self.row.iter().enumerate() {
            if let Some(at) = element.next_exit()
                && next.is_none_or(|(best, _)| at <= best)
            {
                next = Some((at, i));
            }
        }
        next
    }

    /// Carries a packet from element `first` on as far as it goes at this moment.
    fn enter(&mut self, first: usize, at: Instant, packet: Packet<T>) -> Result<(), Dropped<T>> {
        let mut packet = packet;
        for element in &mut self.row[first..] {
            match element.enter(at, packet) {
                Entry::Passed(p) => packet = p,
                Entry::Held => return Ok(()),
                Entry::Dropped(reason, p) => {
                    let Packet { wire_bytes, payload, .. } = p;
                    self.count_drop(reason, wire_bytes);
                    return Err(Dropped { at, reason, wire_bytes, payload });
                }
            }
        }
        let Packet { wire_bytes, queued, payload } = packet;
        self.out.push_back(Event::Delivered(Delivered { at, queued, wire_bytes, payload }));
        Ok(())
    }

    fn count_drop(&mut self, reason: DropReason, wire_bytes: u32) {
        self.stats.inside.remove(wire_bytes);
        match reason {
            DropReason::TailDrop => self.stats.tail_dropped.add(wire_bytes),
            DropReason::RandomLoss => self.stats.random_lost.add(wire_bytes),
        }
    }

    /// What happened until the last call of [`Self::send`], [`Self::poll`] or [`Self::advance`].
    pub fn stats(&self) -> PathStats {
        self.sample(self.now).stats
    }

    /// The queue and the counters at `now`, without moving the path on: a look from outside that
    /// changes no event. The queue is exact as long as no element that holds packets is before the
    /// bottleneck; a [`PathConfig`] makes no such path.
    pub fn sample(&self, now: Instant) -> PathSample {
        let at = self.now.max(now);
        let mut stats = self.stats;
        let queue = match self.bottleneck.and_then(|i| self.row.get(i)) {
            Some(Element::Bottleneck(b)) => {
                let (queue, carried) = b.look(at);
                stats.carried = carried;
                stats.max_queue_bytes = b.max_bytes();
                stats.max_queue_packets = b.max_packets();
                queue
            }
            _ => {
                stats.carried = stats.delivered;
                Queue::default()
            }
        };
        PathSample { at, queue, stats }
    }

    /// The latest time so far: nothing can happen before it any more.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Packets and bytes inside the path: waiting, on the wire, propagating, or due and not polled.
    pub fn inside(&self) -> Count {
        self.stats.inside
    }
}

/// Every random element draws from its own generator, so that adding one does not change what the
/// others do, and equal elements do not do the same.
fn element_seed(seed: u64, position: usize) -> u64 {
    // The golden ratio's fraction, as in SplitMix64: neighbouring positions differ in every bit.
    seed ^ (position as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
