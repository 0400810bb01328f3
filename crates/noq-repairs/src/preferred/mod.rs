//! The server's preferred address (RFC 9000 section 9.6): another address of the server, to which
//! clients move once the handshake is done.
//!
//! noq sends the transport parameter, but takes no packet on another local address than that of the
//! handshake, and as a client reads the parameter and stays. So both ends have a socket below noq:
//!
//! - [`server`]: what arrives at the preferred address comes from an address of its own for noq. A
//!   client that moves to the preferred address is then one that moved itself, and noq does all
//!   that such a move asks for.
//! - [`client`]: what goes to the preferred address and comes from there has the address of the
//!   handshake for noq. The layer at its packet protection probes the new path and changes the
//!   connection ID.

pub(crate) mod client;
mod scope;
pub(crate) mod server;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::str::FromStr;

use noq::ConnectionId;

use crate::wire::Reader;

/// The transport parameter (RFC 9000 section 18.2).
const PREFERRED_ADDRESS: u64 = 0x0d;

/// The preferred addresses of a server: one of IPv4, one of IPv6, or both.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PreferredAddress {
    /// For clients that reached the server over IPv4.
    pub v4: Option<SocketAddrV4>,
    /// For clients that reached it over IPv6.
    pub v6: Option<SocketAddrV6>,
}

impl PreferredAddress {
    /// Those that there are, that of IPv4 first.
    pub fn all(&self) -> impl Iterator<Item = SocketAddr> {
        let v4 = self.v4.map(SocketAddr::V4);
        v4.into_iter().chain(self.v6.map(SocketAddr::V6))
    }
}

impl fmt::Display for PreferredAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, address) in self.all().enumerate() {
            write!(f, "{}{address}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// The text names no preferred address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is no preferred address; it needs an IPv4 address, an IPv6 address or one of each, with ports, as 192.0.2.1:4433,[2001:db8::1]:4433"
)]
pub struct NoPreferredAddress(pub String);

impl FromStr for PreferredAddress {
    type Err = NoPreferredAddress;

    fn from_str(text: &str) -> Result<Self, NoPreferredAddress> {
        let mut all = Self::default();
        for part in text.split(',') {
            let doubled = match part.parse() {
                // Clients are told the address, so it has to be one.
                Ok(SocketAddr::V4(v4)) if !v4.ip().is_unspecified() => all.v4.replace(v4).is_some(),
                Ok(SocketAddr::V6(v6)) if !v6.ip().is_unspecified() => all.v6.replace(v6).is_some(),
                _ => true,
            };
            if doubled {
                return Err(NoPreferredAddress(text.to_owned()));
            }
        }
        Ok(all)
    }
}

/// The part of the transport parameter that a client reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offer {
    address: PreferredAddress,
    /// The connection ID with the sequence number 1.
    id: ConnectionId,
}

/// The offer among these transport parameters, which noq has checked.
fn offer(parameters: &[u8]) -> Option<Offer> {
    let mut rest = Reader(parameters);
    while !rest.0.is_empty() {
        let parameter = rest.parameter()?;
        if parameter.id != PREFERRED_ADDRESS {
            continue;
        }
        let mut value = Reader(parameter.value);
        let mut address = || {
            let v4 = Ipv4Addr::from(*value.take(4)?.first_chunk::<4>()?);
            let v4_port = u16::from_be_bytes(*value.take(2)?.first_chunk()?);
            let v6 = Ipv6Addr::from(*value.take(16)?.first_chunk::<16>()?);
            let v6_port = u16::from_be_bytes(*value.take(2)?.first_chunk()?);
            Some(PreferredAddress {
                v4: (!v4.is_unspecified()).then(|| SocketAddrV4::new(v4, v4_port)),
                v6: (!v6.is_unspecified()).then(|| SocketAddrV6::new(v6, v6_port, 0, 0)),
            })
        };
        let address = address()?;
        let length = value.byte()?;
        return Some(Offer { address, id: ConnectionId::new(value.take(length.into())?) });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_each_family_is_one() {
        for text in ["192.0.2.1:4433", "[2001:db8::1]:4433", "192.0.2.1:1,[2001:db8::1]:2"] {
            let parsed: PreferredAddress = text.parse().expect(text);
            assert_eq!(parsed.to_string(), text);
        }
        let turned: PreferredAddress = "[2001:db8::1]:2,192.0.2.1:1".parse().expect("both");
        assert_eq!(turned.to_string(), "192.0.2.1:1,[2001:db8::1]:2");
        for text in [
            "",
            "192.0.2.1",
            "192.0.2.1:1,192.0.2.2:1",
            "0.0.0.0:443",
            "[::]:443",
            "example.org:443",
            "192.0.2.1:1,",
        ] {
            let error = text.parse::<PreferredAddress>().expect_err(text).to_string();
            assert!(error.contains("192.0.2.1:4433,[2001:db8::1]:4433"), "{error}");
        }
    }

    #[test]
    fn an_offer_is_found_among_the_parameters() {
        let mut value = vec![192, 0, 2, 1, 0x11, 0x51];
        value.extend_from_slice(&[0; 18]);
        value.extend_from_slice(&[4, 9, 8, 7, 6]);
        value.extend_from_slice(&[3; 16]);
        let parameters = [&[0x0a, 1, 7, 0x0d, value.len() as u8][..], &value].concat();
        let address = "192.0.2.1:4433".parse().expect("an address");
        let expected = Offer { address, id: ConnectionId::new(&[9, 8, 7, 6]) };
        assert_eq!(offer(&parameters), Some(expected));
        assert_eq!(offer(&parameters[..3]), None);
        for end in 0..parameters.len() {
            let _any = offer(&parameters[..end]);
        }
    }
}
