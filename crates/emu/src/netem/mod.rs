//! The kernel's own netem between two network namespaces, where the kernel has it: a second opinion
//! on this crate's model, from people who never saw it.
//!
//! ```text
//! server namespace                                                           client namespace
//!   sockets ─ loss, delay ─ buffer, rate ═ veth ══════════════════════════════ veth ─ sockets
//! 198.18.0.1 (netem 1:)   (netem 10:)     veth ═════════════════ delay (netem 1:) ─ 198.18.0.2
//! ```
//!
//! Two netems stand one behind the other where the data leaves: the delay's holds what propagates
//! and the bottleneck's what waits, so that the buffer's limit is the buffer's alone. A packet that
//! finds it full is dropped behind the first one, where the sender's TCP does not notice, as on a
//! real path. What either holds does not count against the socket (TCP small queues). What
//! propagates is still known to be in this machine: TCP does not send it again before it has passed
//! the first netem, which shows where that takes longer than its timer. What waits in the buffer it
//! does send again, as on a real path.
//!
//! Differences from a [`TunLink`](crate::tun::TunLink):
//!
//! - The buffer counts packets. One that was asked for in bytes holds as many full packets.
//! - For the same reason TCP hands over single packets, where it gives a TUN link several at once.
//! - The kernel tells of its qdiscs when it is asked, and of no single packet: how long each one
//!   waited is not known, nor how late the kernel was ([`NetemSample`] is all there is).
//! - netem's losses are its own: another sequence than the model's from the same seed. Linux before
//!   6.6 ignores the seed.
//!
//! Namespaces and devices belong to the run and go with the [`NetemLink`]. What a killed process
//! leaves, [`clean`](crate::namespace::clean) removes.

#[doc(hidden)]
pub mod pair;
mod qdisc;

use std::io;
use std::sync::{Mutex, PoisonError};

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{ConfigError, Count, MTU_BYTES, Probability, Queue, QueueLimit};
use netlink_packet_route::tc::TcHandle;
use nix::errno::Errno;

use crate::EmuError;
use crate::namespace::{self, CLIENT, DEVICE, Namespace, SERVER};
use crate::netlink::{Device, Netlink, Stats};
use qdisc::Netem;

/// In each device's namespace the first qdisc, and behind it the bottleneck's.
const FIRST: TcHandle = TcHandle { major: 1, minor: 0 };
const BOTTLENECK: TcHandle = TcHandle { major: 0x10, minor: 0 };
/// netem's only class, under which another qdisc stands.
const BEHIND_FIRST: TcHandle = TcHandle { major: 1, minor: 1 };

/// No limit: only the senders' windows limit the packets in propagation.
const NO_LIMIT_PACKETS: u32 = u32::MAX;

/// The devices' link-layer addresses, locally administered.
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The part of a path that netem can model: the bottleneck and the losses towards the client.
#[derive(Clone, Copy, Debug)]
pub struct NetemConfig {
    /// The bottleneck's rate, IP headers included.
    pub rate: Rate,
    /// Capacity of the bottleneck's buffer.
    pub queue: QueueLimit,
    /// The probability that a packet is lost before it reaches the buffer.
    pub loss: Probability,
    /// Propagation delay from the server to the client.
    pub downlink_delay: Duration,
    /// And back.
    pub uplink_delay: Duration,
    /// Seed of the losses; Linux before 6.6 ignores it and draws its own.
    pub seed: u64,
}

/// The way towards the client at nearly one moment, as the kernel's counters tell: the two netems
/// are read one after the other, and what is lost by chance counts a propagation delay before it
/// would have reached the buffer. Counts go to 2^32 packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetemSample {
    /// The bottleneck's buffer, with the packet on the wire as a whole: its delay is up to one
    /// packet's time longer than what a [`PathSample`](crate::PathSample) says.
    pub queue: Queue,
    /// Packets and bytes that the bottleneck has carried.
    pub carried: Count,
    /// Packets that reached the bottleneck, and those that chance kept from it.
    pub arrived_packets: u64,
    /// Packets that found the buffer full.
    pub tail_dropped_packets: u64,
    /// Packets that were lost by chance; fewer by those that the buffer dropped between the two
    /// looks.
    pub random_lost_packets: u64,
}

/// A running link with its two namespaces. All of it is gone when this is dropped.
#[derive(Debug)]
pub struct NetemLink {
    rate: Rate,
    /// Of the server's namespace.
    netlink: Mutex<Netlink>,
    server: Namespace,
    client: Namespace,
}

/// Checks that this process can make namespaces, and that this kernel has netem and pairs of
/// devices for them.
///
/// # Errors
/// The first requirement that is missing, in one line.
pub fn available() -> Result<(), EmuError> {
    namespace::try_in_one(|| {
        let netlink = Netlink::open().map_err(EmuError::io("open a netlink socket"))?;
        let lacks = |e: &io::Error| {
            let lacking = [Errno::ENOENT, Errno::EOPNOTSUPP];
            e.raw_os_error().is_some_and(|e| lacking.contains(&Errno::from_raw(e)))
        };
        // A new namespace's loopback device is its first.
        let delay = Netem::delay(Duration::ZERO).qdisc();
        match netlink.add_qdisc(1, TcHandle::ROOT, FIRST, delay) {
            Err(e) if lacks(&e) => return Err(EmuError::NoNetem),
            other => other.map_err(EmuError::io("try netem"))?,
        }
        let (here, there) = (Device::new(DEVICE, SERVER_MAC), Device::new("peer", CLIENT_MAC));
        match netlink.add_veth(here, there) {
            Err(e) if lacks(&e) => Err(EmuError::NoVeth),
            other => other.map_err(EmuError::io("try a pair of devices")),
        }
    })?
}

impl NetemLink {
    /// Makes the namespaces and the link between them.
    ///
    /// # Errors
    /// The rate or the buffer is none, this process may not make namespaces, the kernel has no
    /// netem, or the system refuses a device.
    pub fn start(config: &NetemConfig) -> Result<Self, EmuError> {
        config.validate()?;
        available()?;
        let server = Namespace::create("server")?;
        let client = Namespace::create("client")?;
        let laid = server.enter(|| {
            let netlink = Netlink::open()?;
            let (here, there) = ends(&client);
            netlink.add_veth(here, there)?;
            let device = netlink.bring_up(SERVER, (CLIENT, CLIENT_MAC))?;
            netlink.add_qdisc(device, TcHandle::ROOT, FIRST, config.first().qdisc())?;
            netlink.add_qdisc(device, BEHIND_FIRST, BOTTLENECK, config.bottleneck().qdisc())?;
            Ok((netlink, device))
        })?;
        let (netlink, device) = laid.map_err(EmuError::io("set up its devices"))?;
        let laid = client.enter(|| {
            let netlink = Netlink::open()?;
            let device = netlink.bring_up(CLIENT, (SERVER, SERVER_MAC))?;
            let delay = Netem::delay(config.uplink_delay);
            netlink.add_qdisc(device, TcHandle::ROOT, FIRST, delay.qdisc())?;
            netlink.wait_for(device)
        })?;
        laid.and_then(|()| netlink.wait_for(device)).map_err(EmuError::io("set up its devices"))?;
        Ok(Self { rate: config.rate, netlink: Mutex::new(netlink), server, client })
    }

    /// The server's namespace, which has the address [`SERVER`].
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// The client's namespace, which has the address [`CLIENT`].
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The current state of the direction towards the client. This asks the kernel, which takes
    /// some tens of microseconds.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn sample(&self) -> Result<NetemSample, EmuError> {
        let netlink = self.netlink.lock().unwrap_or_else(PoisonError::into_inner);
        let [first, bottleneck] = netlink
            .stats([FIRST, BOTTLENECK])
            .map_err(EmuError::io("read the kernel's counters"))?;
        Ok(NetemSample::of(self.rate, first, bottleneck))
    }
}

/// The pair of devices, made in the server's namespace.
fn ends(client: &Namespace) -> (Device<'_>, Device<'_>) {
    (Device::new(DEVICE, SERVER_MAC), Device::new(DEVICE, CLIENT_MAC).in_namespace(client.as_fd()))
}

impl NetemConfig {
    fn validate(&self) -> Result<(), EmuError> {
        let wrong = |source| EmuError::Path { direction: "downlink", source };
        if self.rate == Rate::ZERO {
            return Err(wrong(ConfigError::ZeroRate));
        }
        self.queue.validate().map_err(wrong)
    }

    fn first(&self) -> Netem {
        Netem { loss: self.loss, seed: self.seed, ..Netem::delay(self.downlink_delay) }
    }

    fn bottleneck(&self) -> Netem {
        let packets = match self.queue.at(self.rate) {
            QueueLimit::Bytes(b) => b / u64::from(MTU_BYTES),
            QueueLimit::Packets(n) => n,
            QueueLimit::Time(_) => 0,
        };
        Netem {
            limit_packets: u32::try_from(packets).unwrap_or(u32::MAX),
            rate: Some(self.rate),
            ..Netem::default()
        }
    }
}

impl Netem {
    /// Delays what comes, and nothing else. By 1 ns at least: only a netem that delays or has a
    /// rate takes a packet from its socket, and only the second one that does so takes it entirely.
    /// Without the first, TCP would not send again what waits in the buffer.
    fn delay(delay: Duration) -> Self {
        let delay = delay.max(Duration::from_nanos(1));
        Self { delay, limit_packets: NO_LIMIT_PACKETS, ..Self::default() }
    }
}

impl NetemSample {
    /// The first netem counts what it lost and what the bottleneck did not take from it.
    fn of(rate: Rate, first: Stats, bottleneck: Stats) -> Self {
        let Stats { carried, waiting: Count { bytes, packets }, dropped_packets } = bottleneck;
        let random_lost_packets = first.dropped_packets.saturating_sub(dropped_packets);
        Self {
            queue: Queue { bytes, packets, delay: rate.time_for(bytes) },
            carried,
            arrived_packets: carried.packets + packets + dropped_packets + random_lost_packets,
            tail_dropped_packets: dropped_packets,
            random_lost_packets,
        }
    }
}
