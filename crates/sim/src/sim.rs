//! The virtual clock: whatever happens next, happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use fullpipe_cc::{Instant, Rate};
use fullpipe_path::{
    ConfigError, Event, IPV4_UDP_HEADER_BYTES, Path, PathConfig, PathSample, Probability,
};
use hdrhistogram::Histogram;

use crate::ACK_BYTES;
use crate::flow::{Flow, FlowConfig};
use crate::receiver::{Ack, Chunk};
use crate::sender::Transmit;

/// A simulation: two directions and the flows that share them.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// From the senders to the receivers: the bottleneck.
    pub downlink: PathConfig,
    /// From the receivers back: the ACKs.
    pub uplink: PathConfig,
    /// The flows.
    pub flows: Vec<FlowConfig>,
}

#[derive(Clone, Copy, Debug)]
struct Data {
    flow: usize,
    pn: u64,
    chunk: Chunk,
}

/// Which side of a flow a timer belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Sender,
    Receiver,
}

/// A running simulation.
#[derive(Debug)]
pub struct Sim {
    now: Instant,
    downlink: Path<Data>,
    uplink: Path<(usize, Ack)>,
    flows: Vec<Flow>,
    timers: BinaryHeap<Reverse<(Instant, usize, Side)>>,
    /// The earliest entry in `timers` of each flow's sender and receiver: a later deadline waits
    /// until that one comes up, so that a timer that moves with every packet costs nothing.
    armed: Vec<[Option<Instant>; 2]>,
    queue_delay_ns: Histogram<u64>,
    rtt_ns: Histogram<u64>,
}

/// Grows as needed.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three significant digits are within what the type takes")
}

impl Sim {
    /// A simulation at time zero.
    ///
    /// # Errors
    /// When a path can't be built.
    pub fn new(config: &SimConfig) -> Result<Self, ConfigError> {
        let mut sim = Self {
            now: Instant::default(),
            downlink: Path::new(&config.downlink)?,
            uplink: Path::new(&config.uplink)?,
            flows: config.flows.iter().copied().map(Flow::new).collect(),
            timers: BinaryHeap::new(),
            armed: vec![[None; 2]; config.flows.len()],
            queue_delay_ns: histogram(),
            rtt_ns: histogram(),
        };
        for flow in 0..sim.flows.len() {
            let start = sim.flows[flow].start;
            sim.arm_at(flow, Side::Sender, start);
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

    /// The bottleneck's queue and counters now.
    pub fn downlink(&self) -> PathSample {
        self.downlink.sample(self.now)
    }

    /// Queueing delay of every packet that came through the bottleneck, in nanoseconds.
    pub fn queue_delay_ns(&self) -> &Histogram<u64> {
        &self.queue_delay_ns
    }

    /// The round-trip sample of every ACK, in nanoseconds.
    pub fn rtt_ns(&self) -> &Histogram<u64> {
        &self.rtt_ns
    }

    /// Whether every flow has an end and reached it.
    pub fn is_done(&self) -> bool {
        self.flows.iter().all(|f| f.end.is_some())
    }

    /// The bottleneck's rate from now on.
    ///
    /// # Errors
    /// When the rate is 0, or the downlink has no bottleneck.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        self.downlink.set_rate(self.now, rate)
    }

    /// The random loss of the data from now on.
    pub fn set_loss(&mut self, probability: Probability, seed: u64) {
        self.downlink.set_loss(self.now, probability, seed);
    }

    /// The application of a flow has nothing more to send until it writes again.
    pub fn pause(&mut self, flow: usize) {
        self.flows[flow].sender.pause();
    }

    /// The application of a flow writes `bytes`.
    pub fn write(&mut self, flow: usize, bytes: u64) {
        self.flows[flow].sender.write(bytes);
        self.pump(flow);
    }

    /// The application of a flow has data without an end again.
    pub fn resume(&mut self, flow: usize) {
        self.flows[flow].sender.resume();
        self.pump(flow);
    }

    /// Lets everything happen until `time`.
    pub fn run_until(&mut self, time: Instant) {
        while self.next_event().is_some_and(|at| at <= time) {
            self.step();
        }
        self.now = self.now.max(time);
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        [self.downlink.next_event(), self.uplink.next_event(), timer].into_iter().flatten().min()
    }

    /// Lets the next thing happen. At one and the same time data goes first, then ACKs, then
    /// timers: a timer must not fire for what is just arriving.
    pub fn step(&mut self) {
        let Some(at) = self.next_event() else { return };
        self.now = self.now.max(at);
        if let Some(event) = self.downlink.poll(self.now) {
            if let Event::Delivered(d) = event {
                // Out of the histogram's range means beyond 584 years.
                let _ = self.queue_delay_ns.record(d.queued.as_nanos());
                self.on_data(d.payload);
            }
        } else if let Some(event) = self.uplink.poll(self.now) {
            if let Event::Delivered(d) = event {
                self.on_ack(d.payload.0, d.payload.1);
            }
        } else if let Some(Reverse((at, flow, side))) = self.due_timer() {
            self.on_timer(at, flow, side);
        }
    }

    fn due_timer(&mut self) -> Option<Reverse<(Instant, usize, Side)>> {
        let timer = self.timers.peek_mut()?;
        (timer.0.0 <= self.now).then(|| PeekMut::pop(timer))
    }

    fn on_data(&mut self, data: Data) {
        let now = self.now;
        let flow = &mut self.flows[data.flow];
        let ack = flow.receiver.on_packet(now, data.pn, data.chunk);
        flow.note_end(now);
        match ack {
            Some(ack) => self.send_ack(data.flow, ack),
            None => self.arm(data.flow, Side::Receiver),
        }
    }

    fn send_ack(&mut self, flow: usize, ack: Ack) {
        // A dropped ACK is the path's business; a later one repeats what it said.
        let _ = self.uplink.send(self.now, ACK_BYTES + IPV4_UDP_HEADER_BYTES, (flow, ack));
    }

    fn on_ack(&mut self, i: usize, ack: Ack) {
        let flow = &mut self.flows[i];
        flow.sender.on_ack(self.now, ack, &mut flow.receiver);
        if let Some(rtt) = flow.sender.stats.latest_rtt {
            let _ = self.rtt_ns.record(rtt.as_nanos());
        }
        self.pump(i);
    }

    fn on_timer(&mut self, at: Instant, flow: usize, side: Side) {
        if self.armed[flow][side as usize] == Some(at) {
            self.armed[flow][side as usize] = None;
        }
        match side {
            Side::Receiver => {
                let receiver = &mut self.flows[flow].receiver;
                if receiver.deadline().is_some_and(|due| due <= self.now) {
                    let ack = receiver.acknowledge(self.now);
                    self.send_ack(flow, ack);
                }
                self.arm(flow, Side::Receiver);
            }
            Side::Sender => {
                if let Some(probe) = self.flows[flow].sender.on_timer(self.now) {
                    self.send_data(flow, probe);
                }
                self.pump(flow);
            }
        }
    }

    /// Sends what may leave, and arms the timer for the rest.
    fn pump(&mut self, flow: usize) {
        while let Some(packet) = self.flows[flow].sender.poll_transmit(self.now) {
            self.send_data(flow, packet);
        }
        self.arm(flow, Side::Sender);
    }

    fn send_data(&mut self, flow: usize, packet: Transmit) {
        let Transmit { pn, chunk, bytes } = packet;
        // A dropped packet is the path's business, and the sender's loss detection's.
        let _ =
            self.downlink.send(self.now, bytes + IPV4_UDP_HEADER_BYTES, Data { flow, pn, chunk });
    }

    fn arm(&mut self, flow: usize, side: Side) {
        let deadline = match side {
            Side::Sender => self.flows[flow].sender.deadline(),
            Side::Receiver => self.flows[flow].receiver.deadline(),
        };
        if let Some(at) = deadline {
            self.arm_at(flow, side, at);
        }
    }

    fn arm_at(&mut self, flow: usize, side: Side, at: Instant) {
        let armed = &mut self.armed[flow][side as usize];
        if armed.is_none_or(|earlier| at < earlier) {
            *armed = Some(at);
            self.timers.push(Reverse((at, flow, side)));
        }
    }
}
