//! The elements one after the other, and the time that moves through them. It knows packets by
//! their keys, whatever their payload is: the compiler makes it once.

use std::collections::VecDeque;

use fullpipe_units::{Duration, Instant};

use crate::element::{Element, EntryResult};
use crate::pool::{Key, Meta, Pool};
use crate::probability::RandomSource;
use crate::stats::{Count, ElementStats};
use crate::{DropReason, PathConfig};

/// Later than anything can happen: in the year 2554 of a clock that began in 1970.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The last moment at which something can happen. What would be later happens then.
pub(crate) const LAST: Instant = Instant::from_nanos(u64::MAX - 1);

/// The end of a packet's way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) at: Instant,
    pub(crate) key: Key,
    /// `None` for a packet at the far end.
    pub(crate) dropped: Option<DropReason>,
}

/// Data kept beside an element, so that the search for the next event touches no element.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The time at which the next packet leaves the element, or [`NEVER`].
    exit: Instant,
    /// The least time from there to the far end.
    rest: Duration,
}

/// Counters of an element that it does not keep itself.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    dropped: Count,
    marked: Count,
    duplicated: Count,
}

#[derive(Debug)]
pub(crate) struct Row {
    elements: Vec<Element>,
    slots: Vec<Slot>,
    noted: Vec<Noted>,
    /// The next exit from any element, and from which.
    next: Instant,
    next_from: usize,
    pub(crate) pool: Pool,
    /// Packets delivered or dropped and not yet taken by the caller, in the order of time.
    fates: VecDeque<Fate>,
    /// Copies made of packets: the original and the copy.
    copies: Vec<(Key, Key)>,
}

impl Row {
    pub(crate) fn new(config: &PathConfig) -> Self {
        let build = |(i, element)| Element::new(element, RandomSource::new(config.seed, i));
        let mut rest = Duration::ZERO;
        let mut slots = Vec::with_capacity(config.row.len());
        for element in config.row.iter().rev() {
            slots.push(Slot { exit: NEVER, rest });
            rest = rest + element.least_delay();
        }
        slots.reverse();
        Self {
            elements: config.row.iter().enumerate().map(build).collect(),
            noted: vec![Noted::default(); slots.len()],
            slots,
            next: NEVER,
            next_from: 0,
            pool: Pool::default(),
            fates: VecDeque::new(),
            copies: Vec::new(),
        }
    }

    pub(crate) fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// To change how they work, not what they hold.
    pub(crate) fn elements_mut(&mut self) -> &mut [Element] {
        &mut self.elements
    }

    /// Element `i` was changed: its next exit may be another.
    pub(crate) fn look_again(&mut self, i: usize) {
        self.slots[i].exit = self.elements[i].next_exit().map_or(NEVER, |at| at.min(LAST));
        self.find_next();
    }

    /// Puts an element that holds no packets in front of all others.
    pub(crate) fn push_front(&mut self, element: Element) {
        self.elements.insert(0, element);
        self.slots.insert(0, Slot { exit: NEVER, rest: Duration::ZERO });
        self.noted.insert(0, Noted::default());
        self.find_next();
    }

    /// A packet enters at `now`; everything due until then has happened. Says why, if it was
    /// dropped at once; its key is the caller's again then.
    pub(crate) fn send(&mut self, now: Instant, meta: Meta) -> (Key, Option<DropReason>) {
        let key = self.pool.add(meta);
        let fate = self.enter(0, now, key);
        self.find_next();
        match fate {
            Some(Fate { dropped: None, .. }) => {
                self.fates.extend(fate);
                (key, None)
            }
            Some(Fate { dropped, .. }) => (key, dropped),
            None => (key, None),
        }
    }

    /// Lets everything happen that is due until `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        let now = now.min(LAST);
        while self.next <= now {
            let fate = self.step();
            self.fates.extend(fate);
        }
    }

    /// The next packet that came to its end until `now`.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Fate> {
        let now = now.min(LAST);
        loop {
            if let Some(fate) = self.fates.pop_front() {
                return Some(fate);
            }
            if self.next > now {
                return None;
            }
            let fate = self.step();
            if self.fates.is_empty() {
                if fate.is_some() {
                    return fate;
                }
            } else {
                self.fates.extend(fate);
            }
        }
    }

    /// Not later than the next end of a packet's way, if nothing more enters.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<Instant> {
        if let Some(fate) = self.fates.front() {
            return Some(fate.at);
        }
        if self.next == NEVER {
            return None;
        }
        let mut earliest = NEVER;
        for slot in &self.slots {
            earliest = earliest.min(slot.exit + slot.rest);
        }
        Some(earliest.min(LAST))
    }

    /// The next exit from an element, and where it leads.
    fn step(&mut self) -> Option<Fate> {
        let (at, i) = (self.next, self.next_from);
        let element = &mut self.elements[i];
        let key = element.exit(&mut self.pool);
        self.slots[i].exit = element.next_exit().map_or(NEVER, |at| at.min(LAST));
        if self.pool.is_noted() {
            self.take_notes(i, at);
        }
        let fate = key.and_then(|key| self.enter(i + 1, at, key));
        self.find_next();
        fate
    }

    /// Of several exits at the same time the last in the row goes first: it makes room for the
    /// others.
    #[inline]
    fn find_next(&mut self) {
        let (mut next, mut from) = (NEVER, 0);
        for (i, slot) in self.slots.iter().enumerate() {
            if slot.exit <= next {
                (next, from) = (slot.exit, i);
            }
        }
        (self.next, self.next_from) = (next, from);
    }

    /// Carries a packet from element `first` on as far as it goes at this moment.
    fn enter(&mut self, first: usize, at: Instant, key: Key) -> Option<Fate> {
        for i in first..self.elements.len() {
            let element = &mut self.elements[i];
            let entry = element.enter(&mut self.pool, at, key);
            if let EntryResult::Held = entry {
                self.slots[i].exit = element.next_exit().map_or(NEVER, |at| at.min(LAST));
            }
            if self.pool.is_noted() {
                self.take_notes(i, at);
            }
            match entry {
                EntryResult::Passed => {}
                EntryResult::Held => return None,
                EntryResult::Dropped(reason) => {
                    self.noted[i].dropped.add(self.pool.bytes(key));
                    return Some(Fate { at, key, dropped: Some(reason) });
                }
                EntryResult::Doubled => self.double(i, at, key),
            }
        }
        Some(Fate { at, key, dropped: None })
    }

    /// A copy of the packet goes on behind element `i`, ahead of the packet itself.
    #[cold]
    fn double(&mut self, i: usize, at: Instant, key: Key) {
        let meta = self.pool[key];
        let copy = self.pool.add(meta);
        self.copies.push((key, copy));
        self.noted[i].duplicated.add(meta.header.wire_bytes);
        let fate = self.enter(i + 1, at, copy);
        self.fates.extend(fate);
    }

    /// Records the drops and marks by element `i` of packets other than the one that it returned.
    #[cold]
    fn take_notes(&mut self, i: usize, at: Instant) {
        let Self { pool, fates, noted, .. } = self;
        let noted = &mut noted[i];
        let first = fates.len();
        let (drops, marked) = pool.take_notes();
        noted.marked = noted.marked.plus(marked);
        fates.extend(drops.map(|(reason, key)| Fate { at, key, dropped: Some(reason) }));
        for fate in fates.range(first..) {
            noted.dropped.add(pool.bytes(fate.key));
        }
    }

    /// The copies made since it was last asked.
    #[inline]
    pub(crate) fn copies(&mut self) -> Option<std::vec::Drain<'_, (Key, Key)>> {
        if self.copies.is_empty() { None } else { Some(self.copies.drain(..)) }
    }

    /// The counts of marked and of duplicated packets, all elements together.
    pub(crate) fn marked_and_duplicated(&self) -> (Count, Count) {
        self.noted.iter().fold(Default::default(), |(marked, duplicated), n| {
            (n.marked.plus(marked), n.duplicated.plus(duplicated))
        })
    }

    /// Counters of each element, from the row's end on, when `delivered` were taken at its end.
    pub(crate) fn stats_backwards(&self, now: Instant, delivered: Count) -> Vec<ElementStats> {
        let mut left = delivered;
        for fate in self.fates.iter().filter(|fate| fate.dropped.is_none()) {
            left.add(self.pool.bytes(fate.key));
        }
        let mut all = Vec::with_capacity(self.elements.len());
        for (element, noted) in self.elements.iter().zip(&self.noted).rev() {
            let Noted { dropped, marked, duplicated } = *noted;
            let inside = element.held(&self.pool);
            let entered = left.plus(dropped).plus(inside).minus(duplicated);
            let mut stats = ElementStats {
                entered,
                left,
                dropped,
                duplicated,
                marked,
                inside,
                ..<_>::default()
            };
            if let Element::Bottleneck(b) = element {
                (stats.max_packets, stats.max_bytes) = (b.max().packets, b.max().bytes);
                stats.queue = b.look(now).0;
            }
            all.push(stats);
            left = entered;
        }
        all
    }
}
