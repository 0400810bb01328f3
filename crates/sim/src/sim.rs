//! The virtual clock: whatever happens next, happens next.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_path::{ConfigError, Event, IPV4_UDP_HEADER_BYTES, Path, PathSample, Probability};
use hdrhistogram::Histogram;

use crate::config::{
    Application, Arrivals, CrossTraffic, FlowConfig, IPV4_TCP_HEADER_BYTES, Route, SimConfig,
    SimError,
};
use crate::flow::{Flow, Wish};
use crate::packet::{Ack, Chunk, Data, Up};
use crate::random::Exponential;
use crate::sender::Transmit;
use crate::timers::Timers;
use crate::{ACK_BYTES, REQUEST_BYTES, histogram};

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

    fn number(self, flow: u32) -> usize {
        flow as usize * Self::ALL.len() + self as usize
    }
}

#[derive(Debug)]
struct Link {
    path: Path<Data>,
    queue_delay_ns: Histogram<u64>,
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
    timers: Timers,
    cross_timers: Timers,
    /// What is on a way back that is longer than the uplink, by flow.
    way_back: Vec<VecDeque<(Instant, Up)>>,
    rtt_ns: Histogram<u64>,
    latency_ns: Histogram<u64>,
    chance: Exponential,
    /// Packets that came out of a last link.
    delivered_packets: u64,
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
            due: vec![u64::MAX; n + 1],
            flows: Vec::with_capacity(config.flows.len()),
            short: Vec::new(),
            cross: Vec::with_capacity(config.cross.len()),
            timers: Timers::default(),
            cross_timers: Timers::default(),
            way_back: (0..config.flows.len()).map(|_| VecDeque::new()).collect(),
            rtt_ns: histogram(),
            latency_ns: histogram(),
            chance: Exponential::new(config.seed),
            delivered_packets: 0,
        };
        for link in &config.links {
            sim.links.push(Link { path: Path::new(link)?, queue_delay_ns: histogram() });
        }
        for (i, flow) in config.flows.iter().enumerate() {
            flow.validate()?;
            let start = Instant::default() + flow.start;
            sim.flows.push(Flow::new(*flow, Route::checked(flow.route, n)?, start));
            sim.timers.arm(Timer::Application.number(i as u32), start);
        }
        for (i, cross) in config.cross.iter().enumerate() {
            cross.validate()?;
            let next = Instant::default() + cross.start;
            // Each source draws for itself, so that one more changes nothing for the others.
            let chance = Exponential::new(config.seed.wrapping_add(1 + i as u64));
            let route = Route::checked(cross.route, n)?;
            sim.cross.push(Cross { config: *cross, route, sent: 0, next, chance });
            sim.cross_timers.arm(i, next);
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

    /// Queueing delay of every packet that came through a link, in nanoseconds.
    pub fn queue_delay_ns(&self, link: usize) -> &Histogram<u64> {
        &self.links[link].queue_delay_ns
    }

    /// The round-trip sample of every ACK of all flows, in nanoseconds.
    pub fn rtt_ns(&self) -> &Histogram<u64> {
        &self.rtt_ns
    }

    /// The application's latency in nanoseconds: from the write of a packet's last byte to its being
    /// read, for every packet's data.
    pub fn latency_ns(&self) -> &Histogram<u64> {
        &self.latency_ns
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
        while let Some((at, source)) = self.next()
            && at <= time
        {
            self.happen(at, source);
        }
        self.now = self.now.max(time);
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        self.next().map(|(at, _)| at)
    }

    /// Lets the next thing happen.
    pub fn step(&mut self) {
        if let Some((at, source)) = self.next() {
            self.happen(at, source);
        }
    }

    /// The next source of events: a link by its index, the uplink after them, timers of cross traffic,
    /// timers of flows. At one and the same time they go in this order: a timer must not fire for
    /// what is just arriving.
    #[inline]
    fn next(&self) -> Option<(Instant, usize)> {
        let mut first = (u64::MAX, 0);
        let timers = [self.cross_timers.next(), self.timers.next()];
        for (source, at) in self.due.iter().chain(&timers).enumerate() {
            if *at < first.0 {
                first = (*at, source);
            }
        }
        (first.0 < u64::MAX).then(|| (Instant::from_nanos(first.0), first.1))
    }

    #[inline]
    fn happen(&mut self, at: Instant, source: usize) {
        self.now = self.now.max(at);
        let n = self.links.len();
        if source < n {
            let event = self.links[source].path.poll(self.now);
            self.refresh(source);
            if let Some(Event::Delivered(d)) = event {
                // Out of the histogram's range would be beyond 584 years.
                let _ = self.links[source].queue_delay_ns.record(d.queued.as_nanos());
                self.on_link_passed(source, d.wire_bytes, d.payload);
            }
        } else if source == n {
            let event = self.uplink.poll(self.now);
            self.refresh_uplink();
            if let Some(Event::Delivered(d)) = event {
                self.on_uplink_passed(d.payload.0, d.payload.1);
            }
        } else if source == n + 1 {
            if let Some(i) = self.cross_timers.pop() {
                self.send_cross(i);
            }
        } else if let Some(timer) = self.timers.pop() {
            let flow = (timer / Timer::ALL.len()) as u32;
            self.on_timer(flow, Timer::ALL[timer % Timer::ALL.len()]);
        }
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
        let i = flow as usize;
        let n = self.flows.len();
        if i < n { self.flows.get_mut(i) } else { self.short.get_mut(i - n)?.as_deref_mut() }
    }

    #[inline]
    fn on_link_passed(&mut self, link: usize, wire_bytes: u32, data: Data) {
        let last = if data.flow >= CROSS {
            self.cross[(data.flow - CROSS) as usize].route.last
        } else {
            match self.alive(data.flow) {
                Some(flow) => flow.route.last,
                None => return,
            }
        };
        if link < last {
            // A dropped packet is the link's business, and the sender's loss detection's.
            let _ = self.links[link + 1].path.send(self.now, wire_bytes, data);
            self.refresh(link + 1);
            return;
        }
        self.delivered_packets += 1;
        if data.flow < CROSS {
            self.on_data(data);
        }
    }

    #[inline]
    fn on_data(&mut self, data: Data) {
        let (now, i) = (self.now, data.flow as usize);
        let flow = if i < self.flows.len() {
            &mut self.flows[i]
        } else {
            match self.short[i - self.flows.len()].as_deref_mut() {
                Some(flow) => flow,
                None => return,
            }
        };
        let rtt = flow.sender.smoothed_rtt();
        let latency = &mut self.latency_ns;
        let ack = flow.receiver.on_packet(now, &data, rtt, |_, written| {
            let _ = latency.record(now.since(written).as_nanos());
        });
        let (before, parent) = (flow.received, flow.parent);
        flow.on_read(now);
        let (read, wakes) = (flow.received - before, flow.wakes);
        if let Some(parent) = parent {
            self.flows[parent as usize].received += read;
        }
        if let Some(at) = wakes {
            self.timers.arm(Timer::Application.number(data.flow), at);
        }
        match ack {
            Some(ack) => self.send_ack(data.flow, ack),
            None => self.arm_receiver(data.flow),
        }
    }

    fn send_ack(&mut self, flow: u32, ack: Ack) {
        let Some(f) = self.alive(flow) else { return };
        let bytes = if f.config.is_tcp() {
            IPV4_TCP_HEADER_BYTES
        } else {
            ACK_BYTES + IPV4_UDP_HEADER_BYTES
        };
        self.send_up(flow, bytes, Up::Ack(ack));
    }

    /// A dropped ACK is the path's business; a later one repeats what it said.
    fn send_up(&mut self, flow: u32, wire_bytes: u32, up: Up) {
        let _ = self.uplink.send(self.now, wire_bytes, (flow, up));
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
        self.timers.arm(Timer::WayBack.number(i), at);
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
                    let _ = self.rtt_ns.record(rtt.as_nanos());
                }
            }
        }
        self.pump(i);
        if i as usize >= self.flows.len() {
            self.retire_if_over(i);
        }
    }

    fn on_timer(&mut self, i: u32, timer: Timer) {
        let now = self.now;
        match timer {
            Timer::Sender => {
                let Some(flow) = self.alive(i) else { return };
                if let Some(probe) = flow.sender.on_timer(now) {
                    self.send_data(i, probe);
                }
                self.pump(i);
            }
            Timer::Receiver => {
                let Some(flow) = self.alive(i) else { return };
                if flow.receiver.deadline().is_some_and(|due| due <= now) {
                    let ack = flow.receiver.acknowledge(now);
                    self.send_ack(i, ack);
                }
                self.arm_receiver(i);
            }
            Timer::Application => self.on_application(i),
            Timer::WayBack => {
                let Some((_, up)) = self.way_back[i as usize].pop_front() else { return };
                if let Some((at, _)) = self.way_back[i as usize].front() {
                    self.timers.arm(Timer::WayBack.number(i), *at);
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
            return self.timers.arm(Timer::Application.number(i), at);
        }
        let wish = flow.on_wake(now, |mean| chance.draw(mean));
        let wakes = flow.wakes;
        self.chance = chance;
        if let Some(at) = wakes {
            self.timers.arm(Timer::Application.number(i), at);
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
            let _ = times.record(end.since(flow.start).as_nanos());
        }
    }

    /// Sends what may leave, and arms the timer for the rest.
    #[inline]
    fn pump(&mut self, i: u32) {
        let now = self.now;
        while let Some(packet) = self.alive(i).and_then(|flow| flow.sender.poll_transmit(now)) {
            self.send_data(i, packet);
        }
        if let Some(at) = self.alive(i).and_then(|flow| flow.sender.deadline()) {
            self.timers.arm(Timer::Sender.number(i), at);
        }
    }

    #[inline]
    fn send_data(&mut self, i: u32, packet: Transmit) {
        let Some(flow) = self.alive(i) else { return };
        let (first, header) = (flow.route.first, flow.config.header_bytes());
        let Transmit { pn, chunk, bytes } = packet;
        let data = Data { flow: i, pn, sent: self.now, chunk };
        let _ = self.links[first].path.send(self.now, bytes + header, data);
        self.refresh(first);
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
        self.cross_timers.arm(i, cross.next);
        let chunk = Chunk { id: 0, written: self.now, bytes: 0 };
        let data = Data { flow: CROSS + i as u32, pn: cross.sent, sent: self.now, chunk };
        let first = cross.route.first;
        let _ = self.links[first].path.send(self.now, packet_bytes, data);
        self.refresh(first);
    }

    #[inline]
    fn arm_receiver(&mut self, i: u32) {
        if let Some(at) = self.alive(i).and_then(|flow| flow.receiver.deadline()) {
            self.timers.arm(Timer::Receiver.number(i), at);
        }
    }
}

#[inline]
fn nanos(at: Option<Instant>) -> u64 {
    at.map_or(u64::MAX, Instant::as_nanos)
}
