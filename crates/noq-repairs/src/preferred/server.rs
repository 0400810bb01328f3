//! A server's sockets: that of its own address, and those of its preferred ones.
//!
//! noq knows a path by the client's address. So a client that reaches a preferred address has
//! another address there for noq: its own, marked by a bit. The mark says that the answer leaves
//! from the preferred address of the family, and nothing is kept of any client: what a stranger
//! sends in somebody's name moves nobody's answers, as noq follows a client to a new address only
//! when the client's own packet comes from there.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

use crate::filter::keep;
use crate::wire::header::long_version;

/// Changes an address into its marked one, or back. The marked addresses are in blocks from which
/// nobody sends (4000::/3, 6000::/3 and a000::/3, without a unicast address in IANA's registry), or
/// of a link without what follows its prefix.
fn mark(ip: Ipv6Addr) -> Ipv6Addr {
    let mut octets = ip.octets();
    // noq keeps the interface of link-local addresses only.
    octets[if ip.is_unicast_link_local() { 2 } else { 0 }] ^= 0x40;
    octets.into()
}

fn is_marked(ip: Ipv6Addr) -> bool {
    let octets = ip.octets();
    if ip.is_unicast_link_local() {
        octets[2] & 0x40 != 0
    } else {
        matches!(octets[0] >> 5, 0b010 | 0b011 | 0b101)
    }
}

/// The client's address at a preferred address, for noq.
fn marked(client: SocketAddr) -> SocketAddr {
    let (ip, scope) = match client {
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
    };
    SocketAddrV6::new(mark(ip), client.port(), 0, scope).into()
}

/// The client's address that a marked one stands for; `None` for one without a mark.
fn unmarked(address: SocketAddr) -> Option<SocketAddr> {
    let SocketAddr::V6(v6) = address else { return None };
    if !is_marked(*v6.ip()) {
        return None;
    }
    let ip = mark(*v6.ip());
    Some(match IpAddr::from(ip).to_canonical() {
        IpAddr::V4(v4) => (v4, v6.port()).into(),
        IpAddr::V6(_) => SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into(),
    })
}

/// The address of a client, and whether it has moved to a preferred address of the server's, by the
/// address that noq knows it by.
pub fn client_address(known: SocketAddr) -> (SocketAddr, bool) {
    unmarked(known).map_or((known, false), |client| (client, true))
}

/// A server's own socket together with those of its preferred addresses.
pub(crate) fn all_in_one(
    own: Box<dyn AsyncUdpSocket>,
    preferred: Vec<(SocketAddr, Box<dyn AsyncUdpSocket>)>,
) -> Box<dyn AsyncUdpSocket> {
    if preferred.is_empty() {
        return own;
    }
    let of = |socket, kind| Bound { socket, kind };
    let preferred = preferred.into_iter().map(|(address, socket)| match address {
        SocketAddr::V4(_) => of(socket, Kind::PreferredV4),
        SocketAddr::V6(_) => of(socket, Kind::PreferredV6),
    });
    let all = std::iter::once(of(own, Kind::Own)).chain(preferred).collect();
    Box::new(Sockets { all, next: 0 })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Own,
    PreferredV4,
    PreferredV6,
}

#[derive(Debug)]
struct Bound {
    socket: Box<dyn AsyncUdpSocket>,
    kind: Kind,
}

impl Bound {
    /// Changes the addresses of a datagram, or of several, into those that noq gets to see.
    fn receive(&self, buf: &mut [u8], meta: &mut RecvMeta) {
        // Nobody has such an address; an answer would go elsewhere.
        if unmarked(meta.addr).is_some() {
            meta.len = 0;
        } else if self.kind != Kind::Own {
            meta.addr = marked(meta.addr);
            // noq drops what arrives at another address than the path has.
            meta.dst_ip = None;
            // The address is for connections that there are already (RFC 9000 section 9.6.2).
            meta.len = keep(&mut buf[..meta.len], meta.stride, |d| long_version(d).is_none());
        }
    }
}

#[derive(Debug)]
struct Sockets {
    /// The first is the server's own.
    all: Vec<Bound>,
    /// The one that is read first, so that each has its turn.
    next: usize,
}

impl AsyncUdpSocket for Sockets {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        let senders = self.all.iter().map(|bound| (bound.kind, bound.socket.create_sender()));
        Box::pin(SocketSenders(senders.collect()))
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let sockets = self.all.len();
        for number in (self.next..sockets).chain(0..self.next) {
            let bound = &mut self.all[number];
            let Poll::Ready(count) = bound.socket.poll_recv(cx, bufs, meta)? else { continue };
            for (buf, meta) in bufs.iter_mut().zip(meta.iter_mut()).take(count) {
                bound.receive(buf, meta);
            }
            self.next = (number + 1) % sockets;
            return Poll::Ready(Ok(count));
        }
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.all[0].socket.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        let most = self.all.iter().map(|bound| bound.socket.max_receive_segments()).max();
        most.unwrap_or(NonZeroUsize::MIN)
    }

    fn may_fragment(&self) -> bool {
        self.all.iter().any(|bound| bound.socket.may_fragment())
    }
}

/// A sender of each socket.
#[derive(Debug)]
struct SocketSenders(Vec<(Kind, Pin<Box<dyn UdpSender>>)>);

impl UdpSender for SocketSenders {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let (kind, destination, src_ip) = match unmarked(transmit.destination) {
            None => (Kind::Own, transmit.destination, transmit.src_ip),
            Some(v4 @ SocketAddr::V4(_)) => (Kind::PreferredV4, v4, None),
            Some(v6) => (Kind::PreferredV6, v6, None),
        };
        match self.0.iter_mut().find(|(own, _)| *own == kind) {
            Some((_, sender)) => {
                let transmit = Transmit { destination, src_ip, ..*transmit };
                sender.as_mut().poll_send(&transmit, cx)
            }
            // Only what arrived is answered.
            None => Poll::Ready(Err(io::ErrorKind::AddrNotAvailable.into())),
        }
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        let least = self.0.iter().map(|(_, sender)| sender.max_transmit_segments()).min();
        least.unwrap_or(NonZeroUsize::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leads_back_to_the_client() {
        for client in [
            "192.0.2.1:1",
            "127.0.0.1:1",
            "[::1]:2",
            "[2001:db8::1]:2",
            "[64:ff9b::1]:2",
            "[fd00::1]:3",
            "[fe80::1%3]:4",
        ] {
            let client: SocketAddr = client.parse().expect(client);
            assert_eq!(unmarked(client), None, "{client}");
            assert_eq!(unmarked(marked(client)), Some(client));
            assert_eq!(client_address(marked(client)), (client, true));
            assert_eq!(client_address(client), (client, false));
        }
        let mapped = "[::ffff:192.0.2.1]:1".parse().expect("an address");
        assert_eq!(unmarked(marked(mapped)), Some("192.0.2.1:1".parse().expect("an address")));
        // noq knows an address by these.
        let SocketAddr::V6(v6) = marked("[fe80::1%3]:4".parse().expect("an address")) else {
            panic!("no IPv6")
        };
        assert!(v6.ip().is_unicast_link_local() && v6.scope_id() == 3);
    }
}
