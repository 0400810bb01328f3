//! Admission of connections and handshakes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Limits;

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
        let places =
            |most| Places { most, per_address: limits.per_address, taken: Mutex::default() };
        Arc::new(Self {
            quic: places(limits.connections),
            tcp: places(limits.tcp_connections),
            unvalidated: limits.unvalidated_handshakes,
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

/// A /48 of IPv6 may have this many times the places of one address.
const ADDRESSES_OF_A_SITE: usize = 2;

/// The addresses that one client has to itself: an IPv4 address, or the /64 of an IPv6 one, within
/// which a host can have any address (RFC 7136, RFC 8981). A site has a /48 at most (RFC 6177),
/// which is 65,536 of these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Network {
    V4(Ipv4Addr),
    V6([u16; 4]),
    Site([u16; 3]),
}

impl Network {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::V4(v4),
            IpAddr::V6(v6) => match v6.segments() {
                // NAT64 with the well-known prefix (RFC 6052 section 2.1) and 6to4 (RFC 3056
                // section 2): behind each IPv4 address is somebody else.
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
                    Self::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
                }
                [a, b, c, d, ..] => Self::V6([a, b, c, d]),
            },
        }
    }

    /// The site around a network.
    fn site(self) -> Option<Self> {
        match self {
            Self::V6([a, b, c, _]) => Some(Self::Site([a, b, c])),
            Self::V4(_) | Self::Site(_) => None,
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
        let of = |network: &Network| taken.by.get(network).copied().unwrap_or(0);
        let per_site = self.per_address.saturating_mul(ADDRESSES_OF_A_SITE);
        let free = taken.all < self.most
            && of(&from) < self.per_address
            && from.site().is_none_or(|site| of(&site) < per_site);
        if free {
            taken.all += 1;
            for network in [Some(from), from.site()].into_iter().flatten() {
                *taken.by.entry(network).or_default() += 1;
            }
        }
        free
    }

    fn give_back(&self, from: Network) {
        let mut taken = self.taken();
        taken.all = taken.all.saturating_sub(1);
        for network in [Some(from), from.site()].into_iter().flatten() {
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

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn beyond_the_limits_there_is_first_a_retry_and_then_a_refusal() {
        let limits = Limits { connections: 3, unvalidated_handshakes: 2, ..Limits::default() };
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
        let limits =
            Limits { connections: 4, tcp_connections: 3, per_address: 2, ..Limits::default() };
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
        let limits = Limits { connections: 100, per_address: 3, ..Limits::default() };
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

    /// RFC 6052 section 2.4 and RFC 3056 section 2, with 192.0.2.33.
    #[test]
    fn an_address_of_ipv4_is_the_same_behind_nat64_and_6to4() {
        let of = |text: &str| Network::of(text.parse().expect("an address"));
        let v4 = of("192.0.2.33");
        for same in
            ["::ffff:192.0.2.33", "64:ff9b::192.0.2.33", "2002:c000:221::1", "2002:c000:221:7::9"]
        {
            assert_eq!(of(same), v4, "{same}");
        }
        assert_ne!(of("64:ff9b::192.0.2.34"), v4);
        assert_ne!(of("64:ff9b:1::192.0.2.33"), v4, "a prefix of some network's own");
    }
}
