//! Addresses of a link between this namespace and one inside it.
//!
//! Each link has a block of its own out of 198.18.0.0/15, which is for benchmarks (RFC 2544) and
//! routed by nobody. A link that is made inside another one's namespace takes a block inside that
//! one's, so that the route to the outer block leads to the inner one too.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use nix::ifaddrs::getifaddrs;

use crate::EmuError;
use crate::namespace::DEVICE;

/// Prefix lengths: of all blocks, and of those of links inside each other.
const LEVELS: [u8; 4] = [15, 21, 25, 29];

const ALL: Network = Network { base: u32::from_be_bytes([198, 18, 0, 0]), bits: LEVELS[0] };

/// All blocks of IPv6: 2001:2::/48 is for benchmarks too (RFC 5180).
pub(super) const ALL6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0);
const BITS6: u8 = 48;

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Network {
    base: u32,
    bits: u8,
}

/// A link's addresses. Nobody else in this namespace gets them until this is dropped.
#[derive(Debug)]
pub(super) struct Block {
    network: Network,
    /// Its number among those of its level.
    pub(super) number: u32,
    /// Abstract names of sockets belong to a network namespace, and end with their process.
    _claim: UnixListener,
}

impl Block {
    /// The first free one, by this namespace's devices and by the claims of other links.
    pub(super) fn claim() -> Result<Self, EmuError> {
        let taken = own_networks().map_err(EmuError::io("look at this host's addresses"))?;
        let outer = taken.iter().find(|(name, network)| name == DEVICE && ALL.covers(*network));
        let outer = outer.map_or(ALL, |(_, network)| *network);
        let level = LEVELS.iter().find(|bits| **bits > outer.bits);
        let Some(&bits) = level.filter(|_| LEVELS.contains(&outer.bits)) else {
            return Err(EmuError::NestedTooDeep(LEVELS.len() - 1));
        };
        // The first block inside another one has that one's own addresses.
        let own = u32::from(outer != ALL);
        let count = (1_u32 << (bits - outer.bits)) - own;
        // A host remembers of an address what TCP measured on the way there: another run gets
        // another.
        let first = std::process::id() % count;
        for i in 0..count {
            let number = own + (first + i) % count;
            let network = Network { base: outer.base + (number << (32 - bits)), bits };
            let overlaps = |other: Network| network.covers(other) || other.covers(network);
            if taken.iter().any(|(_, other)| *other != outer && overlaps(*other)) {
                continue;
            }
            let name = format!("fullpipe-link-{}", Ipv4Addr::from(network.base));
            let address = SocketAddr::from_abstract_name(name);
            match address.and_then(|address| UnixListener::bind_addr(&address)) {
                Ok(claim) => return Ok(Self { network, number, _claim: claim }),
                Err(e) if e.kind() == ErrorKind::AddrInUse => {}
                Err(e) => return Err(EmuError::io("claim its addresses")(e)),
            }
        }
        Err(EmuError::NoAddresses)
    }

    /// Address of the end in this namespace.
    pub(super) fn here(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.network.base + 1)
    }

    /// Address of the end in the other namespace.
    pub(super) fn there(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.network.base + 2)
    }

    /// Length of its prefix, in bits.
    pub(super) fn bits(&self) -> u8 {
        self.network.bits
    }

    /// The same of IPv6.
    pub(super) fn here6(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.network.base6() + 1)
    }

    /// The same of IPv6.
    pub(super) fn there6(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.network.base6() + 2)
    }

    /// The same of IPv6.
    pub(super) fn bits6(&self) -> u8 {
        BITS6 + self.network.bits - ALL.bits
    }

    /// True if this namespace is another link's.
    pub(super) fn is_nested(&self) -> bool {
        self.network.bits > LEVELS[1]
    }
}

impl Network {
    /// The base of the block of IPv6 that belongs to it: what follows the prefix of all is the
    /// same.
    fn base6(self) -> u128 {
        let own = u128::from(self.base - ALL.base)
            << (128 - u32::from(BITS6) - (32 - u32::from(ALL.bits)));
        ALL6.to_bits() + own
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0)
    }

    fn covers(self, other: Self) -> bool {
        other.bits >= self.bits && other.base & self.mask() == self.base
    }
}

/// The IPv4 networks of the calling thread's devices, by the devices' names.
fn own_networks() -> io::Result<Vec<(String, Network)>> {
    let network = |address: nix::ifaddrs::InterfaceAddress| {
        let ip = address.address?.as_sockaddr_in()?.ip();
        let mask = address.netmask?.as_sockaddr_in()?.ip();
        let bits = u32::from(mask).leading_ones() as u8;
        Some((address.interface_name, Network { base: u32::from(ip) & u32::from(mask), bits }))
    };
    Ok(getifaddrs()?.filter_map(network).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_links_at_once_get_two_blocks() {
        let (a, b) = (Block::claim().expect("a block"), Block::claim().expect("another"));
        assert!(!a.network.covers(b.network) && !b.network.covers(a.network), "{a:?} {b:?}");
        for block in [&a, &b] {
            assert!(ALL.covers(block.network) && block.bits() == 21, "{block:?}");
            assert_eq!(u32::from(block.there()), u32::from(block.here()) + 1);
            assert!(!block.is_nested(), "{block:?}");
        }
    }

    #[test]
    fn a_block_of_ipv6_is_inside_another_where_that_of_ipv4_is() {
        let network = |base: [u8; 4], bits| Network { base: u32::from_be_bytes(base), bits };
        let all = [
            (network([198, 18, 0, 0], 15), "2001:2::"),
            (network([198, 18, 8, 0], 21), "2001:2:0:400::"),
            (network([198, 18, 8, 128], 25), "2001:2:0:440::"),
            (network([198, 19, 248, 0], 21), "2001:2:0:fc00::"),
        ];
        for (network, base) in all {
            assert_eq!(Ipv6Addr::from_bits(network.base6()).to_string(), base, "{network:?}");
        }
    }

    #[test]
    fn a_network_covers_what_begins_as_it_does() {
        let network = |a, b, c, d, bits| Network { base: u32::from_be_bytes([a, b, c, d]), bits };
        assert!(ALL.covers(network(198, 19, 255, 248, 29)));
        assert!(!ALL.covers(network(198, 20, 0, 0, 16)));
        assert!(network(0, 0, 0, 0, 0).covers(ALL));
        assert!(!network(198, 18, 0, 0, 21).covers(ALL));
    }
}
