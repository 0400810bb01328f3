//! The link's sockets: one towards the clients, and one towards the target for each of them.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::MAX_FLOWS;
use crate::os;

/// A socket and what the kernel said that it dropped on it.
pub(crate) struct Port {
    pub(crate) socket: UdpSocket,
    pub(crate) dropped: u32,
}

impl Port {
    /// A socket on a free loopback port, of the same family as `peer`.
    pub(crate) fn open(peer: SocketAddr) -> io::Result<(Self, usize)> {
        let any: SocketAddr = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
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
}

/// Every socket of the link.
pub(crate) struct Ports {
    target: SocketAddr,
    pub(crate) clients: Port,
    pub(crate) flows: Vec<Flow>,
    by_client: HashMap<SocketAddr, usize>,
}

impl Ports {
    pub(crate) fn new(target: SocketAddr, clients: Port) -> Self {
        Self { target, clients, flows: Vec::new(), by_client: HashMap::new() }
    }

    /// The flow of a client, made when its first packet comes.
    pub(crate) fn flow_of(&mut self, client: SocketAddr) -> io::Result<usize> {
        if let Some(&flow) = self.by_client.get(&client) {
            return Ok(flow);
        }
        if self.flows.len() >= MAX_FLOWS {
            return Err(io::Error::other("too many flows"));
        }
        let (port, _) = Port::open(self.target)?;
        port.socket.connect(self.target)?;
        let flow = self.flows.len();
        self.flows.push(Flow { client, port });
        self.by_client.insert(client, flow);
        Ok(flow)
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
