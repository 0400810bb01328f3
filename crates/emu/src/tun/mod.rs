//! The same path between two network namespaces that the run makes itself, for the kernel's own
//! TCP.
//!
//! ```text
//! server namespace                                             client namespace
//!   sockets ── TUN ══════════════ downlink path ══════════════> TUN ── sockets
//! 198.18.0.1       <══════════════ uplink path ════════════════     198.18.0.2
//! ```
//!
//! All data that the kernel sends in one namespace comes out of its TUN device as IP packets,
//! passes the model under the real clock, and goes into the other one's. [`Namespace::enter`] makes
//! sockets there. What is said of the model's truth in the crate's documentation holds here as
//! well, with these differences:
//!
//! - Arrival is when the thread read the packet ([`ArrivalTime::Read`]): a TUN device gives no
//!   stamps. Until then it waits in the device's own queue, which no delay and no lateness shows:
//!   [`LinkReport::waited`] counts the packets that may have waited for long.
//! - The link carries the ECN bits, and a mark of the path arrives.
//! - [`LinkReport::kernel_drops`] are packets that found a device's own queue full, where what the
//!   kernel handed over at once (TSO, UDP GSO) counts once; [`LinkReport::endpoint_drops`] those
//!   that a device did not take in.
//! - A full packet is 1500 bytes. There is IPv4, and IPv6 if [`TunConfig::ipv6`] says so, without
//!   packets to groups: the kernel sends them by itself.
//!
//! [`TunLink::from_here`] makes one namespace alone, behind a link whose other end is a device in
//! the caller's: programs that are started in it reach this machine through the path.
//!
//! A [`Host`] is behind one of the namespaces: a program that makes its own packets, such as a TCP
//! in user space.
//!
//! Namespaces and devices belong to the run: nothing else of the system is changed. They go with
//! the [`TunLink`]. A killed process takes its devices along and leaves its namespaces, which
//! [`clean`](namespace::clean) removes.

mod backlog;
mod block;
mod counters;
mod datagram;
mod host;
mod ip;
mod nat;
mod offload;
mod wire;
mod worker;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{CrossSource, PathConfig};
use hdrhistogram::Histogram;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::clock::Clock;
use crate::namespace::{self, CLIENT, DEVICE, Namespace, SERVER};
use crate::netlink::{AddressFamily, Netlink};
use crate::{ArrivalTime, EmuError, LinkReport, LinkSample, Rebinding};
use block::Block;
use counters::Counters;
use worker::{Shared, Worker};

pub use host::Host;
pub use wire::{WireConfig, WireDistributions, WireSample};

/// Capacity of a device's own queue, in what the kernel hands over at once. It hands over a whole
/// window when it does not pace, and the queue must take it: only the path is to drop packets. At
/// 64 kB each these are the largest buffer of a socket, and a quarter of a second at 2 Gbit/s, which
/// is about as much as the link's thread reads. Packets that are sent one by one are an entry each.
const DEVICE_QUEUE: u32 = 1_000;

/// The same of a device whose packets are never more than one.
const HOST_QUEUE: u32 = 20_000;

/// Largest number of packets that the kernel hands over at once, unless a device is told otherwise
/// later: a turn of the thread is to be short.
const MOST_SEGMENTS: u32 = 128;

/// Length of the prefix between two namespaces, in bits: room for more addresses of the client.
const INSIDE_BITS: u8 = 24;
const INSIDE_BITS6: u8 = 64;

/// The addresses of IPv6 there: of the block for benchmarks (RFC 5180).
const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1);
const CLIENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2);

/// A link between two namespaces.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// From the client to the server.
    pub uplink: PathConfig,
    /// From the server to the client: where the bulk data and the bottleneck usually are.
    pub downlink: PathConfig,
    /// Traffic that shares the downlink with the server's, with its times after [`Self::epoch`].
    pub cross: Vec<CrossSource>,
    /// The file for the packets at both ends, in the format of pcapng; `None` for none.
    pub capture: Option<PathBuf>,
    /// True if the ends have addresses of IPv6 too, where the kernel has it.
    pub ipv6: bool,
    /// The times after [`Self::epoch`] at which the client appears to the server with another port
    /// or address.
    pub rebind: Vec<Rebinding>,
    /// Flows whose packets are looked at one by one; none costs nothing.
    pub wire: WireConfig,
    /// The number of packets of each direction whose time and header are kept, from the first on:
    /// 24 bytes a packet.
    pub record_arrivals: usize,
    /// The zero of all times that the link gives; `None` for its start.
    pub epoch: Option<time::Instant>,
    /// True to ask for the real-time class SCHED_FIFO.
    pub realtime: bool,
}

impl TunConfig {
    /// These two directions, and nothing else.
    pub fn new(uplink: PathConfig, downlink: PathConfig) -> Self {
        Self {
            uplink,
            downlink,
            cross: Vec::new(),
            capture: None,
            ipv6: false,
            rebind: Vec::new(),
            wire: WireConfig::default(),
            record_arrivals: 0,
            epoch: None,
            realtime: true,
        }
    }
}

/// A running link with its two namespaces. All of it is gone when this is dropped.
#[derive(Debug)]
pub struct TunLink {
    clock: Clock,
    shared: Arc<Shared>,
    /// The thread stops when this end is closed.
    alive: Option<UnixStream>,
    thread: Option<JoinHandle<Result<LinkReport, EmuError>>>,
    /// Held beside the thread's, so that the devices stay for as long as somebody may still send.
    _devices: [OwnedFd; 2],
    server: Server,
    client: Namespace,
    ipv6: bool,
}

/// A link between two namespaces that has not started: programs can be started at its ends.
pub struct HeldLink {
    devices: [(SyncDevice, Counters); 2],
    config: TunConfig,
    shared: Shared,
    server: Namespace,
    client: Namespace,
}

impl fmt::Debug for HeldLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = (&self.server, &self.client);
        f.debug_struct("HeldLink").field("ends", &ends).finish_non_exhaustive()
    }
}

impl HeldLink {
    /// The server's address.
    pub const SERVER: Ipv4Addr = SERVER;

    /// The server's namespace.
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// The client's namespace.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The server's address of IPv6, if the link has such.
    pub fn server_address6(&self) -> Option<Ipv6Addr> {
        (self.config.ipv6 && has_ipv6()).then_some(SERVER6)
    }

    /// Starts the link and its clock.
    ///
    /// # Errors
    /// The system refuses a thread, or the file for the packets.
    pub fn start(self: Box<Self>) -> Result<TunLink, EmuError> {
        let Self { devices, config, shared, server, client } = *self;
        TunLink::between(devices, &config, shared, Server::Inside(server), client)
    }
}

/// The server's end.
#[derive(Debug)]
enum Server {
    Inside(Namespace),
    Here(Block),
}

/// Checks that this process can make network namespaces and TUN devices.
///
/// # Errors
/// The first requirement that is missing, in one line.
pub fn available() -> Result<(), EmuError> {
    namespace::try_in_one(|| ())?;
    let opened = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    opened.map(drop).map_err(|error| match error.kind() {
        ErrorKind::NotFound => EmuError::NoTun,
        ErrorKind::PermissionDenied => EmuError::TunDenied,
        _ => EmuError::Io { action: "open /dev/net/tun", source: error },
    })
}

impl TunLink {
    /// Makes the namespaces and starts the link between them.
    ///
    /// # Errors
    /// A direction's configuration is invalid, this process may not make namespaces, or the system
    /// refuses one, a device or a thread.
    pub fn start(config: &TunConfig) -> Result<Self, EmuError> {
        Self::hold(config.clone())?.start()
    }

    /// Makes the namespaces with their devices. The link's clock does not run, and what is sent
    /// waits in the devices.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn hold(config: TunConfig) -> Result<Box<HeldLink>, EmuError> {
        let shared = Shared::new(&config)?;
        available()?;
        let server = Namespace::create("server")?;
        let client = Namespace::create("client")?;
        let ends = [(&server, SERVER, SERVER6), (&client, CLIENT, CLIENT6)];
        let [server_end, client_end] = ends.map(|(namespace, address, address6)| {
            let v6 = config.ipv6.then_some((address6, INSIDE_BITS6));
            let device = namespace.enter(|| open(DEVICE, (address, INSIDE_BITS), v6, true))?;
            device.map_err(EmuError::io("set up its namespace"))
        });
        let devices = [server_end?, client_end?];
        Ok(Box::new(HeldLink { devices, config, shared, server, client }))
    }

    /// Makes the client's namespace alone and starts the link between it and the caller's, which is
    /// the server's. The client has a loopback device and a route to all of the caller's addresses;
    /// what it sends to other machines goes no further than the caller's own routes and firewall
    /// let it.
    ///
    /// # Errors
    /// As [`start`](Self::start), and when there are no addresses left for it.
    pub fn from_here(config: &TunConfig) -> Result<Self, EmuError> {
        let shared = Shared::new(config)?;
        available()?;
        let block = Block::claim()?;
        let name = format!("{DEVICE}{}", block.number);
        let v6 = |address| config.ipv6.then_some((address, block.bits6()));
        let here = open(&name, (block.here(), block.bits()), v6(block.here6()), true);
        let here = here.map_err(EmuError::io("make its device in this namespace"))?;
        let client = Namespace::create("client")?;
        let there = client.enter(|| {
            let device = open(DEVICE, (block.there(), block.bits()), v6(block.there6()), true)?;
            let netlink = Netlink::open()?;
            netlink.enable_loopback()?;
            netlink.add_default_route(DEVICE, AddressFamily::Inet)?;
            // For links that are made inside this one.
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
            if config.ipv6 && has_ipv6() {
                netlink.add_default_route(DEVICE, AddressFamily::Inet6)?;
                fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
            }
            Ok(device)
        })?;
        let there = there.map_err(EmuError::io("set up its namespace"))?;
        Self::between([here, there], config, shared, Server::Here(block), client)
    }

    /// Starts the link between two devices, the server's first.
    fn between(
        [server_device, client_device]: [(SyncDevice, Counters); 2],
        config: &TunConfig,
        shared: Shared,
        server: Server,
        client: Namespace,
    ) -> Result<Self, EmuError> {
        let (server_device, server_counters) = server_device;
        let (client_device, client_counters) = client_device;
        let (alive, stopped) = UnixStream::pair().map_err(EmuError::io("open its stop signal"))?;
        let clock = Clock::new(config.epoch.unwrap_or_else(time::Instant::now));
        let shared = Arc::new(shared.with_counters([server_counters, client_counters]));
        let hold = |device: &SyncDevice| {
            device.as_fd().try_clone_to_owned().map_err(EmuError::io("hold its devices"))
        };
        let devices = [hold(&server_device)?, hold(&client_device)?];
        let worker = Worker::new(
            clock,
            Arc::clone(&shared),
            [server_device, client_device],
            stopped,
            config,
        )?;
        let thread = thread::Builder::new()
            .name("fullpipe-link".to_owned())
            .spawn(move || worker.run())
            .map_err(EmuError::io("start its thread"))?;
        let (alive, thread) = (Some(alive), Some(thread));
        let ipv6 = config.ipv6 && has_ipv6();
        Ok(Self { clock, shared, alive, thread, _devices: devices, server, client, ipv6 })
    }

    /// The server's namespace, which has the address [`SERVER`]; nothing where that is the
    /// caller's.
    pub fn server(&self) -> Option<&Namespace> {
        match &self.server {
            Server::Inside(namespace) => Some(namespace),
            Server::Here(_) => None,
        }
    }

    /// The server's address.
    pub fn server_address(&self) -> Ipv4Addr {
        match &self.server {
            Server::Inside(_) => SERVER,
            Server::Here(block) => block.here(),
        }
    }

    /// The server's address of IPv6, if the link has such.
    pub fn server_address6(&self) -> Option<Ipv6Addr> {
        self.ipv6.then(|| match &self.server {
            Server::Inside(_) => SERVER6,
            Server::Here(block) => block.here6(),
        })
    }

    /// True if the caller's namespace is the client's of another link.
    pub fn is_nested(&self) -> bool {
        matches!(&self.server, Server::Here(block) if block.is_nested())
    }

    /// The client's namespace, which has the address [`CLIENT`], or one of this link's own where
    /// the server's namespace is the caller's.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The zero of every time that this link gives.
    pub fn epoch(&self) -> time::Instant {
        self.clock.zero()
    }

    /// This moment on the link's clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The link now. Cheap, from any thread; it looks at the model and changes nothing in it.
    pub fn sample(&self) -> LinkSample {
        let (kernel_drops, endpoint_drops) = self.shared.drops();
        let model = self.shared.model();
        let at = self.clock.now();
        LinkSample {
            at,
            downlink: model.downlink.sample(at),
            uplink: model.uplink.sample(at),
            kernel_drops,
            endpoint_drops,
        }
    }

    /// Queueing delay in nanoseconds of every packet that left towards the clients so far.
    pub fn queue_delay_ns(&self) -> Histogram<u64> {
        self.shared.model().queue_delay.histogram().clone()
    }

    /// A look at the watched flows that outlives this handle.
    pub fn wire(&self) -> WireView {
        WireView(Arc::clone(&self.shared))
    }

    /// Packets of the client from this port, or to it, take so much longer from now on, after the
    /// uplink.
    pub fn set_extra_delay(&self, port: u16, delay: Duration) {
        self.shared.model().way_back.set_delay(port, delay);
    }

    /// Stops the link, removes the namespaces, and returns the report.
    ///
    /// # Errors
    /// The link ended early: the system refused a wait, or its thread panicked.
    pub fn finish(mut self) -> Result<LinkReport, EmuError> {
        self.stop()
    }

    /// Stops the link and says what happened, once. Namespaces and devices stay until this is
    /// dropped: what the ends still send is lost, and no error to them.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and when it has been stopped already.
    pub fn stop(&mut self) -> Result<LinkReport, EmuError> {
        self.alive = None;
        let thread = self.thread.take().ok_or(EmuError::Panicked)?;
        thread.join().unwrap_or(Err(EmuError::Panicked))
    }
}

/// The watched flows of a link, by their place in [`WireConfig::ports`].
#[derive(Clone, Debug)]
pub struct WireView(Arc<Shared>);

impl WireView {
    /// A flow so far: what the client receives, and what it sends.
    pub fn sample(&self, flow: usize) -> [WireSample; 2] {
        let model = self.0.model();
        [0, 1].map(|way| model.wire.sample(flow, way))
    }

    /// The distributions of the same; nothing of a flow that is not watched.
    pub fn distributions(&self, flow: usize) -> Option<[WireDistributions; 2]> {
        let model = self.0.model();
        Some([model.wire.distributions(flow, 0)?, model.wire.distributions(flow, 1)?])
    }
}

impl Drop for TunLink {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Source of the arrival times.
const ARRIVAL_TIME: ArrivalTime = ArrivalTime::Read;

/// True if the kernel has IPv6.
fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// A device of the calling thread's namespace with its addresses, and what the kernel counts on it.
/// With `offload` packets have a virtio network header and may stand for many.
fn open(
    name: &str,
    (address, prefix_bits): (Ipv4Addr, u8),
    v6: Option<(Ipv6Addr, u8)>,
    offload: bool,
) -> io::Result<(SyncDevice, Counters)> {
    let device = DeviceBuilder::new()
        .name(name)
        .ipv4(address, prefix_bits, None)
        .enable(false)
        .with(|builder| {
            builder.offload(offload);
        })
        .build_sync()?;
    let netlink = Netlink::open()?;
    netlink.set_queue(name, if offload { DEVICE_QUEUE } else { HOST_QUEUE }, MOST_SEGMENTS)?;
    let set = |what: &str, to: &str| {
        // A kernel without IPv6 has nothing to set.
        match fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{what}"), to) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    };
    // What the kernel sends by itself would cross the path: it has no address to ask for others
    // from.
    set("accept_ra", "0")?;
    set("addr_gen_mode", "1")?;
    match v6.filter(|_| has_ipv6()) {
        None => set("disable_ipv6", "1")?,
        Some((address, bits)) => {
            set("disable_ipv6", "0")?;
            netlink.add_address6(name, address, bits)?;
        }
    }
    device.enabled(true)?;
    device.set_nonblocking(true)?;
    Ok((device, Counters::open(name)?))
}
