//! Cost of a simulated packet, everything included: instructions and cache misses as callgrind
//! counts them, beside their targets; and the memory and time of a large run, without a target for
//! the time, because it depends on the load of the machine.
//!
//! `cargo bench -p fullpipe-bench --bench speed`; ends with an error while a target is missed.
//! Needs valgrind, and gungraun-runner in the version of gungraun.

#![allow(missing_docs, unreachable_pub, reason = "gungraun's macros make public items")]

use std::hint::black_box;
use std::path::Path;
use std::time;

use fullpipe_bench::report::{self, Figure, Outcome};
use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{Link, QueueLimit};
use fullpipe_sim::{FlowConfig, Route, Sim, SimConfig};
use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint};

/// The most instructions that a packet may cost: in a run of one bulk flow of bbr3, of cubic, and
/// of a thousand, whose target is relative.
const PACKET_TARGETS: [Option<u64>; 3] = [Some(900), Some(900), None];
/// The most misses of the first cache, in the same runs.
const FIRST_MISS_TARGETS: [u64; 3] = [8, 8, 34];
/// The most misses of the second cache.
const SECOND_MISS_TARGETS: [u64; 3] = [1, 1, 24];
/// Largest cost of a packet with a thousand flows on the link, relative to a single flow, in per
/// cent.
const MANY_TARGET_PERCENT: u64 = 150;
/// The most instructions that one more link on the way of a packet may cost.
const HOP_TARGET: u64 = 600;
/// The links of the longer way, of which the shorter one has two.
const MANY_LINKS: usize = 10;
/// The most memory of a thousand flows, and of ten thousand.
const MEMORY_TARGETS_MIB: [u64; 2] = [40, 400];

/// `flows` bulk flows over 40 ms, with 340 packets of queue for each 100 Mbit/s.
fn bulk(algorithm: Algorithm, flows: usize, mbit: u64) -> Sim {
    let delay = Duration::from_millis(20);
    let rate = Some(Rate::from_bits_per_sec(mbit * 1_000_000));
    let queue = QueueLimit::Packets(340 * mbit / 100);
    let down = Link { rate, queue, delay, ..Link::default() };
    let up = Link { delay, ..Link::default() };
    let flows = (0..flows)
        .map(|seed| {
            let mut flow = FlowConfig::bulk(algorithm, 1);
            flow.cc.seed = seed as u64;
            flow
        })
        .collect();
    Sim::new(&SimConfig::new(down.into(), up.into(), flows)).expect("a sound path")
}

fn one(algorithm: Algorithm) -> (Sim, Duration) {
    (bulk(algorithm, 1, 100), Duration::from_secs(10))
}

fn many() -> (Sim, Duration) {
    (bulk(Algorithm::BBR3, 1000, 10_000), Duration::from_millis(500))
}

/// A flow over so many links of a graph, of which the first is the bottleneck, and as many back.
fn over(links: usize) -> (Sim, Duration) {
    let link = |mbit: u64| {
        let rate = Some(Rate::from_bits_per_sec(mbit * 1_000_000));
        let queue = QueueLimit::Packets(340);
        let delay = Duration::from_nanos(20_000_000 / links as u64);
        fullpipe_path::PathConfig::from(Link { rate, queue, delay, ..Link::default() })
    };
    let flow = FlowConfig { route: Some(0), ..FlowConfig::bulk(Algorithm::BBR3, 1) };
    let mut config = SimConfig::new(link(100), fullpipe_path::PathConfig::default(), vec![flow]);
    config.links.resize_with(2 * links, || link(1_000));
    config.routes = vec![Route { there: (0..links).collect(), back: (links..2 * links).collect() }];
    (Sim::new(&config).expect("sound paths"), Duration::from_secs(10))
}

/// Packets that entered a link, in both directions.
fn hops(sim: &Sim) -> u64 {
    (0..sim.links()).map(|i| sim.link(i).stats.arrived.packets).sum()
}

/// Apart, because it is what callgrind counts.
#[inline(never)]
fn counted_run((mut sim, time): (Sim, Duration)) -> Sim {
    sim.run_until(Instant::default() + time);
    sim
}

fn packets(sim: &Sim) -> u64 {
    sim.flows().iter().map(|flow| flow.stats().sent_packets).sum()
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::with_args(report::CACHES).entry_point(EntryPoint::Custom("*counted_run*".to_owned()))))]
#[bench::bbr3(one(Algorithm::BBR3))]
#[bench::cubic(one(Algorithm::CUBIC))]
#[bench::thousand(many())]
#[bench::two_links(over(2))]
#[bench::many_links(over(MANY_LINKS))]
fn run(start: (Sim, Duration)) -> Sim {
    black_box(counted_run(start))
}

library_benchmark_group!(name = sim, benchmarks = [run]);

mod harness {
    use super::sim;
    gungraun::main!(library_benchmark_groups = sim);
    pub(super) fn run() {
        main();
    }
}

/// Prints what a packet costs; that of one bbr3 flow is the measure for a thousand.
fn print_costs(dir: &Path, outcome: &mut Outcome) {
    let (bbr3, cubic) = (one(Algorithm::BBR3), one(Algorithm::CUBIC));
    let runs = [("bbr3", bbr3), ("cubic", cubic), ("thousand", many())]
        .map(|(id, start)| (id, packets(&counted_run(start))));
    let mut figure = |(id, events): (&str, u64), cost, target| {
        let path = format!("harness/sim/run.{id}");
        outcome.print(dir, &Figure { name: id.to_owned(), path, less: None, cost, events, target })
    };
    report::heading("instructions per packet");
    let mut bbr3 = None;
    for (run, target) in runs.iter().zip(PACKET_TARGETS) {
        let many = bbr3.map(|each: u64| each * MANY_TARGET_PERCENT / 100);
        let each = figure(*run, report::INSTRUCTIONS, target.or(many));
        bbr3 = bbr3.or(each);
    }
    for (what, cost, targets) in [
        ("misses of 32 kB per packet", report::FIRST_MISSES, FIRST_MISS_TARGETS),
        ("misses of 1 MB per packet", report::SECOND_MISSES, SECOND_MISS_TARGETS),
    ] {
        report::heading(what);
        for (run, target) in runs.iter().zip(targets) {
            figure(*run, cost, Some(target));
        }
    }
    report::heading("instructions of a graph's link");
    let [few, many] = [2, MANY_LINKS].map(|links| hops(&counted_run(over(links))));
    let path = |id: &str| format!("harness/sim/run.{id}");
    outcome.print(
        dir,
        &Figure {
            name: "one more link".to_owned(),
            path: path("many_links"),
            less: Some(path("two_links")),
            cost: report::INSTRUCTIONS,
            events: many - few,
            target: Some(HOP_TARGET),
        },
    );
}

/// The most memory that this process ever had, in MiB; where the system tells.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

fn timed(name: &str, sim: Sim, time: Duration) {
    let start = time::Instant::now();
    let sim = counted_run((sim, time));
    let seconds = start.elapsed().as_secs_f64();
    let each = seconds * 1e9 / packets(&sim) as f64;
    println!("{name:<34} {seconds:>8.2} s, {each:.0} ns a packet");
}

fn main() {
    if report::is_inner() {
        return harness::run();
    }
    let dir = report::run(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_PKG_NAME"), "speed");
    let mut outcome = Outcome::default();
    print_costs(&dir, &mut outcome);
    println!("\ntime on this machine, as it is now");
    timed("bbr3, 100 Mbit/s, 60 s", bulk(Algorithm::BBR3, 1, 100), Duration::from_secs(60));
    timed("cubic, 100 Mbit/s, 60 s", bulk(Algorithm::CUBIC, 1, 100), Duration::from_secs(60));
    for ((flows, seconds), target) in [(1000, 10), (10_000, 3)].into_iter().zip(MEMORY_TARGETS_MIB)
    {
        let name = format!("{flows} bbr3, 10 Gbit/s, {seconds} s");
        timed(&name, bulk(Algorithm::BBR3, flows, 10_000), Duration::from_secs(seconds));
        if let Some(mib) = peak_mib() {
            let verdict = outcome.judge(mib, Some(target));
            println!("{:<34} {mib:>8} of {target} MiB{verdict}", "most memory so far");
        }
    }
    report::conclude(&outcome);
}
