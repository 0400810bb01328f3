//! Links in any number and order: each packet has the list of those that it passes. Data and what
//! answers it are packets of one kind here, so that any link carries both.
//!
//! One link there and one back need none of this ([`SimConfig::is_plain`]) and have a shorter way,
//! in `events`.

use std::cmp::Ordering;

use fullpipe_cc::Instant;
use fullpipe_path::{ConfigError, Ecn, Event};
use fullpipe_traffic::Direction;

use super::events::{find, header, nanos, owner};
use super::{Numbered, Sim};
use crate::config::{FlowConfig, Route, SimConfig};
use crate::link::Link;
use crate::packet::{Data, Up};

/// The end of a list of links.
const END: u32 = u32::MAX;

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    /// The place in [`Graph::hops`] behind that of the link that it is on.
    next: u32,
    load: Load,
}

/// The content of a packet.
#[derive(Clone, Debug)]
enum Load {
    /// Of a flow, or of cross traffic.
    Data(Data),
    /// For the sender of this flow.
    Up(u32, Up),
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

/// The links, and the ways over them. Its timers are the first of the simulation's: those of the
/// links by their index, then that of the next change.
#[derive(Debug)]
pub(super) struct Graph {
    /// Those of the configuration, the uplink, and two for each flow with an access link.
    pub(super) links: Vec<Link<Parcel>>,
    /// The index of the uplink.
    uplink: usize,
    /// The links of all ways, one after the other; [`END`] is behind the last of each.
    hops: Vec<u32>,
    ways: Vec<FlowPath>,
    /// The last one first.
    changes: Vec<Change>,
    /// The ways of cross traffic.
    cross: Vec<u32>,
}

impl Graph {
    /// The links and ways of a checked configuration, and the way of each flow.
    pub(super) fn new(config: &SimConfig) -> Result<(Self, Vec<u32>), ConfigError> {
        let links = config.links.iter().chain([&config.uplink]);
        let mut graph = Self {
            links: links.map(Link::new).collect::<Result<_, _>>()?,
            uplink: config.links.len(),
            hops: Vec::new(),
            ways: Vec::new(),
            changes: Vec::with_capacity(config.reroutes.len()),
            cross: Vec::with_capacity(config.cross.len()),
        };
        let mut of_flows = Vec::with_capacity(config.flows.len());
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
            of_flows.push(graph.add(&config.route(flow), flow, own));
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
        Ok((graph, of_flows))
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
}

impl Sim {
    /// One of the graph's timers has fired.
    pub(super) fn on_graph_timer(&mut self, number: usize) {
        let Some(graph) = self.graph.as_deref_mut() else { return };
        let Some(link) = graph.links.get_mut(number) else { return self.reroute(number) };
        let event = link.path.poll(self.now);
        self.timers.set(number, nanos(link.path.next_event()));
        let Some(Event::Delivered(mut d)) = event else { return };
        // A corrupted packet fails its checksum behind the link.
        if d.corrupted {
            return;
        }
        // No figure is of a sender's own link.
        if number <= graph.uplink {
            link.count(&d);
            let (flows, parents) = (self.flows.len(), &self.parents);
            if let Load::Data(data) = &d.payload.load {
                link.count_of(|| owner(flows, parents, data.flow), &d);
            }
        }
        let hop = graph.hops[d.payload.next as usize];
        if hop < END {
            let flow = match &d.payload.load {
                Load::Data(data) => data.flow,
                Load::Up(flow, _) => Numbered::Answers.number(*flow),
            };
            d.payload.next += 1;
            return self.enter(hop as usize, flow, d.wire_bytes, d.ecn, d.payload);
        }
        match d.payload.load {
            Load::Data(data) => {
                self.delivered_packets += 1;
                self.on_data::<true>(&data, d.ecn);
            }
            Load::Up(flow, up) => self.on_up_arrived(flow, &up),
        }
    }

    /// Sends a packet over a link.
    #[inline]
    fn enter(&mut self, link: usize, flow: u32, wire_bytes: u32, ecn: Ecn, parcel: Parcel) {
        let Some(graph) = self.graph.as_deref_mut() else { return };
        let path = &mut graph.links[link].path;
        let before = path.next_event();
        // A dropped packet is the link's business, and the sender's loss detection's.
        let _ = path.send(self.now, header(flow, wire_bytes, ecn), parcel);
        // Behind another packet it changes nothing yet.
        let (before, due) = (nanos(before), nanos(path.next_event()));
        match due.cmp(&before) {
            Ordering::Equal => {}
            // Needs no look at other timers, and is what an empty link does.
            Ordering::Less => self.timers.arm(link, Instant::from_nanos(due)),
            Ordering::Greater => self.timers.set(link, due),
        }
    }

    /// The ways of flows whose time has come change, and those of their open connections.
    fn reroute(&mut self, number: usize) {
        let Some(graph) = self.graph.as_deref_mut() else { return };
        while let Some(change) = graph.changes.pop_if(|change| change.at <= self.now) {
            self.flows[change.flow as usize].way = change.way;
            let open = self.short.iter_mut().flatten();
            open.filter(|open| open.parent == Some(change.flow))
                .for_each(|open| open.way = change.way);
        }
        self.timers.set(number, nanos(graph.next_change()));
    }

    /// The link of a place in the list of hops, and the packet's next place.
    fn first_hop(&self, place: u32) -> Option<(usize, u32)> {
        let hop = *self.graph.as_deref()?.hops.get(place as usize)?;
        Some((hop as usize, place + 1))
    }

    fn way(&self, way: u32) -> Option<FlowPath> {
        self.graph.as_deref()?.ways.get(way as usize).copied()
    }

    /// Sends to the sender of a flow with a way of its own.
    pub(super) fn send_answer(&mut self, i: u32, wire_bytes: u32, up: Up) {
        let Some(flow) = find(&mut self.flows, &mut self.short, i) else { return };
        let way = flow.way;
        let Some(way) = self.way(way) else { return };
        let Some((link, next)) = self.first_hop(way.back) else { return };
        let parcel = Parcel { next, load: Load::Up(i, up) };
        self.enter(link, way.answer_number.number(i), wire_bytes, Ecn::NotEct, parcel);
    }

    /// Sends one packet of a flow's data that its sender does not keep account of.
    pub(super) fn send_alone(&mut self, way: u32, wire_bytes: u32, data: Data) {
        let Some(way) = self.way(way) else { return };
        let Some((link, next)) = self.first_hop(way.there) else { return };
        let flow = way.data_number.number(data.flow);
        self.enter(link, flow, wire_bytes, Ecn::NotEct, Parcel { next, load: Load::Data(data) });
    }

    /// Sends a packet of cross traffic.
    pub(super) fn send_cross_away(&mut self, i: usize, wire_bytes: u32, data: Data) {
        let Some(place) = self.graph.as_deref().map(|graph| graph.cross[i]) else { return };
        let Some((link, next)) = self.first_hop(place) else { return };
        let parcel = Parcel { next, load: Load::Data(data) };
        self.enter(link, data.flow, wire_bytes, Ecn::NotEct, parcel);
    }

    /// Sends what may leave on a way of its own; see [`Sim::pump`].
    #[inline(never)]
    pub(super) fn pump_away(&mut self, i: u32, probe: bool) -> Option<Instant> {
        let now = self.now;
        let flow = find(&mut self.flows, &mut self.short, i)?;
        let graph = self.graph.as_deref_mut()?;
        let way = graph.ways.get(flow.way as usize)?;
        let (first, next) = (graph.hops[way.there as usize] as usize, way.there + 1);
        let (number, more, ecn) = (way.data_number.number(i), flow.header_bytes, flow.codepoint());
        let path = &mut graph.links[first].path;
        let mut is_new = false;
        let deadline = flow.sender.pump(now, probe, |pn, chunk, bytes| {
            is_new = true;
            let parcel = Parcel { next, load: Load::Data(Data::new(i, pn, now, chunk)) };
            // A dropped packet is the link's business, and the sender's loss detection's.
            let _ = path.send(now, header(number, bytes + more, ecn), parcel);
        });
        if is_new {
            self.timers.set(first, nanos(path.next_event()));
        }
        deadline.map(|at| flow.jitter.after(at))
    }
}
