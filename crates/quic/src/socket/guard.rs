//! The anti-amplification limit of RFC 9000 section 8, below noq: a server sends no more than three
//! times what it received to an address that has not shown that it receives. noq keeps that limit
//! too, but sends a whole datagram for the last byte of it, and challenges a new path with 1200
//! bytes whatever came from there.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::aging::Aging;
use super::header::{LongHeader, LongType, long_headers};
use super::paths::{Small, TAG_BYTES};

/// Anti-amplification factor: largest ratio of bytes sent to bytes received (RFC 9000 section 8.1).
const FACTOR: u64 = 3;
/// Addresses and connection IDs that are remembered. Of more than these the oldest are forgotten;
/// noq's own limit remains for them.
const MOST_ADDRESSES: usize = 65_536;
/// Packets with a PATH_CHALLENGE that wait to be sent, which each does at once.
const MOST_CHALLENGES: usize = 1024;
/// Time for which an address in a handshake is remembered after its last packet.
const KEEP_UNVALIDATED: Duration = Duration::from_secs(30);
/// Least time for which a validated address is remembered. The time must exceed the longest silence
/// of its connection.
const KEEP_VALIDATED_LEAST: Duration = Duration::from_secs(60);

/// Record of an endpoint's peers, kept by its socket.
#[derive(Clone, Debug)]
pub(crate) struct Guard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    addresses: Mutex<Addresses>,
    /// Changes when an address may no longer be validated.
    generation: AtomicU64,
    /// True if a connection may be moving to an address that is not validated.
    migrating: AtomicBool,
}

#[derive(Debug)]
struct Addresses {
    validated: Aging<SocketAddr, ()>,
    unvalidated: Aging<SocketAddr, Unvalidated>,
    /// Connection IDs that the server chose, and the address that it told them to alone.
    told: Aging<[u8; CID_BYTES], SocketAddr>,
    /// Packets with a PATH_CHALLENGE that noq has made, by their last bytes, until they are sent.
    challenges: Aging<[u8; TAG_BYTES], Small>,
    /// The address to which a PATH_CHALLENGE was sent, by its data.
    challenged: Aging<[u8; 8], SocketAddr>,
}

/// The length of noq's connection IDs.
const CID_BYTES: usize = 8;

#[derive(Debug, Default)]
struct Unvalidated {
    received: u64,
    sent: u64,
    /// Those who have something to send as soon as more was received.
    waiting: Vec<Waker>,
}

/// Permission to send a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Permit {
    /// Yes, and so may all others to this address in this generation.
    Validated(u64),
    /// Yes, this one.
    Counted,
    /// This one instead.
    Instead(Vec<u8>),
    /// Not before more was received from there.
    No,
}

impl Guard {
    /// `idle_timeout` is the longest silence of a connection.
    pub(crate) fn new(idle_timeout: Duration) -> Self {
        let now = Instant::now();
        let keep = (idle_timeout * 2).max(KEEP_VALIDATED_LEAST);
        let addresses = Addresses {
            // As many as there are connections; the bound is never reached before theirs.
            validated: Aging::new(keep, usize::MAX, now),
            unvalidated: Aging::new(KEEP_UNVALIDATED, MOST_ADDRESSES, now),
            told: Aging::new(KEEP_UNVALIDATED, MOST_ADDRESSES, now),
            challenges: Aging::new(KEEP_UNVALIDATED, MOST_CHALLENGES, now),
            challenged: Aging::new(KEEP_UNVALIDATED, MOST_ADDRESSES, now),
        };
        Self(Arc::new(Inner {
            addresses: Mutex::new(addresses),
            generation: AtomicU64::new(0),
            migrating: AtomicBool::new(false),
        }))
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.0.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Relaxed)
    }

    /// The peer has shown that it receives at this address.
    pub(crate) fn validated(&self, address: SocketAddr) {
        self.addresses().validate(address);
    }

    /// A datagram was received.
    pub(super) fn received(&self, from: SocketAddr, datagram: &[u8], now: Instant) {
        let mut addresses = self.addresses();
        if addresses.unvalidated.age(now) {
            self.0.migrating.store(false, Ordering::Relaxed);
        }
        if addresses.age(now) {
            self.0.generation.fetch_add(1, Ordering::Relaxed);
        }
        if addresses.received(from, datagram) {
            self.0.migrating.store(true, Ordering::Relaxed);
        }
    }

    /// True if something came lately from an address at which no handshake began. Until then nobody
    /// looks for challenges.
    pub(super) fn is_migrating(&self) -> bool {
        self.0.migrating.load(Ordering::Relaxed)
    }

    /// noq has made a packet with a PATH_CHALLENGE that ends with this tag.
    pub(super) fn challenge(&self, tag: [u8; TAG_BYTES], small: Small) {
        self.addresses().challenges.get_or_insert(tag, || small);
    }

    /// A peer has the data of a PATH_CHALLENGE: it receives where that was sent to.
    pub(super) fn answered(&self, data: [u8; 8]) {
        let mut addresses = self.addresses();
        if let Some(address) = addresses.challenged.remove(&data) {
            addresses.validate(address);
        }
    }

    /// True if this datagram may be sent now; it counts as sent if so. With a waker, whoever is
    /// refused is woken when more was received from there.
    pub(super) fn permit(&self, to: SocketAddr, datagram: &[u8], waker: Option<&Waker>) -> Permit {
        let generation = self.generation();
        let mut addresses = self.addresses();
        if addresses.validated.get(&to).is_some() {
            return Permit::Validated(generation);
        }
        let challenge = addresses.challenge_in(datagram, self.is_migrating());
        let permit = addresses.permit(to, datagram, challenge.as_ref(), waker);
        if let Some(challenge) = challenge
            && permit != Permit::No
        {
            challenge.sent(matches!(permit, Permit::Instead(_)));
            addresses.challenged.get_or_insert(challenge.data, || to);
        }
        permit
    }

    pub(super) fn is_validated(&self, address: SocketAddr) -> bool {
        self.addresses().validated.get(&address).is_some()
    }

    /// A datagram that was permitted was not sent after all.
    pub(super) fn take_back(&self, to: SocketAddr, datagram: &[u8]) {
        if let Some(unvalidated) = self.addresses().unvalidated.get(&to) {
            unvalidated.sent = unvalidated.sent.saturating_sub(datagram.len() as u64);
        }
    }
}

impl Addresses {
    fn age(&mut self, now: Instant) -> bool {
        self.told.age(now);
        self.challenges.age(now);
        self.challenged.age(now);
        self.validated.age(now)
    }

    fn validate(&mut self, address: SocketAddr) {
        self.validated.get_or_insert(address, || ());
        if let Some(unvalidated) = self.unvalidated.remove(&address) {
            unvalidated.waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Counts what came from an address that is not validated. Whether no handshake began there, so
    /// that a connection may be moving to it.
    fn received(&mut self, from: SocketAddr, datagram: &[u8]) -> bool {
        if self.validated.get(&from).is_some() {
            return false;
        }
        let mut is_handshake = false;
        for header in long_headers(datagram) {
            is_handshake = true;
            if self.is_proof(&header, from) {
                self.validate(from);
                return false;
            }
        }
        let unvalidated = self.unvalidated.get_or_insert(from, Unvalidated::default);
        unvalidated.received += datagram.len() as u64;
        unvalidated.waiting.drain(..).for_each(Waker::wake);
        !is_handshake
    }

    /// A Handshake packet with a connection ID that the server told to this address alone: whoever
    /// sent it has read the server's Initial there (RFC 9000 section 8.1). noq checks the packet
    /// itself before it sends more.
    fn is_proof(&mut self, header: &LongHeader<'_>, from: SocketAddr) -> bool {
        let Ok(id) = header.destination.try_into() else { return false };
        header.kind == LongType::Handshake
            && self.told.get(&id).is_some_and(|address| *address == from)
    }

    /// Takes out the challenge that this datagram carries.
    fn challenge_in(&mut self, datagram: &[u8], migrating: bool) -> Option<Small> {
        let tag = datagram.last_chunk()?;
        if migrating { self.challenges.remove(tag) } else { None }
    }

    fn permit(
        &mut self,
        to: SocketAddr,
        datagram: &[u8],
        challenge: Option<&Small>,
        waker: Option<&Waker>,
    ) -> Permit {
        // Nobody sends to an address that nothing came from.
        let Some(unvalidated) = self.unvalidated.get(&to) else { return Permit::No };
        let left = (FACTOR * unvalidated.received).saturating_sub(unvalidated.sent);
        let small = challenge.filter(|small| small.datagram.len() as u64 <= left);
        if datagram.len() as u64 <= left {
            unvalidated.sent += datagram.len() as u64;
        } else if let Some(small) = small {
            unvalidated.sent += small.datagram.len() as u64;
            return Permit::Instead(small.datagram.clone());
        } else {
            if let Some(waker) = waker
                && !unvalidated.waiting.iter().any(|waiting| waiting.will_wake(waker))
            {
                unvalidated.waiting.push(waker.clone());
            }
            return Permit::No;
        }
        for header in long_headers(datagram).filter(|header| header.kind != LongType::Retry) {
            if let Ok(id) = header.source.try_into() {
                self.told.get_or_insert(id, || to);
            }
        }
        Permit::Counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8, destination: &[u8], source: &[u8], bytes: usize) -> Vec<u8> {
        let mut packet = vec![0xc0 | kind << 4, 0, 0, 0, 1, destination.len() as u8];
        packet.extend_from_slice(destination);
        packet.push(source.len() as u8);
        packet.extend_from_slice(source);
        if kind == 0 {
            packet.push(0);
        }
        let rest = (bytes - packet.len() - 2) as u16;
        packet.extend_from_slice(&(0x4000 | rest).to_be_bytes());
        packet.resize(bytes, 0);
        packet
    }

    const CLIENT: [u8; 8] = [1; 8];
    const SERVER: [u8; 8] = [2; 8];

    fn address(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    fn permit(guard: &Guard, to: SocketAddr, datagram: &[u8]) -> Permit {
        guard.permit(to, datagram, None)
    }

    #[test]
    fn three_times_and_not_a_byte_more() {
        let guard = Guard::new(Duration::from_secs(30));
        let (now, peer) = (Instant::now(), address(1));
        guard.received(peer, &packet(0, &SERVER, &CLIENT, 1252), now);
        let answer = packet(0, &CLIENT, &SERVER, 1200);
        for _ in 0..3 {
            assert_eq!(permit(&guard, peer, &answer), Permit::Counted);
        }
        assert_eq!(permit(&guard, peer, &answer), Permit::No);
        assert_eq!(permit(&guard, peer, &packet(0, &CLIENT, &SERVER, 156)), Permit::Counted);
        assert_eq!(permit(&guard, peer, &packet(0, &CLIENT, &SERVER, 30)), Permit::No);
        // More from there gives more.
        guard.received(peer, &packet(0, &SERVER, &CLIENT, 1200), now);
        assert_eq!(permit(&guard, peer, &answer), Permit::Counted);
    }

    #[test]
    fn a_handshake_packet_with_the_servers_connection_id_validates_its_own_address_only() {
        let guard = Guard::new(Duration::from_secs(30));
        let (now, peer, other) = (Instant::now(), address(1), address(2));
        for from in [peer, other] {
            guard.received(from, &packet(0, &[7; 8], &CLIENT, 1200), now);
        }
        let big = packet(2, &CLIENT, &SERVER, 3000);
        assert_eq!(permit(&guard, peer, &big), Permit::Counted);
        // Guessed, or from elsewhere, or an Initial, which is not proof enough here.
        guard.received(peer, &packet(2, &[9; 8], &CLIENT, 50), now);
        guard.received(other, &packet(2, &SERVER, &CLIENT, 50), now);
        guard.received(peer, &packet(0, &SERVER, &CLIENT, 50), now);
        assert_eq!(permit(&guard, peer, &big), Permit::No);
        assert_eq!(permit(&guard, other, &packet(2, &CLIENT, &SERVER, 4000)), Permit::No);
        // Behind an Initial in the same datagram.
        let both = [packet(0, &SERVER, &CLIENT, 60), packet(2, &SERVER, &CLIENT, 60)].concat();
        guard.received(peer, &both, now);
        assert!(matches!(permit(&guard, peer, &big), Permit::Validated(_)));
    }

    #[test]
    fn who_is_silent_for_too_long_is_validated_no_more() {
        let guard = Guard::new(Duration::from_secs(30));
        let (now, peer) = (Instant::now(), address(1));
        guard.validated(peer);
        let Permit::Validated(generation) = permit(&guard, peer, &[0; 100]) else { panic!() };
        for minute in 1..4 {
            guard.received(address(2), &[0x40; 30], now + Duration::from_secs(60 * minute));
        }
        assert_ne!(guard.generation(), generation, "a sender asks again");
        guard.received(peer, &packet(0, &SERVER, &CLIENT, 1200), now + Duration::from_secs(200));
        assert_eq!(permit(&guard, peer, &[0; 4000]), Permit::No);
    }
}
