//! A transport of your own over a simulated path, beside the simulator's QUIC on the same path.
//!
//! ```text
//! cargo run --release -p fullpipe-sim --example own_transport
//! ```
//!
//! The transport here sends datagrams and never sends one again, as live media does. Its receiver
//! reports every second packet, and after 25 ms at the latest, which ones arrived. A [`Network`]
//! carries packets and reports, and says what is next: no sockets, no sleeping, and the same result
//! in every run.
#![allow(dead_code, reason = "a test includes this file and calls `own` and `quic`")]

use std::collections::BTreeMap;

use fullpipe_cc::{
    Algorithm, Config, Controller, Duration, Instant, PacketState, Rate, SendDecision,
};
use fullpipe_path::{Ecn, Link, Probability, QueueLimit};
use fullpipe_sim::{
    CrossPacket, FlowConfig, NEVER, Network, NetworkEvent, OVERHEAD_BYTES, Packet, Sim, SimConfig,
    SimError,
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

/// The timers: the pacer, a report that is due, the timeout.
const PACER: usize = 0;
const REPORT: usize = 1;
const LOSS: usize = 2;

/// A packet of the only flow.
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

/// Runs the transport of this file.
pub(crate) fn own(algorithm: Algorithm) -> Result<Outcome, SimError> {
    let mut network = Network::<Of<u64>, Of<Vec<u64>>>::new(&config(algorithm), 3)?;
    let mut now = Instant::default();
    let mut cc = Controller::new(algorithm, Config { smss: PACKET, ..Config::new(1) }, now);
    let mut flight: BTreeMap<u64, PacketState> = BTreeMap::new();
    let (mut next, mut received, mut report) = (0, 0, Vec::new());

    while now.as_nanos() < SECONDS * 1_000_000_000 {
        // The sender sends what window and pacer allow.
        let wake = loop {
            match cc.can_send(now) {
                SendDecision::Now { .. } => {
                    flight.insert(next, cc.on_sent(now, PACKET));
                    // A packet that finds the queue full is gone, as on a real link.
                    network.send_data(PACKET + HEADERS, Ecn::NotEct, Of(next));
                    next += 1;
                }
                SendDecision::At(at) => break Some(at),
                SendDecision::CwndLimited => break None,
            }
        };
        network.set(PACER, wake);
        if network.due() == NEVER {
            network.arm(LOSS, now + TIMEOUT);
        }

        // What is next happens.
        let event = network.step();
        now = network.now();
        match event {
            Some(NetworkEvent::Data(Of(number), _)) => {
                received += u64::from(PACKET - OVERHEAD_BYTES);
                report.push(number);
                if report.len() == 1 {
                    network.set(REPORT, Some(now + REPORT_DELAY));
                } else if report.len() == REPORT_EVERY {
                    network.set(REPORT, Some(now));
                }
            }
            Some(NetworkEvent::Timer(REPORT)) => {
                network.set(REPORT, None);
                network.send_answer(100, Ecn::NotEct, Of(std::mem::take(&mut report)));
            }
            Some(NetworkEvent::Answer(Of(arrived), _)) => {
                let mut ack = cc.ack(now);
                for number in &arrived {
                    if let Some(state) = flight.remove(number) {
                        ack.acked(&state);
                    }
                }
                // The path keeps the order: what is older than the newest and has not arrived is
                // lost.
                let newest = arrived.last().copied().unwrap_or(0);
                let younger = flight.split_off(&newest);
                std::mem::replace(&mut flight, younger).values().for_each(|state| ack.lost(state));
                ack.finish();
            }
            Some(NetworkEvent::Timer(LOSS)) => {
                network.set(LOSS, None);
                let mut ack = cc.ack(now);
                std::mem::take(&mut flight).values().for_each(|state| ack.lost(state));
                ack.timeout();
                ack.finish();
            }
            _ => {}
        }
    }
    let queue = network.queue_delays_so_far_ns(0).last().unwrap_or_default().histogram();
    Ok(outcome(received, queue.value_at_quantile(0.95)))
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
