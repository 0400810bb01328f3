//! Packets that others overtake.

use fullpipe_units::{Duration, Instant};

use crate::Selection;
use crate::line::Line;
use crate::pool::Key;
use crate::probability::RandomSource;

/// Chooses packets: at random, or by counting.
#[derive(Debug)]
pub(crate) struct Chooser {
    selection: Selection,
    dice: RandomSource,
    /// Packets since the last one chosen by its number.
    count: u64,
}

impl Chooser {
    pub(crate) fn new(selection: Selection, dice: RandomSource) -> Self {
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
pub(crate) struct Reordering {
    chooser: Chooser,
    delay: Duration,
    /// One delay for all, so those that are held back stay in order.
    pub(crate) back: Line,
}

impl Reordering {
    pub(crate) fn new(chooser: Chooser, delay: Duration) -> Self {
        Self { chooser, delay, back: Line::default() }
    }

    /// Chooses by `packets` from now on; what is held back stays so.
    pub(crate) fn choose(&mut self, packets: Selection) {
        self.chooser.selection = packets;
        self.chooser.count = 0;
    }

    /// True if it keeps the packet.
    pub(crate) fn enter(&mut self, now: Instant, key: Key) -> bool {
        let chosen = self.chooser.chooses();
        if chosen {
            self.back.push(now + self.delay, key);
        }
        chosen
    }
}
