//! The sequence numbers of connections that are over, so that the next one between the same ends
//! begins beyond them.

use alloc::collections::{BTreeMap, VecDeque};

use super::Ends;

/// Connections that are remembered at most; the oldest are forgotten first.
const MOST: usize = 1024;

/// SND.NXT by ends, of connections that sent faster than the clock of initial sequence numbers
/// counts (RFC 6528 section 3). Those that did not need no memory: the clock is beyond them.
#[derive(Debug, Default)]
pub(super) struct Past {
    sent: BTreeMap<Ends, u32>,
    order: VecDeque<Ends>,
}

impl Past {
    pub(super) fn note(&mut self, ends: Ends, sent: u32) {
        if self.sent.insert(ends, sent).is_some() {
            return;
        }
        self.order.push_back(ends);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.sent.remove(&oldest);
        }
    }

    pub(super) fn get(&self, ends: &Ends) -> Option<u32> {
        self.sent.get(ends).copied()
    }

    /// Bytes of memory. A node of a tree is two thirds full.
    pub(super) fn memory(&self) -> usize {
        self.sent.len() * size_of::<(Ends, u32)>() * 3 / 2
            + self.order.capacity() * size_of::<Ends>()
    }
}
