//! Handlers of due events: packets arrive, timers fire, flows send.

use fullpipe_cc::Instant;
use fullpipe_path::{Ecn, IPV4_UDP_HEADER_BYTES};
use fullpipe_traffic::{Application, Stream, stream_seed};

use super::{Sim, Timer};
use crate::REQUEST_BYTES;
use crate::config::FlowConfig;
use crate::flow::{Flow, Seeds, Wish};
use crate::network::NetworkEvent;
use crate::packet::{Answer, Chunk, Data, Up};

impl Sim {
    /// Lets the next thing happen.
    #[inline]
    pub fn step(&mut self) {
        match self.network.step() {
            Some(NetworkEvent::Data(data, ecn)) => self.on_data(&data, ecn),
            Some(NetworkEvent::Answer(Answer { flow, up }, _)) => self.on_up(flow, &up),
            Some(NetworkEvent::Timer(number)) => self.on_timer(number),
            None => {}
        }
    }

    #[inline]
    pub(super) fn arm(&mut self, timer: Timer, flow: u32, at: Instant) {
        self.network.arm(timer.of(flow), at);
    }

    /// A flow that is still alive.
    #[inline]
    fn alive(&mut self, flow: u32) -> Option<&mut Flow> {
        find(&mut self.flows, &mut self.short, flow)
    }

    /// A packet has come to the end of its way.
    #[inline]
    fn on_data(&mut self, data: &Data, ecn: Ecn) {
        let now = self.now();
        let Some(flow) = find(&mut self.flows, &mut self.short, data.flow) else {
            return;
        };
        if let Some(host) = &mut flow.host {
            let due = host.hold(now, (*data, ecn));
            return self.arm(Timer::Host, data.flow, due);
        }
        self.take_in(data, ecn, now);
    }

    /// The receiver's host gets to the packets whose time has come.
    #[cold]
    fn serve_host(&mut self, i: u32) {
        let now = self.now();
        while let Some(flow) = self.alive(i)
            && let Some((arrived, (data, ecn))) = flow.host.as_mut().and_then(|host| host.take(now))
        {
            self.take_in(&data, ecn, arrived);
        }
        if let Some(due) = self.alive(i).and_then(|flow| flow.host.as_ref()?.due()) {
            self.arm(Timer::Host, i, due);
        }
    }

    /// The receiver takes a packet in that arrived at its host at `arrived`.
    #[inline]
    fn take_in(&mut self, data: &Data, ecn: Ecn, arrived: Instant) {
        let now = self.now();
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
                self.send_back(data.flow, bytes, Up::Ack(ack));
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
    #[inline]
    fn send_back(&mut self, flow: u32, wire_bytes: u32, up: Up) {
        self.network.send_answer(wire_bytes, Ecn::NotEct, Answer { flow, up });
    }

    #[inline]
    fn on_up(&mut self, i: u32, up: &Up) {
        let now = self.now();
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
        let i = (number / Timer::ALL.len()) as u32;
        let timer = Timer::ALL[number % Timer::ALL.len()];
        if let Timer::Sender = timer {
            // Set anew once, and not cleared first: there is one for each packet.
            let next = self.send(i, true);
            return self.network.set(number, next);
        }
        self.network.set(number, None);
        match timer {
            Timer::Sender => {}
            Timer::Host => self.serve_host(i),
            Timer::Receiver => self.on_ack_due(i),
            Timer::Application => self.on_application(i),
        }
    }

    /// The receiver sends the ACK that it has held back for long enough.
    fn on_ack_due(&mut self, i: u32) {
        let now = self.now();
        let Some(flow) = self.alive(i) else { return };
        if flow.receiver.deadline().is_some_and(|due| due <= now) {
            let (bytes, ack) = (flow.ack_bytes, flow.receiver.acknowledge(now));
            self.send_back(i, bytes, Up::Ack(ack));
        }
        if let Some(at) = self.alive(i).and_then(|flow| flow.receiver.deadline()) {
            self.arm(Timer::Receiver, i, at);
        }
    }

    fn on_application(&mut self, i: u32) {
        let now = self.now();
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
        let now = self.now();
        let Some(flow) = self.alive(i) else { return };
        let bytes = flow.config.handshake_bytes();
        self.network.send_data(bytes, Ecn::NotEct, Data::new(i, 0, now, Chunk::HANDSHAKE));
    }

    /// Starts the next connection of [`Application::ShortFlows`].
    fn connect(&mut self, parent: u32) {
        let now = self.now();
        let template = &self.flows[parent as usize];
        let Application::ShortFlows { bytes, .. } = template.config.application else { return };
        let number = self.short.len();
        let mut config = FlowConfig {
            application: Application::Bytes(bytes),
            start: now.since(Instant::default()),
            stop: None,
            ..template.config
        };
        config.cc.seed = stream_seed(config.cc.seed, Stream::Connection, number as u64);
        let jitter = stream_seed(config.cc.seed, Stream::Jitter, 0);
        let receiver = stream_seed(config.cc.seed, Stream::Receiver, 0);
        let seeds = Seeds { starts: 0, jitter, receiver };
        let mut flow = Flow::new(config, now, seeds);
        flow.parent = Some(parent);
        self.short.push(Some(Box::new(flow)));
        let i = self.network.connect(parent);
        self.on_application(i);
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
        let now = self.now();
        let flow = find(&mut self.flows, &mut self.short, i)?;
        let probe = is_timer && flow.sender.on_timer(now);
        let (more, ecn) = (flow.header_bytes, flow.codepoint());
        let deadline = flow.sender.pump(now, probe, |pn, chunk, bytes| {
            self.network.send_data(bytes + more, ecn, Data::new(i, pn, now, chunk));
        });
        deadline.map(|at| flow.jitter.after(at))
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
