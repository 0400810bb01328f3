//! Connections and listeners behind one or more addresses.

mod cookie;
mod counters;
mod demultiplex;
mod fast_open;
mod ident;
mod listener;
mod memory;
mod offload;
mod past;
mod ports;
mod settings;
mod table;
mod time_wait;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use fullpipe_cc::Instant;

use crate::config::{Config, Error};
use crate::connection::{Connection, Seeds};
use crate::receiver::SMALL_WINDOW;
use crate::recovery::before as is_before;
use crate::wire::{self, Control, Header, Segment};
use cookie::Secret;
use fast_open::Cookies;
use ident::Idents;
use listener::Listener;
use past::Past;
use ports::Ports;
use table::Slot;
use time_wait::TimeWait;

pub use counters::Counters;
pub(crate) use counters::Totals;
pub(crate) use table::Ends;

/// Resets and SYN cookies that wait to leave; more are not made. A peer sends again what was not
/// answered.
const MAX_REPLIES: usize = 64;

/// Ports in TIME-WAIT that are looked at for a connection when none is free. The oldest are first.
const LOOKS: usize = 16;

/// The distance of the initial sequence number from the last one of an earlier connection between
/// the same ends: more than a window that is not scaled, as in Linux.
const NEW_NUMBERS: u32 = 65_537;

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
    /// Connections in TIME-WAIT that the application still has, the oldest first; and the others.
    waiting: BTreeMap<u64, u32>,
    time_wait: TimeWait,
    /// Connections that ever came into TIME-WAIT.
    waits: u64,
    /// Segments that belong to no connection.
    replies: VecDeque<(SocketAddr, SocketAddr, Header)>,
    opened: u64,
    idents: Idents,
    cookies: Cookies,
    past: Past,
    /// But for what is counted in connections that are not over.
    counters: Counters,
    memory_limit: usize,
    /// Bytes that all connections hold, if there is a limit.
    held: usize,
    /// The last search for memory.
    searched: Option<Instant>,
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
            time_wait: TimeWait::default(),
            waits: 0,
            replies: VecDeque::new(),
            opened: 0,
            idents: Idents::default(),
            cookies: Cookies::default(),
            past: Past::default(),
            counters: Counters::default(),
            memory_limit: usize::MAX,
            held: 0,
            searched: None,
        }
    }

    /// Listens at `address`, whose IP address may be unspecified for all of its family. At most
    /// `backlog` connections are half-open, and at most twice as many are half-open or wait for
    /// [`Self::accept`]. Beyond that SYNs are answered with cookies as long as fewer than `backlog`
    /// connections wait, and dropped then.
    ///
    /// With port 0 a port is chosen among the dynamic ones, which [`Self::listener_address`] tells.
    ///
    /// # Errors
    /// [`Error::InUse`] when there is a listener with this address, or no port is left.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        backlog: usize,
        config: &Config,
    ) -> Result<ListenerHandle, Error> {
        let place = match address.port() {
            0 => self.free_place(address.ip()).ok_or(Error::InUse)?,
            port => (address.ip(), port),
        };
        if self.listening.contains_key(&place) {
            return Err(Error::InUse);
        }
        self.listened += 1;
        self.listening.insert(place, self.listened);
        self.listeners.insert(self.listened, Listener::new(place, backlog, config));
        Ok(ListenerHandle(self.listened))
    }

    /// An address with a port at which nobody listens, at whatever address.
    fn free_place(&self, ip: IpAddr) -> Option<(IpAddr, u16)> {
        let any = SocketAddr::new(ip, 0);
        let from = self.secret.port(any, any).wrapping_add(self.listened);
        let mut ports = (0..ports::COUNT).map(|i| ports::nth(from.wrapping_add(i)));
        let port = ports.find(|&port| !self.listening.keys().any(|place| place.1 == port))?;
        Some((ip, port))
    }

    /// The address at which a listener listens.
    pub fn listener_address(&self, listener: ListenerHandle) -> Option<SocketAddr> {
        self.listeners.get(&listener.0).map(|listener| listener.place().into())
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

    /// Opens a connection. With port 0 in `local` a port is chosen (RFC 6056). With
    /// [`Config::fast_open`] what is written before the next [`Self::transmit`] may leave with the
    /// SYN.
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
        let mut local = local;
        if local.port() == 0 {
            local.set_port(self.free_port(now, local, remote).ok_or(Error::InUse)?);
        }
        let has_port = ports::is_dynamic(local.port());
        self.free_ends(now, &Ends::new(local, remote))?;
        let seeds = self.seeds(now, local, remote);
        let mut connection = Connection::open(now, local, remote, config, seeds);
        if config.fast_open {
            self.begin_fast_open(now, &mut connection);
        }
        let handle = self.insert(connection, None, has_port).ok_or(Error::TooMany)?;
        self.counters.active_opens += 1;
        Ok(handle)
    }

    /// Makes sure that nothing is between `ends`. A connection in TIME-WAIT that may be followed by
    /// another one gives way.
    fn free_ends(&mut self, now: Instant, ends: &Ends) -> Result<(), Error> {
        let is_taken = self.by_ends.contains_key(ends) || self.time_wait.get(ends).is_some();
        if is_taken && !self.may_open_anew(now, ends) {
            return Err(Error::InUse);
        }
        if is_taken {
            self.end_time_wait(ends);
        }
        Ok(())
    }

    fn may_open_anew(&self, now: Instant, ends: &Ends) -> bool {
        if let Some(late) = self.time_wait.get(ends) {
            return late.may_open_anew(now);
        }
        let slot = self.by_ends.get(ends).map(|&index| &self.slots[index as usize]);
        let connection = slot.and_then(|slot| slot.connection.as_ref());
        connection.is_some_and(|connection| connection.may_open_anew(now))
    }

    /// Ends a TIME-WAIT before its time, for another connection between the same ends.
    fn end_time_wait(&mut self, ends: &Ends) {
        if let Some(late) = self.time_wait.remove(ends) {
            self.note_late(ends, &late);
            self.give_port(ends, &late);
        } else if let Some(&index) = self.by_ends.get(ends) {
            self.end_waiting(index);
        }
    }

    /// A port that no connection to `remote` and no listener has; or, if there is none, one whose
    /// connection in TIME-WAIT may be followed by another one. Only ports of listeners and of their
    /// connections cost another look.
    fn free_port(&self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Option<u16> {
        let first = self.secret.port(local, remote).wrapping_add(self.opened);
        let mut ends = Ends::new(local, remote);
        let mut from = first;
        for _ in 0..ports::COUNT {
            let Some(port) = self.ports.free(&ends, from) else { break };
            ends.local_port = port;
            let is_taken = self.by_ends.contains_key(&ends)
                || self.time_wait.get(&ends).is_some()
                || self.listening.contains_key(&(ends.local, port));
            if !is_taken {
                return Some(port);
            }
            from = ports::after(port);
        }
        self.ports.waiting(&ends).take(LOOKS).find(|&port| {
            ends.local_port = port;
            self.may_open_anew(now, &ends)
        })
    }

    /// A segment of no connection has to leave; not too many of these wait.
    fn reply(&mut self, to: &Segment<'_>, header: Header) {
        if self.replies.len() < MAX_REPLIES {
            self.replies.push_back((to.to, to.from, header));
        } else {
            self.counters.replies_dropped += 1;
        }
    }

    fn seeds(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Seeds {
        self.opened += 1;
        let mut isn = self.secret.isn(now, local, remote);
        if let Some(sent) = self.past.get(&Ends::new(local, remote))
            && !is_before(sent, isn)
        {
            // Beyond an earlier connection's numbers (RFC 9293 sections 3.4.1 and 3.6.1), as in
            // Linux.
            isn = sent.wrapping_add(NEW_NUMBERS);
        }
        Seeds {
            isn,
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
        self.connection_mut(handle)?;
        self.make_room(now);
        let most = data.len().min(self.memory_room().max(SMALL_WINDOW));
        self.tell_of_memory(handle.index);
        let count = self.connection_mut(handle)?.write(now, &data[..most])?;
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
        self.transmit_reply(out)
            || self.transmit_by(out, |c, ident, out| match ident {
                None => c.transmit(now, out),
                Some(ident) => c.transmit_as(now, ident, out),
            })
    }

    /// A packet that belongs to no connection.
    fn transmit_reply(&mut self, out: &mut Vec<u8>) -> bool {
        let Some((from, to, header)) = self.replies.pop_front() else { return false };
        self.counters.segments_out += 1;
        self.counters.resets_out += u64::from(header.control == Control::Rst);
        wire::write(out, from, to, &header, [&[], &[]]);
        true
    }

    /// The next packet of a connection, which `transmit` writes, with an identification if it needs
    /// one.
    fn transmit_by(
        &mut self,
        out: &mut Vec<u8>,
        mut transmit: impl FnMut(&mut Connection, Option<u16>, &mut Vec<u8>) -> bool,
    ) -> bool {
        while let Some(index) = self.ready.pop_front() {
            let slot = &mut self.slots[index as usize];
            slot.is_ready = false;
            let Some(connection) = slot.connection.as_deref_mut() else { continue };
            let is_reset = connection.has_reset();
            let before = connection.segments_out();
            let left = match connection.numbers_packets() {
                false => transmit(connection, None, out),
                true => {
                    let Ends { local, remote, .. } = connection.ends();
                    let pair = self.secret.pair(local, remote);
                    let left = transmit(connection, Some(self.idents.get(pair)), out);
                    if left {
                        self.idents.advance(pair);
                    }
                    left
                }
            };
            if left {
                // Of a handshake and of a reset the connection keeps no count.
                self.counters.segments_out += (connection.segments_out() - before).max(1);
                self.counters.resets_out += u64::from(is_reset);
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
        let first = self.timers.first().map(|(at, _)| *at);
        [first, self.time_wait.next()].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Instant) {
        while let Some(&(_, index)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.set_timer(index, None);
            if let Some(connection) = self.slots[index as usize].connection.as_deref_mut() {
                connection.on_timer(now);
                self.note_fast_open(now, index);
                self.touch(index);
            }
        }
        while let Some((ends, late)) = self.time_wait.pop(Some(now)) {
            self.give_port(&ends, &late);
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
        self.by_ends.len() + self.time_wait.len()
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
        while let Some((ends, late)) = self.time_wait.pop(None) {
            self.give_port(&ends, &late);
        }
    }
}
