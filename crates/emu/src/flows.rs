//! The link's sockets: one towards the clients, and one towards the target for each of them.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::capture::LinkEnd;
use crate::clients::Clients;
use crate::os;
use crate::{MAX_FLOWS, Rebound};

/// A socket and what the kernel said that it dropped on it.
pub(crate) struct Port {
    pub(crate) socket: UdpSocket,
    pub(crate) dropped: u32,
}

impl Port {
    /// A socket on a free port from which `peer` can be reached; on loopback where that is.
    pub(crate) fn open(peer: SocketAddr) -> io::Result<(Self, usize)> {
        let is_near = peer.ip().is_loopback();
        Self::bind(match peer {
            SocketAddr::V4(_) if is_near => (Ipv4Addr::LOCALHOST, 0).into(),
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) if is_near => (Ipv6Addr::LOCALHOST, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        })
    }

    /// A socket towards `target`, and its own address: on loopback the one with this number.
    fn connect(target: SocketAddr, address: u8) -> io::Result<(Self, SocketAddr)> {
        let (port, _) = match address {
            0 => Self::open(target)?,
            n => Self::bind((Ipv4Addr::new(127, 0, 0, 1 + n), 0).into())?,
        };
        port.socket.connect(target)?;
        let address = port.socket.local_addr()?;
        Ok((port, address))
    }

    /// A socket on an address, and the receive buffer that it got.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<(Self, usize)> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let buffer = os::configure(&socket);
        Ok((Self { socket, dropped: 0 }, buffer))
    }

    /// Takes over the kernel's count; how many datagrams it dropped since the last time.
    pub(crate) fn note_drops(&mut self, total: Option<u32>) -> u64 {
        let Some(total) = total else { return 0 };
        // The count wraps; one that is older than what is known would look like a huge step.
        let more = total.wrapping_sub(self.dropped);
        if more > u32::MAX / 2 {
            return 0;
        }
        self.dropped = total;
        u64::from(more)
    }
}

/// One client and its socket towards the target.
pub(crate) struct Flow {
    pub(crate) client: SocketAddr,
    pub(crate) port: Port,
    /// The client's address as the target sees it.
    pub(crate) address: SocketAddr,
}

/// Every socket of the link.
pub(crate) struct Ports {
    target: SocketAddr,
    pub(crate) clients: Port,
    pub(crate) flows: Vec<Flow>,
    by_client: HashMap<SocketAddr, usize>,
    /// For whoever asks from outside.
    pub(crate) known: Clients,
    /// Number of the address that flows have towards the target.
    address: u8,
}

/// Addresses that flows have in turn.
const ADDRESSES: u8 = 200;

impl Ports {
    pub(crate) fn new(target: SocketAddr, clients: Port) -> Self {
        Self {
            target,
            clients,
            flows: Vec::new(),
            by_client: HashMap::new(),
            known: Clients::default(),
            address: 0,
        }
    }

    /// The addresses of a datagram of a flow at an end of the link, from and to, on the way to the
    /// target or `back`.
    pub(crate) fn addresses(
        &self,
        flow: usize,
        end: LinkEnd,
        back: bool,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let flow = self.flows.get(flow)?;
        let (from, to) = match end {
            LinkEnd::Client => (flow.client, self.clients.socket.local_addr().ok()?),
            LinkEnd::Server => (flow.address, self.target),
        };
        Some(if back { (to, from) } else { (from, to) })
    }

    /// The flow of a client, made when its first packet comes.
    pub(crate) fn flow_of(&mut self, client: SocketAddr) -> io::Result<usize> {
        if let Some(&flow) = self.by_client.get(&client) {
            return Ok(flow);
        }
        if self.flows.len() >= MAX_FLOWS {
            return Err(io::Error::other("too many flows"));
        }
        let (port, address) = Port::connect(self.target, self.address)?;
        let flow = self.flows.len();
        self.known.add(client, address);
        self.flows.push(Flow { client, port, address });
        self.by_client.insert(client, flow);
        Ok(flow)
    }

    /// Gives each flow a new socket, and so a new port, towards the target, and another address if
    /// that changes.
    pub(crate) fn rebind(&mut self, what: Rebound) -> io::Result<()> {
        if what == Rebound::Address {
            self.address = (self.address + 1) % ADDRESSES;
        }
        for flow in &mut self.flows {
            (flow.port, flow.address) = Port::connect(self.target, self.address)?;
            self.known.add(flow.client, flow.address);
        }
        Ok(())
    }

    /// The sockets in a fixed order: the clients' first, then each flow's.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let flows = self.flows.iter().map(|f| f.port.socket.as_fd());
        std::iter::once(self.clients.socket.as_fd()).chain(flows)
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Port> {
        std::iter::once(&mut self.clients).chain(self.flows.iter_mut().map(|f| &mut f.port))
    }
}
