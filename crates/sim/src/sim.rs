//! The virtual clock: whatever happens next, happens next.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_path::{
    ConfigError, Delivered, Ecn, Event, Header, IPV4_UDP_HEADER_BYTES, Path, PathSample,
    Probability, Selection,
};
use hdrhistogram::Histogram;

use crate::REQUEST_BYTES;
use crate::config::{Application, Arrivals, CrossTraffic, FlowConfig, Route, SimConfig, SimError};
use crate::flow::{Flow, Wish};
use crate::packet::{Chunk, Data, Up};
use crate::random::Exponential;
use crate::tally::Tally;
use crate::timers::{NEVER, Timers};

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
struct Link {
    path: Path<Data>,
    queue_delay_ns: Tally,
}

#[derive(Debug)]
struct Cross {
    config: CrossTraffic,
    route: Route,
    sent: u64,
    next: Instant,
    chance: Exponential,
}

/// A running simulation.
#[derive(Debug)]
pub struct Sim {
    now: Instant,
    links: Vec<Link>,
    uplink: Path<(u32, Up)>,
    /// When something comes out of each link, and last of the uplink, in nanoseconds at the earliest.
    due: Vec<u64>,
    flows: Vec<Flow>,
    /// The connections of [`Application::ShortFlows`], numbered on from `flows`; `None` when over.
    short: Vec<Option<Box<Flow>>>,
    cross: Vec<Cross>,
    /// Those of cross traffic first, then four of each flow.
    timers: Timers,
    /// What is on a way back that is longer than the uplink, by flow.
    way_back: Vec<VecDeque<(Instant, Up)>>,
    rtt_ns: Tally,
    latency_ns: Tally,
    chance: Exponential,
    /// Packets that came out of a last link.
    delivered_packets: u64,
}

/// What the links see of a packet: queues tell the flows apart.
fn header(flow: u32, wire_bytes: u32, ecn: Ecn) -> Header {
    Header { flow, wire_bytes, ecn }
}

fn is_intact<T>(event: &Event<T>) -> bool {
    !matches!(event, Event::Delivered(d) if d.corrupted)
}

impl Sim {
    /// A simulation at time zero.
    ///
    /// # Errors
    /// When a path can't be built, or a flow or cross traffic makes no sense.
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
            cross: Vec::with_capacity(config.cross.len()),
            timers: Timers::new(config.cross.len() + config.flows.len() * Timer::ALL.len()),
            way_back: (0..config.flows.len()).map(|_| VecDeque::new()).collect(),
            rtt_ns: Tally::new(),
            latency_ns: Tally::new(),
            chance: Exponential::new(config.seed),
            delivered_packets: 0,
        };
        for link in &config.links {
            sim.links.push(Link { path: Path::new(link)?, queue_delay_ns: Tally::new() });
        }
        // First, because the timers of flows are numbered after theirs.
        for (i, cross) in config.cross.iter().enumerate() {
            cross.validate()?;
            let next = Instant::default() + cross.start;
            // Each source draws for itself, so that one more changes nothing for the others.
            let chance = Exponential::new(config.seed.wrapping_add(1 + i as u64));
            let route = Route::checked(cross.route, n)?;
            sim.cross.push(Cross { config: *cross, route, sent: 0, next, chance });
            sim.timers.arm(i, next);
        }
        for (i, flow) in config.flows.iter().enumerate() {
            flow.validate()?;
            let start = Instant::default() + flow.start;
            sim.flows.push(Flow::new(*flow, Route::checked(flow.route, n)?, start));
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

    /// A link's queue and counters now; the index is that of the configuration.
    pub fn link(&self, i: usize) -> PathSample {
        self.links[i].path.sample(self.now)
    }

    /// The way back: its counters now.
    pub fn uplink(&self) -> PathSample {
        self.uplink.sample(self.now)
    }

    /// Queueing delay of every packet that came through a link, in nanoseconds.
    pub fn queue_delay_ns(&self, link: usize) -> Histogram<u64> {
        self.links[link].queue_delay_ns.histogram()
    }

    /// The round-trip sample of every ACK of all flows, in nanoseconds.
    pub fn rtt_ns(&self) -> Histogram<u64> {
        self.rtt_ns.histogram()
    }

    /// The application's latency in nanoseconds: from the write of a packet's last byte to its being
    /// read, for every packet's data.
    pub fn latency_ns(&self) -> Histogram<u64> {
        self.latency_ns.histogram()
    }

    /// Packets that came out at the end of their route so far, cross traffic included.
    pub fn delivered_packets(&self) -> u64 {
        self.delivered_packets
    }

    /// Whether every flow has an end and reached it.
    pub fn is_done(&self) -> bool {
        self.flows.iter().all(|f| f.end().is_some())
    }

    /// A link's rate from now on.
    ///
    /// # Errors
    /// When the rate is 0, or the link has no bottleneck.
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

    /// Which data packets the reordering of a link holds back from now on.
    ///
    /// # Errors
    /// When the selection makes no sense, or the link has no reordering.
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

    /// When something happens next.
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

    /// When something happens next, in nanoseconds, and its source: a link by its index, the uplink
    /// after them, the timers. At one and the same time they go in this order: a timer must not fire
    /// for what is just arriving.
    #[inline]
    fn next(&self) -> (u64, usize) {
        let mut source = self.due.len();
        let mut next = (self.timers.next(), source);
        while source > 0 {
            source -= 1;
            if self.due[source] <= next.0 {
                next = (self.due[source], source);
            }
        }
        next
    }

    #[inline]
    fn happen(&mut self, at: u64, source: usize) {
        self.now = self.now.max(Instant::from_nanos(at));
        if let Some(link) = self.links.get_mut(source) {
            let event = link.path.poll(self.now);
            self.due[source] = nanos(link.path.next_event());
            // A corrupted packet fails its checksum behind the link.
            if let Some(Event::Delivered(d)) = event.filter(is_intact) {
                link.queue_delay_ns.record(d.queued.as_nanos());
                if self.links.len() == 1 || self.is_last_link(source, &d) {
                    self.delivered_packets += 1;
                    self.on_data(d.payload, d.ecn);
                }
            }
        } else if source == self.links.len() {
            let event = self.uplink.poll(self.now);
            self.refresh_uplink();
            if let Some(Event::Delivered(d)) = event.filter(is_intact) {
                self.on_uplink_passed(d.payload.0, d.payload.1);
            }
        } else {
            self.on_timer(self.timers.first());
        }
    }

    #[inline]
    fn number(&self, timer: Timer, flow: u32) -> usize {
        self.cross.len() + flow as usize * Timer::ALL.len() + timer as usize
    }

    #[inline]
    fn arm(&mut self, timer: Timer, flow: u32, at: Instant) {
        self.timers.arm(self.number(timer, flow), at);
    }

    #[inline]
    fn refresh(&mut self, link: usize) {
        self.due[link] = nanos(self.links[link].path.next_event());
    }

    #[inline]
    fn refresh_uplink(&mut self) {
        let n = self.links.len();
        self.due[n] = nanos(self.uplink.next_event());
    }

    /// A flow that is still alive.
    #[inline]
    fn alive(&mut self, flow: u32) -> Option<&mut Flow> {
        find(&mut self.flows, &mut self.short, flow)
    }

    /// Whether a packet's route ends with the link that it came through; else it goes on.
    fn is_last_link(&mut self, link: usize, d: &Delivered<Data>) -> bool {
        let route = match d.payload.flow.checked_sub(CROSS) {
            Some(cross) => Some(self.cross[cross as usize].route),
            None => self.alive(d.payload.flow).map(|flow| flow.route),
        };
        let is_last = route.is_none_or(|route| route.last == link);
        if !is_last {
            let header = header(d.payload.flow, d.wire_bytes, d.ecn);
            // A dropped packet is the link's business, and the sender's loss detection's.
            let _ = self.links[link + 1].path.send(self.now, header, d.payload);
            self.refresh(link + 1);
        }
        is_last
    }

    #[inline]
    fn on_data(&mut self, data: Data, ecn: Ecn) {
        let now = self.now;
        let Some(flow) = find(&mut self.flows, &mut self.short, data.flow) else { return };
        let rtt = flow.sender.smoothed_rtt();
        let latency = &mut self.latency_ns;
        let ack = flow.receiver.on_packet(now, &data, ecn, rtt, |_, written| {
            latency.record(now.since(written).as_nanos());
        });
        let before = flow.received;
        let wakes = flow.on_read(now);
        let (read, parent) = (flow.received - before, flow.parent);
        match ack {
            Some(ack) => {
                let bytes = flow.ack_bytes;
                self.send_up(data.flow, bytes, Up::Ack(ack));
            }
            None => self.arm_receiver(data.flow),
        }
        if let Some(parent) = parent {
            self.flows[parent as usize].received += read;
        }
        if let Some(at) = wakes {
            self.arm(Timer::Application, data.flow, at);
        }
    }

    /// A dropped ACK is the path's business; a later one repeats what it said.
    fn send_up(&mut self, flow: u32, wire_bytes: u32, up: Up) {
        let _ = self.uplink.send(self.now, header(flow, wire_bytes, Ecn::NotEct), (flow, up));
        self.refresh_uplink();
    }

    #[inline]
    fn on_uplink_passed(&mut self, i: u32, up: Up) {
        let now = self.now;
        let Some(flow) = self.alive(i) else { return };
        if flow.config.extra_rtt == Duration::ZERO {
            return self.on_up(i, up);
        }
        let at = now + flow.config.extra_rtt;
        let way = i as usize;
        if way >= self.way_back.len() {
            self.way_back.resize_with(way + 1, VecDeque::new);
        }
        self.way_back[way].push_back((at, up));
        self.arm(Timer::WayBack, i, at);
    }

    #[inline]
    fn on_up(&mut self, i: u32, up: Up) {
        let now = self.now;
        let Some(flow) = self.alive(i) else { return };
        match up {
            Up::Request => flow.on_request(now),
            Up::Ack(ack) => {
                let is_news = flow.sender.on_ack(now, ack, &mut flow.receiver);
                if is_news && let Some(rtt) = flow.sender.latest_rtt() {
                    self.rtt_ns.record(rtt.as_nanos());
                }
            }
        }
        self.pump(i);
        if i as usize >= self.flows.len() {
            self.retire_if_over(i);
        }
    }

    #[inline]
    fn on_timer(&mut self, number: usize) {
        let now = self.now;
        let Some(of_flow) = number.checked_sub(self.cross.len()) else {
            self.timers.disarm(number);
            return self.send_cross(number);
        };
        let i = (of_flow / Timer::ALL.len()) as u32;
        let timer = Timer::ALL[of_flow % Timer::ALL.len()];
        if let Timer::Sender = timer {
            let probe = self.alive(i).is_some_and(|flow| flow.sender.on_timer(now));
            // Set anew once, and not cleared first: there is one for each packet.
            let next = self.send(i, probe);
            return self.timers.set(number, nanos(next));
        }
        self.timers.disarm(number);
        match timer {
            Timer::Sender => {}
            Timer::Receiver => {
                let Some(flow) = self.alive(i) else { return };
                if flow.receiver.deadline().is_some_and(|due| due <= now) {
                    let (bytes, ack) = (flow.ack_bytes, flow.receiver.acknowledge(now));
                    self.send_up(i, bytes, Up::Ack(ack));
                }
                self.arm_receiver(i);
            }
            Timer::Application => self.on_application(i),
            Timer::WayBack => {
                let Some((_, up)) = self.way_back[i as usize].pop_front() else { return };
                if let Some((at, _)) = self.way_back[i as usize].front() {
                    self.arm(Timer::WayBack, i, *at);
                }
                self.on_up(i, up);
            }
        }
    }

    fn on_application(&mut self, i: u32) {
        let now = self.now;
        let mut chance = self.chance.clone();
        let Some(flow) = self.alive(i) else { return };
        if let Some(at) = flow.wakes.filter(|at| *at > now) {
            return self.arm(Timer::Application, i, at);
        }
        let wish = flow.on_wake(now, |mean| chance.draw(mean));
        let wakes = flow.wakes;
        self.chance = chance;
        if let Some(at) = wakes {
            self.arm(Timer::Application, i, at);
        }
        match wish {
            Wish::Nothing => {}
            Wish::Send => self.pump(i),
            Wish::Request => {
                self.send_up(i, REQUEST_BYTES + IPV4_UDP_HEADER_BYTES, Up::Request);
            }
            Wish::Connect => self.connect(i),
        }
    }

    /// Starts the next connection of [`Application::ShortFlows`].
    fn connect(&mut self, parent: u32) {
        let template = &self.flows[parent as usize];
        let Application::ShortFlows { bytes, .. } = template.config.application else { return };
        let number = self.short.len();
        let mut config = FlowConfig {
            application: Application::Bytes(bytes),
            start: self.now.since(Instant::default()),
            stop: None,
            ..template.config
        };
        config.cc.seed = config.cc.seed.wrapping_add(number as u64);
        let mut flow = Flow::new(config, template.route, self.now);
        flow.parent = Some(parent);
        self.short.push(Some(Box::new(flow)));
        self.on_application((self.flows.len() + number) as u32);
    }

    /// A short connection is over when its receiver has everything and its sender knows it.
    fn retire_if_over(&mut self, i: u32) {
        let place = i as usize - self.flows.len();
        let is_over = |f: &Flow| f.end().is_some() && f.sender.is_idle();
        let Some(flow) = self.short[place].take_if(|f| is_over(f)) else { return };
        let (Some(parent), Some(end)) = (flow.parent, flow.end()) else { return };
        let parent = &mut self.flows[parent as usize];
        parent.over.add(flow.sender.stats);
        if let Some(times) = &mut parent.completion_ns {
            times.record(end.since(flow.start).as_nanos());
        }
    }

    /// Sends what may leave, and arms the timer for the rest.
    #[inline]
    fn pump(&mut self, i: u32) {
        if let Some(at) = self.send(i, false) {
            self.arm(Timer::Sender, i, at);
        }
    }

    /// Sends what may leave, after a probe that leaves whatever window and pacer say; returns when to
    /// look again.
    #[inline]
    fn send(&mut self, i: u32, probe: bool) -> Option<Instant> {
        let now = self.now;
        let flow = find(&mut self.flows, &mut self.short, i)?;
        let (first, more, ecn) = (flow.route.first, flow.header_bytes, flow.config.ecn);
        let path = &mut self.links[first].path;
        let mut is_new = false;
        let deadline = flow.sender.pump(now, probe, |pn, chunk, bytes| {
            is_new = true;
            let data = Data { flow: i, pn, sent: now, chunk };
            // A dropped packet is the link's business, and the sender's loss detection's.
            let _ = path.send(now, header(i, bytes + more, ecn), data);
        });
        if is_new {
            self.due[first] = nanos(path.next_event());
        }
        deadline
    }

    fn send_cross(&mut self, i: usize) {
        let cross = &mut self.cross[i];
        let CrossTraffic { rate, packet_bytes, arrivals, start, stop, .. } = cross.config;
        if stop.is_some_and(|stop| self.now >= Instant::default() + stop) {
            return;
        }
        cross.sent += 1;
        cross.next = match arrivals {
            // From the start and not from the packet before: no rounding adds up.
            Arrivals::Constant => {
                Instant::default() + start + rate.time_for(cross.sent * u64::from(packet_bytes))
            }
            Arrivals::Poisson => {
                cross.next + cross.chance.draw(rate.time_for(u64::from(packet_bytes)))
            }
        };
        self.timers.arm(i, cross.next);
        let chunk = Chunk { id: 0, written: self.now, bytes: 0 };
        let data = Data { flow: CROSS + i as u32, pn: cross.sent, sent: self.now, chunk };
        let first = cross.route.first;
        let _ = self.links[first].path.send(
            self.now,
            header(data.flow, packet_bytes, Ecn::NotEct),
            data,
        );
        self.refresh(first);
    }

    #[inline]
    fn arm_receiver(&mut self, i: u32) {
        if let Some(at) = self.alive(i).and_then(|flow| flow.receiver.deadline()) {
            self.arm(Timer::Receiver, i, at);
        }
    }
}

/// A flow that is still alive. Not a method, so that the rest of the simulation stays at hand.
#[inline]
fn find<'a>(
    flows: &'a mut [Flow],
    short: &'a mut [Option<Box<Flow>>],
    i: u32,
) -> Option<&'a mut Flow> {
    let (i, n) = (i as usize, flows.len());
    if i < n { flows.get_mut(i) } else { short.get_mut(i - n)?.as_deref_mut() }
}

#[inline]
fn nanos(at: Option<Instant>) -> u64 {
    at.map_or(NEVER, Instant::as_nanos)
}
