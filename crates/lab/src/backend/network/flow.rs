//! One flow: the connections between its ends, and what its application does when.

use std::collections::HashMap;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Ecn, Exponential};
use fullpipe_sim::{
    Application, FlowConfig, Jitter, REQUEST_BYTES, SenderStats, SentPacket, Tally,
};

use super::connection::Connection;
use super::transport::{Departure, RECEIVER, Read, SENDER, Stamp, Transport};
use crate::observe::FlowSample;

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

/// Segments beyond the last that left, which an application without a bound of its own has in the
/// buffer: a sender must never wait for it.
const AHEAD: u64 = 8;

/// An answer that the receiver waits for.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// The number of bytes received with which it is complete.
    until: u64,
    asked: Instant,
}

#[derive(Debug)]
pub(super) struct Flow<T: Transport> {
    config: FlowConfig,
    stamp: Stamp,
    transport: T,
    /// Those whose sender does not know yet that all has arrived; of an application with one
    /// connection that one.
    connections: Vec<Option<Connection<T::Handle>>>,
    free: Vec<usize>,
    /// Places in `connections`.
    by_handle: [HashMap<T::Handle, usize>; 2],
    newest: Option<usize>,
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
}

impl<T: Transport> Flow<T> {
    pub(super) fn new(config: &FlowConfig, transport: T, seeds: Seeds) -> Self {
        let config = *config;
        let completes = matches!(
            config.application,
            Application::RequestResponse { .. } | Application::ShortFlows { .. }
        );
        let stamp = match (config.application, config.send_buffer) {
            (Application::RateLimited { .. } | Application::RequestResponse { .. }, _) => {
                Stamp::ByApplication
            }
            (_, None) => transport.stamp(),
            _ => Stamp::InBuffer,
        };
        let start = Instant::default() + config.start;
        Self {
            config,
            stamp,
            transport,
            connections: Vec::new(),
            free: Vec::new(),
            by_handle: [HashMap::new(), HashMap::new()],
            newest: None,
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
        }
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

    /// The application falls silent for good. Short connections that have begun go on to their end.
    fn stop(&mut self) {
        (self.has_stopped, self.request) = (true, None);
        let is_short = matches!(self.config.application, Application::ShortFlows { .. });
        if self.stamp != Stamp::ByApplication && !is_short {
            for connection in self.connections.iter_mut().flatten() {
                connection.wanted = connection.written;
            }
        }
    }

    /// The application has nothing more to send, until [`Self::offer`].
    pub(super) fn withhold(&mut self) {
        self.stop();
    }

    /// The application has so many bytes more to send; the largest number is data without an end.
    pub(super) fn offer(&mut self, now: Instant, bytes: u64) {
        let Some(connection) = self.only() else { return };
        connection.wanted = connection.wanted.saturating_add(bytes);
        if let Some(place) = self.newest {
            self.fill(now, place);
        }
    }

    pub(super) fn peek(&self) -> &T {
        &self.transport
    }

    pub(super) fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The connection of an application that has one.
    fn only(&mut self) -> Option<&mut Connection<T::Handle>> {
        self.connections.get_mut(self.newest?)?.as_mut()
    }

    fn connect(&mut self, now: Instant, bytes: Option<u64>) {
        let Some(handle) = self.transport.connect(now) else {
            self.failed += 1;
            return;
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections[place] = Some(Connection::new(now, handle, bytes));
        self.by_handle[SENDER].insert(handle, place);
        self.newest = Some(place);
    }

    /// The handshake is over at the sender: its application begins.
    fn begin(&mut self, now: Instant, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        connection.is_established = true;
        match self.config.application {
            Application::ShortFlows { bytes, .. } => connection.wanted = bytes,
            _ if self.has_stopped => {}
            Application::Bulk => connection.wanted = u64::MAX,
            Application::Bytes(bytes) => connection.wanted = bytes,
            Application::RateLimited { .. } | Application::OnOff { .. } => {
                self.wakes = Some(now);
                self.on_wake(now);
            }
            // The receiver's application begins.
            Application::RequestResponse { .. } => {}
        }
    }

    fn write(&mut self, now: Instant, bytes: u64) {
        let segment = self.transport.segment();
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
            self.transport.write(now, RECEIVER, handle, u64::from(REQUEST_BYTES));
            let until = self.received + response_bytes;
            self.request = Some(Request { until, asked: now });
        }
    }

    /// A packet arrives at one of the ends.
    pub(super) fn receive(&mut self, now: Instant, end: usize, packet: &mut [u8], ecn: Ecn) {
        self.transport.receive(now, end, packet, ecn);
    }

    pub(super) fn on_timer(&mut self, now: Instant, end: usize) {
        self.transport.on_timer(now, end);
    }

    pub(super) fn poll_at(&self, end: usize) -> Option<Instant> {
        self.transport.poll_at(end)
    }

    /// Lets the applications of one end do what they can now.
    pub(super) fn work(&mut self, now: Instant, end: usize, tallies: &mut Tallies<'_>) {
        if end == RECEIVER {
            while let Some((handle, peer)) = self.transport.accept() {
                self.on_accepted(now, handle, peer);
            }
        }
        while let Some(handle) = self.transport.next_changed(end) {
            let Some(place) = self.by_handle[end].get(&handle).copied() else { continue };
            match end {
                SENDER => self.on_sender(now, handle, place, tallies),
                _ => self.read(now, handle, place, tallies),
            }
        }
    }

    fn on_accepted(&mut self, now: Instant, handle: T::Handle, peer: Option<T::Handle>) {
        let place = peer.and_then(|peer| self.by_handle[SENDER].get(&peer)).copied();
        let Some(connection) = place.and_then(|place| self.connections[place].as_mut()) else {
            return self.transport.release(now, RECEIVER, handle);
        };
        connection.accepted = Some(handle);
        self.by_handle[RECEIVER].extend(place.map(|place| (handle, place)));
        if let Application::RequestResponse { response_bytes, .. } = self.config.application {
            self.ask(now, response_bytes);
        }
    }

    fn on_sender(
        &mut self,
        now: Instant,
        handle: T::Handle,
        place: usize,
        tallies: &mut Tallies<'_>,
    ) {
        let Some(seen) = self.transport.look(handle) else { return };
        let segment = self.transport.segment();
        let Some(connection) = &mut self.connections[place] else { return };
        if seen.rtt.count > connection.rtt_samples
            && let Some(rtt) = seen.rtt.newest
        {
            connection.rtt_samples = seen.rtt.count;
            tallies.rtt.record(rtt.as_nanos());
        }
        connection.left = connection.written - seen.unsent.min(connection.written);
        if self.stamp == Stamp::AtDeparture {
            connection.stamp(now, connection.left, segment);
        }
        if seen.is_over {
            return self.retire(now, place);
        }
        if seen.is_established && !connection.is_established {
            self.begin(now, place);
        }
        if let Application::RequestResponse { response_bytes, .. } = self.config.application {
            while let Read::Data(count) = self.transport.read(SENDER, handle) {
                self.requested += count;
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
        let segment = self.transport.segment();
        let Some(connection) = &mut self.connections[place] else { return };
        let handle = connection.handle;
        if !connection.is_established || connection.is_closed {
            return;
        }
        let Some(seen) = self.transport.look(handle) else { return };
        let (wanted, mut room) = (connection.wanted - connection.written, seen.writable);
        if self.stamp == Stamp::AtDeparture {
            room = room.min((AHEAD * segment).saturating_sub(seen.unsent));
        }
        let mut count = wanted.min(room);
        if count < wanted && self.transport.writes_segments() {
            // Whole segments, lest small ones leave.
            count -= count % segment;
        }
        if count > 0 {
            connection.written += self.transport.write(now, SENDER, handle, count);
        }
        if self.stamp == Stamp::InBuffer {
            connection.stamp(now, connection.written, segment);
        }
        if connection.bytes == Some(connection.written) {
            connection.is_closed = true;
            self.transport.close(now, handle);
        }
    }

    /// The receiver's application reads all that there is.
    fn read(&mut self, now: Instant, handle: T::Handle, place: usize, tallies: &mut Tallies<'_>) {
        loop {
            let read = self.transport.read(RECEIVER, handle);
            let Some(connection) = &mut self.connections[place] else { return };
            let count = match read {
                Read::Data(count) => count,
                Read::Nothing => return,
                Read::End => {
                    self.by_handle[RECEIVER].remove(&handle);
                    return self.transport.release(now, RECEIVER, handle);
                }
            };
            self.received += count;
            connection.on_read(count, |written| {
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
        self.failed += u64::from(connection.end.is_none());
        self.by_handle[SENDER].remove(&connection.handle);
        self.transport.release(now, SENDER, connection.handle);
        if let Some(accepted) = connection.accepted
            && self.by_handle[RECEIVER].remove(&accepted).is_some()
        {
            self.transport.release(now, RECEIVER, accepted);
        }
        self.free.push(place);
        self.newest = self.newest.filter(|newest| *newest != place);
    }

    /// Writes the next packet of one end that may leave now into `out`.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        end: usize,
        out: &mut Vec<u8>,
    ) -> Option<Departure> {
        self.transport.transmit(now, end, out)
    }

    pub(super) fn stats(&mut self) -> SenderStats {
        self.transport.stats()
    }

    pub(super) fn newest_packet(&self) -> Option<SentPacket> {
        self.transport.newest_packet()
    }

    fn newest(&self) -> Option<T::Handle> {
        Some(self.connections.get(self.newest?)?.as_ref()?.handle)
    }

    pub(super) fn latest_rtt(&self) -> Option<Duration> {
        self.transport.look(self.newest()?)?.rtt.newest
    }

    /// Congestion control and round trips of the newest connection.
    pub(super) fn sample(&self) -> Option<FlowSample> {
        self.transport.sample(self.newest()?)
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
