//! Packets that leave in the order in which they came, each at its time.

use std::collections::VecDeque;

use fullpipe_units::Instant;

use crate::Count;
use crate::pool::{Key, Pool};

/// Keys with the times at which they leave, never decreasing.
#[derive(Debug, Default)]
pub(crate) struct Line(VecDeque<(Instant, Key)>);

impl Line {
    /// The packet leaves at `at`, or with the one ahead of it if that leaves later.
    #[inline]
    pub(crate) fn push(&mut self, at: Instant, key: Key) {
        let at = self.0.back().map_or(at, |(ahead, _)| at.max(*ahead));
        self.0.push_back((at, key));
    }

    #[inline]
    pub(crate) fn next_exit(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Key> {
        self.0.pop_front().map(|(_, key)| key)
    }

    pub(crate) fn held(&self, pool: &Pool) -> Count {
        let mut count = Count::default();
        self.0.iter().for_each(|(_, key)| count.add(pool.bytes(*key)));
        count
    }
}
