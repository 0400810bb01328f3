//! Admission of connections and handshakes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Limits;
use super::network::{Network, share_of};

/// Connections of one address, however many places there are.
const MOST_PER_ADDRESS: usize = 512;
/// Connections that are kept beyond twice the places: a client that has one place may close its
/// connection and come back a few times before noq has forgotten it.
const RETURNS: usize = 16;

/// Counts the connections and the handshakes of a server.
#[derive(Debug)]
pub(super) struct Admission {
    quic: Places,
    tcp: Places,
    /// Those of QUIC that noq keeps, the closed ones as well. It keeps one for three times the PTO
    /// (RFC 9000 section 10.2), of which the client's max_ack_delay is a part: 49 seconds.
    kept: Places,
    unvalidated: usize,
    handshakes: AtomicUsize,
}

/// Decision on a client's first packet.
#[derive(Debug)]
pub(super) enum AdmissionDecision {
    /// A connection, counted until the slot is dropped, and what noq keeps of it.
    Accept(Slot, Kept),
    /// A Retry, which costs the server no memory.
    Retry,
    /// CONNECTION_REFUSED.
    Refuse,
}

/// The kind of a place. Each transport has its own, so that neither keeps the other out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Quic,
    Tcp,
    Kept,
}

/// The place of a connection.
#[derive(Debug)]
pub(super) struct Slot {
    admission: Arc<Admission>,
    of: Kind,
    from: Network,
}

/// The place of a handshake with a client whose address is not validated.
#[derive(Debug)]
struct HandshakeSlot(Arc<Admission>);

/// The state that noq keeps of a connection, until it is gone.
#[derive(Debug)]
pub(super) struct Kept {
    _slot: Slot,
    /// Of a handshake that fails, the place is as long taken: else one after the other, in somebody
    /// else's name, would take all that its address may have.
    handshake: Mutex<Option<HandshakeSlot>>,
}

impl Kept {
    /// The client has shown that it receives at its address.
    pub(super) fn validated(&self) {
        drop(self.handshake.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Admission {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let places = |most| {
            let per_address = limits.per_address.unwrap_or(share_of(most).min(MOST_PER_ADDRESS));
            Places { most, per_address, taken: Mutex::default() }
        };
        let quic = places(limits.connections);
        let beside = |places: usize| places.saturating_mul(2).saturating_add(RETURNS);
        let kept = Places {
            most: beside(quic.most),
            per_address: beside(quic.per_address),
            taken: Mutex::default(),
        };
        Arc::new(Self {
            // Anybody can begin these in the name of an address, which keeps half of its places.
            unvalidated: limits.unvalidated_handshakes.min(quic.per_address / 2),
            quic,
            kept,
            tcp: places(limits.tcp_connections),
            handshakes: AtomicUsize::new(0),
        })
    }

    /// Connections over both transports, and handshakes with clients that are not validated.
    pub(super) fn now(&self) -> (usize, usize) {
        let connections = self.quic.taken().all + self.tcp.taken().all;
        (connections, self.handshakes.load(Ordering::Relaxed))
    }

    /// A connection over QUIC. `validated`: the client returned a token, so it receives at its
    /// address.
    pub(super) fn decide(self: &Arc<Self>, from: IpAddr, validated: bool) -> AdmissionDecision {
        if !validated && !take(&self.handshakes, self.unvalidated) {
            return AdmissionDecision::Retry;
        }
        let handshake = Mutex::new((!validated).then(|| HandshakeSlot(self.clone())));
        match (self.slot(Kind::Quic, from), self.slot(Kind::Kept, from)) {
            (Some(slot), Some(kept)) => {
                AdmissionDecision::Accept(slot, Kept { _slot: kept, handshake })
            }
            _ => AdmissionDecision::Refuse,
        }
    }

    /// A connection over TCP, whose handshake has validated the address; `None` if it has no place.
    pub(super) fn admit_tcp(self: &Arc<Self>, from: IpAddr) -> Option<Slot> {
        self.slot(Kind::Tcp, from)
    }

    fn slot(self: &Arc<Self>, of: Kind, from: IpAddr) -> Option<Slot> {
        let from = Network::of(from);
        let taken = self.places(of).take(from);
        taken.then(|| Slot { admission: self.clone(), of, from })
    }

    fn places(&self, of: Kind) -> &Places {
        match of {
            Kind::Quic => &self.quic,
            Kind::Tcp => &self.tcp,
            Kind::Kept => &self.kept,
        }
    }
}

/// Places of one kind.
#[derive(Debug)]
struct Places {
    most: usize,
    per_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<Network, usize>,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, from: Network) -> bool {
        let mut taken = self.taken();
        let has_room = |network: Network| {
            let own = taken.by.get(&network).copied().unwrap_or(0);
            own < network.most(self.per_address)
        };
        let free = taken.all < self.most && from.with_site().all(has_room);
        if free {
            taken.all += 1;
            for network in from.with_site() {
                *taken.by.entry(network).or_default() += 1;
            }
        }
        free
    }

    fn give_back(&self, from: Network) {
        let mut taken = self.taken();
        taken.all = taken.all.saturating_sub(1);
        for network in from.with_site() {
            match taken.by.get_mut(&network) {
                Some(own) if *own > 1 => *own -= 1,
                _ => drop(taken.by.remove(&network)),
            }
        }
    }
}

/// The places of a listener beside the server's own: one address has a quarter of them at most.
#[derive(Clone, Debug)]
pub struct ClientPlaces(Arc<Places>);

/// A client's place, until it is dropped.
#[derive(Debug)]
pub struct ClientPlace {
    places: Arc<Places>,
    from: Network,
}

impl ClientPlaces {
    /// So many in all.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Places { most, per_address: share_of(most), taken: Mutex::default() }))
    }

    /// A place for a client at this address, if there is one.
    pub fn take(&self, from: IpAddr) -> Option<ClientPlace> {
        let from = Network::of(from);
        self.0.take(from).then(|| ClientPlace { places: self.0.clone(), from })
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.places.give_back(self.from);
    }
}

/// Counts one more, if there may be one more.
fn take(count: &AtomicUsize, most: usize) -> bool {
    let more = |now: usize| (now < most).then_some(now + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.admission.places(self.of).give_back(self.from);
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// True if the connection has the place of a handshake.
    fn is_unvalidated(decision: &AdmissionDecision) -> bool {
        let AdmissionDecision::Accept(_, kept) = decision else { panic!("{decision:?}") };
        kept.handshake.lock().expect("no panic").is_some()
    }

    #[test]
    fn beyond_the_limits_there_is_first_a_retry_and_then_a_refusal() {
        let limits = Limits {
            connections: 3,
            per_address: Some(4),
            unvalidated_handshakes: 2,
            ..Limits::default()
        };
        let admission = Admission::new(&limits);
        let first = admission.decide(ADDRESS, false);
        assert!(is_unvalidated(&first));
        let AdmissionDecision::Accept(_slot, second) = admission.decide(ADDRESS, false) else {
            panic!()
        };
        assert!(matches!(admission.decide(ADDRESS, false), AdmissionDecision::Retry));
        let third = admission.decide(ADDRESS, true);
        assert!(!is_unvalidated(&third));
        assert!(matches!(admission.decide(ADDRESS, true), AdmissionDecision::Refuse));
        second.validated();
        assert!(
            matches!(admission.decide(ADDRESS, false), AdmissionDecision::Refuse),
            "it is full"
        );
        drop(third);
        assert!(is_unvalidated(&admission.decide(ADDRESS, false)), "and has room again");
        drop(first);
        assert!(!is_unvalidated(&admission.decide(ADDRESS, true)));
    }

    /// Connections that a client opens and closes one after the other, and noq keeps.
    fn left(admission: &Arc<Admission>, validated: bool) -> Vec<Kept> {
        let mut all = Vec::new();
        while let AdmissionDecision::Accept(_closed, kept) = admission.decide(ADDRESS, validated) {
            all.push(kept);
        }
        all
    }

    #[test]
    fn closed_connections_that_are_kept_are_bounded() {
        let limits = Limits { connections: 40, per_address: Some(4), ..Limits::default() };
        let admission = Admission::new(&limits);
        let mut kept = left(&admission, true);
        assert_eq!(kept.len(), 2 * 4 + RETURNS);
        assert_eq!(admission.now(), (0, 0), "none is open");
        assert!(matches!(admission.decide(ADDRESS, true), AdmissionDecision::Refuse));
        let other = admission.decide("192.0.2.1".parse().expect("an address"), true);
        assert!(!is_unvalidated(&other), "a place of another's");
        kept.pop();
        assert!(!is_unvalidated(&admission.decide(ADDRESS, true)), "one is gone");
        drop((kept, other));
        assert!(admission.kept.taken().by.is_empty(), "nothing is kept of who is gone");
    }

    #[test]
    fn handshakes_that_fail_in_somebodys_name_leave_it_its_places() {
        let limits = Limits { connections: 40, ..Limits::default() };
        let admission = Admission::new(&limits);
        let kept = left(&admission, false);
        assert_eq!(kept.len(), 5, "and then there is a Retry");
        assert_eq!(left(&admission, true).len(), 2 * 10 + RETURNS - 5);
        drop(kept);
        assert_eq!(admission.now(), (0, 0));
    }

    #[test]
    fn neither_a_transport_nor_an_address_takes_the_places_of_others() {
        let limits = Limits {
            connections: 4,
            tcp_connections: 3,
            per_address: Some(2),
            ..Limits::default()
        };
        let admission = Admission::new(&limits);
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let tcp = |text| admission.admit_tcp(address(text));
        let quic = |text| match admission.decide(address(text), true) {
            AdmissionDecision::Accept(slot, kept) => Some((slot, kept)),
            _ => None,
        };
        // An IPv4 address by either of its names, and a /64.
        let first = tcp("192.0.2.1");
        let _second = tcp("::ffff:192.0.2.1").expect("a place");
        assert!(tcp("192.0.2.1").is_none());
        let _third = tcp("2001:db8::1").expect("a place of another's");
        assert!(tcp("2001:db8:0:1::1").is_none(), "TCP is full");
        assert_eq!(admission.now().0, 3);
        drop(first);
        let fourth = tcp("2001:db8::2:0:0:1").expect("of the same network");
        assert_eq!(admission.tcp.taken().by.len(), 3, "an address, a /64 and its /48");
        drop(fourth);
        // QUIC has all of its own.
        let _own = ["192.0.2.1", "192.0.2.1"].map(|one| quic(one).expect("a place"));
        assert!(quic("192.0.2.1").is_none());
        let others = ["2001:db8::1", "2001:db8::2"].map(|one| quic(one).expect("a place"));
        assert!(quic("2001:db8:1::1").is_none(), "QUIC is full");
        drop(others);
        assert_eq!(admission.quic.taken().by.len(), 1, "nothing is kept of who is gone");
    }

    #[test]
    fn an_address_has_a_quarter_of_the_places_of_another_listener() {
        let places = ClientPlaces::new(8);
        let own: Vec<_> = (0..8).map_while(|_| places.take(ADDRESS)).collect();
        assert_eq!(own.len(), 2);
        let other = places.take("192.0.2.1".parse().expect("an address"));
        assert!(other.is_some());
        drop((own, other));
        assert!(places.0.taken().by.is_empty(), "nothing is kept of who is gone");
    }

    #[test]
    fn a_48_has_the_places_of_two_addresses() {
        let limits = Limits { connections: 100, per_address: Some(3), ..Limits::default() };
        let admission = Admission::new(&limits);
        let take = |text: &str| match admission.decide(text.parse().expect("an address"), true) {
            AdmissionDecision::Accept(slot, kept) => Some((slot, kept)),
            _ => None,
        };
        let mut site: Vec<_> =
            (0..10).filter_map(|i| take(&format!("2001:db8:1:{i}::1"))).collect();
        assert_eq!(site.len(), 6);
        let _other = take("2001:db8:2::1").expect("a place of another's");
        site.pop();
        assert!(take("2001:db8:1:ffff::1").is_some());
        drop(site);
        assert_eq!(admission.quic.taken().by.len(), 2, "nothing is kept of who is gone");
    }

    #[test]
    fn an_address_has_a_quarter_of_the_places_however_few_there_are() {
        for (connections, address, site) in
            [(1, 1, 1), (3, 1, 2), (100, 25, 50), (512, 128, 256), (10_000, 512, 1024)]
        {
            let limits = Limits { connections, tcp_connections: connections, ..Limits::default() };
            let admission = Admission::new(&limits);
            let quic = |from: IpAddr| match admission.decide(from, true) {
                AdmissionDecision::Accept(slot, kept) => Some((slot, kept)),
                _ => None,
            };
            let own: Vec<_> = (0..connections).map_while(|_| quic(ADDRESS)).collect();
            assert_eq!(own.len(), address, "of {connections} over QUIC");
            let own: Vec<_> =
                (0..connections).map_while(|_| admission.admit_tcp(ADDRESS)).collect();
            assert_eq!(own.len(), address, "of {connections} over TCP");
            let admission = Admission::new(&limits);
            let in_site = |number: usize| {
                let from = format!("2001:db8:1:{number:x}::1").parse().expect("an address");
                admission.admit_tcp(from)
            };
            let own: Vec<_> = (0..connections).map_while(in_site).collect();
            assert_eq!(own.len(), site, "of {connections} in a /48");
        }
    }

    #[test]
    fn handshakes_in_somebodys_name_leave_half_of_its_places() {
        let limits = Limits { connections: 40, ..Limits::default() };
        let admission = Admission::new(&limits);
        let mut begun = Vec::new();
        while let AdmissionDecision::Accept(slot, kept) = admission.decide(ADDRESS, false) {
            begun.push((slot, kept));
        }
        assert_eq!(begun.len(), 5);
        let validated = |_| match admission.decide(ADDRESS, true) {
            AdmissionDecision::Accept(slot, kept) => Some((slot, kept)),
            _ => None,
        };
        let own: Vec<_> = (0..10).map_while(validated).collect();
        assert_eq!(own.len(), 5);
    }
}
