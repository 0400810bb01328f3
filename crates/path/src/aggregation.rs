//! A radio link that waits for a batch.

use std::collections::VecDeque;

use fullpipe_units::{Duration, Instant};

use crate::pool::{Key, Pool};
use crate::{Count, DropReason, QueueLimit};

/// Gathers packets and lets them out together.
#[derive(Debug)]
pub(crate) struct Aggregation {
    interval: Duration,
    burst: QueueLimit,
    keep_one_in: u32,
    /// In front, `leaving` packets of the batch that was closed at `closed_at`; then the open one.
    line: VecDeque<Key>,
    leaving: usize,
    closed_at: Instant,
    /// The contents of the open batch, and its closing time.
    open: Count,
    closes_at: Instant,
    /// Packets of one flow dropped in a row since one of it was kept.
    thinned: u32,
}

impl Aggregation {
    pub(crate) fn new(interval: Duration, burst: QueueLimit, keep_one_in: u32) -> Self {
        Self {
            interval,
            burst,
            keep_one_in,
            line: VecDeque::new(),
            leaving: 0,
            closed_at: Instant::default(),
            open: Count::default(),
            closes_at: Instant::default(),
            thinned: 0,
        }
    }

    pub(crate) fn enter(&mut self, now: Instant, key: Key, wire_bytes: u32) {
        if self.open.packets == 0 {
            self.closes_at = now + self.interval;
        }
        self.open.add(wire_bytes);
        self.line.push_back(key);
        let full = match self.burst {
            QueueLimit::Bytes(b) => self.open.bytes >= b,
            QueueLimit::Packets(p) => self.open.packets >= p,
            // Refused.
            QueueLimit::Time(_) => false,
        };
        if full {
            self.close(now);
        }
    }

    fn close(&mut self, at: Instant) {
        self.leaving = self.line.len();
        self.closed_at = at;
        self.open = Count::default();
    }

    pub(crate) fn next_exit(&self) -> Option<Instant> {
        if self.leaving > 0 {
            Some(self.closed_at)
        } else if self.open.packets > 0 {
            Some(self.closes_at)
        } else {
            None
        }
    }

    pub(crate) fn exit(&mut self, pool: &mut Pool) -> Option<Key> {
        if self.leaving == 0 {
            self.close(self.closes_at);
        }
        let key = self.line.pop_front()?;
        self.leaving -= 1;
        let flow = |key: Key| pool[key].header.flow;
        let followed =
            self.leaving > 0 && self.line.front().is_some_and(|next| flow(*next) == flow(key));
        if followed && self.thinned + 1 < self.keep_one_in {
            self.thinned += 1;
            pool.drop(DropReason::Thinned, key);
            return None;
        }
        self.thinned = 0;
        Some(key)
    }

    pub(crate) fn held(&self, pool: &Pool) -> Count {
        let mut count = Count::default();
        self.line.iter().for_each(|key| count.add(pool.bytes(*key)));
        count
    }
}
