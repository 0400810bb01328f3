//! What an ACK and a send cost, in instructions as callgrind counts them, beside their targets.
//!
//! `cargo bench -p fullpipe-cc`; needs valgrind, and gungraun-runner in the version of gungraun.

#![allow(missing_docs, unreachable_pub, reason = "gungraun's macros make public items")]

mod common;

use std::hint::black_box;

use common::report::{self, Figure};
use common::{Core, Entry, Scope, counts, record, replay};
use fullpipe_cc::{Algorithm, Controller, PacketState};
use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint};

/// The most that bbr3 may spend on an ACK of two packets, and on a send, in instructions.
const ACK_TARGET: u64 = 350;
const SEND_TARGET: u64 = 120;
/// The most bytes of a packet's state and of a controller.
const PACKET_STATE_TARGET: usize = 48;
const CONTROLLER_TARGET: usize = 768;

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*counted_ack*".to_owned()))))]
#[bench::bbr3_cruise(Algorithm::Bbr3, Scope::Cruise, record())]
#[bench::bbr3_cycle(Algorithm::Bbr3, Scope::Cycle, record())]
#[bench::cubic(Algorithm::Cubic, Scope::Cycle, record())]
#[bench::reno(Algorithm::Reno, Scope::Cycle, record())]
fn ack(algorithm: Algorithm, scope: Scope, trace: Vec<Entry>) -> Core {
    black_box(replay(&trace, Core::new(algorithm), scope))
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*counted_send*".to_owned()))))]
#[bench::bbr3_cruise(Algorithm::Bbr3, Scope::Cruise, record())]
#[bench::bbr3_cycle(Algorithm::Bbr3, Scope::Cycle, record())]
#[bench::cubic(Algorithm::Cubic, Scope::Cycle, record())]
#[bench::reno(Algorithm::Reno, Scope::Cycle, record())]
fn send(algorithm: Algorithm, scope: Scope, trace: Vec<Entry>) -> Core {
    black_box(replay(&trace, Core::new(algorithm), scope))
}

library_benchmark_group!(name = core, benchmarks = [ack, send]);

mod harness {
    use super::core;
    gungraun::main!(library_benchmark_groups = core);
    pub(super) fn run() {
        main();
    }
}

fn figures() -> Vec<Figure> {
    let trace = record();
    let mut figures = Vec::new();
    for (event, target) in [("ack", ACK_TARGET), ("send", SEND_TARGET)] {
        for id in ["bbr3_cruise", "bbr3_cycle", "cubic", "reno"] {
            let scope = if id == "bbr3_cruise" { Scope::Cruise } else { Scope::Cycle };
            let (sends, acks) = counts(&trace, scope);
            figures.push(Figure {
                name: format!("{id} {event}"),
                path: format!("harness/core/{event}.{id}"),
                events: if event == "ack" { acks } else { sends },
                target: id.starts_with("bbr3").then_some(target),
            });
        }
    }
    figures
}

/// Prints a size beside its bound; 1 when it is above.
fn size_miss(name: &str, size: usize, target: usize) -> usize {
    let missed = size > target;
    println!("{name:<32} {size:>8} {target:>8} {}", if missed { "MISSED" } else { "" });
    usize::from(missed)
}

fn main() {
    if report::is_inner() {
        return harness::run();
    }
    let dir = report::run(env!("CARGO_PKG_NAME"), "cost");
    let figures = figures();
    let mut outcome = report::print(&dir, &figures);
    println!("\n{:<32} {:>8} {:>8}", "bytes", "figure", "target");
    outcome.missed += size_miss("PacketState", size_of::<PacketState>(), PACKET_STATE_TARGET);
    outcome.missed += size_miss("Controller", size_of::<Controller>(), CONTROLLER_TARGET);
    report::conclude(&outcome);
}
