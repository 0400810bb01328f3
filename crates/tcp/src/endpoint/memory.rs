//! The memory of all connections together, and its bound.

use alloc::vec::Vec;
use core::net::SocketAddr;

use fullpipe_cc::{Duration, Instant};

use super::table::{Ends, Slot};
use super::{Endpoint, Header};
use crate::connection::Connection;

/// Memory is looked for in all connections once in such a time at most.
const SEARCH_EVERY: Duration = Duration::from_secs(1);
/// While memory is short: the time in which a peer has to answer if something waits for it, and the
/// time in which it has to acknowledge some of that, whether it answers or not.
const SILENT_AFTER: Duration = Duration::from_secs(10);
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// What a connection may hold in any case.
const ALWAYS: usize = 32 << 10;

impl Endpoint {
    /// Sets the most bytes that the buffers and lists of all connections hold together, apart from
    /// 32 kB for each connection, with which it always goes on. There is no bound at first but for
    /// those of each connection.
    ///
    /// From half of it on, memory is short: buffers double when they grow. Then windows stay small,
    /// an application can write when nothing waits to be acknowledged, data is taken in order
    /// alone, up to 16 kB that are not read, and what has arrived before its turn is thrown away:
    /// the peer sends it again (RFC 2018 section 8). Where that is not enough, connections are
    /// reset whose peers have not answered for ten seconds, or have acknowledged nothing for a
    /// minute, those that hold most first: a peer that takes nothing, or that has claimed to have
    /// what it never got and is silent, would keep all others short until its connection times out.
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = bytes;
        // Without a limit nothing is counted, so that what was counted before is out of date.
        self.held = 0;
        for index in 0..self.slots.len() as u32 {
            self.slots[index as usize].held = 0;
            self.account(index);
        }
        for index in 0..self.slots.len() as u32 {
            self.tell_of_memory(index);
        }
    }

    /// Counts anew what a connection holds.
    pub(super) fn account(&mut self, index: u32) {
        if self.memory_limit == usize::MAX {
            return;
        }
        let slot = &mut self.slots[index as usize];
        let held = slot.connection.as_deref().map_or(0, Connection::memory);
        self.held = self.held - slot.held + held;
        slot.held = held;
        self.tell_of_memory(index);
    }

    /// Bytes by which memory may grow before it is short.
    pub(super) fn memory_room(&self) -> usize {
        (self.memory_limit / 2).saturating_sub(self.held)
    }

    /// A connection that will take something in hears whether memory is short.
    pub(super) fn tell_of_memory(&mut self, index: u32) {
        let is_short = self.memory_limit != usize::MAX && self.memory_room() == 0;
        if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
            connection.set_memory_short(is_short);
        }
    }

    /// Before data arrives or is written: looks for memory if it has become short.
    pub(super) fn make_room(&mut self, now: Instant) {
        if self.memory_room() > 0 || self.searched.is_some_and(|at| now.since(at) < SEARCH_EVERY) {
            return;
        }
        self.searched = Some(now);
        for index in 0..self.slots.len() as u32 {
            if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
                connection.give_memory();
            }
            self.account(index);
        }
        self.end_stalled(now);
    }

    /// Resets connections that hold memory for peers which take nothing, until there is so much
    /// that others do not use it up at once.
    fn end_stalled(&mut self, now: Instant) {
        let mut stalled = Vec::new();
        for (index, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.held > ALWAYS) {
            let since = slot.connection.as_deref().and_then(Connection::undelivered_since);
            let is_stalled = since.is_some_and(|(heard, waiting)| {
                now.since(heard) >= SILENT_AFTER || now.since(waiting) >= STALLED_AFTER
            });
            if is_stalled {
                stalled.push((slot.held, index as u32));
            }
        }
        stalled.sort_unstable();
        while self.memory_room() < self.memory_limit / 4
            && let Some((_, index)) = stalled.pop()
        {
            if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
                connection.abort();
                self.counters.stalled += 1;
            }
            self.touch(index);
        }
    }

    /// Bytes of memory that the connections take up: their buffers and lists, and the tables that
    /// find them. Those of the tables that are trees are an estimate.
    pub fn memory(&self) -> usize {
        let connections = self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        let held: usize = connections.map(|c| c.memory() + size_of::<Connection>()).sum();
        let tables = self.slots.capacity() * size_of::<Slot>()
            + (self.free.capacity() + self.ready.capacity() + self.changed.capacity()) * 4
            + self.by_ends.len() * size_of::<(Ends, u32)>()
            + self.timers.len() * size_of::<(Instant, u32)>()
            + self.waiting.len() * size_of::<(u64, u32)>()
            + self.replies.len() * size_of::<(SocketAddr, SocketAddr, Header)>()
            + self.ports.memory()
            + self.idents.memory()
            + self.cookies.memory()
            + self.past.memory();
        held + self.time_wait.memory() + tables
    }
}
