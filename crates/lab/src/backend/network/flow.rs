//! One flow: the connections between its ends, and what its applications write and read there.

mod ends;

use std::collections::HashMap;

use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_sim::{Arrived, FlowConfig, Host, Io, Jitter, REQUEST_BYTES};
use fullpipe_traffic::{Action, Application, Reading, SenderView, Tally, Traffic};

use super::connection::Connection;
use super::transport::{RECEIVER, Read, SENDER, Stamp, Transport};

/// The seeds of what a flow draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds {
    pub(super) starts: u64,
    pub(super) jitter: u64,
    pub(super) receiver: u64,
}

/// Segments beyond the last that left, which an application without a bound of its own has in the
/// buffer: a sender must never wait for it.
const AHEAD: u64 = 8;

/// A flow of a real stack.
#[derive(Debug)]
pub(in crate::backend) struct Flow<T: Transport> {
    traffic: Traffic,
    stamp: Stamp,
    transport: T,
    /// Those whose sender does not know yet that all has arrived; of an application with one
    /// connection that one.
    connections: Vec<Option<Connection<T::Handle>>>,
    free: Vec<usize>,
    /// Places in `connections`.
    by_handle: [HashMap<T::Handle, usize>; 2],
    newest: Option<usize>,
    received: u64,
    start: Instant,
    end: Option<Instant>,
    /// Bytes of requests that the sender has read.
    requested: u64,
    /// Connections that ended before their last byte.
    failed: u64,
    completion_ns: Option<Tally>,
    jitter: Jitter,
    /// The receiver's host, if it takes its time.
    host: Option<Box<Host<Arrived<Self>>>>,
    /// Buffers of packets that have arrived, for the next ones: what one end sends, the other takes
    /// in.
    spare: Vec<Vec<u8>>,
}

impl<T: Transport> Flow<T> {
    pub(super) fn new(config: &FlowConfig, transport: T, seeds: Seeds) -> Self {
        let application = config.application;
        let stamp = match config.send_buffer {
            _ if application.writes_at_times() => Stamp::ByApplication,
            None => transport.stamp(),
            Some(_) => Stamp::InBuffer,
        };
        let start = Instant::default() + config.start;
        let stop = config.stop.map(|stop| Instant::default() + stop);
        Self {
            traffic: Traffic::new(application, start, stop, seeds.starts),
            stamp,
            transport,
            connections: Vec::new(),
            free: Vec::new(),
            by_handle: [HashMap::new(), HashMap::new()],
            newest: None,
            received: 0,
            start,
            end: None,
            requested: 0,
            failed: 0,
            completion_ns: application.completes().then(Tally::new),
            jitter: Jitter::new(config.jitter, seeds.jitter),
            host: (config.receiver_delay > Duration::ZERO)
                .then(|| Box::new(Host::new(config.receiver_delay, seeds.receiver))),
            spare: Vec::new(),
        }
    }

    /// The time of the application's next step.
    fn wakes(&self) -> Option<Instant> {
        self.traffic.wakes()
    }

    /// The application's next steps, at their time.
    fn on_wake(&mut self, now: Instant) {
        self.step(now);
        if let Some(place) = self.newest {
            self.fill(now, place);
        }
    }

    /// The sender as its application sees it. Where a stack does not say what has left, what waits
    /// is what the receiver has not read and is not in flight: what has arrived and is not
    /// acknowledged counts twice there.
    fn view(&self) -> SenderView {
        let connection = self.newest.and_then(|place| self.connections.get(place)?.as_ref());
        let Some(connection) = connection else { return SenderView::default() };
        let sample = self.transport.sample(connection.handle).unwrap_or_default();
        let backlog = if self.transport.stamp() == Stamp::Never {
            let inflight = sample.inflight.unwrap_or(sample.cwnd);
            connection.supply.wanted().saturating_sub(self.received + inflight)
        } else {
            let seen = self.transport.look(connection.handle);
            connection.supply.left() + seen.map_or(0, |seen| seen.unsent)
        };
        let estimate = match (sample.model, sample.srtt) {
            (Some(model), _) => model.send_rate_estimate(),
            (None, srtt) => {
                let srtt = srtt.filter(|srtt| *srtt > Duration::ZERO);
                srtt.map(|srtt| Rate::from_volume(sample.cwnd, srtt))
            }
        };
        SenderView { estimate, backlog }
    }

    /// Tells the application how the sender is, and asks there for the probe that it wants.
    fn tell_of_sender(&mut self, now: Instant) {
        let view = self.view();
        self.traffic.on_sender(view);
        if let Some(target) = self.traffic.wanted_rate(now)
            && let Some(handle) = self.newest()
            && let Some(answer) = self.transport.probe_bandwidth(now, handle, target)
        {
            self.traffic.on_probe(now, answer);
        }
    }

    /// Carries out what the application does now.
    fn step(&mut self, now: Instant) {
        if self.traffic.application().heeds_sender() {
            self.tell_of_sender(now);
        }
        loop {
            match self.traffic.on_time(now) {
                Action::Nothing => return,
                Action::Connect => self.connect(now),
                Action::Request => self.ask(now),
                action => self.supply(action),
            }
        }
    }

    /// The data of the sender's application changes. Short connections that have begun go on to
    /// their end.
    fn supply(&mut self, action: Action) {
        let application = self.traffic.application();
        if application.has_many_connections() {
            return;
        }
        let segment = self.transport.segment();
        let Some(connection) = self.only() else { return };
        connection.supply.on_action(application, action);
        if let Action::Write { due, .. } = action
            && application.writes_at_times()
        {
            connection.stamp(due, connection.supply.wanted(), segment);
        }
    }

    /// The application has nothing more to send, until [`Self::offer`]. What the stack has already
    /// stays there.
    pub(in crate::backend) fn withhold(&mut self) {
        self.traffic.stop();
        self.supply(Action::Stop);
    }

    /// The application has so many bytes more to send; the largest number is data without an end.
    pub(in crate::backend) fn offer(&mut self, io: &mut Io<'_, Self>, bytes: u64) {
        let Some(connection) = self.only() else { return };
        connection.supply.offer(bytes);
        if let Some(place) = self.newest {
            self.fill(io.now(), place);
        }
    }

    /// The stack.
    pub(in crate::backend) fn transport(&self) -> &T {
        &self.transport
    }

    /// The stack, to be changed.
    pub(in crate::backend) fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The connection of an application that has one.
    fn only(&mut self) -> Option<&mut Connection<T::Handle>> {
        self.connections.get_mut(self.newest?)?.as_mut()
    }

    fn connect(&mut self, now: Instant) {
        let Some(handle) = self.transport.connect(now) else {
            self.failed += 1;
            return;
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let bytes = self.traffic.application().connection_bytes();
        self.connections[place] = Some(Connection::new(now, handle, bytes));
        self.by_handle[SENDER].insert(handle, place);
        self.newest = Some(place);
    }

    /// The handshake is over at the sender: its application begins, unless the receiver's does.
    fn begin(&mut self, now: Instant, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        connection.is_established = true;
        match self.traffic.application() {
            Application::ShortFlows { bytes, .. } => connection.supply.offer(bytes),
            Application::RequestResponse { .. } => {}
            _ => {
                self.traffic.on_connected(now);
                self.step(now);
            }
        }
    }

    /// The receiver's application asks for an answer.
    fn ask(&mut self, now: Instant) {
        if let Some(handle) = self.only().and_then(|connection| connection.accepted) {
            // A request fits into any buffer that is empty, and there is one at a time.
            self.transport.write(now, RECEIVER, handle, u64::from(REQUEST_BYTES));
        }
    }

    /// Lets the applications of one end do what they can now.
    fn work(&mut self, io: &mut Io<'_, Self>, end: usize) {
        let now = io.now();
        if end == RECEIVER {
            while let Some((handle, peer)) = self.transport.accept() {
                self.on_accepted(now, handle, peer);
            }
        }
        while let Some(handle) = self.transport.next_changed(end) {
            let Some(place) = self.by_handle[end].get(&handle).copied() else { continue };
            match end {
                SENDER => self.on_sender(io, handle, place),
                _ => self.read(io, handle, place),
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
        if matches!(self.traffic.application(), Application::RequestResponse { .. }) {
            self.traffic.on_connected(now);
            self.step(now);
        }
    }

    fn on_sender(&mut self, io: &mut Io<'_, Self>, handle: T::Handle, place: usize) {
        let now = io.now();
        let Some(seen) = self.transport.look(handle) else { return };
        let segment = self.transport.segment();
        let Some(connection) = &mut self.connections[place] else { return };
        if seen.rtt.count > connection.rtt_samples
            && let Some(rtt) = seen.rtt.newest
        {
            connection.rtt_samples = seen.rtt.count;
            io.rtt_ns().record(rtt.as_nanos());
        }
        let taken = connection.supply.taken();
        connection.left = taken - seen.unsent.min(taken);
        if self.stamp == Stamp::AtDeparture {
            connection.stamp(now, connection.left, segment);
        }
        if seen.is_over {
            return self.retire(now, place);
        }
        if seen.is_established && !connection.is_established {
            self.begin(now, place);
        }
        if matches!(self.traffic.application(), Application::RequestResponse { .. }) {
            while let Read::Data(count) = self.transport.read(SENDER, handle) {
                self.requested += count;
            }
            while self.requested >= u64::from(REQUEST_BYTES) {
                self.requested -= u64::from(REQUEST_BYTES);
                self.supply(self.traffic.on_request(now));
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
        let (left, mut room) = (connection.supply.left(), seen.writable);
        if self.stamp == Stamp::AtDeparture {
            room = room.min((AHEAD * segment).saturating_sub(seen.unsent));
        }
        let mut count = left.min(room);
        if count < left && self.transport.writes_segments() {
            // Whole segments, lest small ones leave.
            count -= count % segment;
        }
        if count > 0 {
            connection.supply.take(self.transport.write(now, SENDER, handle, count));
        }
        self.transport.has_unsent(handle, connection.supply.left());
        let taken = connection.supply.taken();
        if self.stamp == Stamp::InBuffer {
            connection.stamp(now, taken, segment);
        }
        if connection.bytes == Some(taken) {
            connection.is_closed = true;
            self.transport.close(now, handle);
        }
    }

    /// The receiver's application reads all that there is.
    fn read(&mut self, io: &mut Io<'_, Self>, handle: T::Handle, place: usize) {
        let now = io.now();
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
                io.latency_ns().record(now.since(written).as_nanos());
            });
            if connection.bytes == Some(connection.read) && connection.end.is_none() {
                connection.end = Some(now);
                match &mut self.completion_ns {
                    Some(times) => times.record(now.since(connection.opened).as_nanos()),
                    None => self.end = Some(now),
                }
            }
            while let Reading::Answer(time) | Reading::Frame(time) =
                self.traffic.on_read(now, self.received)
            {
                if let Some(times) = &mut self.completion_ns {
                    times.record(time.as_nanos());
                }
            }
        }
    }

    /// The sender knows that a connection is over. One that is its flow's only one is still looked
    /// at.
    fn retire(&mut self, now: Instant, place: usize) {
        if !self.traffic.application().has_many_connections() {
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

    fn newest(&self) -> Option<T::Handle> {
        Some(self.connections.get(self.newest?)?.as_ref()?.handle)
    }
}
