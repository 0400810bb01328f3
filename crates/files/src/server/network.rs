//! The network that a client is in, and how much of a resource one network may have.

use std::net::{IpAddr, Ipv4Addr};

/// A /48 of IPv6 may have this many times as much as one address.
const ADDRESSES_OF_A_SITE: usize = 2;

/// The addresses that one client has to itself: an IPv4 address, or the /64 of an IPv6 one, within
/// which a host can have any address (RFC 7136, RFC 8981). A site has a /48 at most (RFC 6177),
/// which is 65,536 of these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Network {
    V4(Ipv4Addr),
    V6([u16; 4]),
    Site([u16; 3]),
}

impl Network {
    pub(crate) fn of(address: IpAddr) -> Self {
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

    /// Itself, and the site around it.
    pub(crate) fn with_site(self) -> impl Iterator<Item = Self> {
        let site = match self {
            Self::V6([a, b, c, _]) => Some(Self::Site([a, b, c])),
            Self::V4(_) | Self::Site(_) => None,
        };
        [Some(self), site].into_iter().flatten()
    }

    /// The most that it may have, if an address may have so much.
    pub(crate) fn most(self, per_address: usize) -> usize {
        match self {
            Self::V4(_) | Self::V6(_) => per_address,
            Self::Site(_) => per_address.saturating_mul(ADDRESSES_OF_A_SITE),
        }
    }
}

/// The part of a whole that one address may have: a quarter, and one in any case.
pub(crate) fn share_of(whole: usize) -> usize {
    (whole / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
