//! Flows of real stacks on a network of links.

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Arrival, Ecn, PathSample, Queue};
use fullpipe_report::observe::FlowSample;
use fullpipe_sim::{FlowConfig, Host, NEVER, Network, NetworkEvent, Packet, SimConfig};
use fullpipe_traffic::{FlowTallies, MediaStats, SenderStats, Stream, Tally, stream_seed};

use super::flow::{Flow, Seeds, Tallies};
use super::parcel::{Arrived, Parcel};
use super::transport::{RECEIVER, SENDER, Transport};
use crate::backend::RunError;
use crate::backend::virtual_time::World;

/// Buffers of packets that are kept for the next ones.
const MAX_SPARE: usize = 1 << 16;

/// The timers of a flow.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Sender,
    Receiver,
    Application,
    /// The receiver's host gets to a packet.
    Host,
}

impl Timer {
    const ALL: [Self; 4] = [Self::Sender, Self::Receiver, Self::Application, Self::Host];

    /// The number of a flow's timer.
    fn of(self, flow: usize) -> usize {
        flow * Self::ALL.len() + self as usize
    }
}

/// Running flows.
#[derive(Debug)]
pub(in crate::backend) struct Stacks<T: Transport> {
    pub(super) network: Network<Parcel, Parcel>,
    pub(super) flows: Vec<Flow<T>>,
    /// By flow: the first link that its data passes.
    first_links: Vec<usize>,
    /// By flow: the receiver's host, if it takes its time.
    hosts: Vec<Option<Host<Arrived>>>,
    rtt_ns: FlowTallies,
    latency_ns: FlowTallies,
    packet: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl<T: Transport> Stacks<T> {
    /// Flows that have the stacks that `stack` makes of a flow's number and settings.
    pub(in crate::backend) fn new(
        config: &SimConfig,
        mut stack: impl FnMut(usize, &FlowConfig) -> Result<T, RunError>,
    ) -> Result<Self, RunError> {
        let flows = config.flows.len();
        let mut world = Self {
            network: Network::new(config, flows * Timer::ALL.len())?,
            flows: Vec::with_capacity(flows),
            first_links: config.flows.iter().map(|flow| config.first_link(flow)).collect(),
            hosts: Vec::with_capacity(flows),
            rtt_ns: FlowTallies::new(flows),
            latency_ns: FlowTallies::new(flows),
            packet: Vec::new(),
            spare: Vec::new(),
        };
        for (i, flow) in config.flows.iter().enumerate() {
            let seed = |stream| stream_seed(config.seed, stream, i as u64);
            let seeds = Seeds { starts: seed(Stream::Starts), jitter: seed(Stream::Jitter) };
            world.flows.push(Flow::new(flow, stack(i, flow)?, seeds));
            let takes_time = flow.receiver_delay > Duration::ZERO;
            let host = || Host::new(flow.receiver_delay, seed(Stream::Receiver));
            world.hosts.push(takes_time.then(host));
            world.arm(Timer::Application, i, Instant::default() + flow.start);
        }
        Ok(world)
    }

    fn arm(&mut self, timer: Timer, flow: usize, at: Instant) {
        self.network.arm(timer.of(flow), at);
    }

    /// Lets the next thing happen.
    pub(in crate::backend) fn step(&mut self) {
        match self.network.step() {
            Some(NetworkEvent::Data(parcel, ecn)) => self.on_data(parcel, ecn),
            Some(NetworkEvent::Answer(parcel, ecn)) => {
                self.at_sender(parcel.flow() as usize, parcel.bytes, ecn);
            }
            Some(NetworkEvent::Timer(number)) => self.on_timer(number),
            None => {}
        }
    }

    /// A packet is at its receiver's host.
    fn on_data(&mut self, parcel: Parcel, ecn: Ecn) {
        let (i, now) = (parcel.flow() as usize, self.network.now());
        match self.hosts.get_mut(i) {
            // Cross traffic.
            None => {}
            Some(None) => self.at_receiver(i, now, parcel.bytes, ecn),
            Some(Some(host)) => {
                let due = host.hold(now, (parcel.bytes, ecn));
                self.arm(Timer::Host, i, due);
            }
        }
    }

    /// A receiver takes a packet in that arrived at its host at `arrived`.
    fn at_receiver(&mut self, i: usize, arrived: Instant, mut bytes: Vec<u8>, ecn: Ecn) {
        let now = self.network.now();
        let in_host = now.since(arrived);
        self.flows[i].receive(now, RECEIVER, in_host, &mut bytes, ecn);
        self.recycle(bytes);
        self.pump(i, RECEIVER);
        self.arm_application(i);
    }

    /// A packet is at a sender, whose host answers when it gets to it.
    fn at_sender(&mut self, i: usize, mut bytes: Vec<u8>, ecn: Ecn) {
        let now = self.network.now();
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
        self.flows[i].work(self.network.now(), end, &mut tallies);
    }

    /// Lets one end of a flow work and send all that may leave, and arms its timer for the rest.
    pub(super) fn pump(&mut self, i: usize, end: usize) {
        let now = self.network.now();
        let mut packet = std::mem::take(&mut self.packet);
        loop {
            self.work(i, end);
            let Some(departure) = self.flows[i].transmit(now, end, &mut packet) else { break };
            let next = self.spare.pop().unwrap_or_default();
            let bytes = std::mem::replace(&mut packet, next);
            let parcel = Parcel::new(i as u32, departure.connection, bytes);
            let send = if end == SENDER { Network::send_data } else { Network::send_answer };
            send(&mut self.network, departure.wire_bytes, departure.ecn, parcel);
        }
        self.packet = packet;
        let timer = if end == SENDER { Timer::Sender } else { Timer::Receiver };
        let flow = &mut self.flows[i];
        let at = flow.poll_at(end);
        let at = if end == SENDER { at.map(|at| flow.jitter.after(at)) } else { at };
        self.network.set(timer.of(i), at);
    }

    fn on_timer(&mut self, number: usize) {
        let now = self.network.now();
        self.network.set(number, None);
        let i = number / Timer::ALL.len();
        match Timer::ALL[number % Timer::ALL.len()] {
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
}

impl<T: Transport> World for Stacks<T> {
    fn now(&self) -> Instant {
        self.network.now()
    }

    fn is_done(&self) -> bool {
        self.flows.iter().all(|flow| flow.end.is_some())
    }

    fn advance(&mut self, time: Instant, events: u64) -> bool {
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

    fn begin_part(&mut self) {
        self.network.begin_part();
    }

    fn links(&self) -> usize {
        self.network.links()
    }

    fn link(&self, i: usize) -> PathSample {
        self.network.link(i)
    }

    fn queue_delays_so_far_ns(&self, link: usize) -> Box<dyn Iterator<Item = Tally> + '_> {
        self.network.queue_delays_so_far_ns(link)
    }

    fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]> {
        self.network.queue_delays_by_flow_ns()
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
        let links = (0..self.network.links()).map(|i| self.network.link(i));
        links.chain([self.network.uplink()]).map(|sample| sample.queue).collect()
    }

    fn sample(&mut self, i: usize, queues: &[Queue]) -> FlowSample {
        let flow = &mut self.flows[i];
        FlowSample {
            received: flow.received,
            rtt: flow.latest_rtt(),
            sender: flow.stats(),
            newest_packet: flow.newest_packet(),
            queue: queues[self.first_links[i]],
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
        self.flows[flow].media(self.network.now())
    }

    fn record_arrivals(&mut self, most: usize) {
        self.network.record_arrivals(most);
    }

    fn take_arrivals(&mut self) -> Vec<Vec<Arrival>> {
        self.network.take_arrivals()
    }
}
