//! Cost of an ACK and of a send, in instructions as callgrind counts them, beside their targets.
//!
//! `cargo bench -p fullpipe-bench --bench cost`; ends with an error while a target is missed, or
//! another stack's BBR is cheaper than bbr3 (an ACK, or an ACK and its two sends). Needs valgrind,
//! and gungraun-runner in the version of gungraun.

#![allow(missing_docs, unreachable_pub, reason = "gungraun's macros make public items")]

use std::hint::black_box;
use std::path::Path;

use fullpipe_bench::peers::{noq, quinn};
use fullpipe_bench::report::{self, Figure, Outcome};
use fullpipe_bench::trace::{Core, Scope, TimedEvent, counts, record, replay};
use fullpipe_cc::{Algorithm, Controller, PacketState};
use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint};

/// The most that bbr3 may spend on an ACK of two packets, and on a send, in instructions.
const ACK_TARGET: u64 = 450;
const SEND_TARGET: u64 = 120;
/// The same for bbr3x.
const AMENDED_ACK_TARGET: u64 = 500;
const AMENDED_SEND_TARGET: u64 = 138;
/// The most bytes of a packet's state and of a controller.
const PACKET_STATE_TARGET: usize = 48;
const CONTROLLER_TARGET: usize = 944;

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*counted_ack*".to_owned()))))]
#[bench::bbr3_cruise(Algorithm::BBR3, Scope::Cruise, record())]
#[bench::bbr3_cycle(Algorithm::BBR3, Scope::Cycle, record())]
#[bench::amended_bbr3(Algorithm::BBR3X, Scope::Cycle, record())]
#[bench::linux_bbr3(Algorithm::BBR3_LINUX, Scope::Cycle, record())]
#[bench::bbr1(Algorithm::BBR1, Scope::Cycle, record())]
#[bench::cubic(Algorithm::CUBIC, Scope::Cycle, record())]
#[bench::reno(Algorithm::RENO, Scope::Cycle, record())]
fn ack(algorithm: Algorithm, scope: Scope, trace: Vec<TimedEvent>) -> Core {
    black_box(replay(&trace, Core::new(algorithm), scope))
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*counted_send*".to_owned()))))]
#[bench::bbr3_cruise(Algorithm::BBR3, Scope::Cruise, record())]
#[bench::bbr3_cycle(Algorithm::BBR3, Scope::Cycle, record())]
#[bench::amended_bbr3(Algorithm::BBR3X, Scope::Cycle, record())]
#[bench::linux_bbr3(Algorithm::BBR3_LINUX, Scope::Cycle, record())]
#[bench::bbr1(Algorithm::BBR1, Scope::Cycle, record())]
#[bench::cubic(Algorithm::CUBIC, Scope::Cycle, record())]
#[bench::reno(Algorithm::RENO, Scope::Cycle, record())]
fn send(algorithm: Algorithm, scope: Scope, trace: Vec<TimedEvent>) -> Core {
    black_box(replay(&trace, Core::new(algorithm), scope))
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*counted_ack*".to_owned()))))]
#[bench::noq_bbr3(noq::Peer::bbr3(), record())]
fn ack_noq(peer: noq::Peer, trace: Vec<TimedEvent>) -> noq::Peer {
    black_box(replay(&trace, peer, Scope::Cycle))
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*counted_send*".to_owned()))))]
#[bench::noq_bbr3(noq::Peer::bbr3(), record())]
fn send_noq(peer: noq::Peer, trace: Vec<TimedEvent>) -> noq::Peer {
    black_box(replay(&trace, peer, Scope::Cycle))
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*counted_ack*".to_owned()))))]
#[bench::quinn_bbr(quinn::Peer::bbr(), record())]
fn ack_quinn(peer: quinn::Peer, trace: Vec<TimedEvent>) -> quinn::Peer {
    black_box(replay(&trace, peer, Scope::Cycle))
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*counted_send*".to_owned()))))]
#[bench::quinn_bbr(quinn::Peer::bbr(), record())]
fn send_quinn(peer: quinn::Peer, trace: Vec<TimedEvent>) -> quinn::Peer {
    black_box(replay(&trace, peer, Scope::Cycle))
}

library_benchmark_group!(
    name = core,
    benchmarks = [ack, send, ack_noq, send_noq, ack_quinn, send_quinn]
);

mod harness {
    use super::core;
    gungraun::main!(library_benchmark_groups = core);
    pub(super) fn run() {
        main();
    }
}

/// Whose cost is measured: the name, the functions of its two benchmarks, and their id.
const SUBJECTS: [(&str, [&str; 2], &str); 9] = [
    ("bbr3, in CRUISE alone", ["ack", "send"], "bbr3_cruise"),
    ("bbr3", ["ack", "send"], "bbr3_cycle"),
    ("bbr3x", ["ack", "send"], "amended_bbr3"),
    ("bbr3-linux", ["ack", "send"], "linux_bbr3"),
    ("bbr1", ["ack", "send"], "bbr1"),
    ("cubic", ["ack", "send"], "cubic"),
    ("reno", ["ack", "send"], "reno"),
    (NOQ, ["ack_noq", "send_noq"], "noq_bbr3"),
    (QUINN, ["ack_quinn", "send_quinn"], "quinn_bbr"),
];
const NOQ: &str = "noq's own bbr3, without pacer";
const QUINN: &str = "quinn's bbr, without pacer";

/// Prints every figure; bbr3's also against the other stacks', which it has to undercut.
fn print_instructions(dir: &Path, outcome: &mut Outcome) {
    let trace = record();
    let mut flows: Vec<(&str, Option<u64>, Option<u64>)> = Vec::new();
    for (column, heading) in ["an ACK of two packets", "a send"].into_iter().enumerate() {
        report::heading(&format!("instructions of {heading}"));
        for (row, (name, functions, id)) in SUBJECTS.into_iter().enumerate() {
            let scope = if id == "bbr3_cruise" { Scope::Cruise } else { Scope::Cycle };
            let (sends, acks) = counts(&trace, scope);
            let (events, most) = [(acks, ACK_TARGET), (sends, SEND_TARGET)][column];
            let target = match (id, column) {
                ("amended_bbr3", _) => Some([AMENDED_ACK_TARGET, AMENDED_SEND_TARGET][column]),
                ("bbr3_cruise" | "bbr3_cycle", _) => Some(most),
                _ => None,
            };
            let figure = Figure {
                less: None,
                name: name.to_owned(),
                path: format!("harness/core/{}.{id}", functions[column]),
                cost: report::INSTRUCTIONS,
                events,
                target,
            };
            let each = outcome.print(dir, &figure);
            if column == 0 {
                flows.push((name, each, each));
            } else {
                let flow = &mut flows[row].2;
                *flow = flow.zip(each).map(|(ack, send)| ack + 2 * send);
            }
        }
    }
    println!("\n{:<34} {:>8} {:>8} {:>8}", "against other stacks", "ack", "", "and two sends");
    let flow_of = |of: &str| flows.iter().copied().find(|(name, ..)| *name == of);
    let others = [NOQ, QUINN].into_iter().filter_map(flow_of);
    let least = others
        .clone()
        .map(|(_, ack, flow)| (ack, flow))
        .reduce(|a, b| (a.0.zip(b.0).map(|(a, b)| a.min(b)), a.1.zip(b.1).map(|(a, b)| a.min(b))));
    for (name, ack, flow) in flow_of("bbr3").into_iter().chain(others) {
        let (Some(ack), Some(flow)) = (ack, flow) else { continue };
        let mut verdict = String::new();
        if name == "bbr3"
            && let Some((Some(ack_bound), Some(flow_bound))) = least
        {
            verdict += outcome.judge(ack, Some(ack_bound - 1));
            verdict += outcome.judge(flow, Some(flow_bound - 1));
        }
        println!("{name:<34} {ack:>8} {:>8} {flow:>8}{verdict}", "");
    }
}

/// Prints a size beside its bound.
fn print_size(name: &str, size: usize, target: usize, outcome: &mut Outcome) {
    let verdict = outcome.judge(size as u64, Some(target as u64));
    println!("{name:<34} {size:>8} {target:>8}{verdict}");
}

fn main() {
    if report::is_inner() {
        return harness::run();
    }
    let dir = report::run(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_PKG_NAME"), "cost");
    let mut outcome = Outcome::default();
    print_instructions(&dir, &mut outcome);
    println!("\n{:<34} {:>8} {:>8}", "bytes", "figure", "target");
    print_size("PacketState", size_of::<PacketState>(), PACKET_STATE_TARGET, &mut outcome);
    print_size("Controller", size_of::<Controller>(), CONTROLLER_TARGET, &mut outcome);
    report::conclude(&outcome);
}
