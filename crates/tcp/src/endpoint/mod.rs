//! Connections and listeners behind one or more addresses.

mod cookie;
mod demultiplex;
mod listener;
mod ports;
mod table;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use fullpipe_cc::{Algorithm, Instant};

use crate::config::{Config, Error};
use crate::connection::{Connection, Late, Seeds};
use crate::wire::{self, Header};
use cookie::Secret;
use listener::Listener;
use ports::Ports;
use table::Slot;

pub(crate) use table::Ends;

/// Resets and SYN cookies that wait to leave; more are not made. A peer sends again what was not
/// answered.
const MAX_REPLIES: usize = 64;

/// A connection of an [`Endpoint`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    index: u32,
    /// Tells a connection from an earlier one in the same place.
    generation: u32,
}

/// A listener of an [`Endpoint`]. No later listener has the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerHandle(u64);

/// A TCP endpoint: see the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Endpoint {
    secret: Secret,
    max_connections: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_ends: BTreeMap<Ends, u32>,
    ports: Ports,
    listeners: BTreeMap<u64, Listener>,
    listening: BTreeMap<(IpAddr, u16), u64>,
    /// Listeners that ever were.
    listened: u64,
    timers: BTreeSet<(Instant, u32)>,
    ready: VecDeque<u32>,
    changed: VecDeque<u32>,
    /// Connections in TIME-WAIT, the oldest first.
    waiting: BTreeMap<u64, u32>,
    /// Connections that ever came into TIME-WAIT.
    waits: u64,
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
            ports: Ports::default(),
            listeners: BTreeMap::new(),
            listening: BTreeMap::new(),
            listened: 0,
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            changed: VecDeque::new(),
            waiting: BTreeMap::new(),
            waits: 0,
            replies: VecDeque::new(),
            opened: 0,
        }
    }

    /// Listens at `address`, whose IP address may be unspecified for all of its family. At most
    /// `backlog` connections are half-open, and at most twice as many are half-open or wait for
    /// [`Self::accept`]. Beyond that SYNs are answered with cookies as long as fewer than `backlog`
    /// connections wait, and dropped then.
    ///
    /// # Errors
    /// [`Error::InUse`] when there is a listener with this address.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        backlog: usize,
        config: &Config,
    ) -> Result<ListenerHandle, Error> {
        let place = (address.ip(), address.port());
        if self.listening.contains_key(&place) {
            return Err(Error::InUse);
        }
        self.listened += 1;
        self.listening.insert(place, self.listened);
        self.listeners.insert(self.listened, Listener::new(place, backlog, config));
        Ok(ListenerHandle(self.listened))
    }

    /// Stops listening; connections that nobody accepted are reset.
    pub fn close_listener(&mut self, listener: ListenerHandle) {
        let Some(listener) = self.listeners.remove(&listener.0) else { return };
        self.listening.remove(&listener.place());
        for index in listener.connections() {
            let slot = &mut self.slots[index as usize];
            (slot.listener, slot.is_half_open) = (None, false);
            if let Some(connection) = &mut slot.connection {
                connection.abort();
                connection.detach(Instant::default());
            }
            self.touch(index);
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
        let has_port = local.port() == 0;
        let mut local = local;
        if has_port {
            local.set_port(self.free_port(local, remote).ok_or(Error::InUse)?);
        }
        if self.by_ends.contains_key(&Ends::new(local, remote)) {
            return Err(Error::InUse);
        }
        let seeds = self.seeds(now, local, remote);
        let connection = Connection::open(now, local, remote, config, seeds);
        self.insert(connection, None, has_port).ok_or(Error::TooMany)
    }

    /// A port that no connection to `remote` and no listener has. Only ports that somebody has
    /// taken without asking for one cost another look.
    fn free_port(&self, local: SocketAddr, remote: SocketAddr) -> Option<u16> {
        let mut from = self.secret.port(local, remote).wrapping_add(self.opened);
        let mut ends = Ends::new(local, remote);
        for _ in 0..ports::COUNT {
            ends.local_port = self.ports.free(&ends, from)?;
            let is_taken = self.by_ends.contains_key(&ends)
                || self.listening.contains_key(&(ends.local, ends.local_port));
            if !is_taken {
                return Some(ends.local_port);
            }
            from = ports::after(ends.local_port);
        }
        None
    }

    fn seeds(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Seeds {
        self.opened += 1;
        Seeds {
            isn: self.secret.isn(now, local, remote),
            clock: self.secret.clock(local, remote),
            cc: self.secret.congestion(local, remote, self.opened),
        }
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
            let slot = &mut self.slots[index as usize];
            if slot.late.is_some() {
                self.remove(index);
            } else if let Some(connection) = slot.connection.as_deref_mut() {
                connection.on_timer(now);
                self.touch(index);
            }
        }
    }

    /// A connection with which something happened since the last call, whoever did it. Each is
    /// named once; one that is over and that nobody has any more is not.
    pub fn next_changed(&mut self) -> Option<Handle> {
        loop {
            let index = self.changed.pop_front()?;
            let slot = &mut self.slots[index as usize];
            slot.is_changed = false;
            if slot.connection.is_some() {
                return Some(Handle { index, generation: slot.generation });
            }
        }
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
            let slot = &mut self.slots[index as usize];
            if slot.late.is_some() {
                self.remove(index);
            } else if let Some(connection) = &mut slot.connection {
                connection.abort();
                self.touch(index);
            }
        }
    }

    /// Bytes of memory that the connections take up: their buffers and lists, and the tables that
    /// find them. Those of the tables that are trees are an estimate.
    pub fn memory(&self) -> usize {
        let connections = self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        let held: usize = connections.map(|c| c.memory() + size_of::<Connection>()).sum();
        let late = self.slots.iter().filter(|slot| slot.late.is_some()).count();
        let tables = self.slots.capacity() * size_of::<Slot>()
            + (self.free.capacity() + self.ready.capacity() + self.changed.capacity()) * 4
            + self.by_ends.len() * size_of::<(Ends, u32)>()
            + self.timers.len() * size_of::<(Instant, u32)>()
            + self.waiting.len() * size_of::<(u64, u32)>()
            + self.replies.len() * size_of::<(SocketAddr, SocketAddr, Header)>()
            + self.ports.memory();
        held + late * size_of::<Late>() + tables
    }
}
