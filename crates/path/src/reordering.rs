//! Packets that others overtake.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};

use crate::Selection;
use crate::element::Entry;
use crate::packet::Packet;
use crate::probability::Dice;

/// Chooses packets: at random, or by counting.
#[derive(Debug)]
pub(crate) struct Chooser {
    selection: Selection,
    dice: Dice,
    /// Packets since the last one chosen by its number.
    count: u64,
}

impl Chooser {
    pub(crate) fn new(selection: Selection, dice: Dice) -> Self {
        Self { selection, dice, count: 0 }
    }

    pub(crate) fn chooses(&mut self) -> bool {
        match self.selection {
            Selection::Random(probability) => self.dice.says(probability),
            Selection::Every(n) => {
                self.count += 1;
                let chosen = self.count == n;
                if chosen {
                    self.count = 0;
                }
                chosen
            }
        }
    }
}

/// Holds chosen packets back for one extra delay; the others pass at once.
#[derive(Debug)]
pub(crate) struct Reordering<T> {
    chooser: Chooser,
    delay: Duration,
    /// Each with the time at which it leaves: one delay for all, so they stay in order.
    back: VecDeque<Packet<T>>,
}

impl<T> Reordering<T> {
    pub(crate) fn new(chooser: Chooser, delay: Duration) -> Self {
        Self { chooser, delay, back: VecDeque::new() }
    }

    /// Chooses by `packets` from now on; what is held back stays so.
    pub(crate) fn choose(&mut self, packets: Selection) {
        self.chooser.selection = packets;
        self.chooser.count = 0;
    }

    pub(crate) fn enter(&mut self, now: Instant, mut packet: Packet<T>) -> Entry<T> {
        if !self.chooser.chooses() || self.delay == Duration::ZERO {
            return Entry::Passed(packet);
        }
        packet.stamp = now + self.delay;
        self.back.push_back(packet);
        Entry::Held
    }

    pub(crate) fn next_exit(&self) -> Option<Instant> {
        self.back.front().map(|packet| packet.stamp)
    }

    pub(crate) fn exit(&mut self) -> Option<Packet<T>> {
        self.back.pop_front()
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = &Packet<T>> {
        self.back.iter()
    }
}
