//! The virtual clock: whatever happens next, happens next.

mod events;
mod upwards;

use std::collections::VecDeque;

use fullpipe_cc::{Instant, Rate};
use fullpipe_path::{Arrival, ConfigError, CrossSource, Path, PathSample, Probability, Selection};
use fullpipe_traffic::{FlowTallies, SenderStats, Stream, Tally, stream_seed};
use hdrhistogram::Histogram;

use crate::config::{Route, SimConfig, SimError};
use crate::flow::{Flow, Seeds};
use crate::link::Link;
use crate::packet::{Data, Up};
use crate::timers::{NEVER, Timers};
use upwards::Upwards;

/// Flows of cross traffic are numbered from here.
const CROSS: u32 = 1 << 31;

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

#[derive(Debug)]
struct Cross {
    source: CrossSource,
    route: Route,
}

/// A running simulation.
#[derive(Debug)]
pub struct Sim {
    now: Instant,
    links: Vec<Link<Data>>,
    uplink: Path<(u32, Up)>,
    /// The earliest time of the next packet out of each link, and last out of the uplink, in
    /// nanoseconds.
    due: Vec<u64>,
    flows: Vec<Flow>,
    /// The connections of [`Application::ShortFlows`], numbered on from `flows`; `None` when over.
    short: Vec<Option<Box<Flow>>>,
    /// The flow of each of them: its packets may still be under way when it is over.
    parents: Vec<u32>,
    cross: Vec<Cross>,
    /// Those of cross traffic first, then four of each flow.
    timers: Timers,
    /// By flow: packets on a return path that is longer than the uplink.
    way_back: Vec<VecDeque<(Instant, Up)>>,
    rtt_ns: FlowTallies,
    latency_ns: FlowTallies,
    /// Packets that came out of a last link.
    delivered_packets: u64,
    /// The packets of flows that go up that are under way.
    upwards: Upwards,
    /// Flows that have not reached an end.
    unfinished: usize,
}

impl Sim {
    /// A simulation at time zero.
    ///
    /// # Errors
    /// Fails if a path can't be built, or if a flow or cross traffic makes no sense.
    pub fn new(config: &SimConfig) -> Result<Self, SimError> {
        if config.links.is_empty() {
            return Err(SimError::NoLink);
        }
        let n = config.links.len();
        let mut sim = Self {
            now: Instant::default(),
            links: Vec::with_capacity(n),
            uplink: Path::new(&config.uplink)?,
            due: vec![NEVER; n + 1],
            flows: Vec::with_capacity(config.flows.len()),
            short: Vec::new(),
            parents: Vec::new(),
            cross: Vec::with_capacity(config.cross.len()),
            timers: Timers::new(config.cross.len() + config.flows.len() * Timer::ALL.len()),
            way_back: (0..config.flows.len()).map(|_| VecDeque::new()).collect(),
            rtt_ns: FlowTallies::new(config.flows.len()),
            latency_ns: FlowTallies::new(config.flows.len()),
            delivered_packets: 0,
            upwards: Upwards::default(),
            unfinished: config.flows.len(),
        };
        for link in &config.links {
            sim.links.push(Link::new(link)?);
        }
        sim.links[0].count_by_flow(&config.links[0], config.flows.len());
        // First, because the timers of flows are numbered after theirs.
        for (i, cross) in config.cross.iter().enumerate() {
            cross.validate()?;
            // Each source draws for itself, so that one more changes nothing for the others.
            let seed = stream_seed(config.seed, Stream::Cross, i as u64);
            let source = CrossSource::new(cross.traffic, seed);
            let route = Route::checked(cross.route, n)?;
            if let Some(at) = source.next_due() {
                sim.timers.arm(i, at);
            }
            sim.cross.push(Cross { source, route });
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
            sim.flows.push(Flow::new(*flow, Route::checked(flow.route, n)?, start, seeds));
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

    /// The number of links.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// A link's queue and counters now; the index is that of the configuration.
    pub fn link(&self, i: usize) -> PathSample {
        self.links[i].path.sample(self.now)
    }

    /// The way back: its counters now.
    pub fn uplink(&self) -> PathSample {
        self.uplink.sample(self.now)
    }

    /// Keeps the time and the header of each packet that enters a link or the uplink from now on,
    /// of `most` packets of each at most.
    pub fn record_arrivals(&mut self, most: usize) {
        self.links.iter_mut().for_each(|link| link.path.record_arrivals(most));
        self.uplink.record_arrivals(most);
    }

    /// The arrivals that were recorded: of each link, and last of the uplink.
    pub fn take_arrivals(&mut self) -> Vec<Vec<Arrival>> {
        let mut all: Vec<_> = self.links.iter_mut().map(|link| link.path.take_arrivals()).collect();
        all.push(self.uplink.take_arrivals());
        all
    }

    /// Queueing delay of every packet that came through a link, in nanoseconds.
    pub fn queue_delay_ns(&self, link: usize) -> Histogram<u64> {
        self.queue_delays_so_far_ns(link).last().unwrap_or_default().histogram()
    }

    /// The same of the packets that had left the link's bottleneck at the start (none), at each
    /// call of [`Self::begin_part`], and until now. A packet counts when it comes out of the link:
    /// one that is under way now is missing from all of them.
    pub fn queue_delays_so_far_ns(&self, link: usize) -> impl Iterator<Item = Tally> {
        self.links[link].queue_delays_so_far_ns()
    }

    /// Queueing delays in nanoseconds of each flow's packets that came out of the first link so
    /// far;
    /// `None` where its queue does not tell flows apart, or there are more than
    /// [`fullpipe_traffic::MAX_OWN_TALLIES`].
    pub fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]> {
        self.links[0].queue_delays_by_flow_ns()
    }

    /// From now on packets that leave a bottleneck are counted apart from those before, see
    /// [`Self::queue_delays_so_far_ns`].
    ///
    /// Link events due until now are processed first, so that the links' counters are exact,
    /// whatever their disciplines; [`Self::link`] alone only reads the counters.
    pub fn begin_part(&mut self) {
        self.links.iter_mut().for_each(|link| link.begin_part(self.now));
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

    /// Requests and connections of a flow that have begun and are not complete; `None` for
    /// applications that have neither.
    pub fn incomplete(&self, flow: usize) -> Option<u64> {
        let of = &self.flows[flow];
        let connections = self.open_connections(flow).filter(|open| open.end().is_none()).count();
        of.completion_ns.is_some().then(|| u64::from(of.awaits_answer()) + connections as u64)
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

    /// A link's rate from now on.
    ///
    /// # Errors
    /// Fails if the rate is 0 or the link has no bottleneck.
    pub fn set_rate(&mut self, link: usize, rate: Rate) -> Result<(), ConfigError> {
        self.links[link].path.set_rate(self.now, rate)?;
        self.refresh(link);
        Ok(())
    }

    /// The random loss of a link's data from now on.
    pub fn set_loss(&mut self, link: usize, probability: Probability, seed: u64) {
        self.links[link].path.set_loss(self.now, probability, seed);
        self.refresh(link);
    }

    /// Sets the data packets that the reordering of a link holds back from now on.
    ///
    /// # Errors
    /// Fails if the selection makes no sense or the link has no reordering.
    pub fn set_reordered(&mut self, link: usize, packets: Selection) -> Result<(), ConfigError> {
        self.links[link].path.set_reordered(self.now, packets)?;
        self.refresh(link);
        Ok(())
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

    /// The time of the next event in nanoseconds, and its source: a link by its index, the uplink
    /// after them, then the timers. Events at the same time are processed in this order: a timer
    /// must not fire for a packet that is just arriving.
    #[inline]
    fn next(&self) -> (u64, usize) {
        let timers = self.timers.next();
        // One link is the common case, and the loop below three times as long.
        if let [down, up] = self.due[..] {
            return match (down <= up.min(timers), up <= timers) {
                (true, _) => (down, 0),
                (false, true) => (up, 1),
                (false, false) => (timers, 2),
            };
        }
        let mut source = self.due.len();
        let mut next = (timers, source);
        while source > 0 {
            source -= 1;
            if self.due[source] <= next.0 {
                next = (self.due[source], source);
            }
        }
        next
    }
}
