//! The link's thread: sleep, read what the devices have, write what is due.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fullpipe_cc::Instant;
use fullpipe_path::{Count, Delivered, Event, MTU_BYTES, Path};
use tun_rs::SyncDevice;

use super::counters::Counters;
use super::{ARRIVAL_TIME, DEVICE_QUEUE_PACKETS, TunConfig, ip};
use crate::clock::Clock;
use crate::link::{Outcome, corrupt, thread_cpu_time};
use crate::os::{self, Waiter};
use crate::report::Nanos;
use crate::{EmuError, HostReport, LinkReport};

/// How often one device is read before packets that are due go out. More would delay them.
const READS_A_TURN: usize = 32;

/// Both directions.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) downlink: Path<Vec<u8>>,
    pub(super) uplink: Path<Vec<u8>>,
    /// Queueing delay of the packets that left the downlink.
    pub(super) queue_delay: Nanos,
}

/// What the thread and the handle both see.
#[derive(Debug)]
pub(super) struct Shared {
    model: Mutex<Model>,
    counters: Vec<Counters>,
}

impl Shared {
    pub(super) fn new(config: &TunConfig) -> Result<Self, EmuError> {
        let wrong = |direction| move |source| EmuError::Path { direction, source };
        let downlink = Path::new(&config.downlink).map_err(wrong("downlink"))?;
        let uplink = Path::new(&config.uplink).map_err(wrong("uplink"))?;
        Ok(Self {
            model: Mutex::new(Model { downlink, uplink, queue_delay: Nanos::new() }),
            counters: Vec::new(),
        })
    }

    pub(super) fn with_counters(self, counters: [Counters; 2]) -> Self {
        Self { counters: counters.into(), ..self }
    }

    /// The model. Nobody holds it over a system call.
    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets dropped in front of the link, and behind it.
    pub(super) fn drops(&self) -> (u64, u64) {
        let each = self.counters.iter().map(Counters::read);
        each.fold((0, 0), |(before, behind), d| (before + d.sent, behind + d.received))
    }
}

/// A direction, by the device that its packets come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// From the server's device to the client's.
    Down = 0,
    /// Back.
    Up = 1,
}

impl Direction {
    const BOTH: [Self; 2] = [Self::Down, Self::Up];

    fn path(self, model: &mut Model) -> &mut Path<Vec<u8>> {
        match self {
            Self::Down => &mut model.downlink,
            Self::Up => &mut model.uplink,
        }
    }
}

pub(super) struct Worker {
    clock: Clock,
    started: Instant,
    shared: Arc<Shared>,
    /// The server's and the client's.
    devices: [SyncDevice; 2],
    /// Closed at the other end when the link shall stop.
    stopped: UnixStream,
    waiter: Waiter,
    realtime: bool,
    buffer: Vec<u8>,
    incoming: Vec<Vec<u8>>,
    due: Vec<Delivered<Vec<u8>>>,
    /// Buffers that wait for their next packet.
    pool: Vec<Vec<u8>>,
    outcomes: [Outcome; 2],
    lateness: Nanos,
}

impl Worker {
    pub(super) fn new(
        clock: Clock,
        shared: Arc<Shared>,
        devices: [SyncDevice; 2],
        stopped: UnixStream,
        realtime: bool,
    ) -> Result<Self, EmuError> {
        Ok(Self {
            clock,
            started: clock.now(),
            shared,
            devices,
            stopped,
            waiter: Waiter::new().map_err(EmuError::io("set up its timer"))?,
            realtime,
            buffer: vec![0; os::BUFFER_BYTES],
            incoming: Vec::new(),
            due: Vec::new(),
            pool: Vec::new(),
            outcomes: [Outcome::new(), Outcome::new()],
            lateness: Nanos::new(),
        })
    }

    /// Runs until the handle closes its end of `stopped`.
    pub(super) fn run(mut self) -> Result<LinkReport, EmuError> {
        os::prepare_thread();
        let host = HostReport {
            arrival_time: ARRIVAL_TIME,
            receive_buffer_bytes: (DEVICE_QUEUE_PACKETS * MTU_BYTES) as usize,
            realtime: self.realtime && os::request_realtime(),
            sees_kernel_drops: true,
        };
        let mut ready = Vec::new();
        loop {
            self.wait(&mut ready).map_err(EmuError::io("wait for packets"))?;
            // Position 0 is the stop signal.
            if ready.contains(&0) {
                return Ok(self.report(host));
            }
            // Taken before reading: whatever arrived until now is then in the model before anything
            // due until now leaves it.
            let now = self.clock.now();
            for direction in Direction::BOTH {
                if ready.contains(&(1 + direction as usize)) {
                    self.read(direction, now).map_err(EmuError::io("read its devices"))?;
                }
            }
            for direction in Direction::BOTH {
                self.send_due(direction, now);
            }
        }
    }

    /// Sleeps until a packet comes or is due.
    fn wait(&mut self, ready: &mut Vec<usize>) -> io::Result<()> {
        let next = {
            let model = self.shared.model();
            match (model.downlink.next_event(), model.uplink.next_event()) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        };
        let timeout = next.map(|at| at.since(self.clock.now()).into());
        let fds = std::iter::once(self.stopped.as_fd()).chain(self.devices.iter().map(AsFd::as_fd));
        self.waiter.wait(fds, timeout, ready)
    }

    /// Lets what a device has into its path.
    fn read(&mut self, direction: Direction, now: Instant) -> io::Result<()> {
        for _ in 0..READS_A_TURN {
            match self.devices[direction as usize].recv(&mut self.buffer) {
                Ok(bytes) => {
                    let mut packet = self.pool.pop().unwrap_or_default();
                    packet.clear();
                    packet.extend_from_slice(&self.buffer[..bytes]);
                    self.incoming.push(packet);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        let mut model = self.shared.model();
        for packet in self.incoming.drain(..) {
            let header = ip::header(&packet);
            if let Err(dropped) = direction.path(&mut model).send(now, header, packet) {
                self.pool.push(dropped.payload);
            }
        }
        Ok(())
    }

    /// Sends what one path lets go until `now`.
    fn send_due(&mut self, direction: Direction, now: Instant) {
        {
            let mut model = self.shared.model();
            let path = direction.path(&mut model);
            while let Some(event) = path.poll(now) {
                match event {
                    Event::Delivered(delivered) => self.due.push(delivered),
                    Event::Dropped(dropped) => self.pool.push(dropped.payload),
                }
            }
            if direction == Direction::Down {
                self.due.iter().for_each(|packet| model.queue_delay.record(packet.queued));
            }
        }
        let outcome = &mut self.outcomes[direction as usize];
        let device = &self.devices[1 - direction as usize];
        for mut packet in self.due.drain(..) {
            if packet.corrupted {
                corrupt(&mut packet.payload);
            }
            ip::mark(&mut packet.payload, packet.ecn);
            outcome.queue_delay.record(packet.queued);
            if device.send(&packet.payload).is_err() {
                outcome.send_failures.add(packet.wire_bytes);
            }
            self.lateness.record(self.clock.now().since(packet.at));
            self.pool.push(packet.payload);
        }
    }

    fn report(self, host: HostReport) -> LinkReport {
        let (kernel_drops, endpoint_drops) = self.shared.drops();
        let model = self.shared.model();
        let [down, up] = self.outcomes;
        LinkReport {
            downlink: down.report(model.downlink.stats()),
            uplink: up.report(model.uplink.stats()),
            lateness: self.lateness.into_inner(),
            flows: 0,
            refused: Count::default(),
            unreachable: 0,
            kernel_drops,
            endpoint_drops,
            arrivals: Vec::new(),
            ran: self.clock.now().since(self.started),
            cpu: thread_cpu_time(),
            host,
            trusted: true,
            warning: None,
        }
        .judge()
    }
}
