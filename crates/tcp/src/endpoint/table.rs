//! The table of connections: who is where, who waits for what.

use alloc::boxed::Box;
use core::net::{IpAddr, SocketAddr};

use fullpipe_cc::Instant;

use super::{Endpoint, Handle};
use crate::connection::{Connection, Late, State};
use crate::recovery::before;

/// The two ends of a connection as packets name them: without the scope and the flow of an IPv6
/// address, which are the host's own affair (RFC 4007 section 6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ends {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
}

impl Ends {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local: local.ip(),
            remote: remote.ip(),
            local_port: local.port(),
            remote_port: remote.port(),
        }
    }

    /// Everything but the own port.
    pub(super) fn way(&self) -> (IpAddr, IpAddr, u16) {
        (self.local, self.remote, self.remote_port)
    }
}

/// A place for a connection.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) connection: Option<Box<Connection>>,
    /// The listener whose application has not accepted it.
    pub(super) listener: Option<u64>,
    timer: Option<Instant>,
    /// Bytes of memory that the endpoint counts for the connection.
    pub(super) held: usize,
    /// The place among those in TIME-WAIT; 0 for none.
    waiting: u64,
    /// Counts for the listener's backlog.
    pub(super) is_half_open: bool,
    /// The listener at which it began with data, while its handshake is not over.
    pub(super) early_at: Option<u64>,
    /// Is among those that may have something to send, and among those that have changed. The next
    /// connection in this place inherits both.
    pub(super) is_ready: bool,
    pub(super) is_changed: bool,
    /// Its port is a chosen one.
    has_port: bool,
}

impl Endpoint {
    /// A place for `connection`; `None` when all are taken.
    pub(super) fn insert(
        &mut self,
        connection: Connection,
        listener: Option<u64>,
        has_port: bool,
    ) -> Option<Handle> {
        if self.connections() >= self.max_connections {
            self.forget_oldest_waiting()?;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let ends = connection.ends();
        self.by_ends.insert(ends, index);
        if has_port {
            self.ports.take(&ends);
        }
        let slot = &mut self.slots[index as usize];
        let Slot { generation, is_ready, is_changed, .. } = *slot;
        let connection = Some(Box::new(connection));
        *slot = Slot {
            generation,
            connection,
            listener,
            is_ready,
            is_changed,
            has_port,
            ..Slot::default()
        };
        self.touch(index);
        Some(Handle { index, generation })
    }

    /// Makes room: a connection ends that is in TIME-WAIT; one that nobody has, or else the one
    /// that has been there for longest.
    fn forget_oldest_waiting(&mut self) -> Option<()> {
        if let Some((ends, late)) = self.time_wait.pop(None) {
            self.note_late(&ends, &late);
            self.give_port(&ends, &late);
            self.counters.time_waits_cut += 1;
            return Some(());
        }
        while let Some((_, index)) = self.waiting.pop_first() {
            let slot = &mut self.slots[index as usize];
            slot.waiting = 0;
            if slot.connection.as_ref().is_some_and(|c| c.state() == State::TimeWait) {
                self.counters.time_waits_cut += 1;
                self.end_waiting(index);
                return Some(());
            }
        }
        None
    }

    /// Ends TIME-WAIT before its time. What the application has not read was acknowledged: it
    /// stays until the application is done with it.
    pub(super) fn end_waiting(&mut self, index: u32) {
        let connection = self.slots[index as usize].connection.as_deref();
        if let Some((ends, (sent, at))) =
            connection.and_then(|c| Some((c.ends(), c.last_numbers()?)))
        {
            self.note_numbers(ends, sent, at);
        }
        match &mut self.slots[index as usize].connection {
            Some(connection) if !connection.is_detached() => {
                connection.end_waiting();
                self.unlink(index);
                self.touch(index);
            }
            _ => self.remove(index),
        }
    }

    pub(super) fn slot_mut(&mut self, handle: Handle) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        (slot.generation == handle.generation).then_some(slot)
    }

    pub(super) fn set_timer(&mut self, index: u32, at: Option<Instant>) {
        let slot = &mut self.slots[index as usize];
        if slot.timer == at {
            return;
        }
        if let Some(old) = core::mem::replace(&mut slot.timer, at) {
            self.timers.remove(&(old, index));
        }
        if let Some(at) = at {
            self.timers.insert((at, index));
        }
    }

    /// Something happened with the connection: it may have something to send, and somebody may want
    /// to know.
    pub(super) fn touch(&mut self, index: u32) {
        self.account(index);
        let slot = &mut self.slots[index as usize];
        let Some(state) = slot.connection.as_deref().map(Connection::state) else { return };
        if !slot.is_ready {
            slot.is_ready = true;
            self.ready.push_back(index);
        }
        if !slot.is_changed {
            slot.is_changed = true;
            self.changed.push_back(index);
        }
        if state == State::TimeWait && slot.waiting == 0 {
            self.waits += 1;
            slot.waiting = self.waits;
            self.waiting.insert(self.waits, index);
            if let Some(connection) = slot.connection.as_deref().filter(|_| slot.has_port)
                && connection.may_be_followed()
            {
                self.ports.wait(&connection.ends());
            }
        }
        if slot.early_at.is_some() && (state.is_synchronized() || state == State::Closed) {
            self.end_early(index, None);
        }
        let slot = &mut self.slots[index as usize];
        if slot.is_half_open && state.is_synchronized() {
            slot.is_half_open = false;
            let handle = Handle { index, generation: slot.generation };
            if let Some(listener) = slot.listener.and_then(|id| self.listeners.get_mut(&id)) {
                listener.on_established(handle);
            }
        }
    }

    /// Forgets a connection that is over: its ends at once, the rest when the application knows.
    /// Of one in TIME-WAIT that nobody has any more only what answers late segments stays.
    pub(super) fn clean_up(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(connection) = slot.connection.as_deref_mut() else { return };
        if let Some(mut late) = connection.retire() {
            let ends = connection.ends();
            late.has_port = core::mem::take(&mut slot.has_port);
            self.remove(index);
            return self.time_wait.insert(ends, late);
        }
        if !connection.is_over() {
            return;
        }
        let is_known = connection.is_detached() || slot.is_half_open;
        self.unlink(index);
        if is_known {
            self.remove(index);
        }
    }

    /// Segments find the connection no more.
    fn unlink(&mut self, index: u32) {
        self.set_timer(index, None);
        let slot = &mut self.slots[index as usize];
        let waiting = core::mem::take(&mut slot.waiting);
        let has_port = core::mem::take(&mut slot.has_port);
        // One in TIME-WAIT goes on as less, or was noted.
        let is_over = |c: &Connection| c.state() != State::TimeWait;
        let numbers = |c: &Connection| if is_over(c) { c.last_numbers() } else { None };
        let ends = slot.connection.as_deref().map(|c| (c.ends(), numbers(c)));
        if waiting > 0 {
            self.waiting.remove(&waiting);
        }
        let Some((ends, numbers)) = ends else { return };
        if let Some((sent, at)) = numbers {
            self.note_numbers(ends, sent, at);
        }
        if self.by_ends.get(&ends) == Some(&index) {
            self.by_ends.remove(&ends);
        }
        if has_port {
            self.ports.give(&ends);
        }
    }

    /// A connection is over that had sent everything before `sent` at `at`. The next one between
    /// the same ends begins beyond it, also if its initial sequence number would not: old segments
    /// that are still on their way are none of the new one's (RFC 9293 section 3.4.1).
    fn note_numbers(&mut self, ends: Ends, sent: u32, at: Instant) {
        let (local, remote) = (ends.local, ends.remote);
        let local = SocketAddr::new(local, ends.local_port);
        let remote = SocketAddr::new(remote, ends.remote_port);
        if !before(sent, self.secret.isn(at, local, remote)) {
            self.past.note(ends, sent);
        }
    }

    /// A connection in TIME-WAIT ends before its time.
    pub(super) fn note_late(&mut self, ends: &Ends, late: &Late) {
        let (sent, at) = late.last_numbers();
        self.note_numbers(*ends, sent, at);
    }

    /// A connection in TIME-WAIT is forgotten.
    pub(super) fn give_port(&mut self, ends: &Ends, late: &Late) {
        if late.has_port {
            self.ports.give(ends);
        }
    }

    pub(super) fn remove(&mut self, index: u32) {
        self.unlink(index);
        self.end_early(index, None);
        let slot = &mut self.slots[index as usize];
        let Some(connection) = slot.connection.take() else { return };
        self.counters.add(connection.totals());
        slot.generation = slot.generation.wrapping_add(1);
        let is_half_open = core::mem::take(&mut slot.is_half_open);
        if let Some(listener) = slot.listener.take().and_then(|id| self.listeners.get_mut(&id))
            && is_half_open
        {
            listener.on_removed(index);
        }
        self.free.push(index);
        self.account(index);
    }
}
