//! Flows on a network of links, under a virtual clock: whatever happens next, happens next.

use fullpipe_cc::{Instant, Rate};
use fullpipe_path::{Arrival, ConfigError, PathSample, Probability, Selection};
use fullpipe_traffic::{FlowTallies, Tally};
use hdrhistogram::Histogram;

use crate::config::{FlowConfig, SimConfig, SimError};
use crate::ends::{Ends, Io, Timer};
use crate::network::{Network, NetworkEvent, Packet};
use crate::timers::NEVER;

/// Flows, each with its ends, and the network between them.
#[derive(Debug)]
pub struct World<E: Ends> {
    network: Network<E::Data, E::Answer>,
    flows: Vec<E>,
    /// Connections with ends of their own, numbered on from `flows`; `None` when over.
    connections: Vec<Option<Box<E>>>,
    rtt_ns: FlowTallies,
    latency_ns: FlowTallies,
    /// Flows that have not reached an end.
    unfinished: usize,
}

impl<E: Ends> World<E> {
    /// A world at time zero, of the ends that `ends` makes of a flow's number and settings.
    ///
    /// # Errors
    /// Fails if a path can't be built, if a flow or cross traffic makes no sense, or as `ends`.
    pub fn with_ends<Error: From<SimError>>(
        config: &SimConfig,
        mut ends: impl FnMut(usize, &FlowConfig) -> Result<E, Error>,
    ) -> Result<Self, Error> {
        let flows = config.flows.len();
        let mut world = Self {
            network: Network::new(config, flows * Timer::ALL.len())?,
            flows: Vec::with_capacity(flows),
            connections: Vec::new(),
            rtt_ns: FlowTallies::new(flows),
            latency_ns: FlowTallies::new(flows),
            unfinished: flows,
        };
        for (i, flow) in config.flows.iter().enumerate() {
            world.flows.push(ends(i, flow)?);
            let start = Instant::default() + flow.start;
            world.with(i as u32, |_, io| io.arm(Timer::Application, start));
        }
        Ok(world)
    }

    /// Lets the ends of a flow do something now; `None` if there are none, or no longer.
    #[inline]
    pub fn with<T>(
        &mut self,
        flow: u32,
        act: impl FnOnce(&mut E, &mut Io<'_, E>) -> T,
    ) -> Option<T> {
        let Self { network, flows, connections, rtt_ns, latency_ns, unfinished } = self;
        let place = (flow as usize).checked_sub(flows.len());
        let (ends, parent) = match place {
            None => (&mut flows[flow as usize], flow as usize),
            Some(place) => {
                (connections.get_mut(place)?.as_deref_mut()?, network.parent(place)? as usize)
            }
        };
        let (read, was_over) = (ends.received(), ends.end().is_some());
        let done = act(ends, &mut Io { network, flow, parent, rtt_ns, latency_ns });
        let end = ends.end().filter(|_| !was_over);
        if place.is_none() {
            *unfinished -= usize::from(end.is_some());
        } else {
            let (read, took) = (ends.received() - read, end.map(|end| end.since(ends.start())));
            flows[parent].on_connection_read(read, took);
        }
        Some(done)
    }

    /// Lets the next thing happen, if there is one.
    #[inline]
    pub fn step(&mut self) {
        match self.network.step() {
            // At its receiver's host, or of cross traffic and at the end of its route.
            Some(NetworkEvent::Data(data, ecn)) => {
                self.with(data.flow(), |ends, io| {
                    let now = io.now();
                    if let Some(host) = ends.host() {
                        let due = host.hold(now, (data, ecn));
                        return io.arm(Timer::Host, due);
                    }
                    ends.on_data(io, now, data, ecn);
                });
            }
            Some(NetworkEvent::Answer(answer, ecn)) => {
                let flow = answer.flow();
                self.with(flow, |ends, io| ends.on_answer(io, answer, ecn));
                if let Some(place) = (flow as usize).checked_sub(self.flows.len()) {
                    self.retire_if_over(place);
                }
            }
            Some(NetworkEvent::Timer(number)) => self.on_timer(number),
            None => {}
        }
    }

    /// A connection is over when its receiver has everything and its sender knows it.
    fn retire_if_over(&mut self, place: usize) {
        let parent = self.network.parent(place);
        let open = self.connections.get_mut(place);
        if let Some(over) = open.and_then(|open| open.take_if(|ends| ends.is_over()))
            && let Some(parent) = parent
        {
            self.flows[parent as usize].retire(&over);
        }
    }

    #[inline]
    fn on_timer(&mut self, number: usize) {
        let flow = (number / Timer::ALL.len()) as u32;
        let timer = Timer::ALL[number % Timer::ALL.len()];
        if timer == Timer::Application {
            return self.on_application(flow);
        }
        let fired = self.with(flow, |ends, io| match timer {
            // Set anew once, and not cleared first: there is one for each packet.
            Timer::Sender => ends.on_sender_timer(io),
            Timer::Host => {
                io.set(timer, None);
                serve_host(ends, io);
            }
            _ => {
                io.set(timer, None);
                ends.on_receiver_timer(io);
            }
        });
        if fired.is_none() {
            self.network.set(number, None);
        }
    }

    /// An application takes its next step. A connection that it opens takes its first.
    fn on_application(&mut self, flow: u32) {
        let opened = self.with(flow, |ends, io| {
            io.set(Timer::Application, None);
            ends.on_application(io)
        });
        match opened {
            None => self.network.set(Timer::Application.of(flow), None),
            Some(None) => {}
            Some(Some(ends)) => {
                // Of a flow of the configuration, whoever opened it.
                let place = (flow as usize).checked_sub(self.flows.len());
                let parent = place.and_then(|place| self.network.parent(place)).unwrap_or(flow);
                self.connections.push(Some(Box::new(ends)));
                let connection = self.network.connect(parent);
                self.on_application(connection);
            }
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.network.now()
    }

    /// The flows, in the order of the configuration.
    pub fn flows(&self) -> &[E] {
        &self.flows
    }

    /// One flow; the index is that of the configuration.
    pub fn flow(&self, i: usize) -> &E {
        &self.flows[i]
    }

    /// The same, to be changed. What it wants to send waits until something happens to it, and an
    /// end that it reaches here is none: see [`Self::with`].
    pub fn flow_mut(&mut self, i: usize) -> &mut E {
        &mut self.flows[i]
    }

    /// The connections of a flow that have ends of their own and are not over.
    pub(crate) fn connections_of(&self, flow: usize) -> impl Iterator<Item = &E> {
        let open = self.connections.iter().enumerate();
        let of_flow = move |place| self.network.parent(place) == Some(flow as u32);
        open.filter(move |(place, _)| of_flow(*place)).filter_map(|(_, open)| open.as_deref())
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

    /// Packets that came out at the end of their route so far, cross traffic included and answers
    /// left out.
    pub fn delivered_packets(&self) -> u64 {
        self.network.delivered_packets()
    }

    /// True if every flow has an end and reached it.
    pub fn is_done(&self) -> bool {
        self.unfinished == 0
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

    /// Queueing delays in nanoseconds of the packets that had left a link's bottleneck at the start
    /// (none), at each call of [`Self::begin_part`], and until now. A packet counts when it comes
    /// out of the link: one that is under way now is missing from all of them.
    pub fn queue_delays_so_far_ns(&self, link: usize) -> Box<dyn Iterator<Item = Tally> + '_> {
        self.network.queue_delays_so_far_ns(link)
    }

    /// Queueing delays in nanoseconds of each flow's packets that came out of the first link so
    /// far; `None` where its queue does not tell flows apart, or there are more than
    /// [`fullpipe_traffic::MAX_OWN_TALLIES`].
    pub fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]> {
        self.network.queue_delays_by_flow_ns()
    }

    /// From now on packets that leave a bottleneck are counted apart from those before, see
    /// [`Self::queue_delays_so_far_ns`].
    ///
    /// Link events due until now are processed first, so that the links' counters are exact,
    /// whatever their disciplines; [`Self::link`] alone only reads the counters.
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

/// The receiver's host gets to the packets whose time has come.
#[cold]
fn serve_host<E: Ends>(ends: &mut E, io: &mut Io<'_, E>) {
    let now = io.now();
    while let Some((arrived, (data, ecn))) = ends.host().and_then(|host| host.take(now)) {
        ends.on_data(io, arrived, data, ecn);
    }
    if let Some(due) = ends.host().and_then(|host| host.due()) {
        io.arm(Timer::Host, due);
    }
}
