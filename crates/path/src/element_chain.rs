//! A row of elements, and the payloads of the packets in it.

use fullpipe_units::{Duration, Instant, Rate};

use crate::element::Element;
use crate::loss::Loss;
use crate::packet::Header;
use crate::path::{Delivered, Dropped, Event};
use crate::pool::{Key, Meta};
use crate::probability::RandomSource;
use crate::row::{Fate, Row};
use crate::stats::{Count, ElementStats, PathStats, Queue};
use crate::{ConfigError, PathConfig, Probability, Selection};

/// The time is the caller's, and never goes back.
#[derive(Debug)]
pub(crate) struct ElementChain<T> {
    row: Row,
    /// By the packets' keys.
    payloads: Vec<Option<T>>,
    /// The first bottleneck's index in the row.
    bottleneck: Option<usize>,
    /// True if the first of the row is a loss that the configuration did not have.
    injected: bool,
}

impl<T: Clone> ElementChain<T> {
    /// The elements of a valid `config`.
    pub(crate) fn new(config: &PathConfig) -> Self {
        let row = Row::new(config);
        Self {
            bottleneck: row.elements().iter().position(|e| matches!(e, Element::Bottleneck(_))),
            row,
            payloads: Vec::new(),
            injected: false,
        }
    }

    pub(crate) fn send(
        &mut self,
        now: Instant,
        header: Header,
        payload: T,
        stats: &mut PathStats,
    ) -> Result<(), Dropped<T>> {
        self.advance(now);
        let meta = Meta { header, corrupted: false, queued: Duration::ZERO, left_queue: now };
        let (key, dropped) = self.row.send(now, meta);
        self.put(key, payload);
        self.copy_payloads();
        let Some(reason) = dropped else { return Ok(()) };
        let wire_bytes = self.row.pool.remove(key).header.wire_bytes;
        stats.count_drop(reason, wire_bytes);
        match self.payloads[key.index()].take() {
            Some(payload) => Err(Dropped { at: now, reason, wire_bytes, payload }),
            // It has just been put there.
            None => Ok(()),
        }
    }

    fn put(&mut self, key: Key, payload: T) {
        match self.payloads.get_mut(key.index()) {
            Some(place) => *place = Some(payload),
            None => {
                self.payloads.resize_with(key.index(), || None);
                self.payloads.push(Some(payload));
            }
        }
    }

    /// Gives the copies that elements made their payloads.
    fn copy_payloads(&mut self) {
        let Some(copies) = self.row.copies() else { return };
        for (original, copy) in copies {
            let place = original.index().max(copy.index());
            if place >= self.payloads.len() {
                self.payloads.resize_with(place + 1, || None);
            }
            self.payloads[copy.index()] = self.payloads[original.index()].clone();
        }
    }

    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<(), ConfigError> {
        let i = self.bottleneck.ok_or(ConfigError::NoBottleneck)?;
        if let Some(Element::Bottleneck(bottleneck)) = self.row.elements_mut().get_mut(i) {
            bottleneck.set_rate(now, rate);
            self.row.look_again(i);
        }
        Ok(())
    }

    pub(crate) fn set_loss(&mut self, probability: Probability, seed: u64) {
        let loss = Element::Loss(Loss::Independent(probability, RandomSource::new(seed, 0)));
        if let Some(first @ Element::Loss(_)) = self.row.elements_mut().first_mut() {
            *first = loss;
        } else {
            self.row.push_front(loss);
            self.bottleneck = self.bottleneck.map(|i| i + 1);
            self.injected = true;
        }
    }

    pub(crate) fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError> {
        let mut reorderings =
            self.row.elements_mut().iter_mut().filter_map(|element| match element {
                Element::Reordering(reordering) => Some(reordering),
                _ => None,
            });
        reorderings.next().ok_or(ConfigError::NoReordering)?.choose(packets);
        Ok(())
    }

    pub(crate) fn next_event(&self) -> Option<Instant> {
        self.row.next_event()
    }

    pub(crate) fn poll(&mut self, now: Instant, stats: &mut PathStats) -> Option<Event<T>> {
        let Fate { at, key, dropped } = self.row.poll(now)?;
        self.copy_payloads();
        // Every packet in the row has its payload.
        let payload = self.payloads[key.index()].take()?;
        let Meta { header, corrupted, queued, left_queue } = self.row.pool.remove(key);
        let Header { wire_bytes, ecn, .. } = header;
        if let Some(reason) = dropped {
            stats.count_drop(reason, wire_bytes);
            return Some(Event::Dropped(Dropped { at, reason, wire_bytes, payload }));
        }
        stats.delivered.add(wire_bytes);
        let delivered = Delivered { at, queued, left_queue, wire_bytes, ecn, corrupted, payload };
        Some(Event::Delivered(delivered))
    }

    pub(crate) fn advance(&mut self, now: Instant) {
        self.row.advance(now);
        self.copy_payloads();
    }

    /// The first bottleneck's queue, what it has carried, and the most that it ever held.
    pub(crate) fn look(&self, now: Instant) -> Option<(Queue, Count, Count)> {
        match self.bottleneck.and_then(|i| self.row.elements().get(i)) {
            Some(Element::Bottleneck(b)) => {
                let (queue, carried) = b.look(now);
                Some((queue, carried, b.max()))
            }
            _ => None,
        }
    }

    pub(crate) fn elements(&self, now: Instant, delivered: Count) -> Vec<ElementStats> {
        let mut elements = self.row.stats_backwards(now, delivered);
        if self.injected {
            elements.pop();
        }
        elements.reverse();
        elements
    }

    pub(crate) fn marked_and_duplicated(&self) -> (Count, Count) {
        self.row.marked_and_duplicated()
    }
}
