//! The packets inside a row, each in its place while elements pass its key around.

use std::ops::{Index, IndexMut};

use fullpipe_units::{Duration, Instant};

use crate::packet::{Ecn, Header};
use crate::{Count, DropReason};

/// A packet's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(u32);

impl Key {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The part of a packet that elements read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) header: Header,
    pub(crate) corrupted: bool,
    /// Time waited so far, in every queue that the packet passed.
    pub(crate) queued: Duration,
    /// The time at which it left the last bottleneck so far, or else entered the path.
    pub(crate) left_queue: Instant,
}

/// Room for packets, and a note of what happened to others than the one that an element returns.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    packets: Vec<Meta>,
    free: Vec<Key>,
    /// Something below is to be dealt with.
    noted: bool,
    drops: Vec<(DropReason, Key)>,
    marked: Count,
}

impl Pool {
    #[inline]
    pub(crate) fn add(&mut self, meta: Meta) -> Key {
        if let Some(key) = self.free.pop() {
            self.packets[key.index()] = meta;
            return key;
        }
        self.packets.push(meta);
        // Four thousand million packets of 40 bytes do not fit in memory.
        Key((self.packets.len() - 1) as u32)
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Meta {
        self.free.push(key);
        self.packets[key.index()]
    }

    #[inline]
    pub(crate) fn bytes(&self, key: Key) -> u32 {
        self[key].header.wire_bytes
    }

    /// An element drops a packet that it held.
    pub(crate) fn drop(&mut self, reason: DropReason, key: Key) {
        self.noted = true;
        self.drops.push((reason, key));
    }

    /// Sets congestion experienced where the transport understands it. A packet that has it already
    /// is not marked, and not counted, once more.
    pub(crate) fn mark(&mut self, key: Key) -> bool {
        let header = &mut self[key].header;
        if header.ecn == Ecn::Ce || !header.ecn.is_capable() {
            return header.ecn.is_capable();
        }
        header.ecn = Ecn::Ce;
        let bytes = header.wire_bytes;
        self.marked.add(bytes);
        self.noted = true;
        true
    }

    /// Marks the packet, or drops it when its transport does not understand a mark or it shall not
    /// be `marked`. Says whether it can go on.
    pub(crate) fn mark_or_drop(&mut self, marked: bool, key: Key) -> bool {
        let goes_on = marked && self.mark(key);
        if !goes_on {
            self.drop(DropReason::Aqm, key);
        }
        goes_on
    }

    #[inline]
    pub(crate) fn is_noted(&self) -> bool {
        self.noted
    }

    /// Returns the noted drops and marks, and clears them.
    pub(crate) fn take_notes(&mut self) -> (std::vec::Drain<'_, (DropReason, Key)>, Count) {
        self.noted = false;
        (self.drops.drain(..), std::mem::take(&mut self.marked))
    }
}

impl Index<Key> for Pool {
    type Output = Meta;

    #[inline]
    fn index(&self, key: Key) -> &Meta {
        &self.packets[key.index()]
    }
}

impl IndexMut<Key> for Pool {
    #[inline]
    fn index_mut(&mut self, key: Key) -> &mut Meta {
        &mut self.packets[key.index()]
    }
}
