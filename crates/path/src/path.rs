//! The row of elements and the time that moves through it.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant, Rate};

use crate::element::{Element, Entry, Exit};
use crate::loss::Loss;
use crate::packet::{Header, Packet};
use crate::probability::Dice;
use crate::stats::{Count, ElementStats, PathStats, Queue};
use crate::{ConfigError, DropReason, Ecn, PathConfig, PathSample, Probability, Selection};

/// A packet that came out at the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered<T> {
    /// The exact time at which it leaves the path, however late it was polled.
    pub at: Instant,
    /// Queueing delay: the time between its arrival at a bottleneck and the start of its own
    /// serialisation, of all bottlenecks together.
    pub queued: Duration,
    /// Its size on the wire.
    pub wire_bytes: u32,
    /// Its ECN codepoint now.
    pub ecn: Ecn,
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
    /// A packet dropped after it had been taken in: by an element that decides later, or behind one
    /// that holds packets. A path made from a [`Link`](crate::Link) decides every drop in
    /// [`Path::send`] and never gives this.
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
    /// Beside each element of the row: what the path has to know of it for every packet.
    slots: Vec<Slot>,
    /// The next exit from any element, and from which.
    next: (Instant, usize),
    /// Where in the row the first bottleneck is.
    bottleneck: Option<usize>,
    /// Whether the first of the row is a loss that the configuration did not have.
    injected: bool,
    /// What came out and was not polled yet.
    out: VecDeque<Event<T>>,
    now: Instant,
    /// `carried`, `inside` and the queue's largest sizes are filled in for a sample.
    stats: PathStats,
}

/// What the path keeps beside an element, so that looking for the next event touches no element.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// [`NEVER`], or when the next packet leaves the element.
    exit: Instant,
    /// The least time from there to the far end.
    rest: Duration,
    dropped: Count,
}

/// Later than anything can happen: in the year 2554 of a clock that began in 1970.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The last moment at which something can happen. What would be later happens then.
const LAST: Instant = Instant::from_nanos(u64::MAX - 1);

impl<T> Path<T> {
    /// A path of the row's elements; packets pass them from first to last.
    ///
    /// # Errors
    /// As [`PathConfig::validate`].
    pub fn new(config: &PathConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let build = |(i, element)| Element::new(element, Dice::new(config.seed, i));
        let row: Vec<Element<T>> = config.row.iter().enumerate().map(build).collect();
        let mut rest = Duration::ZERO;
        let mut slots = Vec::with_capacity(row.len());
        for element in config.row.iter().rev() {
            slots.push(Slot { exit: NEVER, rest, dropped: Count::default() });
            rest = rest + element.least_delay();
        }
        slots.reverse();
        Ok(Self {
            bottleneck: row.iter().position(|e| matches!(e, Element::Bottleneck(_))),
            row,
            slots,
            next: (NEVER, 0),
            injected: false,
            out: VecDeque::new(),
            now: Instant::default(),
            stats: PathStats::default(),
        })
    }

    /// A packet enters the path at `now` and meets the queue as it is at `now`: everything due until
    /// then happens first. A plain number for its `header` is its size on the wire, IP and UDP
    /// headers included.
    ///
    /// # Errors
    /// The packet itself with the reason, when it is dropped on the spot.
    pub fn send(
        &mut self,
        now: Instant,
        header: impl Into<Header>,
        payload: T,
    ) -> Result<(), Dropped<T>> {
        self.advance(now);
        let header = header.into();
        self.stats.arrived.add(header.wire_bytes);
        let packet = Packet { header, queued: Duration::ZERO, stamp: self.now, payload };
        let event = self.enter(0, self.now, packet);
        self.find_next();
        match event {
            None => Ok(()),
            Some(Event::Dropped(dropped)) => Err(dropped),
            Some(delivered) => {
                self.out.push_back(delivered);
                Ok(())
            }
        }
    }

    /// The first bottleneck's rate is `rate` from `now` on; the packet on the wire leaves as it
    /// began.
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

    /// Packets that enter from `now` on are lost with `probability`, in front of all other elements:
    /// instead of the loss that the row begins with, if it does.
    pub fn set_loss(&mut self, now: Instant, probability: Probability, seed: u64) {
        self.advance(now);
        let loss = Element::Loss(Loss::new(probability, Dice::new(seed, 0)));
        if let Some(first @ Element::Loss(_)) = self.row.first_mut() {
            *first = loss;
            return;
        }
        self.row.insert(0, loss);
        let rest = Duration::ZERO;
        self.slots.insert(0, Slot { exit: NEVER, rest, dropped: Count::default() });
        self.bottleneck = self.bottleneck.map(|i| i + 1);
        self.injected = true;
        self.find_next();
    }

    /// The row's first reordering holds back these packets from `now` on, for as long as before.
    ///
    /// # Errors
    /// When the selection makes no sense, or there is no reordering.
    pub fn set_reordered(&mut self, now: Instant, packets: Selection) -> Result<(), ConfigError> {
        packets.validate()?;
        self.advance(now);
        let mut reorderings = self.row.iter_mut().filter_map(|element| match element {
            Element::Reordering(reordering) => Some(reordering),
            _ => None,
        });
        reorderings.next().ok_or(ConfigError::NoReordering)?.choose(packets);
        Ok(())
    }

    /// The next time to call [`Self::poll`]: nothing is delivered before. `None` while nothing is
    /// inside. A poll at this time may still find nothing; then there is a later time. A packet that
    /// is dropped inside the path makes no wake of its own: it is handed back with the next poll.
    pub fn next_event(&self) -> Option<Instant> {
        if let Some(event) = self.out.front() {
            return Some(event.at());
        }
        if self.next.0 == NEVER {
            return None;
        }
        let earliest = |slot: &Slot| slot.exit + slot.rest;
        self.slots.iter().map(earliest).min().map(|at| at.min(LAST))
    }

    /// The next packet that came out until `now`, in the order of [`Event::at`].
    pub fn poll(&mut self, now: Instant) -> Option<Event<T>> {
        self.now = self.now.max(now);
        let event = match self.out.pop_front() {
            Some(event) => event,
            None => self.next_out(self.now)?,
        };
        if let Event::Delivered(d) = &event {
            self.stats.delivered.add(d.wire_bytes);
        }
        Some(event)
    }

    /// Lets everything happen that is due until `now`.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(event) = self.next_out(self.now) {
            self.out.push_back(event);
        }
    }

    /// Lets things happen until a packet comes out, or nothing more is due until `now`.
    fn next_out(&mut self, now: Instant) -> Option<Event<T>> {
        let until = now.min(LAST);
        while self.next.0 <= until {
            let (at, i) = self.next;
            let event = match self.row[i].exit() {
                Exit::Passed(packet) => self.enter(i + 1, at, packet),
                Exit::Dropped(reason, packet) => Some(self.drop(i, at, reason, packet)),
                Exit::Nothing => None,
            };
            self.note_exit(i);
            self.find_next();
            if event.is_some() {
                return event;
            }
        }
        None
    }

    fn note_exit(&mut self, i: usize) {
        self.slots[i].exit = self.row[i].next_exit().map_or(NEVER, |at| at.min(LAST));
    }

    /// Of several exits at the same time the last in the row goes first: it makes room for the
    /// others.
    fn find_next(&mut self) {
        self.next = (NEVER, 0);
        for (i, slot) in self.slots.iter().enumerate() {
            if slot.exit <= self.next.0 {
                self.next = (slot.exit, i);
            }
        }
    }

    /// Carries a packet from element `first` on as far as it goes at this moment.
    fn enter(&mut self, first: usize, at: Instant, packet: Packet<T>) -> Option<Event<T>> {
        let mut packet = packet;
        for i in first..self.row.len() {
            match self.row[i].enter(at, packet) {
                Entry::Passed(p) => packet = p,
                Entry::Held => {
                    self.note_exit(i);
                    return None;
                }
                Entry::Dropped(reason, p) => return Some(self.drop(i, at, reason, p)),
            }
        }
        let Packet { header, queued, payload, .. } = packet;
        let Header { wire_bytes, ecn, .. } = header;
        Some(Event::Delivered(Delivered { at, queued, wire_bytes, ecn, payload }))
    }

    #[cold]
    fn drop(&mut self, i: usize, at: Instant, reason: DropReason, packet: Packet<T>) -> Event<T> {
        let Packet { header: Header { wire_bytes, .. }, payload, .. } = packet;
        self.slots[i].dropped.add(wire_bytes);
        self.stats.count_drop(reason, wire_bytes);
        Event::Dropped(Dropped { at, reason, wire_bytes, payload })
    }

    /// What happened until the last call of [`Self::send`], [`Self::poll`] or [`Self::advance`].
    pub fn stats(&self) -> PathStats {
        self.sample(self.now).stats
    }

    /// The queue and the counters at `now`, without moving the path on: a look from outside that
    /// changes no event. The queue is exact as long as no element that holds packets is before the
    /// bottleneck, as on a [`Link`](crate::Link).
    pub fn sample(&self, now: Instant) -> PathSample {
        let at = self.now.max(now);
        let mut stats = self.stats;
        stats.inside = self.inside();
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

    /// What happened at each element, in the order of [`PathConfig::row`], until the last call of
    /// [`Self::send`] or [`Self::advance`]. It looks at every packet inside: not meant to be called
    /// for each of them.
    pub fn elements(&self) -> Vec<ElementStats> {
        let is_delivered = |e: &&Event<T>| matches!(e, Event::Delivered(_));
        let mut left = self.stats.delivered;
        for event in self.out.iter().filter(is_delivered) {
            if let Event::Delivered(d) = event {
                left.add(d.wire_bytes);
            }
        }
        let mut elements = Vec::with_capacity(self.row.len());
        for (element, slot) in self.row.iter().zip(&self.slots).rev() {
            let (dropped, inside) = (slot.dropped, element.held());
            let entered = left.plus(dropped).plus(inside);
            let mut stats = ElementStats { entered, left, dropped, inside, ..<_>::default() };
            if let Element::Bottleneck(b) = element {
                (stats.max_bytes, stats.max_packets) = (b.max_bytes(), b.max_packets());
                stats.queue = b.look(self.now).0;
            }
            elements.push(stats);
            left = entered;
        }
        if self.injected {
            elements.pop();
        }
        elements.reverse();
        elements
    }

    /// The latest time so far: nothing can happen before it any more.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Packets and bytes inside the path: waiting, on the wire, propagating, or due and not polled.
    pub fn inside(&self) -> Count {
        self.stats.arrived.minus(self.stats.delivered).minus(self.stats.dropped())
    }
}
