//! The reach of an address. A server must not make its clients send to hosts that it cannot
//! reach itself (RFC 9000 section 21.5.3), so a preferred address has no narrower scope than the
//! one at which the client found the server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// From the narrowest to the widest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Scope {
    /// The host itself: loopback, and "this network" (RFC 6890), which some systems take for it.
    Host,
    Link,
    /// Private networks (RFC 1918), those of carriers (RFC 6598) and unique local addresses (RFC
    /// 4193).
    Site,
    Global,
}

/// The scope of a host's address; `None` for what is no host's.
fn scope(address: IpAddr) -> Option<Scope> {
    match address.to_canonical() {
        IpAddr::V4(v4) => of_v4(v4),
        IpAddr::V6(v6) => of_v6(v6),
    }
}

fn of_v4(address: Ipv4Addr) -> Option<Scope> {
    let [first, second, ..] = address.octets();
    let is_shared = first == 100 && second & 0xc0 == 64;
    if address.is_multicast() || address.is_broadcast() {
        return None;
    }
    Some(if address.is_loopback() || first == 0 {
        Scope::Host
    } else if address.is_link_local() {
        Scope::Link
    } else if address.is_private() || is_shared {
        Scope::Site
    } else {
        Scope::Global
    })
}

fn of_v6(address: Ipv6Addr) -> Option<Scope> {
    if address.is_multicast() {
        return None;
    }
    Some(if address.is_loopback() || address.is_unspecified() {
        Scope::Host
    } else if address.is_unicast_link_local() {
        Scope::Link
    } else if address.is_unique_local() {
        Scope::Site
    } else {
        Scope::Global
    })
}

/// True if the client of a server at one address may go to another one that the server names.
pub(super) fn may_lead(server: SocketAddr, preferred: SocketAddr) -> bool {
    let reaches = scope(server.ip()).is_some_and(|own| scope(preferred.ip()) >= Some(own));
    reaches && preferred.port() != 0
}
