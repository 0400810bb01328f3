//! The network between the ends of flows: links, routes over them, cross traffic, and the virtual
//! clock. Whatever happens next, happens next.
//!
//! Packets are of any two types: what senders send, and what answers it. The owner of a network
//! sends them, hears of each that is at its other end, and has timers of its own beside those of
//! the links.

mod graph;
mod link;
mod links;

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{CrossSource, Delivered, Ecn, Event, Header, Path, PathConfig};
use fullpipe_traffic::{Stream, stream_seed};

use crate::config::{SimConfig, SimError};
use crate::timers::{NEVER, Timers};
use graph::{Graph, Load, Parcel};
use link::Link;

/// A packet as links see it.
pub trait Packet: Clone {
    /// Its flow, by the index of the configuration, or a connection of one
    /// that has ends of its own.
    fn flow(&self) -> u32;

    /// The number by which queues tell flows apart; below 2^29.
    fn number(&self) -> u32;

    /// A link has changed bits of it: whether it goes on, as `before` others did.
    fn corrupt(&mut self, before: u64) -> bool;
}

/// A packet of cross traffic, which nobody reads, with its number as a flow.
#[derive(Clone, Copy, Debug)]
pub struct CrossPacket(pub u32);

/// Something that the owner of a network has to deal with.
#[derive(Debug)]
pub(crate) enum NetworkEvent<D, A> {
    /// A packet at its receiver's host, or one of cross traffic at the end of its route.
    Data(D, Ecn),
    /// A packet at its sender's host.
    Answer(A, Ecn),
    /// The owner's timer of this number is due, until it is set anew.
    Timer(usize),
}

/// The kinds of packets that links tell apart, each with the number of its first flow or source. A
/// queue for each flow goes by these numbers modulo the queues, mostly a power of two: the kinds
/// begin at thirds of 1024, so that the first of one kind shares none with the first of another.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum Numbered {
    /// A flow's data, or its ACKs where these alone use the link.
    Flow = 0,
    /// Cross traffic, or data of a flow that goes up.
    Cross = CrossSource::FIRST_FLOW,
    /// Packets that answer a flow's data.
    Answers = (1 << 31) + (1 << 30) + 682,
}

impl Numbered {
    /// The number in the header of a packet of the flow, or source, `i`.
    #[inline]
    const fn number(self, i: u32) -> u32 {
        self as u32 + i
    }
}

/// Links, packets on them, and timers.
#[derive(Debug)]
pub(crate) struct Network<D, A> {
    now: Instant,
    /// The number of links of the configuration.
    links: usize,
    /// The one link there and the one back of all flows. They carry nothing if there is a graph.
    down: Link<D>,
    uplink: Path<A>,
    /// The earliest time of the next packet out of each of the two, in nanoseconds.
    due: [u64; 2],
    /// Any other links, and the ways over them.
    graph: Option<Box<Graph<D, A>>>,
    cross: Vec<CrossSource>,
    /// The number of flows of the configuration.
    flows: usize,
    /// The flow of each connection that has been opened since.
    parents: Vec<u32>,
    /// By flow: its round-trip time above that of its links. Empty if no flow has any.
    extra_rtt: Vec<Duration>,
    /// By flow: packets that are under way for that time.
    way_back: Vec<VecDeque<(Instant, A, Ecn)>>,
    /// Those of the graph first, then those of cross traffic and of the ways back, then the
    /// owner's. Of several at one time the first one fires: a timer must not fire for a packet that
    /// is just arriving.
    timers: Timers,
    first_of_cross: usize,
    first_of_owner: usize,
    corrupted: u64,
    /// Data packets that came out of the last link of their way.
    delivered_packets: u64,
}

impl<D: Packet + From<CrossPacket>, A: Packet> Network<D, A> {
    /// A network at time zero, for so many timers of its owner.
    ///
    /// # Errors
    /// Fails if a path can't be built, or if routes, flows or cross traffic make no sense.
    pub(crate) fn new(config: &SimConfig, timers: usize) -> Result<Self, SimError> {
        config.check_routes()?;
        let graph = (!config.is_plain()).then(|| Graph::new(config).map(Box::new)).transpose()?;
        let unused = PathConfig::default();
        let [down, up] = match graph {
            None => [&config.links[0], &config.uplink],
            Some(_) => [&unused; 2],
        };
        let flows = config.flows.len();
        let is_longer = config.flows.iter().any(|flow| flow.extra_rtt > Duration::ZERO);
        let extra_rtt: Vec<_> = config.flows.iter().map(|flow| flow.extra_rtt).collect();
        let extra_rtt = if is_longer { extra_rtt } else { Vec::new() };
        let first_of_cross = graph.as_ref().map_or(0, |graph| graph.timers());
        let first_of_owner = first_of_cross + config.cross.len() + extra_rtt.len();
        let mut network = Self {
            now: Instant::default(),
            links: config.links.len(),
            down: Link::new(down)?,
            uplink: Path::new(up)?,
            due: [NEVER; 2],
            graph,
            cross: Vec::with_capacity(config.cross.len()),
            flows,
            parents: Vec::new(),
            way_back: extra_rtt.iter().map(|_| VecDeque::new()).collect(),
            extra_rtt,
            timers: Timers::new(first_of_owner + timers),
            first_of_cross,
            first_of_owner,
            corrupted: 0,
            delivered_packets: 0,
        };
        if let Some(at) = network.graph.as_ref().and_then(|graph| graph.next_change()) {
            network.timers.arm(first_of_cross - 1, at);
        }
        match &mut network.graph {
            Some(graph) => graph.links[0].count_by_flow(&config.links[0], flows),
            None => network.down.count_by_flow(&config.links[0], flows),
        }
        for (i, cross) in config.cross.iter().enumerate() {
            cross.validate()?;
            // Each source draws for itself, so that one more changes nothing for the others.
            let seed = stream_seed(config.seed, Stream::Cross, i as u64);
            let source = CrossSource::new(cross.traffic, seed);
            if let Some(at) = source.next_due() {
                network.timers.arm(first_of_cross + i, at);
            }
            network.cross.push(source);
        }
        config.flows.iter().try_for_each(|flow| flow.validate())?;
        Ok(network)
    }

    /// The virtual time.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// The time is `now` at least: nothing happens before.
    pub(crate) fn pass_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Packets that came out at the end of their route so far, cross traffic included and answers
    /// left out.
    pub(crate) fn delivered_packets(&self) -> u64 {
        self.delivered_packets
    }

    /// A further connection of a flow: it goes where its flow goes. Its number follows those of the
    /// flows and of the connections before.
    pub(crate) fn connect(&mut self, flow: u32) -> u32 {
        self.parents.push(flow);
        (self.flows + self.parents.len() - 1) as u32
    }

    /// The flow of a connection, by the order in which they were opened.
    #[inline]
    pub(crate) fn parent(&self, connection: usize) -> Option<u32> {
        self.parents.get(connection).copied()
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.parents.len()
    }

    /// The owner's timer fires at `at`, or earlier if it is set to an earlier time already.
    #[inline]
    pub(crate) fn arm(&mut self, timer: usize, at: Instant) {
        self.timers.arm(self.first_of_owner + timer, at);
    }

    /// The owner's timer fires at `at`, or never.
    #[inline]
    pub(crate) fn set(&mut self, timer: usize, at: Option<Instant>) {
        self.timers.set(self.first_of_owner + timer, nanos(at));
    }

    /// The flow of the configuration that a packet is of; `None` for cross traffic.
    #[inline]
    fn owner(&self, flow: u32) -> Option<usize> {
        owner(self.flows, &self.parents, flow)
    }

    /// Sends data to its receiver. What is dropped is the link's business, and that of the sender's
    /// loss detection.
    #[inline]
    pub(crate) fn send_data(&mut self, wire_bytes: u32, ecn: Ecn, data: D) {
        let header = Header { flow: data.number(), wire_bytes, ecn };
        if self.graph.is_some() {
            let owner = self.owner(data.flow());
            if let (Some(graph), Some(flow)) = (&mut self.graph, owner) {
                graph.send_data(self.now, &mut self.timers, flow, header, data);
            }
            return;
        }
        let _ = self.down.path.send(self.now, header, data);
        self.due[0] = nanos(self.down.path.next_event());
    }

    /// Sends an answer to its sender. If it is dropped, a later one repeats what it said.
    #[inline]
    pub(crate) fn send_answer(&mut self, wire_bytes: u32, ecn: Ecn, answer: A) {
        let header = Header { flow: answer.number(), wire_bytes, ecn };
        if self.graph.is_some() {
            let owner = self.owner(answer.flow());
            if let (Some(graph), Some(flow)) = (&mut self.graph, owner) {
                graph.send_answer(self.now, &mut self.timers, flow, header, answer);
            }
            return;
        }
        let _ = self.uplink.send(self.now, header, answer);
        self.due[1] = nanos(self.uplink.next_event());
    }

    #[cold]
    fn send_cross(&mut self, i: usize) {
        let cross = &mut self.cross[i];
        cross.advance();
        let wire_bytes = cross.packet_bytes();
        self.timers.set(self.first_of_cross + i, nanos(cross.next_due()));
        let flow = Numbered::Cross.number(i as u32);
        let (header, data) =
            (Header { flow, wire_bytes, ecn: Ecn::NotEct }, D::from(CrossPacket(flow)));
        match &mut self.graph {
            Some(graph) => graph.send_cross(self.now, &mut self.timers, i, header, data),
            None => {
                let _ = self.down.path.send(self.now, header, data);
                self.due[0] = nanos(self.down.path.next_event());
            }
        }
    }

    /// The time of the next event in nanoseconds, [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.next().0
    }

    /// The time of the next event in nanoseconds, and its source: the link, the uplink, then the
    /// timers. Events at the same time are processed in this order: a timer must not fire for a
    /// packet that is just arriving.
    #[inline]
    fn next(&self) -> (u64, usize) {
        let (timers, [down, up]) = (self.timers.next(), self.due);
        match (down <= up.min(timers), up <= timers) {
            (true, _) => (down, 0),
            (false, true) => (up, 1),
            (false, false) => (timers, 2),
        }
    }

    /// Lets the next thing happen, if there is one: what its owner has to deal with.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<NetworkEvent<D, A>> {
        let (at, source) = self.next();
        if at == NEVER {
            return None;
        }
        self.now = self.now.max(Instant::from_nanos(at));
        match source {
            0 => {
                let event = self.down.path.poll(self.now);
                self.due[0] = nanos(self.down.path.next_event());
                let Some(Event::Delivered(mut packet)) = event else { return None };
                if !goes_on(&mut packet, &mut self.corrupted, D::corrupt) {
                    return None;
                }
                if !packet.corrupted {
                    let (flows, parents) = (self.flows, &self.parents);
                    self.down.count(&packet);
                    self.down.count_of(|| owner(flows, parents, packet.payload.flow()), &packet);
                }
                self.delivered_packets += 1;
                Some(NetworkEvent::Data(packet.payload, packet.ecn))
            }
            1 => {
                let event = self.uplink.poll(self.now);
                self.due[1] = nanos(self.uplink.next_event());
                let Some(Event::Delivered(mut packet)) = event else { return None };
                if !goes_on(&mut packet, &mut self.corrupted, A::corrupt) {
                    return None;
                }
                self.answered(packet.payload, packet.ecn)
            }
            _ => {
                let timer = self.timers.first();
                match timer.checked_sub(self.first_of_owner) {
                    Some(timer) => Some(NetworkEvent::Timer(timer)),
                    None => self.on_timer(timer),
                }
            }
        }
    }

    /// An answer came out of the last link of its way.
    #[inline]
    fn answered(&mut self, answer: A, ecn: Ecn) -> Option<NetworkEvent<D, A>> {
        if self.extra_rtt.is_empty() {
            return Some(NetworkEvent::Answer(answer, ecn));
        }
        let flow = self.owner(answer.flow())?;
        let extra = self.extra_rtt[flow];
        if extra == Duration::ZERO {
            return Some(NetworkEvent::Answer(answer, ecn));
        }
        let at = self.now + extra;
        self.way_back[flow].push_back((at, answer, ecn));
        self.timers.arm(self.first_of_cross + self.cross.len() + flow, at);
        None
    }

    /// One of the network's own timers has fired.
    fn on_timer(&mut self, timer: usize) -> Option<NetworkEvent<D, A>> {
        let Some(of_cross) = timer.checked_sub(self.first_of_cross) else {
            return self.on_graph_timer(timer);
        };
        let Some(flow) = of_cross.checked_sub(self.cross.len()) else {
            self.send_cross(of_cross);
            return None;
        };
        let way = &mut self.way_back[flow];
        let arrived = way.pop_front();
        self.timers.set(timer, nanos(way.front().map(|(at, ..)| *at)));
        arrived.map(|(_, answer, ecn)| NetworkEvent::Answer(answer, ecn))
    }

    /// A packet comes out of a link of the graph, or ways change.
    fn on_graph_timer(&mut self, timer: usize) -> Option<NetworkEvent<D, A>> {
        let graph = self.graph.as_deref_mut()?;
        if timer == graph.links.len() {
            graph.reroute(self.now);
            self.timers.set(timer, nanos(graph.next_change()));
            return None;
        }
        let mut packet = graph.poll(self.now, &mut self.timers, timer)?;
        if !goes_on(&mut packet, &mut self.corrupted, Parcel::corrupt) {
            return None;
        }
        // No figure is of a sender's own link.
        if timer <= graph.uplink && !packet.corrupted {
            let link = &mut graph.links[timer];
            link.count(&packet);
            if packet.payload.is_data() {
                let (flows, parents) = (self.flows, &self.parents);
                link.count_of(|| owner(flows, parents, packet.payload.flow()), &packet);
            }
        }
        let (load, ecn) = graph.pass_on(self.now, &mut self.timers, packet)?;
        match load {
            Load::Data(data) => {
                self.delivered_packets += 1;
                Some(NetworkEvent::Data(data, ecn))
            }
            Load::Answer(answer) => self.answered(answer, ecn),
        }
    }
}

/// True if a packet goes on behind a link: what the link has changed may fail a checksum.
#[inline]
fn goes_on<P>(
    packet: &mut Delivered<P>,
    corrupted: &mut u64,
    corrupt: impl FnOnce(&mut P, u64) -> bool,
) -> bool {
    if !packet.corrupted {
        return true;
    }
    let goes_on = corrupt(&mut packet.payload, *corrupted);
    *corrupted += u64::from(goes_on);
    goes_on
}

/// The flow of the configuration that a packet is of; `None` for cross traffic.
#[inline]
fn owner(flows: usize, parents: &[u32], flow: u32) -> Option<usize> {
    match flow as usize {
        flow if flow < flows => Some(flow),
        short => parents.get(short - flows).map(|flow| *flow as usize),
    }
}

#[inline]
fn nanos(at: Option<Instant>) -> u64 {
    at.map_or(NEVER, Instant::as_nanos)
}
