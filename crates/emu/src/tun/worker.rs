//! The link's thread: sleep, read what the devices have, write what is due.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fullpipe_cc::Instant;
use fullpipe_path::{Count, Delivered, Dropped, Event, Path};
use fullpipe_traffic::Direction;
use tun_rs::SyncDevice;

use super::backlog::Backlog;
use super::counters::Counters;
use super::nat::Nat;
use super::offload::{self, Reader};
use super::wire::Wire;
use super::{ARRIVAL_TIME, DEVICE_QUEUE, TunConfig, ip};
use crate::capture::{Capture, LinkEnd};
use crate::clock::Clock;
use crate::cross::Cross;
use crate::os::{self, Waiter};
use crate::outcome::{Active, Outcome, thread_cpu_time};
use crate::report::Nanos;
use crate::wake::Wakes;
use crate::way_back::WayBack;
use crate::{EmuError, HostReport, LinkReport, STALL_BOUND};

/// Both directions.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) downlink: Path<Vec<u8>>,
    pub(super) uplink: Path<Vec<u8>>,
    /// Queueing delay of the packets that left the downlink.
    pub(super) queue_delay: Nanos,
    pub(super) way_back: WayBack<Vec<u8>>,
    pub(super) wire: Wire,
}

impl Model {
    fn path(&mut self, direction: Direction) -> &mut Path<Vec<u8>> {
        match direction {
            Direction::Down => &mut self.downlink,
            Direction::Up => &mut self.uplink,
        }
    }
}

/// State shared by the thread and the handle.
#[derive(Debug)]
pub(super) struct Shared {
    model: Mutex<Model>,
    counters: Vec<Counters>,
}

impl Shared {
    pub(super) fn new(config: &TunConfig) -> Result<Self, EmuError> {
        let wrong = |direction| move |source| EmuError::Path { direction, source };
        let mut downlink = Path::new(&config.downlink).map_err(wrong("downlink"))?;
        let mut uplink = Path::new(&config.uplink).map_err(wrong("uplink"))?;
        if config.record_arrivals > 0 {
            downlink.record_arrivals(config.record_arrivals);
            uplink.record_arrivals(config.record_arrivals);
        }
        Ok(Self {
            model: Mutex::new(Model {
                downlink,
                uplink,
                queue_delay: Nanos::new(),
                way_back: WayBack::new(),
                wire: Wire::new(&config.wire),
            }),
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

pub(super) struct Worker {
    clock: Clock,
    started: Instant,
    shared: Arc<Shared>,
    /// The server's and the client's: packets of a direction come from that of its number.
    devices: [SyncDevice; 2],
    /// Closed at the other end when the link shall stop.
    stopped: UnixStream,
    waiter: Waiter,
    realtime: bool,
    cross: Cross,
    nat: Nat,
    reader: Reader,
    /// True for each device that takes many packets at once.
    takes_many: [bool; 2],
    backlogs: [Backlog; 2],
    waited: u64,
    wakes: Wakes,
    incoming: Vec<Vec<u8>>,
    due: Vec<Delivered<Vec<u8>>>,
    /// Buffers that wait for their next packet.
    pool: Vec<Vec<u8>>,
    outcomes: [Outcome; 2],
    lateness: Nanos,
    active: Active,
    capture: Option<Capture>,
    refused: Count,
}

impl Worker {
    pub(super) fn new(
        clock: Clock,
        shared: Arc<Shared>,
        devices: [SyncDevice; 2],
        stopped: UnixStream,
        config: &TunConfig,
    ) -> Result<Self, EmuError> {
        let capture = config.capture.as_deref().map(|path| Capture::create(path, clock));
        Ok(Self {
            clock,
            started: clock.now(),
            shared,
            takes_many: [0, 1].map(|device: usize| devices[device].udp_gso()),
            backlogs: [Backlog::default(); 2],
            waited: 0,
            devices,
            stopped,
            waiter: Waiter::new().map_err(EmuError::io("set up its timer"))?,
            realtime: config.realtime,
            cross: Cross::new(config.cross.clone()),
            nat: Nat::new(&config.rebind),
            reader: Reader::new(),
            wakes: Wakes::new(config.downlink.least_delay() + config.uplink.least_delay()),
            incoming: Vec::new(),
            due: Vec::new(),
            pool: Vec::new(),
            outcomes: [Outcome::new(), Outcome::new()],
            lateness: Nanos::new(),
            active: Active::default(),
            capture: capture.transpose()?,
            refused: Count::default(),
        })
    }

    /// Runs until the handle closes its end of `stopped`.
    pub(super) fn run(mut self) -> Result<LinkReport, EmuError> {
        os::prepare_thread();
        let host = HostReport {
            arrival_time: ARRIVAL_TIME,
            receive_buffer_bytes: DEVICE_QUEUE as usize * os::BUFFER_BYTES,
            realtime: self.realtime && os::request_realtime(os::LINK_PRIORITY),
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
            self.nat.change_until(now);
            self.send_cross(now);
            for direction in Direction::BOTH {
                match ready.contains(&(1 + direction as usize)) {
                    true => self.read(direction, now).map_err(EmuError::io("read its devices"))?,
                    false => self.backlogs[direction as usize] = Backlog::default(),
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
            let paths = [model.downlink.next_event(), model.uplink.next_event()];
            let others = [model.way_back.next_due(), self.cross.next_due(), self.nat.next_due()];
            paths.into_iter().chain(others).flatten().min().map(|at| self.wakes.next(at))
        };
        let timeout = next.map(|at| at.since(self.clock.now()).into());
        let fds = std::iter::once(self.stopped.as_fd()).chain(self.devices.iter().map(AsFd::as_fd));
        self.waiter.wait(fds, timeout, ready)
    }

    /// Lets cross traffic into the downlink: packets without data.
    fn send_cross(&mut self, now: Instant) {
        let mut model = self.shared.model();
        while let Some((at, header)) = self.cross.pop(now) {
            let mut packet = self.pool.pop().unwrap_or_default();
            packet.clear();
            if let Err(dropped) = model.downlink.send(at, header, packet) {
                self.pool.push(dropped.payload);
            }
        }
    }

    /// Lets what a device has into its path.
    fn read(&mut self, direction: Direction, now: Instant) -> io::Result<()> {
        let device = &self.devices[direction as usize];
        let take = |packet: &[u8]| {
            if ip::is_for_a_group(packet) {
                return false;
            }
            if let Some(capture) = &mut self.capture {
                capture.note(LinkEnd::entry(direction), now, packet);
            }
            let mut own = self.pool.pop().unwrap_or_default();
            own.clear();
            own.extend_from_slice(packet);
            let enters = direction == Direction::Up || self.nat.inward(&mut own);
            match enters {
                true => self.incoming.push(own),
                false => self.pool.push(own),
            }
            enters
        };
        let refuse = |bytes| self.refused.add(bytes as u32);
        let is_empty = self.reader.read(|frame| device.recv(frame), take, refuse)?;
        if self.backlogs[direction as usize].note(now, is_empty) > STALL_BOUND {
            self.waited += self.incoming.len() as u64;
        }
        if !self.incoming.is_empty() {
            self.active.begin(now);
        }
        let mut model = self.shared.model();
        for packet in self.incoming.drain(..) {
            let header = ip::header(&packet);
            model.wire.sent(direction as usize, now, &packet);
            if let Err(dropped) = model.path(direction).send(now, header, packet) {
                model.wire.dropped(direction as usize, &dropped.payload);
                self.pool.push(dropped.payload);
            }
        }
        Ok(())
    }

    /// Sends what one path lets go until `now`.
    fn send_due(&mut self, direction: Direction, now: Instant) {
        {
            let mut model = self.shared.model();
            while let Some(event) = model.path(direction).poll(now) {
                match &event {
                    Event::Delivered(packet) if !packet.corrupted => {
                        model.wire.delivered(direction as usize, packet);
                    }
                    // A receiver refuses what was changed.
                    Event::Delivered(Delivered { payload, .. })
                    | Event::Dropped(Dropped { payload, .. }) => {
                        model.wire.dropped(direction as usize, payload);
                    }
                }
                match event {
                    Event::Delivered(delivered) if direction == Direction::Down => {
                        model.queue_delay.record(delivered.queued);
                        self.due.push(delivered);
                    }
                    Event::Delivered(delivered) => {
                        // A flow is named by the sender's port and the receiver's.
                        let flow = ip::header(&delivered.payload).flow;
                        let ports = [(flow >> 16) as u16, flow as u16];
                        self.due.extend(model.way_back.hold(&ports, delivered));
                    }
                    Event::Dropped(dropped) => self.pool.push(dropped.payload),
                }
            }
            while direction == Direction::Up
                && let Some(packet) = model.way_back.pop(now)
            {
                self.due.push(packet);
            }
        }
        if !self.due.is_empty() {
            self.wakes.note(now);
        }
        let outcome = &mut self.outcomes[direction as usize];
        for packet in &mut self.due {
            outcome.queue_delay.record(packet.queued);
            // Cross traffic has no data and goes nowhere.
            if packet.payload.is_empty() {
                continue;
            }
            if packet.corrupted {
                ip::corrupt(&mut packet.payload, outcome.corrupted);
            }
            ip::mark(&mut packet.payload, packet.ecn);
            if direction == Direction::Up {
                self.nat.outward(&mut packet.payload);
            }
            outcome.deliver(packet.at, ip::payload_bytes(&packet.payload));
            outcome.corrupted += u64::from(packet.corrupted);
            self.active.extend_to(packet.at);
        }
        let pool = &mut self.pool;
        pool.extend(self.due.extract_if(.., |p| p.payload.is_empty()).map(|p| p.payload));
        let to = 1 - direction as usize;
        let (device, takes_many) = (&self.devices[to], &mut self.takes_many[to]);
        let mut rest = &self.due[..];
        while let Some(first) = rest.first() {
            let count = if *takes_many { offload::together(rest) } else { 1 };
            let (packets, behind) = rest.split_at(count);
            rest = behind;
            match offload::send(device, packets) {
                Ok(()) => {}
                Err(_) if count == 1 => outcome.send_failures.add(first.wire_bytes),
                Err(e) => {
                    // Others than this say nothing about the next time.
                    *takes_many &= e.kind() != ErrorKind::InvalidInput;
                    for packet in packets {
                        if offload::send(device, slice::from_ref(packet)).is_err() {
                            outcome.send_failures.add(packet.wire_bytes);
                        }
                    }
                }
            }
            let sent = self.clock.now();
            for packet in packets {
                self.lateness.record(sent.since(packet.at));
                if let Some(capture) = &mut self.capture {
                    capture.note(LinkEnd::exit(direction), sent, &packet.payload);
                }
            }
        }
        pool.extend(self.due.drain(..).map(|packet| packet.payload));
    }

    fn report(self, host: HostReport) -> LinkReport {
        let (kernel_drops, endpoint_drops) = self.shared.drops();
        let mut model = self.shared.model();
        let model = &mut *model;
        let [down, up] = self.outcomes;
        LinkReport {
            downlink: down.report(&mut model.downlink),
            uplink: up.report(&mut model.uplink),
            lateness: self.lateness.into_inner(),
            flows: 0,
            refused: self.refused,
            unreachable: 0,
            waited: self.waited,
            kernel_drops,
            endpoint_drops,
            capture: self.capture.map(Capture::finish),
            began: self.active.began(),
            active: self.active.lasted(),
            ran: self.clock.now().since(self.started),
            cpu: thread_cpu_time(),
            host,
            trusted: true,
            warning: None,
        }
        .judge()
    }
}
