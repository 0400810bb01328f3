//! The virtual clock: whatever happens next, happens next.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Arrival, CrossSource, Delivered, Ecn, Event, Header, Path, PathSample, Queue};
use fullpipe_report::observe::FlowSample;
use fullpipe_sim::{FlowConfig, Host, Link, NEVER, SimConfig, SimError, Timers};
use fullpipe_traffic::{
    Direction, FlowTallies, MediaStats, SenderStats, Stream, Tally, stream_seed,
};

use super::flow::{Flow, Seeds, Tallies};
use super::parcel::{Arrived, Parcel, SendOn, To, header};
use super::transport::{Departure, RECEIVER, SENDER, Transport};
use crate::backend::RunError;
use crate::backend::virtual_time::World;

/// Buffers of packets that are kept for the next ones.
const MAX_SPARE: usize = 1 << 16;

/// The links that packets pass, one behind the other: the first and the last.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: usize,
    last: usize,
}

impl Span {
    /// The backends of this network refuse other routes ([`fullpipe_scenario::Feature::Graph`]).
    fn of(links: &[usize]) -> Self {
        let first = links.first().copied().unwrap_or(0);
        Self { first, last: links.last().copied().unwrap_or(first) }
    }
}

#[derive(Debug)]
struct Cross {
    source: CrossSource,
    route: Span,
}

/// The timers of a flow.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Sender,
    Receiver,
    Application,
    /// Something arrives at the sender that was under way for `extra_rtt`.
    WayBack,
    /// The receiver's host gets to a packet.
    Host,
}

impl Timer {
    const ALL: [Self; 5] =
        [Self::Sender, Self::Receiver, Self::Application, Self::WayBack, Self::Host];
}

/// The links that a flow's packets pass.
#[derive(Clone, Copy, Debug)]
struct FlowRoute {
    route: Span,
    direction: Direction,
    extra_rtt: Duration,
}

/// A running network of flows.
#[derive(Debug)]
pub(in crate::backend) struct Network<T: Transport> {
    pub(super) now: Instant,
    pub(super) links: Vec<Link<Parcel>>,
    uplink: Path<Parcel>,
    pub(super) flows: Vec<Flow<T>>,
    ways: Vec<FlowRoute>,
    /// By flow: packets on a return path that is longer than the path's.
    way_back: Vec<VecDeque<(Instant, Vec<u8>, Ecn)>>,
    /// By flow: the receiver's host, if it takes its time.
    hosts: Vec<Option<Host<Arrived>>>,
    cross: Vec<Cross>,
    /// Those of cross traffic first, then five of each flow.
    timers: Timers,
    rtt_ns: FlowTallies,
    latency_ns: FlowTallies,
    packet: Vec<u8>,
    spare: Vec<Vec<u8>>,
    corrupted: u64,
}

impl<T: Transport> Network<T> {
    /// A network whose flows have the stacks that `stack` makes of a flow's number and settings.
    pub(in crate::backend) fn new(
        config: &SimConfig,
        mut stack: impl FnMut(usize, &FlowConfig) -> Result<T, RunError>,
    ) -> Result<Self, RunError> {
        // The simulator says what is wrong with a scenario.
        fullpipe_sim::Sim::new(config)?;
        let links = config.links.iter().map(Link::new).collect::<Result<_, _>>();
        let uplink = Path::new(&config.uplink).map_err(SimError::Path)?;
        let flows = config.flows.len();
        let mut world = Self {
            now: Instant::default(),
            links: links.map_err(SimError::Path)?,
            uplink,
            flows: Vec::with_capacity(flows),
            ways: Vec::with_capacity(flows),
            way_back: (0..flows).map(|_| VecDeque::new()).collect(),
            hosts: Vec::with_capacity(flows),
            cross: Vec::with_capacity(config.cross.len()),
            timers: Timers::new(config.cross.len() + flows * Timer::ALL.len()),
            rtt_ns: FlowTallies::new(flows),
            latency_ns: FlowTallies::new(flows),
            packet: Vec::new(),
            spare: Vec::new(),
            corrupted: 0,
        };
        world.links[0].count_by_flow(&config.links[0], flows);
        for (i, cross) in config.cross.iter().enumerate() {
            let seed = stream_seed(config.seed, Stream::Cross, i as u64);
            let source = CrossSource::new(cross.traffic, seed);
            if let Some(at) = source.next_due() {
                world.timers.arm(i, at);
            }
            let route = Span::of(&config.cross_route(cross).there);
            world.cross.push(Cross { source, route });
        }
        for (i, flow) in config.flows.iter().enumerate() {
            let seed = |stream| stream_seed(config.seed, stream, i as u64);
            let seeds = Seeds { starts: seed(Stream::Starts), jitter: seed(Stream::Jitter) };
            world.flows.push(Flow::new(flow, stack(i, flow)?, seeds));
            let takes_time = flow.receiver_delay > Duration::ZERO;
            let host = || Host::new(flow.receiver_delay, seed(Stream::Receiver));
            world.hosts.push(takes_time.then(host));
            let route = config.route(flow);
            world.ways.push(FlowRoute {
                route: Span::of(match flow.direction {
                    Direction::Down => &route.there,
                    Direction::Up => &route.back,
                }),
                direction: flow.direction,
                extra_rtt: flow.extra_rtt,
            });
            world.arm(Timer::Application, i, Instant::default() + flow.start);
        }
        Ok(world)
    }

    fn number(&self, timer: Timer, flow: usize) -> usize {
        self.cross.len() + flow * Timer::ALL.len() + timer as usize
    }

    fn arm(&mut self, timer: Timer, flow: usize, at: Instant) {
        self.timers.arm(self.number(timer, flow), at);
    }

    /// The time of the next event in nanoseconds, and its source: a link by its index, the way back
    /// after them, then the timers. Events at the same time are processed in this order: a timer
    /// must not fire for a packet that is just arriving.
    pub(super) fn next(&self) -> (u64, usize) {
        let nanos = |at: Option<Instant>| at.map_or(NEVER, Instant::as_nanos);
        let n = self.links.len();
        let due = self.links.iter().enumerate().map(|(i, link)| (nanos(link.path.next_event()), i));
        let others = [(nanos(self.uplink.next_event()), n), (self.timers.next(), n + 1)];
        due.chain(others).min().unwrap_or((NEVER, n))
    }

    pub(super) fn happen(&mut self, at: u64, source: usize) {
        self.now = self.now.max(Instant::from_nanos(at));
        if source < self.links.len() {
            let Some(Event::Delivered(d)) = self.links[source].path.poll(self.now) else { return };
            if !d.corrupted {
                let whose = || match d.payload.to {
                    To::Receiver(i) | To::Sender(i) => Some(i as usize),
                    To::Nobody(_) => None,
                };
                self.links[source].count(&d);
                self.links[source].count_of(whose, &d);
            }
            let last = match d.payload.to {
                To::Receiver(i) => self.ways[i as usize].route.last,
                To::Sender(i) => self.ways[i as usize].route.last,
                To::Nobody(cross) => self.cross[cross as usize].route.last,
            };
            if last > source {
                let header = Header { ecn: d.ecn, ..header(&d.payload, d.wire_bytes) };
                self.links[source + 1].send_on(self.now, header, d.payload);
            } else {
                self.arrive(d);
            }
        } else if source == self.links.len() {
            if let Some(Event::Delivered(d)) = self.uplink.poll(self.now) {
                self.arrive(d);
            }
        } else {
            self.on_timer(self.timers.first());
        }
    }

    /// A packet is at the end of its route.
    fn arrive(&mut self, packet: Delivered<Parcel>) {
        let Delivered { corrupted, ecn, payload: Parcel { to, mut bytes, .. }, .. } = packet;
        if corrupted && !bytes.is_empty() {
            // One bit, each time another one: a checksum has to find it.
            self.corrupted += 1;
            let (at, bit) = (self.corrupted as usize * 7919 % bytes.len(), self.corrupted % 8);
            bytes[at] ^= 1 << bit;
        }
        match to {
            To::Receiver(i) => {
                let i = i as usize;
                if let Some(host) = &mut self.hosts[i] {
                    let due = host.hold(self.now, (bytes, ecn));
                    return self.arm(Timer::Host, i, due);
                }
                self.at_receiver(i, self.now, bytes, ecn);
            }
            To::Sender(i) => {
                let (i, extra) = (i as usize, self.ways[i as usize].extra_rtt);
                if extra == Duration::ZERO {
                    return self.at_sender(i, bytes, ecn);
                }
                let at = self.now + extra;
                self.way_back[i].push_back((at, bytes, ecn));
                self.arm(Timer::WayBack, i, at);
            }
            To::Nobody(_) => {}
        }
    }

    /// A receiver takes a packet in that arrived at its host at `arrived`.
    fn at_receiver(&mut self, i: usize, arrived: Instant, mut bytes: Vec<u8>, ecn: Ecn) {
        let in_host = self.now.since(arrived);
        self.flows[i].receive(self.now, RECEIVER, in_host, &mut bytes, ecn);
        self.recycle(bytes);
        self.pump(i, RECEIVER);
        self.arm_application(i);
    }

    /// A packet is at a sender, whose host answers when it gets to it.
    fn at_sender(&mut self, i: usize, mut bytes: Vec<u8>, ecn: Ecn) {
        let now = self.now;
        self.flows[i].receive(now, SENDER, Duration::ZERO, &mut bytes, ecn);
        self.recycle(bytes);
        self.work(i, SENDER);
        self.arm_application(i);
        let at = self.flows[i].jitter.after(now);
        if at > now {
            self.arm(Timer::Sender, i, at);
        } else {
            self.pump(i, SENDER);
        }
    }

    fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(bytes);
        }
    }

    fn arm_application(&mut self, i: usize) {
        if let Some(at) = self.flows[i].wakes() {
            self.arm(Timer::Application, i, at);
        }
    }

    fn work(&mut self, i: usize, end: usize) {
        let mut tallies = Tallies { rtt: self.rtt_ns.of(i), latency: self.latency_ns.of(i) };
        self.flows[i].work(self.now, end, &mut tallies);
    }

    /// Lets one end of a flow work and send all that may leave, and arms its timer for the rest.
    pub(super) fn pump(&mut self, i: usize, end: usize) {
        let now = self.now;
        let mut packet = std::mem::take(&mut self.packet);
        loop {
            self.work(i, end);
            let Some(departure) = self.flows[i].transmit(now, end, &mut packet) else { break };
            let next = self.spare.pop().unwrap_or_default();
            let bytes = std::mem::replace(&mut packet, next);
            self.send(i, end, bytes, departure);
        }
        self.packet = packet;
        let timer = if end == SENDER { Timer::Sender } else { Timer::Receiver };
        let flow = &mut self.flows[i];
        let at = flow.poll_at(end);
        let at = if end == SENDER { at.map(|at| flow.jitter.after(at)) } else { at };
        self.timers.set(self.number(timer, i), at.map_or(NEVER, Instant::as_nanos));
    }

    /// A packet leaves an end. What a path drops is its own business, and that of the sender's loss
    /// detection.
    fn send(&mut self, i: usize, end: usize, bytes: Vec<u8>, departure: Departure) {
        let to = if end == SENDER { To::Receiver(i as u32) } else { To::Sender(i as u32) };
        let parcel = Parcel { to, bytes, connection: departure.connection };
        let header = Header { ecn: departure.ecn, ..header(&parcel, departure.wire_bytes) };
        let ways = self.ways[i];
        match (ways.direction, end) {
            (Direction::Down, SENDER) => {
                self.links[ways.route.first].send_on(self.now, header, parcel);
            }
            (Direction::Up, RECEIVER) => {
                self.links[ways.route.first].send_on(self.now, header, parcel);
            }
            _ => {
                let _ = self.uplink.send(self.now, header, parcel);
            }
        }
    }

    fn on_timer(&mut self, number: usize) {
        let now = self.now;
        self.timers.disarm(number);
        let Some(of_flow) = number.checked_sub(self.cross.len()) else {
            return self.send_cross(number);
        };
        let i = of_flow / Timer::ALL.len();
        match Timer::ALL[of_flow % Timer::ALL.len()] {
            Timer::Sender => {
                self.flows[i].on_timer(now, SENDER);
                self.pump(i, SENDER);
                self.arm_application(i);
            }
            Timer::Receiver => {
                self.flows[i].on_timer(now, RECEIVER);
                self.pump(i, RECEIVER);
                self.arm_application(i);
            }
            Timer::Application => {
                self.flows[i].on_wake(now);
                self.pump(i, SENDER);
                self.pump(i, RECEIVER);
                self.arm_application(i);
            }
            Timer::WayBack => {
                let Some((_, bytes, ecn)) = self.way_back[i].pop_front() else { return };
                if let Some((at, ..)) = self.way_back[i].front() {
                    let at = *at;
                    self.arm(Timer::WayBack, i, at);
                }
                self.at_sender(i, bytes, ecn);
            }
            Timer::Host => {
                let taken = |host: &mut Option<Host<_>>| host.as_mut()?.take(now);
                while let Some((arrived, (bytes, ecn))) = taken(&mut self.hosts[i]) {
                    self.at_receiver(i, arrived, bytes, ecn);
                }
                if let Some(due) = self.hosts[i].as_ref().and_then(Host::due) {
                    self.arm(Timer::Host, i, due);
                }
            }
        }
    }

    fn send_cross(&mut self, i: usize) {
        let cross = &mut self.cross[i];
        cross.source.advance();
        let (wire_bytes, first) = (cross.source.packet_bytes(), cross.route.first);
        if let Some(at) = cross.source.next_due() {
            self.timers.arm(i, at);
        }
        let parcel = Parcel { to: To::Nobody(i as u32), bytes: Vec::new(), connection: 0 };
        self.links[first].send_on(self.now, header(&parcel, wire_bytes), parcel);
    }
}

impl<T: Transport> World for Network<T> {
    fn now(&self) -> Instant {
        self.now
    }

    fn is_done(&self) -> bool {
        self.flows.iter().all(|flow| flow.end.is_some())
    }

    fn advance(&mut self, time: Instant, events: u64) -> bool {
        let mut left = events;
        while !self.is_done() {
            let (at, source) = self.next();
            if at > time.as_nanos() || at == NEVER {
                self.now = self.now.max(time);
                break;
            }
            if left == 0 {
                return false;
            }
            left -= 1;
            self.happen(at, source);
        }
        true
    }

    fn begin_part(&mut self) {
        self.links.iter_mut().for_each(|link| link.begin_part(self.now));
    }

    fn links(&self) -> usize {
        self.links.len()
    }

    fn link(&self, i: usize) -> PathSample {
        self.links[i].path.sample(self.now)
    }

    fn queue_delays_so_far_ns(&self, link: usize) -> Box<dyn Iterator<Item = Tally> + '_> {
        Box::new(self.links[link].queue_delays_so_far_ns())
    }

    fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]> {
        self.links[0].queue_delays_by_flow_ns()
    }

    fn flows(&self) -> usize {
        self.flows.len()
    }

    fn received(&self, flow: usize) -> u64 {
        self.flows[flow].received
    }

    fn latest_rtt(&self, flow: usize) -> Option<Duration> {
        self.flows[flow].latest_rtt()
    }

    fn times(&self, flow: usize) -> (Instant, Option<Instant>) {
        (self.flows[flow].start, self.flows[flow].end)
    }

    fn queues(&self) -> Vec<Queue> {
        let ways = self.links.iter().map(|link| &link.path).map(|path| path.sample(self.now));
        ways.chain([self.uplink.sample(self.now)]).map(|sample| sample.queue).collect()
    }

    fn sample(&mut self, i: usize, queues: &[Queue]) -> FlowSample {
        let ways = self.ways[i];
        let queue = match ways.direction {
            Direction::Down => queues[ways.route.first],
            Direction::Up => queues[self.links.len()],
        };
        let flow = &mut self.flows[i];
        FlowSample {
            received: flow.received,
            rtt: flow.latest_rtt(),
            sender: flow.stats(),
            newest_packet: flow.newest_packet(),
            queue,
            ..flow.sample().unwrap_or_default()
        }
    }

    fn sent(&mut self, flow: usize) -> SenderStats {
        self.flows[flow].stats()
    }

    fn rtt_ns(&self) -> &[Tally] {
        self.rtt_ns.tallies()
    }

    fn latency_ns(&self) -> &[Tally] {
        self.latency_ns.tallies()
    }

    fn completion_ns(&self, flow: usize) -> Option<&Tally> {
        self.flows[flow].completion_ns.as_ref()
    }

    fn incomplete(&self, flow: usize) -> Option<u64> {
        self.flows[flow].incomplete()
    }

    fn media(&self, flow: usize) -> Option<MediaStats> {
        self.flows[flow].media(self.now)
    }

    fn record_arrivals(&mut self, most: usize) {
        self.links.iter_mut().for_each(|link| link.path.record_arrivals(most));
        self.uplink.record_arrivals(most);
    }

    fn take_arrivals(&mut self) -> Vec<Vec<Arrival>> {
        let mut all: Vec<_> = self.links.iter_mut().map(|link| link.path.take_arrivals()).collect();
        all.push(self.uplink.take_arrivals());
        all
    }
}
