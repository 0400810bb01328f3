//! The virtual clock: whatever happens next, happens next.

mod events;
mod graph;
mod links;

use std::collections::VecDeque;

use fullpipe_cc::Instant;
use fullpipe_path::{CrossSource, Path, PathConfig};
use fullpipe_traffic::{FlowTallies, SenderStats, Stream, Tally, stream_seed};
use hdrhistogram::Histogram;

use crate::config::{SimConfig, SimError};
use crate::flow::{DIRECT, Flow, Seeds};
use crate::link::Link;
use crate::packet::{Data, Up};
use crate::timers::{NEVER, Timers};
use graph::Graph;

/// The kinds of packets that links tell apart, each with the number of its first flow or source: a
/// queue for each flow goes by these numbers.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum Numbered {
    /// A flow's data, or its ACKs where these alone use the link.
    Flow = 0,
    /// Cross traffic, or data of a flow that goes up.
    Cross = 1 << 31,
    /// Packets that answer a flow's data.
    Answers = (1 << 31) + (1 << 30),
}

impl Numbered {
    /// The number in the header of a packet of the flow, or source, `i`.
    #[inline]
    const fn number(self, i: u32) -> u32 {
        self as u32 + i
    }
}

/// The timers of a flow.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Sender,
    Receiver,
    Application,
    /// Something arrives that was under way for [`FlowConfig::extra_rtt`].
    WayBack,
}

impl Timer {
    const ALL: [Self; 4] = [Self::Sender, Self::Receiver, Self::Application, Self::WayBack];
}

/// A running simulation.
#[derive(Debug)]
pub struct Sim {
    now: Instant,
    /// The number of links of the configuration.
    links: usize,
    /// The one link there and the one back of all flows. They carry nothing if there is a graph.
    down: Link<Data>,
    uplink: Path<(u32, Up)>,
    /// The earliest time of the next packet out of each of the two, in nanoseconds.
    due: [u64; 2],
    /// Any other links, and the ways over them.
    graph: Option<Box<Graph>>,
    flows: Vec<Flow>,
    /// The connections of [`Application::ShortFlows`], numbered on from `flows`; `None` when over.
    short: Vec<Option<Box<Flow>>>,
    /// The flow of each of them: its packets may still be under way when it is over.
    parents: Vec<u32>,
    cross: Vec<CrossSource>,
    /// Those of the graph first, then those of cross traffic, then four of each flow. Of several at
    /// one time the first one fires: a timer must not fire for a packet that is just arriving.
    timers: Timers,
    /// The first timer of a flow.
    first_of_flows: usize,
    /// By flow: packets on a return path that is longer than the uplink.
    way_back: Vec<VecDeque<(Instant, Up)>>,
    rtt_ns: FlowTallies,
    latency_ns: FlowTallies,
    /// Packets that came out of the last link of their way.
    delivered_packets: u64,
    /// Flows that have not reached an end.
    unfinished: usize,
}

impl Sim {
    /// A simulation at time zero.
    ///
    /// # Errors
    /// Fails if a path can't be built, or if a flow or cross traffic makes no sense.
    pub fn new(config: &SimConfig) -> Result<Self, SimError> {
        config.check_routes()?;
        let flows = config.flows.len();
        let (graph, ways) = if config.is_plain() {
            (None, vec![DIRECT; flows])
        } else {
            let (graph, ways) = Graph::new(config)?;
            (Some(Box::new(graph)), ways)
        };
        let unused = PathConfig::default();
        let [down, up] = match graph {
            None => [&config.links[0], &config.uplink],
            Some(_) => [&unused; 2],
        };
        let first_of_cross = graph.as_ref().map_or(0, |graph| graph.timers());
        let first_of_flows = first_of_cross + config.cross.len();
        let mut sim = Self {
            now: Instant::default(),
            links: config.links.len(),
            down: Link::new(down)?,
            uplink: Path::new(up)?,
            due: [NEVER; 2],
            graph,
            flows: Vec::with_capacity(flows),
            short: Vec::new(),
            parents: Vec::new(),
            cross: Vec::with_capacity(config.cross.len()),
            timers: Timers::new(first_of_flows + flows * Timer::ALL.len()),
            first_of_flows,
            way_back: (0..flows).map(|_| VecDeque::new()).collect(),
            rtt_ns: FlowTallies::new(flows),
            latency_ns: FlowTallies::new(flows),
            delivered_packets: 0,
            unfinished: flows,
        };
        if let Some(at) = sim.graph.as_ref().and_then(|graph| graph.next_change()) {
            sim.timers.arm(first_of_cross - 1, at);
        }
        sim.count_by_flow(config);
        for (i, cross) in config.cross.iter().enumerate() {
            cross.validate()?;
            // Each source draws for itself, so that one more changes nothing for the others.
            let seed = stream_seed(config.seed, Stream::Cross, i as u64);
            let source = CrossSource::new(cross.traffic, seed);
            if let Some(at) = source.next_due() {
                sim.timers.arm(first_of_cross + i, at);
            }
            sim.cross.push(source);
        }
        for (i, flow) in config.flows.iter().enumerate() {
            flow.validate()?;
            let start = Instant::default() + flow.start;
            let seed = |stream| stream_seed(config.seed, stream, i as u64);
            let seeds = Seeds {
                starts: seed(Stream::Starts),
                jitter: seed(Stream::Jitter),
                receiver: seed(Stream::Receiver),
            };
            sim.flows.push(Flow::new(*flow, ways[i], start, seeds));
            sim.arm(Timer::Application, i as u32, start);
        }
        Ok(sim)
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The flows, in the order of the configuration.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// One flow; the index is that of the configuration.
    pub fn flow(&self, i: usize) -> &Flow {
        &self.flows[i]
    }

    /// Statistics of a flow's sender so far; for [`Application::ShortFlows`] those of all its
    /// connections.
    ///
    /// [`Application::ShortFlows`]: fullpipe_traffic::Application::ShortFlows
    pub fn sender_stats(&self, flow: usize) -> SenderStats {
        let mut stats = self.flows[flow].stats();
        self.open_connections(flow).for_each(|open| stats.add(open.stats()));
        stats
    }

    /// Requests, connections and frames of a flow that have begun and are not complete; `None` for
    /// applications that have none.
    pub fn incomplete(&self, flow: usize) -> Option<u64> {
        let of = &self.flows[flow];
        let connections = self.open_connections(flow).filter(|open| open.end().is_none()).count();
        let begun = u64::from(of.awaits_answer()) + of.frames_under_way() + connections as u64;
        of.completion_ns.is_some().then_some(begun)
    }

    /// The connections of [`Application::ShortFlows`] whose sender does not know yet that all has
    /// arrived.
    fn open_connections(&self, flow: usize) -> impl Iterator<Item = &Flow> {
        let open = self.short.iter().flatten().map(|open| &**open);
        open.filter(move |open| open.parent == Some(flow as u32))
    }

    /// The round-trip sample of every ACK of all flows, in nanoseconds.
    pub fn rtt_ns(&self) -> Histogram<u64> {
        self.rtt_ns.histogram()
    }

    /// The same of each flow; of all together in one where there are more than
    /// [`fullpipe_traffic::MAX_OWN_TALLIES`].
    pub fn rtt_ns_by_flow(&self) -> &[Tally] {
        self.rtt_ns.tallies()
    }

    /// The application's latency in nanoseconds: from the write of a packet's last byte to its
    /// being read, for every packet's data.
    pub fn latency_ns(&self) -> Histogram<u64> {
        self.latency_ns.histogram()
    }

    /// The same of each flow; of all together in one where there are more than
    /// [`fullpipe_traffic::MAX_OWN_TALLIES`].
    pub fn latency_ns_by_flow(&self) -> &[Tally] {
        self.latency_ns.tallies()
    }

    /// Packets that came out at the end of their route so far, cross traffic included.
    pub fn delivered_packets(&self) -> u64 {
        self.delivered_packets
    }

    /// True if every flow has an end and reached it.
    pub fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// The application of a flow has nothing more to send until it writes again.
    pub fn pause(&mut self, flow: usize) {
        self.flows[flow].sender.pause();
    }

    /// The application of a flow writes `bytes`.
    pub fn write(&mut self, flow: usize, bytes: u64) {
        self.flows[flow].sender.write(self.now, bytes);
        self.pump(flow as u32);
    }

    /// The application of a flow has data without an end again.
    pub fn resume(&mut self, flow: usize) {
        self.flows[flow].sender.resume(self.now);
        self.pump(flow as u32);
    }

    /// Lets everything happen until `time`, or until every flow has reached its end: then the time
    /// is that of the last one's last byte.
    pub fn run_until_done(&mut self, time: Instant) {
        while !self.run_until_done_within(time, u64::MAX) {}
    }

    /// The same, but for no more than so many events: whether it came to the end. The time alone
    /// bounds no work, because a fast path has any number of events in it.
    pub fn run_until_done_within(&mut self, time: Instant, events: u64) -> bool {
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

    /// Lets everything happen until `time`.
    pub fn run_until(&mut self, time: Instant) {
        loop {
            let (at, source) = self.next();
            if at > time.as_nanos() || at == NEVER {
                break;
            }
            self.happen(at, source);
        }
        self.now = self.now.max(time);
    }

    /// The time of the next event.
    pub fn next_event(&self) -> Option<Instant> {
        let (at, _) = self.next();
        (at < NEVER).then(|| Instant::from_nanos(at))
    }

    /// Lets the next thing happen.
    pub fn step(&mut self) {
        let (at, source) = self.next();
        if at < NEVER {
            self.happen(at, source);
        }
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
}
