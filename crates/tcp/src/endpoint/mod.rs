//! Connections and listeners behind one or more addresses.

mod cookie;
mod demultiplex;
mod listener;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;

use fullpipe_cc::{Algorithm, Instant};

use crate::config::{Config, Error};
use crate::connection::{Connection, Seeds, State};
use crate::wire::{self, Header};
use cookie::Secret;
use listener::Listener;

/// Resets and SYN cookies that wait to leave; more are not made. A peer sends again what was not
/// answered.
const MAX_REPLIES: usize = 64;
/// The dynamic ports (RFC 6335 section 6).
const FIRST_PORT: u16 = 49_152;
const PORTS: u64 = 16_384;

/// A connection of an [`Endpoint`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    index: u32,
    /// Tells a connection from an earlier one in the same place.
    generation: u32,
}

/// A listener of an [`Endpoint`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerHandle(SocketAddr);

/// A place for a connection.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
    /// The listener whose application has not accepted it.
    listener: Option<SocketAddr>,
    /// Counts for the listener's backlog.
    is_half_open: bool,
    timer: Option<Instant>,
    is_ready: bool,
    is_changed: bool,
    /// Was noted among those in TIME-WAIT.
    is_waiting: bool,
}

/// A TCP endpoint: see the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Endpoint {
    secret: Secret,
    max_connections: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_ends: BTreeMap<(SocketAddr, SocketAddr), u32>,
    listeners: BTreeMap<SocketAddr, Listener>,
    timers: BTreeSet<(Instant, u32)>,
    ready: VecDeque<u32>,
    changed: VecDeque<Handle>,
    /// Connections in TIME-WAIT, the oldest first.
    waiting: VecDeque<Handle>,
    /// Segments that belong to no connection.
    replies: VecDeque<(SocketAddr, SocketAddr, Header)>,
    opened: u64,
}

impl Endpoint {
    /// An endpoint that has at most `max_connections`, half-open ones and those in TIME-WAIT
    /// included. `key` has to be random and secret: with it a stranger could guess sequence
    /// numbers.
    pub fn new(key: [u8; 16], max_connections: usize) -> Self {
        Self {
            secret: Secret::new(key),
            max_connections: max_connections.min(u32::MAX as usize),
            slots: Vec::new(),
            free: Vec::new(),
            by_ends: BTreeMap::new(),
            listeners: BTreeMap::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            changed: VecDeque::new(),
            waiting: VecDeque::new(),
            replies: VecDeque::new(),
            opened: 0,
        }
    }

    /// Listens at `address`, whose IP address may be unspecified for all of its family. At most
    /// `backlog` connections are half-open, and as many wait for [`Self::accept`]; beyond that SYNs
    /// are answered with cookies.
    ///
    /// # Errors
    /// [`Error::InUse`] when there is a listener with this address.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        backlog: usize,
        config: &Config,
    ) -> Result<ListenerHandle, Error> {
        if self.listeners.contains_key(&address) {
            return Err(Error::InUse);
        }
        self.listeners.insert(address, Listener::new(backlog, config));
        Ok(ListenerHandle(address))
    }

    /// Stops listening; connections that nobody accepted are reset.
    pub fn close_listener(&mut self, listener: ListenerHandle) {
        self.listeners.remove(&listener.0);
        for index in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[index as usize];
            if slot.listener == Some(listener.0) {
                (slot.listener, slot.is_half_open) = (None, false);
                if let Some(connection) = &mut slot.connection {
                    connection.abort();
                    connection.detach(Instant::default());
                }
                self.touch(index);
            }
        }
    }

    /// The next connection whose handshake is over.
    pub fn accept(&mut self, listener: ListenerHandle) -> Option<Handle> {
        let handle = self.listeners.get_mut(&listener.0)?.accepted()?;
        if let Some(slot) = self.slot_mut(handle) {
            slot.listener = None;
        }
        Some(handle)
    }

    /// The listener at which a connection waits for [`Self::accept`], its handshake over.
    pub fn queued_at(&self, handle: Handle) -> Option<ListenerHandle> {
        let slot = self.slots.get(handle.index as usize)?;
        let is_queued = slot.generation == handle.generation && !slot.is_half_open;
        slot.listener.filter(|_| is_queued).map(ListenerHandle)
    }

    /// Opens a connection. With port 0 in `local` a port is chosen (RFC 6056).
    ///
    /// # Errors
    /// [`Error::Address`] for ends that cannot have a connection, [`Error::InUse`] when there is
    /// one between them or no port is left, [`Error::TooMany`].
    pub fn connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        config: &Config,
    ) -> Result<Handle, Error> {
        let is_odd = local.is_ipv4() != remote.is_ipv4() || local.ip().is_unspecified();
        if is_odd || remote.port() == 0 || remote.ip().is_unspecified() {
            return Err(Error::Address);
        }
        let local = match local.port() {
            0 => self.free_port(local, remote).ok_or(Error::InUse)?,
            _ => local,
        };
        if self.by_ends.contains_key(&(local, remote)) {
            return Err(Error::InUse);
        }
        let seeds = self.seeds(now, local, remote);
        let connection = Connection::open(now, local, remote, config, seeds);
        self.insert(connection, None).ok_or(Error::TooMany)
    }

    fn free_port(&self, local: SocketAddr, remote: SocketAddr) -> Option<SocketAddr> {
        let first = self.secret.port(local, remote).wrapping_add(self.opened);
        let ports = (0..PORTS).map(|i| FIRST_PORT + (first.wrapping_add(i) % PORTS) as u16);
        ports.map(|port| SocketAddr::new(local.ip(), port)).find(|local| {
            !self.by_ends.contains_key(&(*local, remote)) && !self.listeners.contains_key(local)
        })
    }

    fn seeds(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Seeds {
        self.opened += 1;
        Seeds {
            isn: self.secret.isn(now, local, remote),
            clock: self.secret.clock(local, remote),
            cc: self.secret.congestion(local, remote, self.opened),
        }
    }

    /// A place for `connection`; `None` when all are taken.
    fn insert(&mut self, connection: Connection, listener: Option<SocketAddr>) -> Option<Handle> {
        if self.by_ends.len() >= self.max_connections {
            self.forget_oldest_waiting()?;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        self.by_ends.insert((connection.local(), connection.remote()), index);
        let slot = &mut self.slots[index as usize];
        let generation = slot.generation;
        let connection = Some(Box::new(connection));
        *slot = Slot { generation, connection, listener, ..Slot::default() };
        self.touch(index);
        Some(Handle { index, generation })
    }

    /// Makes room: the connection that has been in TIME-WAIT for longest goes.
    fn forget_oldest_waiting(&mut self) -> Option<()> {
        while let Some(handle) = self.waiting.pop_front() {
            if self.connection(handle).is_some_and(|c| c.state() == State::TimeWait) {
                self.remove(handle.index);
                return Some(());
            }
        }
        None
    }

    fn slot_mut(&mut self, handle: Handle) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        (slot.generation == handle.generation).then_some(slot)
    }

    fn connection_mut(&mut self, handle: Handle) -> Result<&mut Connection, Error> {
        let connection = self.slot_mut(handle).and_then(|slot| slot.connection.as_deref_mut());
        connection.ok_or(Error::Closed)
    }

    /// A connection, until it is over and [`Self::release`]d.
    pub fn connection(&self, handle: Handle) -> Option<&Connection> {
        let slot = self.slots.get(handle.index as usize)?;
        slot.connection.as_deref().filter(|_| slot.generation == handle.generation)
    }

    /// As [`Connection::read`].
    ///
    /// # Errors
    /// As [`Connection::read`]; [`Error::Closed`] when there is no such connection.
    pub fn read(&mut self, handle: Handle, to: &mut [u8]) -> Result<usize, Error> {
        let count = self.connection_mut(handle)?.read(to)?;
        if count > 0 {
            self.touch(handle.index);
        }
        Ok(count)
    }

    /// As [`Connection::write`].
    ///
    /// # Errors
    /// As [`Connection::write`]; [`Error::Closed`] when there is no such connection.
    pub fn write(&mut self, now: Instant, handle: Handle, data: &[u8]) -> Result<usize, Error> {
        let count = self.connection_mut(handle)?.write(now, data)?;
        if count > 0 {
            self.touch(handle.index);
        }
        Ok(count)
    }

    /// As [`Connection::close`].
    pub fn close(&mut self, now: Instant, handle: Handle) {
        if let Ok(connection) = self.connection_mut(handle) {
            connection.close(now);
            self.touch(handle.index);
        }
    }

    /// As [`Connection::abort`].
    pub fn abort(&mut self, handle: Handle) {
        if let Ok(connection) = self.connection_mut(handle) {
            connection.abort();
            self.touch(handle.index);
        }
    }

    /// As [`Connection::set_congestion`].
    pub fn set_congestion(&mut self, now: Instant, handle: Handle, algorithm: Algorithm) {
        if let Ok(connection) = self.connection_mut(handle) {
            connection.set_congestion(now, algorithm);
            self.touch(handle.index);
        }
    }

    /// As [`Connection::set_nagle`].
    pub fn set_nagle(&mut self, handle: Handle, nagle: bool) {
        if let Ok(connection) = self.connection_mut(handle) {
            connection.set_nagle(nagle);
            self.touch(handle.index);
        }
    }

    /// The application has no more to do with the connection: it goes on by itself until it is
    /// over, as [`Connection::detach`] says.
    pub fn release(&mut self, now: Instant, handle: Handle) {
        if let Ok(connection) = self.connection_mut(handle) {
            connection.detach(now);
            self.touch(handle.index);
        }
    }

    /// Writes the next packet that may leave now into `out`; whether there is one. `out` is
    /// cleared.
    pub fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if let Some((from, to, header)) = self.replies.pop_front() {
            wire::write(out, from, to, &header, [&[], &[]]);
            return true;
        }
        while let Some(index) = self.ready.pop_front() {
            let slot = &mut self.slots[index as usize];
            slot.is_ready = false;
            let Some(connection) = slot.connection.as_deref_mut() else { continue };
            if connection.transmit(now, out) {
                self.touch(index);
                return true;
            }
            let at = connection.poll_at();
            self.set_timer(index, at);
            self.clean_up(index);
        }
        out.clear();
        false
    }

    /// The next time at which [`Self::on_timer`] has something to do, after [`Self::transmit`] gave
    /// no packet.
    pub fn poll_at(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Instant) {
        while let Some(&(_, index)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.set_timer(index, None);
            if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
                connection.on_timer(now);
            }
            self.touch(index);
        }
    }

    fn set_timer(&mut self, index: u32, at: Option<Instant>) {
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

    /// A connection with which something happened since the last call, whoever did it. Each is
    /// named once.
    pub fn next_changed(&mut self) -> Option<Handle> {
        let handle = self.changed.pop_front()?;
        if let Some(slot) = self.slot_mut(handle) {
            slot.is_changed = false;
        }
        Some(handle)
    }

    /// Connections that there are, of any state but CLOSED.
    pub fn connections(&self) -> usize {
        self.by_ends.len()
    }

    /// Connections whose peers do not have all that was written, and its end.
    pub fn undelivered(&self) -> usize {
        let connections = self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        connections.filter(|connection| !connection.is_delivered()).count()
    }

    /// Resets all connections, as [`Connection::abort`] does.
    pub fn abort_all(&mut self) {
        for index in 0..self.slots.len() as u32 {
            if let Some(connection) = &mut self.slots[index as usize].connection {
                connection.abort();
                self.touch(index);
            }
        }
    }

    /// Bytes of memory that the connections' buffers and lists take up.
    pub fn memory(&self) -> usize {
        let connections = self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        let held: usize = connections.map(|c| c.memory() + size_of::<Connection>()).sum();
        held + self.slots.capacity() * size_of::<Slot>()
    }

    /// Something happened with the connection: it may have something to send, and somebody may want
    /// to know.
    fn touch(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if !slot.is_ready {
            slot.is_ready = true;
            self.ready.push_back(index);
        }
        let handle = Handle { index, generation: slot.generation };
        if !slot.is_changed {
            slot.is_changed = true;
            self.changed.push_back(handle);
        }
        let Some(state) = slot.connection.as_deref().map(Connection::state) else { return };
        if state == State::TimeWait && !slot.is_waiting {
            slot.is_waiting = true;
            self.waiting.push_back(handle);
        }
        if slot.is_half_open && state.is_synchronized() {
            slot.is_half_open = false;
            if let Some(listener) = slot.listener.and_then(|at| self.listeners.get_mut(&at)) {
                listener.on_established(handle);
            }
        }
    }

    /// Forgets a connection that is over: its ends at once, the rest when the application knows.
    fn clean_up(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let Some(connection) = slot.connection.as_deref().filter(|c| c.is_over()) else { return };
        let ends = (connection.local(), connection.remote());
        if self.by_ends.get(&ends) == Some(&index) {
            self.by_ends.remove(&ends);
        }
        if connection.is_detached() || slot.is_half_open {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: u32) {
        self.set_timer(index, None);
        let slot = &mut self.slots[index as usize];
        let Some(connection) = slot.connection.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        let half_open = core::mem::take(&mut slot.is_half_open);
        if let Some(listener) = slot.listener.take().and_then(|at| self.listeners.get_mut(&at)) {
            listener.on_removed(half_open);
        }
        let ends = (connection.local(), connection.remote());
        if self.by_ends.get(&ends) == Some(&index) {
            self.by_ends.remove(&ends);
        }
        self.free.push(index);
    }
}
