//! The link's thread: sleep, read what came, send what is due.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{
    Count, Delivered, Event, Header, IPV4_UDP_HEADER_BYTES, IPV6_UDP_HEADER_BYTES,
};
use fullpipe_traffic::Direction;

use crate::capture::{Capture, LinkEnd};
use crate::clock::Clock;
use crate::cross::Cross;
use crate::flows::{Port, Ports};
use crate::model::{Parcel, Shared, together};
use crate::os::{self, Received, Receiver, Waiter};
use crate::outcome::{Active, Outcome, corrupt, thread_cpu_time};
use crate::report::Nanos;
use crate::wake::Wakes;
use crate::{ArrivalTime, EmuError, EmulatorConfig, HostReport, LinkReport, Rebound};

/// Largest number of reads from one socket before packets that are due are sent. More would delay
/// them.
const READS_A_TURN: usize = 64;

/// The longest that a packet waits to be read while others leave: a live sample does not see it
/// yet.
const LONGEST_BLIND: Duration = Duration::from_millis(1);

/// A datagram that was read and has not entered its path yet.
struct Incoming {
    at: Instant,
    direction: Direction,
    header: Header,
    parcel: Parcel,
}

pub(crate) struct Link {
    clock: Clock,
    started: Instant,
    shared: Arc<Shared>,
    ports: Ports,
    /// Closed at the other end when the link shall stop.
    stopped: UnixStream,
    waiter: Waiter,
    receiver: Receiver,
    headers: u32,
    /// The times at which flows get new sockets, in order.
    rebind: VecDeque<(Instant, Rebound)>,
    /// For how long the thread need not look at its sockets while it waits for a packet to leave.
    blind: Duration,
    wakes: Wakes,
    realtime: bool,
    cross: Cross,
    incoming: Vec<Incoming>,
    due: Vec<Delivered<Parcel>>,
    /// Buffers that wait for their next datagram.
    pool: Vec<Vec<u8>>,
    lateness: Nanos,
    active: Active,
    capture: Option<Capture>,
    refused: Count,
    unreachable: u64,
    /// Largest size of datagrams that go together: less than what the system has refused.
    largest_together: usize,
}

impl Link {
    pub(crate) fn new(
        config: &EmulatorConfig,
        ports: Ports,
        stopped: UnixStream,
        clock: Clock,
        shared: Arc<Shared>,
        capture: Option<Capture>,
    ) -> io::Result<Self> {
        let headers = match config.target.is_ipv4() {
            true => IPV4_UDP_HEADER_BYTES,
            false => IPV6_UDP_HEADER_BYTES,
        };
        let mut rebind: Vec<_> =
            config.rebind.iter().map(|r| (Instant::default() + r.at, r.what)).collect();
        rebind.sort_by_key(|(at, _)| *at);
        let largest_together = match os::sends_together(&ports.clients.socket) {
            true => usize::MAX,
            false => 0,
        };
        Ok(Self {
            clock,
            started: clock.now(),
            shared,
            ports,
            stopped,
            waiter: Waiter::new()?,
            receiver: Receiver::new(),
            headers,
            rebind: rebind.into(),
            blind: blind(config),
            wakes: Wakes::new(config.downlink.least_delay() + config.uplink.least_delay()),
            realtime: config.realtime,
            cross: Cross::new(config.cross.clone()),
            incoming: Vec::new(),
            due: Vec::new(),
            pool: Vec::new(),
            lateness: Nanos::new(),
            active: Active::default(),
            capture,
            refused: Count::default(),
            unreachable: 0,
            largest_together,
        })
    }

    /// Runs until the handle closes its end of `stopped`.
    pub(crate) fn run(mut self, receive_buffer_bytes: usize) -> Result<LinkReport, EmuError> {
        os::prepare_thread();
        let host = HostReport {
            arrival_time: os::ARRIVAL_TIME,
            receive_buffer_bytes,
            realtime: self.realtime && os::request_realtime(os::LINK_PRIORITY),
            sees_kernel_drops: os::SEES_KERNEL_DROPS,
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
            self.rebind_until(now).map_err(EmuError::io("open new sockets"))?;
            self.read(&ready, now).map_err(EmuError::io("read its sockets"))?;
            self.send_due(Direction::Down, now);
            self.send_due(Direction::Up, now);
        }
    }

    /// Gives each flow a new socket towards the target if a time for that has come. What the target
    /// has sent to the old ones is lost, as behind a router that forgot.
    fn rebind_until(&mut self, now: Instant) -> io::Result<()> {
        if self.rebind.front().is_none_or(|(at, _)| *at > now) {
            return Ok(());
        }
        while let Some(&(at, what)) = self.rebind.front()
            && at <= now
        {
            self.rebind.pop_front();
            self.ports.rebind(what)?;
        }
        // It knows the old ones.
        self.waiter = Waiter::new()?;
        Ok(())
    }

    /// Sleeps until a packet comes or is due.
    fn wait(&mut self, ready: &mut Vec<usize>) -> io::Result<()> {
        let next = {
            let model = self.shared.model();
            let paths = [model.downlink.next_event(), model.uplink.next_event()];
            let rebinding = self.rebind.front().map(|(at, _)| *at);
            let others = [model.way_back.next_due(), self.cross.next_due(), rebinding];
            paths.into_iter().chain(others).flatten().min().map(|at| self.wakes.next(at))
        };
        let stopped = || std::iter::once(self.stopped.as_fd());
        let now = self.clock.now();
        if let Some(at) = next
            && at > now
            && at <= now + self.blind
        {
            self.waiter.wait(stopped(), Some(at.since(now).into()), ready)?;
            if !ready.is_empty() {
                return Ok(());
            }
        }
        let timeout = next.map(|at| at.since(self.clock.now()).into());
        self.waiter.wait(stopped().chain(self.ports.fds()), timeout, ready)
    }

    /// Reads the sockets that have something and lets it into the paths in the order of arrival,
    /// with the cross traffic until `now`.
    fn read(&mut self, ready: &[usize], now: Instant) -> io::Result<()> {
        for &position in ready {
            match position {
                0 => {}
                1 => self.read_clients()?,
                n => self.read_target(n - 2)?,
            }
        }
        while let Some((at, header)) = self.cross.pop(now) {
            let parcel = Parcel { flow: None, data: self.pool.pop().unwrap_or_default() };
            self.incoming.push(Incoming { at, direction: Direction::Down, header, parcel });
        }
        if !self.incoming.is_sorted_by_key(|i| i.at) {
            // Stable, so that the order within a flow stays what it was.
            self.incoming.sort_by_key(|i| i.at);
        }
        let Some(first) = self.incoming.first() else { return Ok(()) };
        self.active.begin(first.at);
        let mut incoming = std::mem::take(&mut self.incoming);
        {
            let mut model = self.shared.model();
            for Incoming { at, direction, header, parcel } in incoming.drain(..) {
                if direction == Direction::Down
                    && let Some(number) = parcel.flow
                    && let Some(flow) = self.ports.flows.get(number)
                {
                    let bytes = parcel.data.len() as u32;
                    model.note_sent(number, flow.client.port(), at, bytes);
                }
                if let Err(dropped) = model.path(direction).send(at, header, parcel) {
                    self.pool.push(dropped.payload.data);
                }
            }
        }
        self.incoming = incoming;
        Ok(())
    }

    fn read_clients(&mut self) -> io::Result<()> {
        for _ in 0..READS_A_TURN {
            let read = self.receiver.receive(&self.ports.clients.socket);
            let Some(received) = self.read_or_nothing(read)? else { break };
            let more = self.ports.clients.note_drops(received.dropped);
            self.count_kernel_drops(more);
            let Some(client) = received.from else { continue };
            let flows = self.ports.flows.len();
            let flow = self.ports.flow_of(client);
            if self.ports.flows.len() > flows {
                self.shared.endpoints.add(client);
            }
            match flow {
                Ok(flow) => self.take_in(&received, Direction::Up, flow),
                Err(_) => {
                    let headers = self.headers;
                    received.datagrams().for_each(|r| self.refused.add(r.len() as u32 + headers));
                }
            }
        }
        Ok(())
    }

    fn read_target(&mut self, flow: usize) -> io::Result<()> {
        for _ in 0..READS_A_TURN {
            let Some(port) = self.ports.flows.get(flow).map(|f| &f.port) else { break };
            let read = self.receiver.receive(&port.socket);
            let Some(received) = self.read_or_nothing(read)? else { break };
            let more = self.ports.flows[flow].port.note_drops(received.dropped);
            self.count_kernel_drops(more);
            self.take_in(&received, Direction::Down, flow);
        }
        Ok(())
    }

    /// The datagrams that were read, or `None` if there are no more for now. The error that nobody
    /// listens at the other end does not stop the link: reading has cleared it, and the datagrams
    /// behind it are read in the next turn.
    fn read_or_nothing(&mut self, read: io::Result<Received>) -> io::Result<Option<Received>> {
        match read {
            Ok(received) => Ok(Some(received)),
            Err(e) if os::is_unreachable(&e) => {
                self.unreachable += 1;
                Ok(None)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Cuts what one call read into datagrams.
    fn take_in(&mut self, received: &Received, direction: Direction, flow: usize) {
        let both = self.clock.read_both();
        let at = received.stamp.map_or(both.now(), |stamp| both.place(stamp));
        for range in received.datagrams() {
            let mut data = self.pool.pop().unwrap_or_default();
            data.clear();
            data.extend_from_slice(self.receiver.data(range));
            note(
                &mut self.capture,
                &self.ports,
                (direction, LinkEnd::entry(direction)),
                at,
                flow,
                &data,
            );
            let wire_bytes = data.len() as u32 + self.headers;
            let header =
                Header { flow: flow as u32, ecn: received.ecn, ..Header::from(wire_bytes) };
            let parcel = Parcel { flow: Some(flow), data };
            self.incoming.push(Incoming { at, direction, header, parcel });
        }
    }

    fn count_kernel_drops(&self, more: u64) {
        if more > 0 {
            self.shared.kernel_drops.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Sends what one path lets go until `now`.
    fn send_due(&mut self, direction: Direction, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        {
            let mut model = self.shared.model();
            while let Some(event) = model.path(direction).poll(now) {
                match event {
                    Event::Delivered(mut delivered) => {
                        model.outcome(direction).queue_delay.record(delivered.queued);
                        if delivered.payload.flow.is_none() {
                            self.pool.push(delivered.payload.data);
                            continue;
                        }
                        let outcome = model.outcome(direction);
                        if delivered.corrupted {
                            corrupt(&mut delivered.payload.data, outcome.corrupted);
                        }
                        outcome.deliver(delivered.at, delivered.payload.data.len() as u64);
                        outcome.corrupted += u64::from(delivered.corrupted);
                        self.active.extend_to(delivered.at);
                        let is_held = direction == Direction::Up && !model.way_back.is_short();
                        let port = is_held.then(|| self.client_port(&delivered)).flatten();
                        due.extend(match port {
                            Some(port) => model.way_back.hold(&[port], delivered),
                            None => Some(delivered),
                        });
                    }
                    Event::Dropped(dropped) => self.pool.push(dropped.payload.data),
                }
            }
            if direction == Direction::Up {
                while let Some(delivered) = model.way_back.pop(now) {
                    due.push(delivered);
                }
            }
        }
        if !due.is_empty() {
            self.wakes.note(now);
        }
        let mut failures = Count::default();
        let mut rest = &due[..];
        while let (packets, behind) =
            rest.split_at(together(direction, rest, self.largest_together))
            && !packets.is_empty()
        {
            rest = behind;
            // An answer may come while the packet is still being sent, and a capture is to have it
            // behind the packet.
            let leaves = self.capture.as_ref().map(|_| self.clock.now());
            self.send(direction, packets, &mut failures);
            let sent = self.clock.now();
            for Delivered { at, payload: Parcel { flow, data }, .. } in packets {
                self.lateness.record(sent.since(*at));
                if let Some(flow) = flow {
                    note(
                        &mut self.capture,
                        &self.ports,
                        (direction, LinkEnd::exit(direction)),
                        leaves.unwrap_or(sent),
                        *flow,
                        data,
                    );
                }
            }
        }
        self.pool.extend(due.drain(..).map(|delivered| delivered.payload.data));
        self.due = due;
        if failures.packets > 0 {
            let mut model = self.shared.model();
            let all = &mut model.outcome(direction).send_failures;
            all.packets += failures.packets;
            all.bytes += failures.bytes;
        }
    }

    /// The port of the client that sent a packet.
    fn client_port(&self, packet: &Delivered<Parcel>) -> Option<u16> {
        let flow = self.ports.flows.get(packet.payload.flow?)?;
        Some(flow.client.port())
    }

    /// Sends packets that are [`together`]; counts those that the system refuses.
    fn send(&mut self, direction: Direction, packets: &[Delivered<Parcel>], failures: &mut Count) {
        let Some(first) = packets.first() else { return };
        let flow = first.payload.flow.and_then(|flow| self.ports.flows.get(flow));
        let Some(flow) = flow else { return };
        let mut slices = [IoSlice::new(&[]); os::MOST_DATAGRAMS];
        for (slice, packet) in slices.iter_mut().zip(packets) {
            *slice = IoSlice::new(&packet.payload.data);
        }
        let data = &slices[..packets.len()];
        let once = || match direction {
            Direction::Down => {
                os::send(&self.ports.clients.socket, data, first.ecn, Some(flow.client))
            }
            Direction::Up => os::send(&flow.port.socket, data, first.ecn, None),
        };
        let (sent, unreachable) = attempt(once, packets.len() as u64);
        self.unreachable += unreachable;
        match sent {
            Ok(()) => {}
            Err(e) if os::is_unreachable(&e) => {}
            Err(e) if packets.len() > 1 => {
                self.largest_together =
                    os::largest_together(self.largest_together, first.payload.data.len(), &e);
                for packet in packets {
                    self.send(direction, std::slice::from_ref(packet), failures);
                }
            }
            Err(_) => failures.add(first.wire_bytes),
        }
    }

    fn report(mut self, host: HostReport) -> LinkReport {
        if let Some(table) = os::socket_table() {
            let note = |port: &mut Port| port.note_drops(os::own_drops(&table, &port.socket));
            let more = self.ports.all().map(note).sum();
            self.count_kernel_drops(more);
        }
        let mut model = self.shared.model();
        let down = std::mem::replace(&mut model.down, Outcome::new());
        let up = std::mem::replace(&mut model.up, Outcome::new());
        LinkReport {
            downlink: down.report(&mut model.downlink),
            uplink: up.report(&mut model.uplink),
            lateness: self.lateness.into_inner(),
            flows: self.ports.flows.len(),
            refused: self.refused,
            unreachable: self.unreachable,
            waited: 0,
            kernel_drops: self.shared.kernel_drops(),
            endpoint_drops: self.shared.endpoints.drops(),
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

/// Sends so many packets with one call, once more where the system told of an earlier packet of this
/// socket instead of sending these. The number of packets that found nobody.
fn attempt(mut once: impl FnMut() -> io::Result<()>, packets: u64) -> (io::Result<()>, u64) {
    let mut earlier = 0;
    let mut sent = once();
    if sent.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
        earlier = 1;
        sent = once();
    }
    let these = if sent.as_ref().is_err_and(os::is_unreachable) { packets } else { 0 };
    (sent, earlier + these)
}

/// A packet that arrives has its time from the kernel, and leaves no earlier than after the delay:
/// until then it can be read at any moment with the same result. Reading it when some other packet
/// leaves anyway saves a wake, which is most of what a packet costs.
fn blind(config: &EmulatorConfig) -> Duration {
    match os::ARRIVAL_TIME {
        ArrivalTime::Kernel => {
            config.downlink.least_delay().min(config.uplink.least_delay()).min(LONGEST_BLIND)
        }
        ArrivalTime::Read => Duration::ZERO,
    }
}

/// Keeps a datagram of a flow at an end in the file, if there is one.
fn note(
    capture: &mut Option<Capture>,
    ports: &Ports,
    (direction, end): (Direction, LinkEnd),
    at: Instant,
    flow: usize,
    data: &[u8],
) {
    if let Some(capture) = capture
        && let Some(addresses) = ports.addresses(flow, end, direction == Direction::Down)
    {
        capture.note_datagram(end, at, addresses, data);
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn each_packet_that_finds_nobody_counts_once() {
        let count = |answers: &[Option<Errno>], packets| {
            let mut answers = answers.iter();
            let once = || answers.next().expect("no third call").map_or(Ok(()), |e| Err(e.into()));
            let (sent, unreachable) = attempt(once, packets);
            (sent.is_ok(), unreachable)
        };
        assert_eq!(count(&[None], 7), (true, 0));
        assert_eq!(count(&[Some(Errno::ECONNREFUSED), None], 1), (true, 1), "an earlier one");
        assert_eq!(count(&[Some(Errno::ECONNREFUSED); 2], 1), (false, 2));
        assert_eq!(count(&[Some(Errno::ENETUNREACH)], 7), (false, 7));
        assert_eq!(count(&[Some(Errno::EMSGSIZE)], 7), (false, 0));
    }
}
