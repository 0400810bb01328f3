//! A transport of your own over a simulated path, beside the simulator's QUIC on the same path.
//!
//! ```text
//! cargo run --release -p fullpipe-sim --example own_transport
//! ```
//!
//! The transport here sends datagrams and never sends one again, as live media does. Its receiver
//! reports every second packet, and after 25 ms at the latest, which ones arrived. A [`World`]
//! carries packets and reports, and tells the two [`Ends`] what happens: no sockets, no sleeping,
//! and the same result in every run.
#![allow(dead_code, reason = "a test includes this file and calls `own` and `quic`")]

use std::collections::BTreeMap;

use fullpipe_cc::{
    Algorithm, Config, Controller, Duration, Instant, PacketState, Rate, SendDecision,
};
use fullpipe_path::{Ecn, Link, Probability, QueueLimit};
use fullpipe_sim::{
    Arrived, CrossPacket, Ends, FlowConfig, Host, Io, OVERHEAD_BYTES, Packet, Sim, SimConfig,
    SimError, Timer, World,
};

const PACKET: u32 = 1200;
/// IP and UDP headers, which the link carries and congestion control does not count.
const HEADERS: u32 = 28;
const SECONDS: u64 = 20;
/// Packets that a report is about.
const REPORT_EVERY: usize = 2;
/// A report comes so long after the first packet that it is about, at the latest.
const REPORT_DELAY: Duration = Duration::from_millis(25);
/// Without a report for so long, all packets in flight are lost.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A packet of the only flow: data with its number, or a report of numbers that arrived.
#[derive(Clone, Debug)]
struct Of<T>(T);

impl<T: Clone> Packet for Of<T> {
    fn flow(&self) -> u32 {
        0
    }

    fn number(&self) -> u32 {
        0
    }

    fn corrupt(&mut self, _before: u64) -> bool {
        false
    }
}

impl From<CrossPacket> for Of<u64> {
    fn from(_: CrossPacket) -> Self {
        Self(u64::MAX)
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Outcome {
    /// Application data that arrived, in Mbit/s.
    pub(crate) goodput: f64,
    /// Queueing delay that 95 % of the packets stayed below, in ms.
    pub(crate) queue_p95: f64,
}

/// A flow on a path of 50 Mbit/s and 40 ms, with 2 BDP of buffer and 0.5 % of random loss.
fn config(algorithm: Algorithm) -> SimConfig {
    let delay = Duration::from_millis(20);
    let down = Link {
        rate: Some(Rate::from_bits_per_sec(50_000_000)),
        queue: QueueLimit::Bytes(500_000),
        loss: Probability::new(0.005).expect("a probability"),
        delay,
        seed: 7,
    };
    let up = Link { delay, ..Link::default() };
    SimConfig::new(down.into(), up.into(), vec![FlowConfig::bulk(algorithm, 1)])
}

/// Sender and receiver of the transport of this file.
struct Own {
    cc: Controller,
    flight: BTreeMap<u64, PacketState>,
    next: u64,
    /// The time of the last report at the sender.
    heard: Instant,
    received: u64,
    report: Vec<u64>,
}

impl Own {
    fn new(algorithm: Algorithm) -> Self {
        let now = Instant::default();
        let cc = Controller::new(algorithm, Config { smss: PACKET, ..Config::new(1) }, now);
        let (flight, report) = (BTreeMap::new(), Vec::new());
        Self { cc, flight, next: 0, heard: now, received: 0, report }
    }

    /// Sends what window and pacer allow, and looks again when the pacer says so, or after the
    /// timeout.
    fn send(&mut self, io: &mut Io<'_, Self>) {
        let now = io.now();
        let wake = loop {
            match self.cc.can_send(now) {
                SendDecision::Now { .. } => {
                    self.flight.insert(self.next, self.cc.on_sent(now, PACKET));
                    // A packet that finds the queue full is gone, as on a real link.
                    io.send_data(PACKET + HEADERS, Ecn::NotEct, Of(self.next));
                    self.next += 1;
                }
                SendDecision::At(at) => break at,
                SendDecision::CwndLimited => break self.heard + TIMEOUT,
            }
        };
        io.set(Timer::Sender, Some(wake));
    }
}

impl Ends for Own {
    type Data = Of<u64>;
    type Answer = Of<Vec<u64>>;

    fn on_data(&mut self, io: &mut Io<'_, Self>, _: Instant, Of(number): Of<u64>, _: Ecn) {
        self.received += u64::from(PACKET - OVERHEAD_BYTES);
        self.report.push(number);
        if self.report.len() == 1 {
            io.set(Timer::Receiver, Some(io.now() + REPORT_DELAY));
        } else if self.report.len() == REPORT_EVERY {
            io.set(Timer::Receiver, Some(io.now()));
        }
    }

    fn on_answer(&mut self, io: &mut Io<'_, Self>, Of(arrived): Of<Vec<u64>>, _: Ecn) {
        self.heard = io.now();
        let mut ack = self.cc.ack(io.now());
        for number in &arrived {
            if let Some(state) = self.flight.remove(number) {
                ack.acked(&state);
            }
        }
        // The path keeps the order: what is older than the newest and has not arrived is lost.
        let newest = arrived.last().copied().unwrap_or(0);
        let younger = self.flight.split_off(&newest);
        std::mem::replace(&mut self.flight, younger).values().for_each(|state| ack.lost(state));
        ack.finish();
        self.send(io);
    }

    fn on_sender_timer(&mut self, io: &mut Io<'_, Self>) {
        if io.now() >= self.heard + TIMEOUT && !self.flight.is_empty() {
            self.heard = io.now();
            let mut ack = self.cc.ack(io.now());
            std::mem::take(&mut self.flight).values().for_each(|state| ack.lost(state));
            ack.timeout();
            ack.finish();
        }
        self.send(io);
    }

    fn on_receiver_timer(&mut self, io: &mut Io<'_, Self>) {
        io.send_answer(100, Ecn::NotEct, Of(std::mem::take(&mut self.report)));
    }

    /// The flow begins.
    fn on_application(&mut self, io: &mut Io<'_, Self>) -> Option<Self> {
        self.send(io);
        None
    }

    fn host(&mut self) -> Option<&mut Host<Arrived<Self>>> {
        None
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn start(&self) -> Instant {
        Instant::default()
    }

    fn end(&self) -> Option<Instant> {
        None
    }
}

/// Runs the transport of this file.
pub(crate) fn own(algorithm: Algorithm) -> Result<Outcome, SimError> {
    let ends = |_, _: &FlowConfig| Ok::<_, SimError>(Own::new(algorithm));
    let mut world = World::with_ends(&config(algorithm), ends)?;
    world.run_until(Instant::default() + Duration::from_secs(SECONDS));
    let queue = world.queue_delay_ns(0).value_at_quantile(0.95);
    Ok(outcome(world.flow(0).received(), queue))
}

/// Runs the simulator's QUIC.
pub(crate) fn quic(algorithm: Algorithm) -> Result<Outcome, SimError> {
    let mut sim = Sim::new(&config(algorithm))?;
    sim.run_until(Instant::default() + Duration::from_secs(SECONDS));
    let queue = sim.queue_delay_ns(0).value_at_quantile(0.95);
    Ok(outcome(sim.flow(0).received(), queue))
}

fn outcome(received: u64, queue_ns: u64) -> Outcome {
    let goodput = received as f64 * 8e-6 / SECONDS as f64;
    Outcome { goodput, queue_p95: queue_ns as f64 * 1e-6 }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:<22}{:>10}{:>14}", "", "Mbit/s", "queue p95 ms");
    for algorithm in [Algorithm::BBR3, Algorithm::CUBIC] {
        for (name, run) in [("own", own(algorithm)?), ("quic", quic(algorithm)?)] {
            let name = format!("{algorithm} in {name}");
            println!("{name:<22}{:>10.1}{:>14.1}", run.goodput, run.queue_p95);
        }
    }
    Ok(())
}
