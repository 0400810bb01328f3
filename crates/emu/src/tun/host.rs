//! A host behind an end of the link, whose packets a program makes itself.

use std::fs;
use std::net::Ipv4Addr;

use tun_rs::SyncDevice;

use super::open;
use crate::EmuError;
use crate::namespace::Namespace;
use crate::os;

/// The name of its device.
const NAME: &str = "user";

/// Length of the prefix that it shares with its namespace: part of the link's, so that both ends
/// have a route.
const BITS: u8 = 30;

/// A host of its own. Its namespace forwards its packets, so it reaches the other end through the
/// link.
pub struct Host {
    /// Carries its packets. It does not block.
    pub device: SyncDevice,
    /// Its address.
    pub address: Ipv4Addr,
}

impl Host {
    /// Behind the server of a link between two namespaces.
    ///
    /// # Errors
    /// The system refuses the device, or there is one.
    pub fn behind_server(server: &Namespace) -> Result<Self, EmuError> {
        Self::behind(server, 129)
    }

    /// Behind the client, as [`behind_server`](Self::behind_server).
    ///
    /// # Errors
    /// As there.
    pub fn behind_client(client: &Namespace) -> Result<Self, EmuError> {
        Self::behind(client, 133)
    }

    /// Asks for the real-time class for the calling thread, which drives a host, with a priority
    /// below the link's. True if it was given. The kernel's TCP sends in interrupts, which no
    /// thread delays; a thread of the usual class waits for the link's.
    pub fn request_realtime() -> bool {
        os::request_realtime(os::LINK_PRIORITY - 1)
    }

    /// `last` is the last byte of the namespace's own address towards it.
    fn behind(namespace: &Namespace, last: u8) -> Result<Self, EmuError> {
        let [a, b, c, _] = super::SERVER.octets();
        let device = namespace.enter(|| {
            let (device, _) = open(NAME, (Ipv4Addr::new(a, b, c, last), BITS), None, false)?;
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
            Ok(device)
        })?;
        let device = device.map_err(EmuError::io("make the device of a host in user space"))?;
        Ok(Self { device, address: Ipv4Addr::new(a, b, c, last + 1) })
    }
}
