//! The same path between two network namespaces that the run makes itself, for the kernel's own TCP.
//!
//! ```text
//! server namespace                                             client namespace
//!   sockets ── TUN ══════════════ downlink path ══════════════> TUN ── sockets
//! 198.18.0.1       <══════════════ uplink path ════════════════     198.18.0.2
//! ```
//!
//! Whatever the kernel sends in one namespace comes out of its TUN device as IP packets, passes the
//! model under the real clock, and goes into the other one's. [`Namespace::enter`] makes sockets
//! there. What is said of the model's truth in the crate's documentation holds here as well, with
//! these differences:
//!
//! - Arrival is when the thread read the packet ([`ArrivalTime::Read`]): a TUN device gives no stamps.
//! - The link carries the ECN bits, and a mark of the path arrives.
//! - [`LinkReport::kernel_drops`] are packets that found a device's own queue full;
//!   [`LinkReport::endpoint_drops`] those that a device did not take in.
//! - A full packet is 1500 bytes, and there is IPv4 only: the kernel's own IPv6 chatter is turned off.
//!
//! Namespaces and devices belong to the run: nothing else of the system is changed. They go with the
//! [`TunLink`]. A killed process takes its devices along and leaves its namespaces, which
//! [`clean`](namespace::clean) removes.

mod counters;
mod ip;
mod worker;

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time;

use fullpipe_cc::Instant;
use fullpipe_path::PathConfig;
use hdrhistogram::Histogram;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::clock::Clock;
use crate::namespace::{self, CLIENT, DEVICE, Namespace, PREFIX_BITS, SERVER};
use crate::{ArrivalTime, EmuError, LinkReport, LinkSample};
use counters::Counters;
use worker::{Shared, Worker};

/// What a device's own queue holds, in packets. The kernel hands over a whole window at once when it
/// does not pace, and must find room: drops are the path's affair.
const DEVICE_QUEUE_PACKETS: u32 = 20_000;

/// A link between two namespaces.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// From the client to the server.
    pub uplink: PathConfig,
    /// From the server to the client: where the bulk data and the bottleneck usually are.
    pub downlink: PathConfig,
    /// The zero of all times that the link gives; `None` for its start.
    pub epoch: Option<time::Instant>,
    /// Whether to ask for the real-time class SCHED_FIFO.
    pub realtime: bool,
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
    server: Namespace,
    client: Namespace,
}

/// Whether this process can make namespaces and TUN devices: it needs root.
///
/// # Errors
/// What is missing, in one line.
pub fn available() -> Result<(), EmuError> {
    namespace::try_in_one(|| ())?;
    if !Path::new("/dev/net/tun").exists() {
        return Err(EmuError::NoTun);
    }
    Ok(())
}

impl TunLink {
    /// Makes the namespaces and starts the link between them.
    ///
    /// # Errors
    /// When a direction makes no sense, this process may not make namespaces, or the system refuses
    /// one, a device or a thread.
    pub fn start(config: &TunConfig) -> Result<Self, EmuError> {
        let shared = Shared::new(config)?;
        available()?;
        let server = Namespace::create("server")?;
        let client = Namespace::create("client")?;
        let (server_device, server_counters) = open(&server, SERVER)?;
        let (client_device, client_counters) = open(&client, CLIENT)?;
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
            config.realtime,
        )?;
        let thread = thread::Builder::new()
            .name("fullpipe-link".to_owned())
            .spawn(move || worker.run())
            .map_err(EmuError::io("start its thread"))?;
        let (alive, thread) = (Some(alive), Some(thread));
        Ok(Self { clock, shared, alive, thread, _devices: devices, server, client })
    }

    /// Where [`SERVER`] is.
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// Where [`CLIENT`] is.
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

    /// Stops the link, removes the namespaces, and says what happened.
    ///
    /// # Errors
    /// When the link ended early: the system refused a wait, or its thread panicked.
    pub fn finish(mut self) -> Result<LinkReport, EmuError> {
        self.stop()
    }

    /// Stops the link and says what happened, once. Namespaces and devices stay until this is dropped:
    /// what the ends still send is lost, and no error to them.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and when it has been stopped already.
    pub fn stop(&mut self) -> Result<LinkReport, EmuError> {
        self.alive = None;
        let thread = self.thread.take().ok_or(EmuError::Panicked)?;
        thread.join().unwrap_or(Err(EmuError::Panicked))
    }
}

impl Drop for TunLink {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Where the times of arrivals come from.
const ARRIVAL_TIME: ArrivalTime = ArrivalTime::Read;

/// A namespace's device, and what the kernel counts on it.
fn open(namespace: &Namespace, address: Ipv4Addr) -> Result<(SyncDevice, Counters), EmuError> {
    let made = namespace.enter(|| {
        let device = DeviceBuilder::new()
            .name(DEVICE)
            .tx_queue_len(DEVICE_QUEUE_PACKETS)
            .ipv4(address, PREFIX_BITS, None)
            .enable(true)
            .build_sync()?;
        device.set_nonblocking(true)?;
        Ok((device, Counters::open(DEVICE)?))
    })?;
    made.map_err(EmuError::io("set up its namespace"))
}
