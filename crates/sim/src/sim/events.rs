//! Handlers of due events: packets arrive, timers fire, flows send.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Ecn, Event, Header, IPV4_UDP_HEADER_BYTES};
use fullpipe_traffic::{Application, Stream, stream_seed};

use super::{Numbered, Sim, Timer};
use crate::REQUEST_BYTES;
use crate::config::FlowConfig;
use crate::flow::{DIRECT, Flow, Seeds, Wish};
use crate::packet::{Chunk, Data, Up};
use crate::timers::NEVER;

/// The header of a packet as the links see it: queues tell flows apart by it.
#[inline]
pub(super) fn header(flow: u32, wire_bytes: u32, ecn: Ecn) -> Header {
    Header { flow, wire_bytes, ecn }
}

impl Sim {
    #[inline]
    pub(super) fn happen(&mut self, at: u64, source: usize) {
        self.now = self.now.max(Instant::from_nanos(at));
        match source {
            0 => {
                let event = self.down.path.poll(self.now);
                self.due[0] = nanos(self.down.path.next_event());
                if let Some(Event::Delivered(d)) = &event
                    // A corrupted packet fails its checksum behind the link.
                    && !d.corrupted
                {
                    self.down.count(d);
                    let (flows, parents) = (self.flows.len(), &self.parents);
                    self.down.count_of(|| owner(flows, parents, d.payload.flow), d);
                    self.delivered_packets += 1;
                    self.on_data::<false>(&d.payload, d.ecn);
                }
            }
            1 => {
                let event = self.uplink.poll(self.now);
                self.refresh_uplink();
                if let Some(Event::Delivered(d)) = &event
                    && !d.corrupted
                {
                    self.on_up_arrived(d.payload.0, &d.payload.1);
                }
            }
            _ => self.on_timer(self.timers.first()),
        }
    }

    #[inline]
    fn number(&self, timer: Timer, flow: u32) -> usize {
        self.first_of_flows + flow as usize * Timer::ALL.len() + timer as usize
    }

    #[inline]
    pub(super) fn arm(&mut self, timer: Timer, flow: u32, at: Instant) {
        self.timers.arm(self.number(timer, flow), at);
    }

    #[inline]
    fn refresh_down(&mut self) {
        self.due[0] = nanos(self.down.path.next_event());
    }

    #[inline]
    fn refresh_uplink(&mut self) {
        self.due[1] = nanos(self.uplink.next_event());
    }

    /// A flow that is still alive.
    #[inline]
    fn alive(&mut self, flow: u32) -> Option<&mut Flow> {
        find(&mut self.flows, &mut self.short, flow)
    }

    /// A packet has come to the end of its way. `AWAY`: it came over the graph of links, and so
    /// goes the ACK.
    #[inline]
    pub(super) fn on_data<const AWAY: bool>(&mut self, data: &Data, ecn: Ecn) {
        let now = self.now;
        let Some(flow) = find(&mut self.flows, &mut self.short, data.flow) else {
            return;
        };
        if let Some(host) = &mut flow.host {
            let due = host.hold(now, (*data, ecn));
            return self.arm(Timer::Receiver, data.flow, due);
        }
        self.take_in::<AWAY>(data, ecn, now);
    }

    /// The receiver's host gets to the packets whose time has come.
    #[cold]
    fn serve_host(&mut self, i: u32) {
        let now = self.now;
        while let Some(flow) = self.alive(i)
            && let Some((arrived, (data, ecn))) = flow.host.as_mut().and_then(|host| host.take(now))
        {
            if flow.way == DIRECT {
                self.take_in::<false>(&data, ecn, arrived);
            } else {
                self.take_in::<true>(&data, ecn, arrived);
            }
        }
        if let Some(due) = self.alive(i).and_then(|flow| flow.host.as_ref()?.due()) {
            self.arm(Timer::Receiver, i, due);
        }
    }

    /// The receiver takes a packet in that arrived at its host at `arrived`.
    #[inline]
    fn take_in<const AWAY: bool>(&mut self, data: &Data, ecn: Ecn, arrived: Instant) {
        let now = self.now;
        let Some(flow) = find(&mut self.flows, &mut self.short, data.flow) else { return };
        if data.chunk().id == Chunk::HANDSHAKE.id {
            let bytes = flow.config.handshake_bytes();
            return self.send_back(data.flow, bytes, Up::Handshake);
        }
        let sender = &flow.sender;
        let rtt = || sender.smoothed_rtt();
        let latency = self.latency_ns.of(flow.parent.unwrap_or(data.flow) as usize);
        let ack = flow.receiver.on_packet((now, arrived), data, ecn, rtt, |_, written| {
            latency.record(now.since(written).as_nanos());
        });
        let before = flow.received;
        let wakes = flow.on_read(now, data.chunk().written);
        let (read, parent) = (flow.received - before, flow.parent);
        let (start, flow_end, ack_due) = (flow.start, flow.end(), flow.receiver.deadline());
        match ack {
            Some(ack) => {
                let bytes = flow.ack_bytes;
                if AWAY {
                    self.send_answer(data.flow, bytes, Up::Ack(ack));
                } else {
                    self.send_up(data.flow, bytes, Up::Ack(ack));
                }
            }
            None => {
                if let Some(at) = ack_due {
                    self.arm(Timer::Receiver, data.flow, at);
                }
            }
        }
        // Nothing is read after an end.
        let end = flow_end.filter(|_| read > 0);
        match parent {
            None => self.unfinished -= usize::from(end.is_some()),
            Some(parent) => {
                let parent = &mut self.flows[parent as usize];
                parent.received += read;
                if let (Some(end), Some(times)) = (end, &mut parent.completion_ns) {
                    times.record(end.since(start).as_nanos());
                }
            }
        }
        if let Some(at) = wakes {
            self.arm(Timer::Application, data.flow, at);
        }
    }

    /// Sends from a flow's receiver to its sender.
    fn send_back(&mut self, i: u32, wire_bytes: u32, up: Up) {
        match find(&mut self.flows, &mut self.short, i) {
            Some(flow) if flow.way != DIRECT => self.send_answer(i, wire_bytes, up),
            _ => self.send_up(i, wire_bytes, up),
        }
    }

    /// A dropped ACK is the path's business; a later one repeats what it said.
    #[inline]
    pub(super) fn send_up(&mut self, flow: u32, wire_bytes: u32, up: Up) {
        let _ = self.uplink.send(self.now, header(flow, wire_bytes, Ecn::NotEct), (flow, up));
        self.refresh_uplink();
    }

    #[inline]
    pub(super) fn on_up_arrived(&mut self, i: u32, up: &Up) {
        let now = self.now;
        let Some(flow) = self.alive(i) else { return };
        if flow.extra_rtt == Duration::ZERO {
            return self.on_up(i, up);
        }
        let at = now + flow.extra_rtt;
        let way = i as usize;
        if way >= self.way_back.len() {
            self.way_back.resize_with(way + 1, VecDeque::new);
        }
        self.way_back[way].push_back((at, up.clone()));
        self.arm(Timer::WayBack, i, at);
    }

    #[inline]
    fn on_up(&mut self, i: u32, up: &Up) {
        let now = self.now;
        let Some(flow) = find(&mut self.flows, &mut self.short, i) else { return };
        let whose = flow.parent.unwrap_or(i) as usize;
        match up {
            Up::Request(number) => flow.on_request(now, *number),
            Up::Handshake => {
                if flow.on_connected(now) {
                    if let Some(rtt) = flow.sender.latest_rtt() {
                        self.rtt_ns.of(whose).record(rtt.as_nanos());
                    }
                    self.on_application(i);
                }
                return;
            }
            Up::Ack(ack) => {
                if let Some(rtt) = flow.sender.on_ack(now, ack, &mut flow.receiver) {
                    self.rtt_ns.of(whose).record(rtt.as_nanos());
                }
            }
        }
        // The host sends what it may when it gets to it.
        let at = flow.jitter.after(now);
        if at > now {
            self.arm(Timer::Sender, i, at);
        } else {
            self.pump(i);
        }
        if i as usize >= self.flows.len() {
            self.retire_if_over(i);
        }
    }

    #[inline]
    fn on_timer(&mut self, number: usize) {
        let now = self.now;
        let Some(of_flow) = number.checked_sub(self.first_of_flows) else {
            let first_of_cross = self.first_of_flows - self.cross.len();
            let Some(cross) = number.checked_sub(first_of_cross) else {
                return self.on_graph_timer(number);
            };
            self.timers.disarm(number);
            return self.send_cross(cross);
        };
        let i = (of_flow / Timer::ALL.len()) as u32;
        let timer = Timer::ALL[of_flow % Timer::ALL.len()];
        if let Timer::Sender = timer {
            // Set anew once, and not cleared first: there is one for each packet.
            let next = self.send(i, true);
            return self.timers.set(number, nanos(next));
        }
        self.timers.disarm(number);
        match timer {
            Timer::Sender => {}
            Timer::Receiver => {
                let Some(flow) = self.alive(i) else { return };
                if flow.host.is_some() {
                    self.serve_host(i);
                }
                let Some(flow) = self.alive(i) else { return };
                if flow.receiver.deadline().is_some_and(|due| due <= now) {
                    let (bytes, ack) = (flow.ack_bytes, flow.receiver.acknowledge(now));
                    self.send_back(i, bytes, Up::Ack(ack));
                }
                self.arm_receiver(i);
            }
            Timer::Application => self.on_application(i),
            Timer::WayBack => {
                let Some((_, up)) = self.way_back[i as usize].pop_front() else { return };
                if let Some((at, _)) = self.way_back[i as usize].front() {
                    self.arm(Timer::WayBack, i, *at);
                }
                self.on_up(i, &up);
            }
        }
    }

    fn on_application(&mut self, i: u32) {
        let now = self.now;
        let Some(flow) = self.alive(i) else { return };
        match flow.wakes() {
            None => return,
            Some(at) if at > now => return self.arm(Timer::Application, i, at),
            Some(_) => {}
        }
        let wish = flow.on_wake(now);
        let wakes = flow.wakes();
        if let Some(at) = wakes {
            self.arm(Timer::Application, i, at);
        }
        match wish {
            Wish::Nothing => {}
            Wish::Send => self.pump(i),
            Wish::Request(number) => {
                self.send_back(i, REQUEST_BYTES + IPV4_UDP_HEADER_BYTES, Up::Request(number));
            }
            Wish::Handshake => self.send_handshake(i),
            Wish::Connect => self.connect(i),
        }
    }

    /// Sends the sender's part of a handshake.
    fn send_handshake(&mut self, i: u32) {
        let now = self.now;
        let Some(flow) = self.alive(i) else { return };
        let (way, bytes) = (flow.way, flow.config.handshake_bytes());
        let data = Data::new(i, 0, now, Chunk::HANDSHAKE);
        if way != DIRECT {
            return self.send_alone(way, bytes, data);
        }
        let _ = self.down.path.send(now, header(i, bytes, Ecn::NotEct), data);
        self.refresh_down();
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
        config.cc.seed = stream_seed(config.cc.seed, Stream::Connection, number as u64);
        let jitter = stream_seed(config.cc.seed, Stream::Jitter, 0);
        let receiver = stream_seed(config.cc.seed, Stream::Receiver, 0);
        let seeds = Seeds { starts: 0, jitter, receiver };
        let mut flow = Flow::new(config, template.way, self.now, seeds);
        flow.parent = Some(parent);
        self.short.push(Some(Box::new(flow)));
        self.parents.push(parent);
        self.on_application((self.flows.len() + number) as u32);
    }

    /// A short connection is over when its receiver has everything and its sender knows it.
    fn retire_if_over(&mut self, i: u32) {
        let place = i as usize - self.flows.len();
        let is_over = |f: &Flow| f.end().is_some() && f.sender.is_idle();
        let Some(flow) = self.short[place].take_if(|f| is_over(f)) else { return };
        if let Some(parent) = flow.parent {
            self.flows[parent as usize].over.add(flow.sender.stats);
        }
    }

    /// Sends what may leave, and arms the timer for the rest.
    #[inline]
    pub(super) fn pump(&mut self, i: u32) {
        if let Some(at) = self.send(i, false) {
            self.arm(Timer::Sender, i, at);
        }
    }

    /// Sends what may leave, after a probe that leaves whatever window and pacer say, if `is_timer`
    /// and one is due; returns when to look again.
    #[inline]
    fn send(&mut self, i: u32, is_timer: bool) -> Option<Instant> {
        let now = self.now;
        let flow = find(&mut self.flows, &mut self.short, i)?;
        let probe = is_timer && flow.sender.on_timer(now);
        if flow.way != DIRECT {
            return self.pump_away(i, probe);
        }
        let (more, ecn) = (flow.header_bytes, flow.codepoint());
        let path = &mut self.down.path;
        let mut is_new = false;
        let deadline = flow.sender.pump(now, probe, |pn, chunk, bytes| {
            is_new = true;
            let data = Data::new(i, pn, now, chunk);
            // A dropped packet is the link's business, and the sender's loss detection's.
            let _ = path.send(now, header(i, bytes + more, ecn), data);
        });
        if is_new {
            self.due[0] = nanos(path.next_event());
        }
        deadline.map(|at| flow.jitter.after(at))
    }

    fn send_cross(&mut self, i: usize) {
        let cross = &mut self.cross[i];
        let (number, packet_bytes) = (cross.advance(), cross.packet_bytes());
        if let Some(at) = cross.next_due() {
            self.timers.arm(self.first_of_flows - self.cross.len() + i, at);
        }
        let chunk = Chunk { id: 0, written: self.now, bytes: 0 };
        let data = Data::new(Numbered::Cross.number(i as u32), number, self.now, chunk);
        if self.graph.is_some() {
            return self.send_cross_away(i, packet_bytes, data);
        }
        let header = header(data.flow, packet_bytes, Ecn::NotEct);
        let _ = self.down.path.send(self.now, header, data);
        self.refresh_down();
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
pub(super) fn find<'a>(
    flows: &'a mut [Flow],
    short: &'a mut [Option<Box<Flow>>],
    i: u32,
) -> Option<&'a mut Flow> {
    let (i, n) = (i as usize, flows.len());
    if i < n { flows.get_mut(i) } else { short.get_mut(i - n)?.as_deref_mut() }
}

/// The flow of the configuration that a packet is of; `None` for cross traffic.
#[inline]
pub(super) fn owner(flows: usize, parents: &[u32], flow: u32) -> Option<usize> {
    match flow as usize {
        flow if flow < flows => Some(flow),
        short => parents.get(short - flows).map(|flow| *flow as usize),
    }
}

#[inline]
pub(super) fn nanos(at: Option<Instant>) -> u64 {
    at.map_or(NEVER, Instant::as_nanos)
}
