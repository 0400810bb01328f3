//! One flow: an endpoint at either side, the connections between them, and what its application
//! does when.

use std::collections::HashMap;
use std::net::SocketAddr;

use fullpipe_cc::{Duration, Instant, Snapshot};
use fullpipe_path::Exponential;
use fullpipe_sim::{
    Application, FlowConfig, Jitter, REQUEST_BYTES, SenderStats, SentPacket, Tally,
};
use fullpipe_tcp::{Config, Endpoint, Handle, ListenerHandle, State};

use super::connection::Connection;
use super::settings;

/// The ends of a flow.
pub(super) const SENDER: usize = 0;
pub(super) const RECEIVER: usize = 1;

/// Connections that a flow may have at a time, those in TIME-WAIT included.
const MAX_CONNECTIONS: usize = 1 << 20;
/// Half-open ones.
const BACKLOG: usize = 1 << 16;
/// Segments beyond the last that left, which an application without a bound of its own has in the
/// buffer: a sender must never wait for it.
const AHEAD: u64 = 8;
/// Headers without options.
const IP_HEADER: usize = 20;

/// The bytes to write, and the room to read into.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// When data counts as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stamp {
    /// When it leaves: the application always has data, and writes just when a packet can leave.
    AtDeparture,
    /// When the buffer takes it: the application always has data, and fills the buffer.
    InBuffer,
    /// When the application has it.
    ByApplication,
}

/// The seeds of what a flow draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds {
    pub(super) starts: u64,
    pub(super) jitter: u64,
}

/// Distributions of a flow, in nanoseconds.
pub(super) struct Tallies<'a> {
    pub(super) rtt: &'a mut Tally,
    pub(super) latency: &'a mut Tally,
}

/// An answer that the receiver waits for.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// The number of bytes received with which it is complete.
    until: u64,
    asked: Instant,
}

#[derive(Debug)]
pub(super) struct Flow {
    config: FlowConfig,
    tcp: Config,
    stamp: Stamp,
    ends: [Endpoint; 2],
    remote: SocketAddr,
    listener: ListenerHandle,
    /// Those whose sender does not know yet that all has arrived; of an application with one
    /// connection that one.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Places in `connections`.
    by_handle: [HashMap<Handle, usize>; 2],
    by_port: HashMap<u16, usize>,
    newest: Option<usize>,
    /// Counts of the packets that left so far, and of the retransmissions of connections that are
    /// over.
    sent: SenderStats,
    newest_packet: Option<SentPacket>,
    pub(super) received: u64,
    pub(super) start: Instant,
    pub(super) end: Option<Instant>,
    /// The time of the application's next step.
    pub(super) wakes: Option<Instant>,
    is_on: bool,
    has_stopped: bool,
    request: Option<Request>,
    /// Bytes of requests that the sender has read.
    requested: u64,
    /// The random process that starts short connections.
    chance: Exponential,
    /// Connections that ended before their last byte.
    failed: u64,
    pub(super) completion_ns: Option<Tally>,
    pub(super) jitter: Jitter,
    /// Data that is read is thrown away here.
    sink: Vec<u8>,
}

impl Flow {
    pub(super) fn new(config: &FlowConfig, seeds: Seeds) -> Result<Self, fullpipe_tcp::Error> {
        let config = settings::over_tcp(config);
        let tcp = settings::of_flow(&config);
        let completes = matches!(
            config.application,
            Application::RequestResponse { .. } | Application::ShortFlows { .. }
        );
        let stamp = match (config.application, config.send_buffer) {
            (Application::Bulk | Application::Bytes(_) | Application::OnOff { .. }, None) => {
                Stamp::AtDeparture
            }
            (Application::RateLimited { .. } | Application::RequestResponse { .. }, _) => {
                Stamp::ByApplication
            }
            (Application::ShortFlows { .. }, None) => Stamp::AtDeparture,
            _ => Stamp::InBuffer,
        };
        let key = |end: usize| {
            let halves = [config.cc.seed, end as u64];
            let mut key = [0; 16];
            for (part, half) in key.chunks_exact_mut(8).zip(halves) {
                part.copy_from_slice(&half.to_le_bytes());
            }
            key
        };
        let mut ends = [SENDER, RECEIVER].map(|end| Endpoint::new(key(end), MAX_CONNECTIONS));
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        let listener = ends[RECEIVER].listen(remote, BACKLOG, &tcp)?;
        let start = Instant::default() + config.start;
        Ok(Self {
            config,
            tcp,
            stamp,
            ends,
            remote,
            listener,
            connections: Vec::new(),
            free: Vec::new(),
            by_handle: [HashMap::new(), HashMap::new()],
            by_port: HashMap::new(),
            newest: None,
            sent: SenderStats::default(),
            newest_packet: None,
            received: 0,
            start,
            end: None,
            wakes: Some(start),
            is_on: false,
            has_stopped: false,
            request: None,
            requested: 0,
            chance: Exponential::new(seeds.starts),
            failed: 0,
            completion_ns: completes.then(Tally::new),
            jitter: Jitter::new(config.jitter, seeds.jitter),
            sink: vec![0; ZEROS.len()],
        })
    }

    fn segment(&self) -> u64 {
        u64::from(self.config.cc.smss)
    }

    /// The application's next step, at its time.
    pub(super) fn on_wake(&mut self, now: Instant) {
        if self.wakes.is_none_or(|at| at > now) {
            return;
        }
        self.wakes = None;
        if self.config.stop.is_some_and(|stop| now >= Instant::default() + stop) {
            return self.stop();
        }
        match self.config.application {
            Application::ShortFlows { bytes, mean_interval } => {
                if now > self.start {
                    self.connect(now, Some(bytes));
                }
                self.wakes = Some(now + self.chance.draw(mean_interval));
            }
            Application::Bytes(bytes) if self.newest.is_none() => self.connect(now, Some(bytes)),
            _ if self.newest.is_none() => self.connect(now, None),
            Application::RateLimited { rate, write_bytes } => {
                self.write(now, write_bytes);
                self.wakes = Some(now + rate.time_for(write_bytes));
            }
            Application::OnOff { on, off } => {
                self.is_on = !self.is_on;
                let is_on = self.is_on;
                if let Some(connection) = self.only() {
                    connection.wanted = if is_on { u64::MAX } else { connection.written };
                }
                self.wakes = Some(now + if is_on { on } else { off });
            }
            Application::RequestResponse { response_bytes, .. } => {
                self.ask(now, response_bytes);
            }
            // They have all their data from the start.
            Application::Bulk | Application::Bytes(_) => {}
        }
        self.wake_at_stop();
        if let Some(place) = self.newest {
            self.fill(now, place);
        }
    }

    fn wake_at_stop(&mut self) {
        if let Some(stop) = self.config.stop.filter(|_| !self.has_stopped) {
            let stop = Instant::default() + stop;
            self.wakes = Some(self.wakes.map_or(stop, |at| at.min(stop)));
        }
    }

    /// The application falls silent for good.
    fn stop(&mut self) {
        (self.has_stopped, self.request) = (true, None);
        if self.stamp != Stamp::ByApplication {
            for connection in self.connections.iter_mut().flatten() {
                connection.wanted = connection.written;
            }
        }
    }

    /// The connection of an application that has one.
    fn only(&mut self) -> Option<&mut Connection> {
        self.connections.get_mut(self.newest?)?.as_mut()
    }

    fn connect(&mut self, now: Instant, bytes: Option<u64>) {
        let local = SocketAddr::from(([10, 0, 0, 1], 0));
        let Ok(handle) = self.ends[SENDER].connect(now, local, self.remote, &self.tcp) else {
            // No port is left.
            self.failed += 1;
            return;
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections[place] = Some(Connection::new(now, handle, bytes));
        self.by_handle[SENDER].insert(handle, place);
        if let Some(connection) = self.ends[SENDER].connection(handle) {
            self.by_port.insert(connection.local().port(), place);
        }
        self.newest = Some(place);
    }

    /// The handshake is over at the sender: its application begins.
    fn begin(&mut self, now: Instant, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        connection.is_established = true;
        match self.config.application {
            _ if self.has_stopped => {}
            Application::Bulk => connection.wanted = u64::MAX,
            Application::Bytes(_) | Application::ShortFlows { .. } => {
                connection.wanted = connection.bytes.unwrap_or(0);
            }
            Application::RateLimited { .. } | Application::OnOff { .. } => {
                self.wakes = Some(now);
                self.on_wake(now);
            }
            // The receiver's application begins.
            Application::RequestResponse { .. } => {}
        }
    }

    fn write(&mut self, now: Instant, bytes: u64) {
        let segment = self.segment();
        if let Some(connection) = self.only() {
            connection.wanted += bytes;
            connection.stamp(now, connection.wanted, segment);
        }
    }

    /// The receiver's application asks for an answer.
    fn ask(&mut self, now: Instant, response_bytes: u64) {
        let Some(handle) = self.only().and_then(|connection| connection.accepted) else { return };
        if self.request.is_none() && !self.has_stopped {
            // A request fits into any buffer that is empty, and there is one at a time.
            let _ = self.ends[RECEIVER].write(now, handle, &ZEROS[..REQUEST_BYTES as usize]);
            let until = self.received + response_bytes;
            self.request = Some(Request { until, asked: now });
        }
    }

    /// A packet arrives at one of the ends.
    pub(super) fn receive(&mut self, now: Instant, end: usize, packet: &[u8]) {
        self.ends[end].receive(now, packet);
    }

    pub(super) fn on_timer(&mut self, now: Instant, end: usize) {
        self.ends[end].on_timer(now);
    }

    pub(super) fn poll_at(&self, end: usize) -> Option<Instant> {
        self.ends[end].poll_at()
    }

    /// Lets the applications of one end do what they can now.
    pub(super) fn work(&mut self, now: Instant, end: usize, tallies: &mut Tallies<'_>) {
        if end == RECEIVER {
            while let Some(handle) = self.ends[RECEIVER].accept(self.listener) {
                self.on_accepted(now, handle);
            }
        }
        while let Some(handle) = self.ends[end].next_changed() {
            let Some(place) = self.by_handle[end].get(&handle).copied() else { continue };
            match end {
                SENDER => self.on_sender(now, handle, place, tallies),
                _ => self.read(now, handle, place, tallies),
            }
        }
    }

    fn on_accepted(&mut self, now: Instant, handle: Handle) {
        let port = self.ends[RECEIVER].connection(handle).map_or(0, |c| c.remote().port());
        let place = self.by_port.get(&port).copied();
        let Some(connection) = place.and_then(|place| self.connections[place].as_mut()) else {
            return self.ends[RECEIVER].release(now, handle);
        };
        connection.accepted = Some(handle);
        self.by_handle[RECEIVER].extend(place.map(|place| (handle, place)));
        if let Application::RequestResponse { response_bytes, .. } = self.config.application {
            self.ask(now, response_bytes);
        }
    }

    fn on_sender(&mut self, now: Instant, handle: Handle, place: usize, tallies: &mut Tallies<'_>) {
        let Some(tcp) = self.ends[SENDER].connection(handle) else { return };
        let (state, unsent) = (tcp.state(), tcp.unsent() as u64);
        let (rtt, samples) = tcp.newest_rtt();
        let segment = self.segment();
        let Some(connection) = &mut self.connections[place] else { return };
        if samples > connection.rtt_samples
            && let Some(rtt) = rtt
        {
            connection.rtt_samples = samples;
            tallies.rtt.record(rtt.as_nanos());
        }
        connection.left = connection.written - unsent.min(connection.written);
        if self.stamp == Stamp::AtDeparture {
            connection.stamp(now, connection.left, segment);
        }
        if state >= State::TimeWait {
            return self.retire(now, place);
        }
        if state.is_synchronized() && !connection.is_established {
            self.begin(now, place);
        }
        if let Application::RequestResponse { response_bytes, .. } = self.config.application {
            while self.ends[SENDER].connection(handle).is_some_and(|tcp| tcp.readable() > 0)
                && let Ok(count) = self.ends[SENDER].read(handle, &mut self.sink)
            {
                self.requested += count as u64;
            }
            while self.requested >= u64::from(REQUEST_BYTES) {
                self.requested -= u64::from(REQUEST_BYTES);
                self.write(now, response_bytes);
            }
        }
        self.fill(now, place);
    }

    /// Writes what the application has and the buffer has room for.
    fn fill(&mut self, now: Instant, place: usize) {
        let segment = self.segment();
        let Some(connection) = &mut self.connections[place] else { return };
        let handle = connection.handle;
        let Some(tcp) = self.ends[SENDER].connection(handle) else { return };
        if !connection.is_established || connection.is_closed {
            return;
        }
        let (wanted, mut room) = (connection.wanted - connection.written, tcp.writable() as u64);
        if self.stamp == Stamp::AtDeparture {
            room = room.min((AHEAD * segment).saturating_sub(tcp.unsent() as u64));
        }
        let mut count = wanted.min(room);
        if count < wanted && self.tcp.send_buffer as u64 > segment {
            // Whole segments, lest small ones leave.
            count -= count % segment;
        }
        while count > 0 {
            let piece = count.min(ZEROS.len() as u64) as usize;
            let Ok(written) = self.ends[SENDER].write(now, handle, &ZEROS[..piece]) else { break };
            connection.written += written as u64;
            count -= written as u64;
        }
        if self.stamp == Stamp::InBuffer {
            connection.stamp(now, connection.written, segment);
        }
        if connection.bytes == Some(connection.written) {
            connection.is_closed = true;
            self.ends[SENDER].close(now, handle);
        }
    }

    /// The receiver's application reads all that there is.
    fn read(&mut self, now: Instant, handle: Handle, place: usize, tallies: &mut Tallies<'_>) {
        // A call of `read` is news of the connection, also where it brings nothing.
        while self.ends[RECEIVER].connection(handle).is_some_and(|tcp| tcp.is_readable()) {
            let read = self.ends[RECEIVER].read(handle, &mut self.sink);
            let Some(connection) = &mut self.connections[place] else { return };
            let Ok(count @ 1..) = read else {
                // The end of the data, or of the connection.
                self.by_handle[RECEIVER].remove(&handle);
                return self.ends[RECEIVER].release(now, handle);
            };
            self.received += count as u64;
            connection.on_read(count as u64, |written| {
                tallies.latency.record(now.since(written).as_nanos());
            });
            if connection.bytes == Some(connection.read) && connection.end.is_none() {
                connection.end = Some(now);
                match &mut self.completion_ns {
                    Some(times) => times.record(now.since(connection.opened).as_nanos()),
                    None => self.end = Some(now),
                }
            }
            if let Application::RequestResponse { think, .. } = self.config.application
                && let Some(request) = self.request.take_if(|r| self.received >= r.until)
            {
                if let Some(times) = &mut self.completion_ns {
                    times.record(now.since(request.asked).as_nanos());
                }
                self.wakes = Some(now + think);
                self.wake_at_stop();
            }
        }
    }

    /// The sender knows that a connection is over. One that is its flow's only one is still looked
    /// at.
    fn retire(&mut self, now: Instant, place: usize) {
        if !matches!(self.config.application, Application::ShortFlows { .. }) {
            return;
        }
        let Some(connection) = self.connections[place].take() else { return };
        self.sent.add(self.sent_again(&connection));
        self.failed += u64::from(connection.end.is_none());
        if let Some(tcp) = self.ends[SENDER].connection(connection.handle) {
            self.by_port.remove(&tcp.local().port());
        }
        self.by_handle[SENDER].remove(&connection.handle);
        self.ends[SENDER].release(now, connection.handle);
        if let Some(accepted) = connection.accepted
            && self.by_handle[RECEIVER].remove(&accepted).is_some()
        {
            self.ends[RECEIVER].release(now, accepted);
        }
        self.free.push(place);
        self.newest = self.newest.filter(|newest| *newest != place);
    }

    /// Writes the next packet of one end that may leave now into `out`; whether there is one.
    pub(super) fn transmit(&mut self, now: Instant, end: usize, out: &mut Vec<u8>) -> bool {
        let is_packet = self.ends[end].transmit(now, out);
        if is_packet && end == SENDER {
            let header = out.get(IP_HEADER + 12).map_or(0, |byte| usize::from(byte >> 4) * 4);
            let bytes = out.len().saturating_sub(IP_HEADER + header) as u64;
            if bytes > 0 {
                let (number, bytes32) = (self.sent.sent_packets, bytes as u32);
                self.newest_packet = Some(SentPacket { number, bytes: bytes32, sent: now });
                self.sent.sent_packets += 1;
                self.sent.sent_bytes += bytes;
            }
        }
        is_packet
    }

    /// Every retransmission counts as a loss, as with the kernel's TCP.
    fn sent_again(&self, connection: &Connection) -> SenderStats {
        let info = self.ends[SENDER].connection(connection.handle).map(|tcp| tcp.info());
        SenderStats {
            lost_packets: info.map_or(0, |info| info.total_retrans),
            lost_bytes: info.map_or(0, |info| info.bytes_retrans),
            ..SenderStats::default()
        }
    }

    pub(super) fn stats(&self) -> SenderStats {
        let mut stats = self.sent;
        for connection in self.connections.iter().flatten() {
            stats.add(self.sent_again(connection));
        }
        stats
    }

    pub(super) fn newest_packet(&self) -> Option<SentPacket> {
        self.newest_packet
    }

    fn newest(&self) -> Option<&fullpipe_tcp::Connection> {
        let connection = self.connections.get(self.newest?)?.as_ref()?;
        self.ends[SENDER].connection(connection.handle)
    }

    pub(super) fn latest_rtt(&self) -> Option<Duration> {
        self.newest()?.newest_rtt().0
    }

    /// The congestion control of the newest connection.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        self.newest().map(fullpipe_tcp::Connection::congestion)
    }

    /// Requests and connections that have begun and are not complete.
    pub(super) fn incomplete(&self) -> Option<u64> {
        self.completion_ns.as_ref()?;
        let open = match self.config.application {
            Application::RequestResponse { .. } => usize::from(self.request.is_some()),
            _ => self.connections.iter().flatten().filter(|c| c.end.is_none()).count(),
        };
        Some(self.failed + open as u64)
    }
}
