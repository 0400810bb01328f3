//! Links in any number and order: each packet has the list of those that it passes. Data and what
//! answers it are packets of one kind here, so that any link carries both.

use std::cmp::Ordering;

use fullpipe_cc::Instant;
use fullpipe_path::{ConfigError, Delivered, Ecn, Event, Header};
use fullpipe_traffic::Direction;

use super::link::Link;
use super::{Numbered, Packet, nanos};
use crate::config::{FlowConfig, Route, SimConfig};
use crate::timers::Timers;

/// The end of a list of links.
const END: u32 = u32::MAX;

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Parcel<D, A> {
    /// The place in [`Graph::hops`] behind that of the link that it is on.
    next: u32,
    load: Load<D, A>,
}

/// The content of a packet.
#[derive(Clone, Debug)]
pub(super) enum Load<D, A> {
    /// For a receiver, or of cross traffic.
    Data(D),
    /// For a sender.
    Answer(A),
}

/// The links that packets of a flow pass, as places in [`Graph::hops`], and the kind of number that
/// they have on the first one.
#[derive(Clone, Copy, Debug)]
struct FlowPath {
    there: u32,
    back: u32,
    data_number: Numbered,
    answer_number: Numbered,
}

/// A change of a flow's way.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: Instant,
    flow: u32,
    way: u32,
}

/// The links, and the ways over them. Its timers are the first of the network's: those of the links
/// by their index, then that of the next change.
#[derive(Debug)]
pub(super) struct Graph<D, A> {
    /// Those of the configuration, the uplink, and two for each flow with an access link.
    pub(super) links: Vec<Link<Parcel<D, A>>>,
    /// The index of the uplink.
    pub(super) uplink: usize,
    /// The links of all ways, one after the other; [`END`] is behind the last of each.
    hops: Vec<u32>,
    ways: Vec<FlowPath>,
    /// The way of each flow now.
    of_flows: Vec<u32>,
    /// The last one first.
    changes: Vec<Change>,
    /// The ways of cross traffic.
    cross: Vec<u32>,
}

impl<D: Packet, A: Packet> Graph<D, A> {
    /// The links and ways of a checked configuration.
    pub(super) fn new(config: &SimConfig) -> Result<Self, ConfigError> {
        let links = config.links.iter().chain([&config.uplink]);
        let mut graph = Self {
            links: links.map(Link::new).collect::<Result<_, _>>()?,
            uplink: config.links.len(),
            hops: Vec::new(),
            ways: Vec::new(),
            of_flows: Vec::with_capacity(config.flows.len()),
            changes: Vec::with_capacity(config.reroutes.len()),
            cross: Vec::with_capacity(config.cross.len()),
        };
        let mut access = Vec::with_capacity(config.flows.len());
        for flow in &config.flows {
            let own = match flow.access {
                Some(access) => {
                    let n = graph.links.len();
                    let link = access.link();
                    graph.links.push(Link::new(&link)?);
                    graph.links.push(Link::new(&link)?);
                    Some((n, n + 1))
                }
                None => None,
            };
            access.push(own);
            let way = graph.add(&config.route(flow), flow, own);
            graph.of_flows.push(way);
        }
        for change in &config.reroutes {
            let flow = &config.flows[change.flow];
            let way = graph.add(&config.routes[change.route], flow, access[change.flow]);
            let at = Instant::default() + change.at;
            graph.changes.push(Change { at, flow: change.flow as u32, way });
        }
        // Stable, so that of several at one time the last of the file counts.
        graph.changes.sort_by_key(|change| change.at);
        graph.changes.reverse();
        for cross in &config.cross {
            let there = graph.list(config.cross_route(cross).there.iter().copied());
            graph.cross.push(there);
        }
        Ok(graph)
    }

    fn list(&mut self, links: impl Iterator<Item = usize>) -> u32 {
        let start = self.hops.len() as u32;
        self.hops.extend(links.map(|link| link as u32).chain([END]));
        start
    }

    /// Adds a way: over a flow's own link, and then its route.
    fn add(&mut self, route: &Route, flow: &FlowConfig, own: Option<(usize, usize)>) -> u32 {
        let (first, last) = own.unzip();
        let there = self.list(first.into_iter().chain(route.there.iter().copied()));
        let back = self.list(route.back.iter().copied().chain(last));
        // On the uplink, ACKs have their flow's number, and data that goes up has another.
        let (data_number, answer_number) = match flow.direction {
            Direction::Up => (Numbered::Cross, Numbered::Answers),
            Direction::Down if route.back[0] == self.uplink => (Numbered::Flow, Numbered::Flow),
            Direction::Down => (Numbered::Flow, Numbered::Answers),
        };
        self.ways.push(FlowPath { there, back, data_number, answer_number });
        self.ways.len() as u32 - 1
    }

    /// The number of its timers.
    pub(super) fn timers(&self) -> usize {
        self.links.len() + 1
    }

    /// The time of the next change of a way.
    pub(super) fn next_change(&self) -> Option<Instant> {
        self.changes.last().map(|change| change.at)
    }

    /// The ways of flows whose time has come change; packets under way go on by their old ones.
    pub(super) fn reroute(&mut self, now: Instant) {
        while let Some(change) = self.changes.pop_if(|change| change.at <= now) {
            self.of_flows[change.flow as usize] = change.way;
        }
    }

    /// The next packet that came out of a link.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        link: usize,
    ) -> Option<Delivered<Parcel<D, A>>> {
        let path = &mut self.links[link].path;
        let event = path.poll(now);
        timers.set(link, nanos(path.next_event()));
        match event {
            Some(Event::Delivered(packet)) => Some(packet),
            _ => None,
        }
    }

    /// Sends a packet that came out of a link over the next one of its way; hands it back at the
    /// end.
    pub(super) fn pass_on(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        packet: Delivered<Parcel<D, A>>,
    ) -> Option<(Load<D, A>, Ecn)> {
        let Delivered { wire_bytes, ecn, payload: Parcel { next, load }, .. } = packet;
        if self.hops[next as usize] == END {
            return Some((load, ecn));
        }
        let flow = match &load {
            Load::Data(data) => data.number(),
            Load::Answer(answer) => Numbered::Answers.number(answer.number()),
        };
        self.enter(now, timers, next, Header { flow, wire_bytes, ecn }, load);
        None
    }

    /// Sends a packet over the link at a place in the list of hops.
    #[inline]
    fn enter(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        place: u32,
        header: Header,
        load: Load<D, A>,
    ) {
        let link = self.hops[place as usize] as usize;
        let path = &mut self.links[link].path;
        let before = path.next_event();
        // A dropped packet is the link's business, and the sender's loss detection's.
        let _ = path.send(now, header, Parcel { next: place + 1, load });
        // Behind another packet it changes nothing yet.
        let (before, due) = (nanos(before), nanos(path.next_event()));
        match due.cmp(&before) {
            Ordering::Equal => {}
            // Needs no look at other timers, and is what an empty link does.
            Ordering::Less => timers.arm(link, Instant::from_nanos(due)),
            Ordering::Greater => timers.set(link, due),
        }
    }

    fn way(&self, flow: usize) -> FlowPath {
        self.ways[self.of_flows[flow] as usize]
    }

    /// Sends data of a flow of the configuration.
    #[inline]
    pub(super) fn send_data(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        flow: usize,
        header: Header,
        data: D,
    ) {
        let way = self.way(flow);
        let header = Header { flow: way.data_number.number(header.flow), ..header };
        self.enter(now, timers, way.there, header, Load::Data(data));
    }

    /// Sends to the sender of a flow of the configuration.
    #[inline]
    pub(super) fn send_answer(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        flow: usize,
        header: Header,
        answer: A,
    ) {
        let way = self.way(flow);
        let header = Header { flow: way.answer_number.number(header.flow), ..header };
        self.enter(now, timers, way.back, header, Load::Answer(answer));
    }

    /// Sends a packet of the cross traffic of this index.
    pub(super) fn send_cross(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        source: usize,
        header: Header,
        data: D,
    ) {
        self.enter(now, timers, self.cross[source], header, Load::Data(data));
    }
}

impl<D: Packet, A: Packet> Parcel<D, A> {
    /// True if it is for a receiver, or of cross traffic.
    pub(super) fn is_data(&self) -> bool {
        matches!(self.load, Load::Data(_))
    }

    /// See [`Packet::flow`].
    pub(super) fn flow(&self) -> u32 {
        match &self.load {
            Load::Data(data) => data.flow(),
            Load::Answer(answer) => answer.flow(),
        }
    }

    /// See [`Packet::corrupt`].
    pub(super) fn corrupt(&mut self, before: u64) -> bool {
        match &mut self.load {
            Load::Data(data) => data.corrupt(before),
            Load::Answer(answer) => answer.corrupt(before),
        }
    }
}
