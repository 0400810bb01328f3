//! The handle that the rest of the program holds.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::PathSample;
use fullpipe_traffic::SentPacket;
use hdrhistogram::Histogram;

use crate::capture::Capture;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::flows::{Port, Ports};
use crate::link::Link;
use crate::model::Shared;
use crate::{EmuError, EmulatorConfig, LinkReport};

/// The link at one moment. While packets leave, one that arrived within the last millisecond may
/// not have been read yet and is missing here; it enters the model with its own time later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkSample {
    /// The moment, counted from [`Emulator::epoch`].
    pub at: Instant,
    /// From the target to the clients: queue, queueing delay, bytes carried, drops.
    pub downlink: PathSample,
    /// From the clients to the target.
    pub uplink: PathSample,
    /// Datagrams that the kernel dropped so far on the link's sockets.
    pub kernel_drops: u64,
    /// Datagrams that it dropped on the endpoints' sockets, as of at most 200 ms ago.
    pub endpoint_drops: u64,
}

/// A running link. It stops when this is dropped: the thread is joined, the sockets are closed, and
/// what is still inside is gone.
#[derive(Debug)]
pub struct Emulator {
    addr: SocketAddr,
    clock: Clock,
    shared: Arc<Shared>,
    clients: Clients,
    /// The thread stops when this end is closed.
    alive: Option<UnixStream>,
    thread: Option<JoinHandle<Result<LinkReport, EmuError>>>,
}

impl Emulator {
    /// Starts the link.
    ///
    /// # Errors
    /// A direction's configuration is invalid, the target is not on this machine, or the system
    /// refuses a socket or a thread.
    pub fn start(config: EmulatorConfig) -> Result<Self, EmuError> {
        config.validate()?;
        let (port, buffer) = match config.listen {
            None => Port::open(config.target).map_err(EmuError::io("open its socket"))?,
            Some(listen) => {
                Port::bind(listen).map_err(|source| EmuError::Listen { listen, source })?
            }
        };
        let addr = port.socket.local_addr().map_err(EmuError::io("find its own address"))?;
        let (alive, stopped) = UnixStream::pair().map_err(EmuError::io("open its stop signal"))?;
        let clock = Clock::new(config.epoch.unwrap_or_else(time::Instant::now));
        let shared = Arc::new(Shared::new(&config)?);
        let ports = Ports::new(config.target, port);
        let clients = ports.known.clone();
        let capture = config.capture.as_deref().map(|path| Capture::create(path, clock));
        let capture = capture.transpose()?;
        let link = Link::new(&config, ports, stopped, clock, Arc::clone(&shared), capture)
            .map_err(EmuError::io("set up its timer"))?;
        let thread = thread::Builder::new()
            .name("fullpipe-link".to_owned())
            .spawn(move || link.run(buffer))
            .map_err(EmuError::io("start its thread"))?;
        Ok(Self { addr, clock, shared, clients, alive: Some(alive), thread: Some(thread) })
    }

    /// The address to which clients send, in place of the target's.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its clients by the addresses under which the target sees them.
    pub fn clients(&self) -> Clients {
        self.clients.clone()
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
        self.shared.endpoints.look_now_and_then(self.clock.now());
        let endpoint_drops = self.shared.endpoints.drops();
        let model = self.shared.model();
        let at = self.clock.now();
        LinkSample {
            at,
            downlink: model.downlink.sample(at),
            uplink: model.uplink.sample(at),
            kernel_drops: self.shared.kernel_drops(),
            endpoint_drops,
        }
    }

    /// Queueing delay in nanoseconds of every packet that left towards the clients so far: two of
    /// these have the packets between them as their difference.
    pub fn queue_delay_ns(&self) -> Histogram<u64> {
        self.shared.model().down.queue_delay.histogram().clone()
    }

    /// The newest packet that the target sent to each client, by the client's port: its number
    /// among those that arrived at the link, its bytes without IP and UDP headers, and when it
    /// came.
    pub fn newest_packets(&self) -> HashMap<u16, SentPacket> {
        self.shared.model().newest.iter().flatten().copied().collect()
    }

    /// Packets of the client with this port take so much longer from now on, after the uplink.
    pub fn set_extra_delay(&self, client_port: u16, delay: Duration) {
        self.shared.model().way_back.set_delay(client_port, delay);
    }

    /// Stops the link and returns its report.
    ///
    /// # Errors
    /// The link ended early: the system refused a wait, or its thread panicked.
    pub fn finish(mut self) -> Result<LinkReport, EmuError> {
        self.shared.endpoints.look();
        self.stop().unwrap_or(Err(EmuError::Panicked))
    }

    /// Keeps the link's thread from going on while `work` runs, for tests of what a late thread
    /// does.
    #[doc(hidden)]
    pub fn while_stalled(&self, work: impl FnOnce()) {
        let model = self.shared.model();
        work();
        drop(model);
    }

    fn stop(&mut self) -> Option<Result<LinkReport, EmuError>> {
        self.alive = None;
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or(Err(EmuError::Panicked)))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop();
    }
}
