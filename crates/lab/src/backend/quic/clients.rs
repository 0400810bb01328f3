//! The clients by their addresses: all that s2n-quic shows its congestion control of a connection.

use std::net::SocketAddr;

/// The clients of the flows.
#[derive(Debug)]
pub(in crate::backend) struct Clients {
    /// The port of each flow's client.
    pub(super) ports: Vec<u16>,
    /// The link that shows them to the server under addresses of its own; nothing where it shows
    /// theirs.
    pub(super) link: Option<fullpipe_emu::Clients>,
}

impl Clients {
    pub(super) fn flow(&self, address: SocketAddr) -> Option<u32> {
        let client = match &self.link {
            Some(link) => link.behind(address)?,
            None => address,
        };
        self.ports.iter().position(|port| *port == client.port()).map(|flow| flow as u32)
    }
}
