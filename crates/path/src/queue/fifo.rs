//! First in, first out.

use std::collections::VecDeque;

use fullpipe_units::Instant;

use crate::Count;
use crate::pool::Key;

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedPacket {
    pub(crate) arrived: Instant,
    pub(crate) key: Key,
    pub(crate) bytes: u32,
}

/// Packets in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    waiting: VecDeque<QueuedPacket>,
    bytes: u64,
}

impl Fifo {
    #[inline]
    pub(crate) fn push(&mut self, arrived: Instant, key: Key, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.waiting.push_back(QueuedPacket { arrived, key, bytes });
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<QueuedPacket> {
        let front = self.waiting.pop_front()?;
        self.bytes -= u64::from(front.bytes);
        Some(front)
    }

    pub(crate) fn front(&self) -> Option<&QueuedPacket> {
        self.waiting.front()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    #[inline]
    pub(crate) fn size(&self) -> Count {
        Count { packets: self.waiting.len() as u64, bytes: self.bytes }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &QueuedPacket> {
        self.waiting.iter()
    }
}
