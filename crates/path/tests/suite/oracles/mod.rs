//! Each queue discipline beside a second, literal transcription of its source, over 10^5 random
//! arrivals: both drop, mark and carry the same packets at the same times.
//!
//! Sources: RFC 8289 section 5 (CoDel), RFC 8290 section 4 (FQ-CoDel) and RFC 8033 appendices A and
//! B (PIE), each read beside Linux's code. Two texts were not at hand: DualPI2 follows Linux's code
//! and RFC 9332's appendix A as it is known, RED follows Linux's code and the algorithm of Floyd
//! and Jacobson (1993) as it is known. Nothing here is fast: queues are vectors, times are compared
//! one by one.

mod codel;
mod dualpi2;
mod pie;
mod red;

use std::collections::VecDeque;

use crate::common::at;
use fullpipe_path::{
    CoDelConfig, DualPi2Config, Ecn, ElementConfig, Event, FqCoDelConfig, Header, Path, PathConfig,
    PieConfig, Probability, QueueConfig, QueueLimit, RedConfig,
};
use fullpipe_units::{Duration, Rate};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

const SEED: u64 = 11;
const ARRIVALS: u64 = 100_000;
/// A microsecond a byte.
const RATE: Rate = Rate::from_bytes_per_sec(1_000_000);
const NS_PER_BYTE: u64 = 1_000;
const MS: u64 = 1_000_000;
/// The capacity of the queues, the packet on the wire included.
const LIMIT: u64 = 150;

#[derive(Clone, Copy, Debug)]
struct Packet {
    id: u64,
    came: u64,
    bytes: u64,
    flow: u32,
    ecn: Ecn,
}

/// Reference model of a discipline, with all times in nanoseconds. Dropped packets are put into
/// `dropped`.
trait Oracle {
    /// `on_wire` bytes are being sent: they count as part of the queue.
    fn enqueue(&mut self, now: u64, packet: Packet, on_wire: u64, dropped: &mut Vec<u64>);
    fn dequeue(&mut self, now: u64, dropped: &mut Vec<u64>) -> Option<Packet>;
}

/// The result: (time, packet, whether it carries CE) for each packet that left, and the sorted
/// numbers of the others.
type Outcome = (Vec<(u64, u64, bool)>, Vec<u64>);

/// Phases of little and of too much traffic, packets of all sizes, eight flows, three codepoints.
fn arrivals() -> Vec<Packet> {
    let mut random = Pcg64Mcg::seed_from_u64(99);
    let mut below = |n: u64| random.next_u64() % n;
    let (mut now, mut load) = (0, 100);
    (0..ARRIVALS)
        .map(|id| {
            if id % 1_500 == 0 {
                load = [20, 90, 105, 130, 250, 5][below(6) as usize];
            }
            let bytes = 100 + below(1_401);
            now += below(2 * 800 * NS_PER_BYTE * 100 / load);
            let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][below(3) as usize];
            Packet { id, came: now, bytes, flow: below(8) as u32, ecn }
        })
        .collect()
}

fn by_oracle(oracle: &mut dyn Oracle) -> Outcome {
    let (mut left, mut dropped) = (Vec::new(), Vec::new());
    let mut wire: Option<(u64, Packet)> = None;
    let all = arrivals();
    for packet in all.iter().copied().map(Some).chain([None]) {
        let now = packet.map_or(u64::MAX / 2, |p| p.came);
        while let Some((free, sent)) = wire.filter(|(free, _)| *free <= now) {
            left.push((free, sent.id, sent.ecn == Ecn::Ce));
            wire = oracle.dequeue(free, &mut dropped).map(|p| (free + p.bytes * NS_PER_BYTE, p));
        }
        let Some(packet) = packet else { break };
        oracle.enqueue(now, packet, wire.map_or(0, |(_, p)| p.bytes), &mut dropped);
        if wire.is_none() {
            wire = oracle.dequeue(now, &mut dropped).map(|p| (now + p.bytes * NS_PER_BYTE, p));
        }
    }
    dropped.sort_unstable();
    (left, dropped)
}

fn by_path(queue: QueueConfig) -> Outcome {
    let row = vec![ElementConfig::Bottleneck { rate: RATE.into(), queue }];
    let mut path = Path::new(&PathConfig { row, seed: SEED }).expect("a path");
    let (mut left, mut dropped) = (Vec::new(), Vec::new());
    let mut take = |event| match event {
        Event::Delivered(d) => left.push((d.at.as_nanos(), d.payload, d.ecn == Ecn::Ce)),
        Event::Dropped(d) => dropped.push(d.payload),
    };
    for Packet { id, came, bytes, flow, ecn } in arrivals() {
        let header = Header { wire_bytes: bytes as u32, flow, ecn };
        if let Err(d) = path.send(at(came), header, id) {
            take(Event::Dropped(d));
        }
        while let Some(event) = path.poll(at(came)) {
            take(event);
        }
    }
    while let Some(event) = path.poll(at(u64::MAX / 2)) {
        take(event);
    }
    dropped.sort_unstable();
    (left, dropped)
}

/// Compares, and asks for enough of each kind of decision to have been made.
fn assert_equal(queue: QueueConfig, oracle: &mut dyn Oracle, drops: usize, marks: usize) {
    let (ours, theirs) = (by_path(queue), by_oracle(oracle));
    for (a, b) in ours.0.iter().zip(&theirs.0) {
        assert_eq!(a, b, "(time, packet, marked): ours, the oracle's");
    }
    assert_eq!(ours.1, theirs.1, "dropped packets");
    assert_eq!(ours.0.len(), theirs.0.len());
    let marked = ours.0.iter().filter(|(_, _, ce)| *ce).count();
    assert!(ours.1.len() >= drops && marked >= marks, "{} {marked}", ours.1.len());
}

/// The random numbers of the first element of a row: 53 bits of 63.
struct Random(Pcg64Mcg);

impl Random {
    fn new() -> Self {
        Self(Pcg64Mcg::seed_from_u64(SEED))
    }

    fn next(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn bytes(queue: &VecDeque<Packet>) -> u64 {
    queue.iter().map(|p| p.bytes).sum()
}

/// True if there is room for one packet more.
fn full(queued: usize, on_wire: u64) -> bool {
    queued as u64 + u64::from(on_wire > 0) >= LIMIT
}
