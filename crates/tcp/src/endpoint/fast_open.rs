//! TCP Fast Open (RFC 7413): the cookies that this end gives, and those that it was given.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use fullpipe_cc::{Duration, Instant};

use super::{Endpoint, Handle};
use crate::config::Config;
use crate::connection::{Connection, FastOpenNews, State};
use crate::wire::{FastOpen, Segment};

/// Servers whose cookies are remembered. The one that was heard of first is forgotten for another.
const MOST: usize = 256;
/// Time for which nothing is asked of a server that has no Fast Open, and the longest for which
/// nothing is tried where SYNs with it are not answered (section 4.1.3.1).
const AVOIDED: Duration = Duration::from_secs(3600);
/// Half of the time for which nothing is tried after a second SYN in a row was not answered; each
/// one more doubles it. The first may be an ordinary loss, and is tried again. As in Linux.
const LOST: Duration = Duration::from_secs(120);
/// Time for which a connection that was reset before its handshake was over counts among those that
/// are pending: else whoever forges resets could have any number of them (section 5.1). Linux's.
const RESET_COUNTS: Duration = Duration::from_secs(60);

/// A server as a client knows it (section 4.1.3).
#[derive(Clone, Copy, Debug)]
struct Server {
    cookie: Option<FastOpen>,
    mss: u16,
    avoided_until: Option<Instant>,
    /// SYNs in a row that were not answered.
    lost: u32,
    /// The number of its entry.
    order: u64,
}

/// A client's memory, for each pair of addresses: a cookie is bound to its own.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    servers: BTreeMap<(IpAddr, IpAddr), Server>,
    by_order: BTreeSet<(u64, (IpAddr, IpAddr))>,
    orders: u64,
}

impl Cookies {
    /// The option of a SYN, and the segment size with a cookie; `None` for none.
    fn option(&self, now: Instant, ends: (IpAddr, IpAddr)) -> Option<(FastOpen, u16)> {
        let Some(server) = self.servers.get(&ends) else { return Some((FastOpen::REQUEST, 0)) };
        if server.avoided_until.is_some_and(|until| now < until) {
            return None;
        }
        Some(server.cookie.map_or((FastOpen::REQUEST, 0), |cookie| (cookie, server.mss)))
    }

    fn note(&mut self, now: Instant, ends: (IpAddr, IpAddr), news: FastOpenNews) {
        let old = self.servers.remove(&ends);
        let known = old.map_or((None, 0), |old| (old.cookie, old.mss));
        let ((cookie, mss), avoided_for, lost) = match news {
            FastOpenNews::Cookie { cookie, mss } => ((Some(cookie), mss), None, 0),
            FastOpenNews::Answered => (known, None, 0),
            FastOpenNews::Refused => ((None, 0), Some(AVOIDED), 0),
            FastOpenNews::Lost => {
                let before = old.map_or(0, |old| old.lost);
                let avoided_for = (before > 0).then(|| LOST.times(1 << before.min(8)).min(AVOIDED));
                (known, avoided_for, before.saturating_add(1))
            }
        };
        let avoided_until = avoided_for.map(|time| now + time);
        if let Some(old) = old {
            self.by_order.remove(&(old.order, ends));
        } else if self.servers.len() >= MOST
            && let Some((_, oldest)) = self.by_order.pop_first()
        {
            self.servers.remove(&oldest);
        }
        self.orders += 1;
        let order = self.orders;
        self.by_order.insert((order, ends));
        self.servers.insert(ends, Server { cookie, mss, avoided_until, lost, order });
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        self.servers.len() * (size_of::<Server>() + 3 * size_of::<(IpAddr, IpAddr)>())
    }
}

/// Connections of a listener that began with data, and whose handshake is not over.
#[derive(Debug, Default)]
pub(super) struct Pending {
    handles: BTreeSet<Handle>,
    /// Connections that were reset, each with the time from which it does not count any more.
    resets: BTreeSet<(Instant, Handle)>,
}

impl Pending {
    /// Another one may begin with data, of at most `limit`.
    fn has_room(&mut self, now: Instant, limit: usize) -> bool {
        while self.resets.first().is_some_and(|(until, _)| *until <= now) {
            self.resets.pop_first();
        }
        self.handles.len() + self.resets.len() < limit
    }

    pub(super) fn insert(&mut self, handle: Handle) {
        self.handles.insert(handle);
    }

    /// The handshake is over, or the connection is; `reset` if it is by a reset of the peer's.
    pub(super) fn remove(&mut self, handle: Handle, reset: Option<Instant>) {
        if self.handles.remove(&handle)
            && let Some(now) = reset
        {
            self.resets.insert((now + RESET_COUNTS, handle));
        }
    }
}

/// A listener's decision on the Fast Open option of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    /// Nothing: as if it were not there.
    Ignore,
    /// The SYN-ACK has a cookie, and the data is not taken.
    Give(FastOpen),
    /// The data is taken before the handshake is over; the SYN-ACK has a cookie if there is a newer
    /// one.
    Take(Option<FastOpen>),
}

impl Endpoint {
    /// The decision on a SYN for a listener with `config` (section 4.2.2).
    pub(super) fn decide_fast_open(
        &mut self,
        now: Instant,
        id: u64,
        config: &Config,
        syn: &Segment<'_>,
    ) -> Decision {
        let option = syn.header.fast_open.filter(|_| config.fast_open);
        let is_short = self.memory_room() == 0;
        let (Some(option), Some(listener)) = (option, self.listeners.get_mut(&id)) else {
            return Decision::Ignore;
        };
        let (local, remote) = (syn.to.ip(), syn.from.ip());
        let newest = self.secret.fast_open(now, local, remote);
        if option.is_request() {
            return Decision::Give(newest);
        }
        if !self.secret.is_fast_open(now, local, remote, &option) {
            self.counters.fast_opens_refused += 1;
            return Decision::Give(newest);
        }
        // Section 5.1: beyond the limit connections open as without it, and while memory is short.
        if is_short
            || !listener.has_room()
            || !listener.pending.has_room(now, config.fast_open_pending)
        {
            self.counters.fast_opens_refused += 1;
            return Decision::Ignore;
        }
        Decision::Take((newest != option).then_some(newest))
    }

    /// The connection between new ends asks for a cookie, or sends data by one.
    pub(super) fn begin_fast_open(&self, now: Instant, connection: &mut Connection) {
        let ends = connection.ends();
        if let Some((option, mss)) = self.cookies.option(now, (ends.local, ends.remote)) {
            connection.offer_fast_open(option, mss);
        }
    }

    /// The handshake of a connection that began with data is over, or the connection is; `reset` if
    /// it is by a reset of the peer's.
    pub(super) fn end_early(&mut self, index: u32, reset: Option<Instant>) {
        let slot = &mut self.slots[index as usize];
        let handle = Handle { index, generation: slot.generation };
        if let Some(listener) = slot.early_at.take().and_then(|id| self.listeners.get_mut(&id)) {
            listener.pending.remove(handle, reset);
        }
    }

    /// After a segment or a timer: remembers what a connection has learned of its server, and that
    /// one that began with data is over before its handshake: it keeps its place for a while, or
    /// whoever ends them soon could have any number of requests answered (section 5.1).
    pub(super) fn note_fast_open(&mut self, now: Instant, index: u32) {
        let slot = &mut self.slots[index as usize];
        let is_early = slot.early_at.is_some();
        let Some(connection) = slot.connection.as_deref_mut() else { return };
        if is_early && connection.state() == State::Closed {
            return self.end_early(index, Some(now));
        }
        if let Some(news) = connection.take_fast_open_news() {
            let ends = connection.ends();
            self.cookies.note(now, (ends.local, ends.remote), news);
        }
    }
}
