//! A client that appears to the server with another port or address from some times on, as behind a
//! router that forgot it, or after a move to another network. The client itself keeps what it has.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fullpipe_cc::Instant;

use super::ip::{self, AddressField};
use crate::{Rebinding, Rebound};

/// Addresses that a client has in turn. The smallest block has room for so many.
const ADDRESSES: u8 = 5;

/// The translation at the server's end of a link.
#[derive(Debug, Default)]
pub(super) struct Nat {
    waiting: VecDeque<(Instant, Rebound)>,
    /// True if there was a change: before it nothing is looked at.
    has_changed: bool,
    /// Number of changes so far, of ports and of addresses.
    ports: u16,
    addresses: u8,
    /// Clients that the server has heard of since the last change.
    known: HashSet<(IpAddr, u16)>,
}

impl Nat {
    pub(super) fn new(rebind: &[Rebinding]) -> Self {
        let zero = Instant::default();
        let mut waiting: Vec<_> = rebind.iter().map(|r| (zero + r.at, r.what)).collect();
        waiting.sort_by_key(|(at, _)| *at);
        Self { waiting: waiting.into(), ..Self::default() }
    }

    /// The time of the next change.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// Makes the changes until `now`.
    pub(super) fn change_until(&mut self, now: Instant) {
        while let Some(&(at, what)) = self.waiting.front()
            && at <= now
        {
            self.waiting.pop_front();
            match what {
                Rebound::Port => self.ports = self.ports.wrapping_add(1),
                Rebound::Address => self.addresses = (self.addresses + 1) % ADDRESSES,
            }
            self.known.clear();
            self.has_changed = true;
        }
    }

    /// A packet of the client reaches the server.
    pub(super) fn outward(&mut self, packet: &mut [u8]) {
        if !self.has_changed {
            return;
        }
        let Some((address, port)) = ip::endpoint(packet, AddressField::Source) else { return };
        let seen = (moved(address, self.addresses, true), self.port(port));
        ip::set_endpoint(packet, AddressField::Source, seen.0, seen.1);
        self.known.insert(seen);
    }

    /// A packet of the server is for the client: false if it is for who the client was before.
    pub(super) fn inward(&self, packet: &mut [u8]) -> bool {
        if !self.has_changed {
            return true;
        }
        // What has no ports, like an error of ICMP, goes on as it is.
        let Some(seen) = ip::endpoint(packet, AddressField::Destination) else { return true };
        if !self.known.contains(&seen) {
            return false;
        }
        let own = moved(seen.0, self.addresses, false);
        ip::set_endpoint(packet, AddressField::Destination, own, self.port(seen.1));
        true
    }

    /// The port in place of one, and the other way round.
    fn port(&self, port: u16) -> u16 {
        match port ^ self.ports {
            0 => port,
            other => other,
        }
    }
}

/// An address so many further, or back.
fn moved(address: IpAddr, by: u8, forth: bool) -> IpAddr {
    match address {
        IpAddr::V4(v4) if forth => Ipv4Addr::from_bits(v4.to_bits().wrapping_add(by.into())).into(),
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits().wrapping_sub(by.into())).into(),
        IpAddr::V6(v6) if forth => Ipv6Addr::from_bits(v6.to_bits().wrapping_add(by.into())).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits().wrapping_sub(by.into())).into(),
    }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Duration;

    use super::*;

    /// A UDP datagram without a checksum between two ports of the link.
    fn packet(from: [u8; 4], from_port: u16, to: [u8; 4], to_port: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0];
        packet.extend(from);
        packet.extend(to);
        packet.extend(from_port.to_be_bytes());
        packet.extend(to_port.to_be_bytes());
        packet.extend([0, 8, 0, 0]);
        packet
    }

    #[test]
    fn the_server_sees_somebody_else_and_whom_it_saw_before_is_gone() {
        let (client, server) = ([198, 18, 0, 2], [198, 18, 0, 1]);
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        let rebinding = |seconds, what| Rebinding { at: Duration::from_secs(seconds), what };
        let mut nat = Nat::new(&[rebinding(2, Rebound::Address), rebinding(1, Rebound::Port)]);
        let mut before = (client.into(), 4000);
        for (now, is_moved) in [(0, false), (1, false), (2, true)] {
            nat.change_until(at(now));
            let mut out = packet(client, 4000, server, 443);
            nat.outward(&mut out);
            let seen = ip::endpoint(&out, AddressField::Source).expect("it has ports");
            assert_eq!(seen.0 != IpAddr::from(client), is_moved, "{now}");
            let IpAddr::V4(ip) = seen.0 else { panic!("of IPv4") };
            let mut back = packet(server, 443, ip.octets(), seen.1);
            assert!(nat.inward(&mut back));
            let own = ip::endpoint(&back, AddressField::Destination);
            assert_eq!(own, Some((client.into(), 4000)));
            if now > 0 {
                assert_ne!(seen, before);
                let IpAddr::V4(ip) = before.0 else { panic!("of IPv4") };
                assert!(!nat.inward(&mut packet(server, 443, ip.octets(), before.1)), "{now}");
            }
            before = seen;
        }
        assert_eq!(nat.next_due(), None);
    }
}
