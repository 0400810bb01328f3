//! An endpoint behind an interface of smoltcp's, which finds neighbours by ARP and NDP, has routes,
//! and answers pings.
//!
//! TCP and ICMP packets go through raw sockets of the interface. Whoever has the clock and the
//! device drives it:
//!
//! ```
//! use fullpipe_cc::Instant;
//! use fullpipe_tcp::{Config, Endpoint, interface::Host};
//! use smoltcp::iface::{Config as InterfaceConfig, Interface};
//! use smoltcp::phy::Device;
//! use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
//!
//! fn start(now: Instant, device: &mut impl Device) -> Host {
//!     let address = EthernetAddress([2, 0, 0, 0, 0, 1]);
//!     let config = InterfaceConfig::new(address.into());
//!     let mut interface = Interface::new(config, device, smoltcp::time::Instant::ZERO);
//!     interface.update_ip_addrs(|all| {
//!         all.push(IpCidr::new(IpAddress::v4(10, 0, 0, 1), 24)).expect("room for one");
//!     });
//!     // Keys have to be random and secret where there are strangers.
//!     Host::new(Endpoint::new([1; 16], 16), interface, device)
//! }
//!
//! fn run(host: &mut Host, device: &mut impl Device, now: impl Fn() -> Instant) {
//!     loop {
//!         // Reads and writes of the application: `host.endpoint().read(..)`.
//!         host.poll(now(), device);
//!         // Wait for a frame, or until `host.poll_at(now())`.
//! #       break;
//!     }
//! }
//! ```
//!
//! smoltcp makes the headers of IP packets anew, without their ECN field, so
//! [`Config::ecn`](crate::Config::ecn) has to stay off; and it lets routers cut none of them,
//! whatever [`Config::mtu_discovery`](crate::Config::mtu_discovery) is. A device has to compute and
//! check no checksum of TCP in the interface's place.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use fullpipe_cc::{Duration, Instant};
use smoltcp::iface::{Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::Device;
use smoltcp::socket::raw::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::time;
use smoltcp::wire::{IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet};

use crate::Endpoint;

/// Frames that one call takes in before others get their turn.
const BURST: usize = 64;
/// Neighbours that are looked for at one time.
const NEIGHBOURS: usize = 8;
/// Packets that wait for a neighbour.
const WAITING: usize = 4;
/// Time after which a neighbour that does not answer is given up: three requests.
const PATIENCE: Duration = Duration::from_secs(3);

/// The packets that an endpoint wants to see.
const INCOMING: [(IpVersion, IpProtocol); 4] = [
    (IpVersion::Ipv4, IpProtocol::Tcp),
    (IpVersion::Ipv6, IpProtocol::Tcp),
    (IpVersion::Ipv4, IpProtocol::Icmp),
    (IpVersion::Ipv6, IpProtocol::Icmpv6),
];

/// An endpoint, and the interface that it is behind.
pub struct Host {
    endpoint: Endpoint,
    interface: Interface,
    sockets: SocketSet<'static>,
    incoming: [SocketHandle; INCOMING.len()],
    /// One for each neighbour that is looked for, so that the others do not wait behind its
    /// packets.
    outgoing: Vec<Outgoing>,
    packet: Vec<u8>,
    /// Bytes of the largest IP packet.
    mtu: usize,
    /// The device had no room.
    blocked: bool,
}

/// A raw socket whose packets all go to one address.
#[derive(Debug)]
struct Outgoing {
    socket: SocketHandle,
    to: IpAddr,
    /// The time at which the first of them came.
    since: Instant,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, outgoing, blocked, .. } = self;
        f.debug_struct("Host")
            .field("endpoint", endpoint)
            .field("outgoing", outgoing)
            .field("blocked", blocked)
            .finish_non_exhaustive()
    }
}

impl Host {
    /// An endpoint behind `interface`, which has the addresses and the routes, and was made for a
    /// device such as `device`.
    pub fn new(endpoint: Endpoint, interface: Interface, device: &(impl Device + ?Sized)) -> Self {
        let mtu = device.capabilities().ip_mtu();
        let mut sockets = SocketSet::new(Vec::new());
        let incoming = INCOMING.map(|(version, protocol)| {
            sockets.add(Socket::new(Some(version), Some(protocol), buffer(1, mtu), buffer(0, 0)))
        });
        let (outgoing, packet) = (Vec::new(), Vec::new());
        Self { endpoint, interface, sockets, incoming, outgoing, packet, mtu, blocked: false }
    }

    /// The endpoint, for everything but packets and time.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The interface, for its addresses and routes.
    pub fn interface(&mut self) -> &mut Interface {
        &mut self.interface
    }

    /// Takes in what the device has, does what is due, and sends what may leave.
    pub fn poll(&mut self, now: Instant, device: &mut (impl Device + ?Sized)) {
        let time = smoltcp_time(now);
        self.interface.poll_maintenance(time);
        for _ in 0..BURST {
            let taken = self.interface.poll_ingress_single(time, device, &mut self.sockets);
            match taken {
                PollIngressSingleResult::None => break,
                PollIngressSingleResult::PacketProcessed => {}
                PollIngressSingleResult::SocketStateChanged => self.take_in(now),
            }
        }
        self.endpoint.on_timer(now);
        self.give_up_neighbours(now);
        self.flush(time, device);
        loop {
            // A device that has no room has it later; nothing is to be lost for that.
            self.blocked = device.transmit(time).is_none();
            if self.blocked || !self.endpoint.transmit(now, &mut self.packet) {
                return;
            }
            let place = self.send(now);
            self.flush(time, device);
            if let Some(place) = place
                && self.outgoing.len() > NEIGHBOURS
                && (0..self.outgoing.len()).all(|i| self.waits(i))
            {
                // One stays free for the neighbours that are known.
                self.forget(place);
            }
        }
    }

    /// The next time at which [`Self::poll`] has something to do; `now` when the device had no
    /// room.
    pub fn poll_at(&mut self, now: Instant) -> Option<Instant> {
        if self.blocked {
            return Some(now);
        }
        let interface = self.interface.poll_at(smoltcp_time(now), &self.sockets);
        let interface = interface
            .map(|at| Instant::from_nanos(u64::try_from(at.total_micros()).unwrap_or(0) * 1000));
        [self.endpoint.poll_at(), interface].into_iter().flatten().min()
    }

    fn take_in(&mut self, now: Instant) {
        for handle in self.incoming {
            let socket = self.sockets.get_mut::<Socket<'_>>(handle);
            let Ok(packet) = socket.recv() else { continue };
            // Raw sockets see what is for other hosts, too.
            let is_ours = destination(packet).is_some_and(|to| self.interface.has_ip_addr(to));
            if is_ours {
                self.endpoint.receive(now, packet);
            }
        }
    }

    /// Gives the packet to the socket with others for its address, or to an empty one, and says
    /// which. It is lost when there are too many, as on any network.
    fn send(&mut self, now: Instant) -> Option<usize> {
        let to = destination(&self.packet)?;
        let all = 0..self.outgoing.len();
        let place = (all.clone().find(|&i| self.outgoing[i].to == to && self.waits(i)))
            .or_else(|| all.clone().find(|&i| !self.waits(i)));
        let place = place.unwrap_or_else(|| {
            let socket = self.sockets.add(outgoing(self.mtu));
            self.outgoing.push(Outgoing { socket, to, since: now });
            all.end
        });
        if !self.waits(place) {
            (self.outgoing[place].to, self.outgoing[place].since) = (to, now);
        }
        let socket = self.sockets.get_mut::<Socket<'_>>(self.outgoing[place].socket);
        socket.send_slice(&self.packet).ok().map(|()| place)
    }

    /// True if a socket has packets whose neighbour is looked for.
    fn waits(&self, place: usize) -> bool {
        self.sockets.get::<Socket<'_>>(self.outgoing[place].socket).send_queue() > 0
    }

    /// Loses the packets of a socket.
    fn forget(&mut self, place: usize) {
        let out = &mut self.outgoing[place];
        self.sockets.remove(out.socket);
        out.socket = self.sockets.add(outgoing(self.mtu));
    }

    /// Sends what has a neighbour.
    fn flush(&mut self, time: time::Instant, device: &mut (impl Device + ?Sized)) {
        while self.interface.poll_egress(time, device, &mut self.sockets) != PollResult::None {}
    }

    /// Packets for a neighbour that does not answer are lost.
    fn give_up_neighbours(&mut self, now: Instant) {
        for place in 0..self.outgoing.len() {
            if self.waits(place) && now.since(self.outgoing[place].since) >= PATIENCE {
                self.forget(place);
            }
        }
    }
}

/// A socket for packets that leave; what arrives is not for it.
fn outgoing(mtu: usize) -> Socket<'static> {
    Socket::new(None, Some(IpProtocol::Tcp), buffer(0, 0), buffer(WAITING, WAITING * mtu))
}

fn buffer(packets: usize, bytes: usize) -> PacketBuffer<'static> {
    PacketBuffer::new(vec![PacketMetadata::EMPTY; packets], vec![0; bytes])
}

/// The receiver's address of an IP packet.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => Some(Ipv4Packet::new_checked(packet).ok()?.dst_addr().into()),
        IpVersion::Ipv6 => Some(Ipv6Packet::new_checked(packet).ok()?.dst_addr().into()),
    }
}

fn smoltcp_time(now: Instant) -> time::Instant {
    time::Instant::from_micros(i64::try_from(now.as_nanos() / 1000).unwrap_or(i64::MAX))
}
