//! Admission of connections and handshakes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Limits;
use super::network::{Network, share_of};

/// Connections of one address, however many places there are.
const MOST_PER_ADDRESS: usize = 512;

/// Counts the connections and the handshakes of a server.
#[derive(Debug)]
pub(super) struct Admission {
    quic: Places,
    tcp: Places,
    unvalidated: usize,
    handshakes: AtomicUsize,
}

/// Decision on a client's first packet.
#[derive(Debug)]
pub(super) enum AdmissionDecision {
    /// A connection, counted until the slot is dropped.
    Accept(Slot, Option<HandshakeSlot>),
    /// A Retry, which costs the server no memory.
    Retry,
    /// CONNECTION_REFUSED.
    Refuse,
}

/// The transport of a connection. Each has places of its own, so that neither keeps the other out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Quic,
    Tcp,
}

/// The place of a connection.
#[derive(Debug)]
pub(super) struct Slot {
    admission: Arc<Admission>,
    transport: Transport,
    from: Network,
}

/// The place of a handshake with a client whose address is not validated.
#[derive(Debug)]
pub(super) struct HandshakeSlot(Arc<Admission>);

impl Admission {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let places = |most| {
            let per_address = limits.per_address.unwrap_or(share_of(most).min(MOST_PER_ADDRESS));
            Places { most, per_address, taken: Mutex::default() }
        };
        let quic = places(limits.connections);
        Arc::new(Self {
            // Anybody can begin these in the name of an address, which keeps half of its places.
            unvalidated: limits.unvalidated_handshakes.min(quic.per_address / 2),
            quic,
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
        let handshake = (!validated).then(|| HandshakeSlot(self.clone()));
        match self.slot(Transport::Quic, from) {
            Some(slot) => AdmissionDecision::Accept(slot, handshake),
            None => AdmissionDecision::Refuse,
        }
    }

    /// A connection over TCP, whose handshake has validated the address; `None` if it has no place.
    pub(super) fn admit_tcp(self: &Arc<Self>, from: IpAddr) -> Option<Slot> {
        self.slot(Transport::Tcp, from)
    }

    fn slot(self: &Arc<Self>, transport: Transport, from: IpAddr) -> Option<Slot> {
        let from = Network::of(from);
        let taken = self.places(transport).take(from);
        taken.then(|| Slot { admission: self.clone(), transport, from })
    }

    fn places(&self, transport: Transport) -> &Places {
        match transport {
            Transport::Quic => &self.quic,
            Transport::Tcp => &self.tcp,
        }
    }
}

/// The places of one transport.
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

/// Counts one more, if there may be one more.
fn take(count: &AtomicUsize, most: usize) -> bool {
    let more = |now: usize| (now < most).then_some(now + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.admission.places(self.transport).give_back(self.from);
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
        assert!(matches!(&first, AdmissionDecision::Accept(_, Some(_))));
        let AdmissionDecision::Accept(_slot, handshake) = admission.decide(ADDRESS, false) else {
            panic!()
        };
        assert!(matches!(admission.decide(ADDRESS, false), AdmissionDecision::Retry));
        let third = admission.decide(ADDRESS, true);
        assert!(matches!(&third, AdmissionDecision::Accept(_, None)));
        assert!(matches!(admission.decide(ADDRESS, true), AdmissionDecision::Refuse));
        drop(handshake);
        assert!(
            matches!(admission.decide(ADDRESS, false), AdmissionDecision::Refuse),
            "it is full"
        );
        drop(third);
        assert!(
            matches!(admission.decide(ADDRESS, false), AdmissionDecision::Accept(_, Some(_))),
            "and has room again"
        );
        drop(first);
        assert!(matches!(admission.decide(ADDRESS, true), AdmissionDecision::Accept(_, None)));
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
            AdmissionDecision::Accept(slot, _) => Some(slot),
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
    fn a_48_has_the_places_of_two_addresses() {
        let limits = Limits { connections: 100, per_address: Some(3), ..Limits::default() };
        let admission = Admission::new(&limits);
        let take = |text: &str| match admission.decide(text.parse().expect("an address"), true) {
            AdmissionDecision::Accept(slot, _) => Some(slot),
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
                AdmissionDecision::Accept(slot, _) => Some(slot),
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
        while let AdmissionDecision::Accept(slot, handshake) = admission.decide(ADDRESS, false) {
            begun.push((slot, handshake));
        }
        assert_eq!(begun.len(), 5);
        let validated = |_| match admission.decide(ADDRESS, true) {
            AdmissionDecision::Accept(slot, _) => Some(slot),
            _ => None,
        };
        let own: Vec<_> = (0..10).map_while(validated).collect();
        assert_eq!(own.len(), 5);
    }
}
