//! A listener: LISTEN of RFC 9293, with a limit to what strangers can make it keep.

use alloc::collections::{BTreeSet, VecDeque};
use core::net::IpAddr;

use fullpipe_cc::{Duration, Instant};

use super::Handle;
use super::fast_open::Pending;
use crate::config::Config;

/// Time after the last cookie for which ACKs are searched for one.
const COOKIE_LIFE: Duration = Duration::from_secs(128);

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) config: Config,
    place: (IpAddr, u16),
    backlog: usize,
    half_open: BTreeSet<u32>,
    /// Connections whose handshake is over, and that nobody has accepted.
    queue: VecDeque<Handle>,
    last_cookie: Option<Instant>,
    /// Connections that began with data, and whose handshake is not over.
    pub(super) pending: Pending,
}

impl Listener {
    pub(super) fn new(place: (IpAddr, u16), backlog: usize, config: &Config) -> Self {
        Self {
            config: *config,
            place,
            backlog: backlog.max(1),
            half_open: BTreeSet::new(),
            queue: VecDeque::new(),
            last_cookie: None,
            pending: Pending::default(),
        }
    }

    /// The address and the port.
    pub(super) fn place(&self) -> (IpAddr, u16) {
        self.place
    }

    /// Connections that nobody has accepted, half-open or not.
    pub(super) fn connections(&self) -> impl Iterator<Item = u32> + '_ {
        self.half_open.iter().copied().chain(self.queue.iter().map(|handle| handle.index))
    }

    /// True if a connection may wait to be accepted.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < self.backlog
    }

    /// True if a SYN may be remembered.
    pub(super) fn may_keep_syn(&self) -> bool {
        let half_open = self.half_open.len();
        half_open < self.backlog && half_open + self.queue.len() < 2 * self.backlog
    }

    pub(super) fn on_half_open(&mut self, index: u32) {
        self.half_open.insert(index);
    }

    pub(super) fn on_established(&mut self, handle: Handle) {
        self.half_open.remove(&handle.index);
        self.queue.push_back(handle);
    }

    /// A connection that began with data can be accepted before its handshake is over.
    pub(super) fn on_early(&mut self, handle: Handle) {
        self.pending.insert(handle);
        self.queue.push_back(handle);
    }

    /// A half-open connection is over.
    pub(super) fn on_removed(&mut self, index: u32) {
        self.half_open.remove(&index);
    }

    pub(super) fn on_cookie(&mut self, now: Instant) {
        self.last_cookie = Some(now);
    }

    /// True if an ACK may be the answer to a cookie.
    pub(super) fn expects_cookie(&self, now: Instant) -> bool {
        self.last_cookie.is_some_and(|at| now.since(at) < COOKIE_LIFE)
    }

    pub(super) fn accepted(&mut self) -> Option<Handle> {
        self.queue.pop_front()
    }
}
