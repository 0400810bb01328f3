//! The parts of a link that do not need netem, for tests where the kernel has none: two namespaces,
//! a pair of devices between them, and a qdisc that every kernel has.

use std::io;

use netlink_packet_route::tc::TcHandle;

use super::{BOTTLENECK, CLIENT_MAC, FIRST, SERVER_MAC, ends};
use crate::EmuError;
use crate::namespace::{CLIENT, Namespace, SERVER};
use crate::netlink::Netlink;

/// Two namespaces with a pair of devices between them. All of it is gone when this is dropped.
#[derive(Debug)]
pub struct Pair {
    netlink: Netlink,
    device: u32,
    /// The server's namespace.
    pub server: Namespace,
    /// The client's namespace.
    pub client: Namespace,
}

/// Counters of a qdisc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Packets that it has carried.
    pub packets: u64,
    /// And their bytes, without Ethernet headers.
    pub bytes: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// Packets that it dropped.
    pub dropped: u64,
}

impl Pair {
    /// Makes them.
    ///
    /// # Errors
    /// This process may not make namespaces, or the system refuses a device.
    pub fn start() -> Result<Self, EmuError> {
        let server = Namespace::create("server")?;
        let client = Namespace::create("client")?;
        let laid = server.enter(|| {
            let netlink = Netlink::open()?;
            let (here, there) = ends(&client);
            netlink.add_veth(here, there)?;
            let device = netlink.bring_up(SERVER, (CLIENT, CLIENT_MAC))?;
            Ok((netlink, device))
        })?;
        let (netlink, device) = laid.map_err(EmuError::io("set up its devices"))?;
        let up = client.enter(|| Netlink::open()?.bring_up(CLIENT, (SERVER, SERVER_MAC)))?;
        let up = up.and_then(|_| netlink.wait_for(device));
        up.map_err(EmuError::io("set up its devices"))?;
        Ok(Self { netlink, device, server, client })
    }

    /// Puts a queue of 100 packets on the server's device.
    ///
    /// # Errors
    /// The system refuses, as when there is one.
    pub fn add_queue(&self) -> io::Result<()> {
        let fifo = ("pfifo", 100_u32.to_ne_bytes().to_vec());
        self.netlink.add_qdisc(self.device, TcHandle::ROOT, FIRST, fifo)
    }

    /// Its counters.
    ///
    /// # Errors
    /// The kernel does not answer, or there is no queue.
    pub fn queue(&self) -> io::Result<Counters> {
        self.counters(FIRST)
    }

    /// The counters of a netem behind it, which is not there.
    ///
    /// # Errors
    /// There is none.
    pub fn bottleneck(&self) -> io::Result<Counters> {
        self.counters(BOTTLENECK)
    }

    fn counters(&self, handle: TcHandle) -> io::Result<Counters> {
        let [stats] = self.netlink.stats([handle])?;
        Ok(Counters {
            packets: stats.carried.packets,
            bytes: stats.carried.bytes,
            waiting: stats.waiting.packets,
            dropped: stats.dropped_packets,
        })
    }
}
