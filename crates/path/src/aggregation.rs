//! A radio link that waits for a batch.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};

use crate::element::Exit;
use crate::packet::Packet;
use crate::{Count, DropReason, QueueLimit};

/// Gathers packets and lets them out together.
#[derive(Debug)]
pub(crate) struct Aggregation<T> {
    interval: Duration,
    burst: QueueLimit,
    keep_one_in: u32,
    /// The batches in the order of their packets. In front, `leaving` packets of closed batches.
    line: VecDeque<Packet<T>>,
    leaving: usize,
    /// When the closed batches leave.
    closed_at: Instant,
    /// What the open batch holds, and when it has to close.
    open: Count,
    closes_at: Instant,
    /// Packets of one flow dropped in a row since one of it was kept.
    thinned: u32,
}

impl<T> Aggregation<T> {
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

    pub(crate) fn enter(&mut self, now: Instant, packet: Packet<T>) {
        if self.open.packets == 0 {
            self.closes_at = now + self.interval;
        }
        self.open.add(packet.header.wire_bytes);
        self.line.push_back(packet);
        let full = match self.burst {
            QueueLimit::Bytes(b) => self.open.bytes >= b,
            QueueLimit::Packets(p) => self.open.packets >= p,
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

    pub(crate) fn exit(&mut self) -> Exit<T> {
        if self.leaving == 0 {
            self.close(self.closes_at);
        }
        let Some(packet) = self.line.pop_front() else { return Exit::Nothing };
        self.leaving -= 1;
        let followed = self.leaving > 0
            && self.line.front().is_some_and(|next| next.header.flow == packet.header.flow);
        if followed && self.thinned + 1 < self.keep_one_in {
            self.thinned += 1;
            return Exit::Dropped(DropReason::Thinned, packet);
        }
        self.thinned = 0;
        Exit::Passed(packet)
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = &Packet<T>> {
        self.line.iter()
    }
}
