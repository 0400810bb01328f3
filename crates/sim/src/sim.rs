//! Flows on a network of links.

mod events;

use fullpipe_cc::{Instant, Rate};
use fullpipe_path::{Arrival, ConfigError, PathSample, Probability, Selection};
use fullpipe_traffic::{FlowTallies, SenderStats, Stream, Tally, stream_seed};
use hdrhistogram::Histogram;

use crate::config::{SimConfig, SimError};
use crate::flow::{Flow, Seeds};
use crate::network::Network;
use crate::packet::{Answer, Data};
use crate::timers::NEVER;

/// The timers of a flow.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Sender,
    /// The receiver's host gets to a packet.
    Host,
    Receiver,
    Application,
}

impl Timer {
    const ALL: [Self; 4] = [Self::Sender, Self::Host, Self::Receiver, Self::Application];

    /// The number of a flow's timer.
    #[inline]
    const fn of(self, flow: u32) -> usize {
        flow as usize * Self::ALL.len() + self as usize
    }
}

/// A running simulation.
#[derive(Debug)]
pub struct Sim {
    network: Network<Data, Answer>,
    flows: Vec<Flow>,
    /// The connections of [`Application::ShortFlows`], numbered on from `flows`; `None` when over.
    short: Vec<Option<Box<Flow>>>,
    rtt_ns: FlowTallies,
    latency_ns: FlowTallies,
    /// Flows that have not reached an end.
    unfinished: usize,
}

impl Sim {
    /// A simulation at time zero.
    ///
    /// # Errors
    /// Fails if a path can't be built, or if a flow or cross traffic makes no sense.
    pub fn new(config: &SimConfig) -> Result<Self, SimError> {
        let flows = config.flows.len();
        let mut sim = Self {
            network: Network::new(config, flows * Timer::ALL.len())?,
            flows: Vec::with_capacity(flows),
            short: Vec::new(),
            rtt_ns: FlowTallies::new(flows),
            latency_ns: FlowTallies::new(flows),
            unfinished: flows,
        };
        for (i, flow) in config.flows.iter().enumerate() {
            let start = Instant::default() + flow.start;
            let seed = |stream| stream_seed(config.seed, stream, i as u64);
            let seeds = Seeds {
                starts: seed(Stream::Starts),
                jitter: seed(Stream::Jitter),
                receiver: seed(Stream::Receiver),
            };
            sim.flows.push(Flow::new(*flow, start, seeds));
            sim.arm(Timer::Application, i as u32, start);
        }
        Ok(sim)
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.network.now()
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
        self.network.delivered_packets()
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
        self.flows[flow].sender.write(self.network.now(), bytes);
        self.pump(flow as u32);
    }

    /// The application of a flow has data without an end again.
    pub fn resume(&mut self, flow: usize) {
        self.flows[flow].sender.resume(self.network.now());
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
            if self.network.due() > time.as_nanos().min(NEVER - 1) {
                self.network.pass_time(time);
                break;
            }
            if left == 0 {
                return false;
            }
            left -= 1;
            self.step();
        }
        true
    }

    /// Lets everything happen until `time`.
    pub fn run_until(&mut self, time: Instant) {
        while self.network.due() <= time.as_nanos().min(NEVER - 1) {
            self.step();
        }
        self.network.pass_time(time);
    }

    /// The time of the next event.
    pub fn next_event(&self) -> Option<Instant> {
        let due = self.network.due();
        (due < NEVER).then(|| Instant::from_nanos(due))
    }

    /// The number of links of the configuration.
    pub fn links(&self) -> usize {
        self.network.links()
    }

    /// A link's queue and counters now; the index is that of the configuration.
    pub fn link(&self, i: usize) -> PathSample {
        self.network.link(i)
    }

    /// The uplink: its counters now.
    pub fn uplink(&self) -> PathSample {
        self.network.uplink()
    }

    /// Keeps the time and the header of each packet that enters a link or the uplink from now on,
    /// of `most` packets of each at most.
    pub fn record_arrivals(&mut self, most: usize) {
        self.network.record_arrivals(most);
    }

    /// The arrivals that were recorded: of each link, and last of the uplink.
    pub fn take_arrivals(&mut self) -> Vec<Vec<Arrival>> {
        self.network.take_arrivals()
    }

    /// Queueing delay of every packet that came through a link, in nanoseconds.
    pub fn queue_delay_ns(&self, link: usize) -> Histogram<u64> {
        self.queue_delays_so_far_ns(link).last().unwrap_or_default().histogram()
    }

    /// See [`Network::queue_delays_so_far_ns`].
    pub fn queue_delays_so_far_ns(&self, link: usize) -> Box<dyn Iterator<Item = Tally> + '_> {
        self.network.queue_delays_so_far_ns(link)
    }

    /// See [`Network::queue_delays_by_flow_ns`].
    pub fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]> {
        self.network.queue_delays_by_flow_ns()
    }

    /// See [`Network::begin_part`].
    pub fn begin_part(&mut self) {
        self.network.begin_part();
    }

    /// A link's rate from now on.
    ///
    /// # Errors
    /// Fails if the rate is 0 or the link has no bottleneck.
    pub fn set_rate(&mut self, link: usize, rate: Rate) -> Result<(), ConfigError> {
        self.network.set_rate(link, rate)
    }

    /// The random loss of a link's data from now on.
    pub fn set_loss(&mut self, link: usize, probability: Probability, seed: u64) {
        self.network.set_loss(link, probability, seed);
    }

    /// Sets the data packets that the reordering of a link holds back from now on.
    ///
    /// # Errors
    /// Fails if the selection makes no sense or the link has no reordering.
    pub fn set_reordered(&mut self, link: usize, packets: Selection) -> Result<(), ConfigError> {
        self.network.set_reordered(link, packets)
    }
}
