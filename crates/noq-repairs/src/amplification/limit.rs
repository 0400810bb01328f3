//! The anti-amplification limit of RFC 9000 section 8, below noq: a server sends no more than three
//! times what it received to an address that the connection has not validated, whoever else has
//! (section 9.3.1). noq keeps that limit too, but sends a whole datagram for the last byte of it,
//! and challenges a new path with 1200 bytes whatever came from there.
//!
//! A datagram is a connection's by its connection ID ([`peer`](super::peer)). What is of none, and
//! what is of one whose handshake is under way, counts for the address alone: answers to first
//! packets, Retry, Version Negotiation and stateless resets share what came from there.
//!
//! An address is one of IP and a port, as the RFC has it. Another port begins with no bytes
//! received, so that whoever takes many gets no more to one IP than three times what came from it.
//! One count for all ports would let a host behind the same NAT use up, or fill, another one's.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use noq::ServerConfig;

use super::path_validation::Watch;
use super::peer::{CID_BYTES, Cid, Peer};
use crate::expiring_map::ExpiringMap;
use crate::layer;
use crate::wire::header::{LongType, long_headers, long_version};

/// Anti-amplification factor: largest ratio of bytes sent to bytes received (RFC 9000 section 8.1).
pub(super) const FACTOR: u64 = 3;
/// Addresses and connection IDs that are remembered. Of more than these the oldest are forgotten,
/// and nothing is sent to them.
const MOST_ADDRESSES: usize = 65_536;
/// Addresses from which packets with the same unknown connection ID are told apart.
const MOST_CLAIMS: usize = 4;
/// Time for which an address is remembered after its last packet.
const KEEP: Duration = Duration::from_secs(30);

/// Record of an endpoint's peers, kept by its socket.
#[derive(Clone, Debug)]
pub struct AmplificationLimit(Arc<Mutex<Known>>);

/// No lock of a peer's is held while this one is taken.
#[derive(Debug)]
struct Known {
    /// Connections by the connection IDs that the server chose.
    peers: HashMap<Cid, Weak<Peer>>,
    /// Datagrams of no connection, or of a handshake.
    addresses: ExpiringMap<SocketAddr, Unvalidated>,
    /// Bytes that came with a connection ID that nobody has used yet: when a client moves to a new
    /// address with a new one, its first packets are known as its own when they are opened.
    unclaimed: ExpiringMap<Cid, Vec<(SocketAddr, u64)>>,
}

#[derive(Debug, Default)]
struct Unvalidated {
    received: u64,
    sent: u64,
    /// Those who have something to send as soon as more was received.
    waiting: Vec<Waker>,
}

/// Permission to send a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Allowance {
    /// Yes, this one.
    Yes,
    /// This one instead.
    Instead(Vec<u8>),
    /// Not before more was received from there.
    No,
}

impl Default for AmplificationLimit {
    /// One that knows nobody yet.
    fn default() -> Self {
        let now = Instant::now();
        Self(Arc::new(Mutex::new(Known {
            peers: HashMap::new(),
            addresses: ExpiringMap::new(KEEP, MOST_ADDRESSES, now),
            unclaimed: ExpiringMap::new(KEEP, MOST_ADDRESSES, now),
        })))
    }
}

impl AmplificationLimit {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration for a connection from this address, which a token may have validated
    /// already (RFC 9000 section 8.1).
    pub fn admit(
        &self,
        config: &ServerConfig,
        address: SocketAddr,
        validated: bool,
    ) -> (Arc<ServerConfig>, Arc<Peer>) {
        let peer = Arc::new(Peer::new(self.clone(), address));
        if validated {
            peer.handshake_done();
        }
        let mut config = config.clone();
        config.crypto = layer::server(config.crypto.clone(), Watch(peer.clone()));
        (Arc::new(config), peer)
    }

    /// The connection that sends a handshake's datagram.
    pub(super) fn sender_of(&self, datagram: &[u8]) -> Option<Arc<Peer>> {
        let source = long_headers(datagram).next()?.source.try_into().ok()?;
        self.known().peer(&source)
    }

    /// A datagram was received.
    pub(super) fn received(&self, from: SocketAddr, datagram: &[u8], now: Instant) {
        let id = destination(datagram);
        let mut known = self.known();
        known.addresses.age(now);
        known.unclaimed.age(now);
        let Some(peer) = id.and_then(|id| known.peer(&id)) else {
            let short = id.filter(|_| long_version(datagram).is_none());
            let waiting = known.stranger(from, short, datagram.len() as u64);
            drop(known);
            return waiting.into_iter().for_each(Waker::wake);
        };
        drop(known);
        if peer.received(from, datagram.len() as u64) {
            return;
        }
        // A Handshake packet with a connection ID that the server told to this address alone:
        // whoever sent it has read the server's Initial there (RFC 9000 section 8.1). noq checks
        // the packet itself before it sends more.
        let is_proof = long_headers(datagram).any(|header| {
            header.kind == LongType::Handshake && peer.can_prove(header.destination, from)
        });
        if is_proof {
            peer.validated(from);
        } else {
            self.count(from, datagram.len() as u64);
        }
    }

    /// Counts what came from an address for nobody yet.
    pub(super) fn count(&self, from: SocketAddr, bytes: u64) {
        let waiting = self.known().stranger(from, None, bytes);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Wakes who waits to send to this address.
    pub(super) fn wake(&self, address: SocketAddr) {
        let waiting = self.known().addresses.get(&address).map(Unvalidated::wakers);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// A connection uses this connection ID from now on. What came with it before.
    pub(super) fn enter(&self, id: Cid, peer: &Arc<Peer>) -> Vec<(SocketAddr, u64)> {
        let mut known = self.known();
        known.peers.insert(id, Arc::downgrade(peer));
        let claimed = known.unclaimed.remove(&id).unwrap_or_default();
        for (from, bytes) in &claimed {
            if let Some(unvalidated) = known.addresses.get(from) {
                unvalidated.received = unvalidated.received.saturating_sub(*bytes);
            }
        }
        claimed
    }

    /// A connection has these connection IDs no more.
    pub(super) fn forget(&self, ids: &[Cid], peer: &Peer) {
        let mut known = self.known();
        for id in ids {
            if known.peers.get(id).is_some_and(|of| std::ptr::eq(of.as_ptr(), peer)) {
                known.peers.remove(id);
            }
        }
    }

    /// True if a datagram of no connection, or of a handshake, may be sent now; it then counts as
    /// sent. Whoever is refused is woken when more was received from there.
    pub(super) fn permit(&self, to: SocketAddr, datagram: &[u8], waker: &Waker) -> bool {
        let mut known = self.known();
        // Nobody sends to an address that nothing came from.
        let Some(unvalidated) = known.addresses.get(&to) else { return false };
        let left = (FACTOR * unvalidated.received).saturating_sub(unvalidated.sent);
        if datagram.len() as u64 <= left {
            unvalidated.sent += datagram.len() as u64;
            return true;
        }
        if !unvalidated.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            unvalidated.waiting.push(waker.clone());
        }
        false
    }

    /// A datagram that was permitted was not sent after all.
    pub(super) fn take_back(&self, to: SocketAddr, datagram: &[u8]) {
        if let Some(unvalidated) = self.known().addresses.get(&to) {
            unvalidated.sent = unvalidated.sent.saturating_sub(datagram.len() as u64);
        }
    }
}

impl Known {
    fn peer(&self, id: &Cid) -> Option<Arc<Peer>> {
        self.peers.get(id)?.upgrade()
    }

    /// Counts what is of no connection. `id` is a connection ID that may become a connection's.
    /// Gives those who are to be woken once nobody holds the lock: a waker may do anything, and
    /// what it wakes sends at once.
    #[must_use]
    fn stranger(&mut self, from: SocketAddr, id: Option<Cid>, bytes: u64) -> Vec<Waker> {
        let unvalidated = self.addresses.get_or_insert(from, Unvalidated::default);
        unvalidated.received += bytes;
        let waiting = unvalidated.wakers();
        let Some(id) = id else { return waiting };
        let claims = self.unclaimed.get_or_insert(id, Vec::new);
        if let Some((_, all)) = claims.iter_mut().find(|(address, _)| *address == from) {
            *all += bytes;
        } else if claims.len() < MOST_CLAIMS {
            claims.push((from, bytes));
        }
        waiting
    }
}

impl Unvalidated {
    fn wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.waiting)
    }
}

/// The connection ID to which a datagram goes, if it can be the server's.
fn destination(datagram: &[u8]) -> Option<Cid> {
    match long_version(datagram) {
        None => datagram.get(1..)?.first_chunk::<CID_BYTES>().copied(),
        Some(_) => long_headers(datagram).next()?.destination.try_into().ok(),
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
