//! Connections in TIME-WAIT that the application has no more to do with: there may be very many,
//! and each is to keep as little as possible.

use alloc::collections::{BTreeMap, BinaryHeap};
use core::cmp::Reverse;

use fullpipe_cc::Instant;

use super::Ends;
use crate::connection::Late;

/// Entries of [`TimeWait::by_time`] that may be stale whatever the number of connections is.
const STALE: usize = 16;

#[derive(Debug, Default)]
pub(super) struct TimeWait {
    by_ends: BTreeMap<Ends, Late>,
    /// The time at which to look at each. One that is gone, or that waits for longer now, has an
    /// entry that is stale.
    by_time: BinaryHeap<Reverse<(Instant, Ends)>>,
}

impl TimeWait {
    pub(super) fn len(&self) -> usize {
        self.by_ends.len()
    }

    pub(super) fn get(&self, ends: &Ends) -> Option<&Late> {
        self.by_ends.get(ends)
    }

    pub(super) fn get_mut(&mut self, ends: &Ends) -> Option<&mut Late> {
        self.by_ends.get_mut(ends)
    }

    pub(super) fn insert(&mut self, ends: Ends, late: Late) {
        self.by_time.push(Reverse((late.close_at(), ends)));
        self.by_ends.insert(ends, late);
        if self.by_time.len() > 2 * self.by_ends.len() + STALE {
            let all = self.by_ends.iter();
            self.by_time = all.map(|(ends, late)| Reverse((late.close_at(), *ends))).collect();
        }
    }

    pub(super) fn remove(&mut self, ends: &Ends) -> Option<Late> {
        self.by_ends.remove(ends)
    }

    /// The next time at which [`Self::pop`] may have something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes out one whose time is over at `now`; without a time, the one whose time is over first.
    pub(super) fn pop(&mut self, now: Option<Instant>) -> Option<(Ends, Late)> {
        while let Some(&Reverse((at, ends))) = self.by_time.peek() {
            if now.is_some_and(|now| at > now) {
                return None;
            }
            self.by_time.pop();
            let Some(late) = self.by_ends.get(&ends) else { continue };
            if late.close_at() > at {
                self.by_time.push(Reverse((late.close_at(), ends)));
            } else if let Some(late) = self.by_ends.remove(&ends) {
                return Some((ends, late));
            }
        }
        None
    }

    /// Bytes of memory. A node of a tree is two thirds full.
    pub(super) fn memory(&self) -> usize {
        self.by_ends.len() * size_of::<(Ends, Late)>() * 3 / 2
            + self.by_time.capacity() * size_of::<(Instant, Ends)>()
    }
}
