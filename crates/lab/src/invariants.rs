//! Invariants of every scenario, tested on random scenarios. `PROPTEST_CASES` sets their number.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use fullpipe_cc::{Instant, Rate};
use fullpipe_path::{ElementConfig, IPV4_UDP_HEADER_BYTES, MTU_BYTES, PathConfig, RateConfig};
use fullpipe_report::metrics::{Figures, RunResult};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;
use fullpipe_sim::{IPV4_TCP_HEADER_BYTES, Sim, SimConfig};

use crate::run::{RunOptions, run_point};

#[path = "../tests/generator/mod.rs"]
mod generator;

/// Scenarios in `test.sh`.
const CASES: u64 = 300;

#[test]
fn every_scenario_keeps_its_invariants() {
    let dir = tempfile::tempdir().expect("a directory");
    generator::write_traces(dir.path());
    let (mut valid, mut broken, cases) = (0, Vec::new(), generator::cases(CASES));
    for case in 0..cases {
        let text = generator::scenario(&mut generator::Chance::of(case));
        let Ok(plan) = Plan::parse(&text, "x.toml", "x", dir.path(), Edition::default()) else {
            continue;
        };
        valid += 1;
        if let Err(why) = check(&plan) {
            broken.push(format!("case {case}: {why}\n{text}"));
        }
    }
    let first = broken.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(broken.is_empty(), "{} of {valid} scenarios broke one\n{first}", broken.len());
    println!("{valid} of {cases} scenarios were valid");
    assert!(valid * 10 >= cases * 8, "{valid} of {cases} scenarios were valid");
}

fn check(plan: &Plan) -> Result<(), String> {
    let stop = AtomicBool::new(false);
    let of = |rows| {
        let options = RunOptions { rows, ..RunOptions::default() };
        run_point(plan, 0, &options, &stop, &mut |_| ()).map_err(|e| e.to_string())
    };
    // What a sweep runs, and what `run` runs.
    let (outcome, recorded) = (of(None)?, of(Some(97))?);
    same(&outcome, &recorded)?;
    let setup = plan.grid.runs[0].scenario();
    figures(&outcome, &setup.config)?;
    let mut sim = Sim::new(&setup.config).map_err(|e| e.to_string())?;
    sim.run_until(Instant::default() + setup.duration.unwrap_or(fullpipe_cc::Duration::MAX));
    sim.begin_part();
    conservation(&sim, &setup.config)
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Checks that recording a series does not change a run.
fn same(a: &RunResult, b: &RunResult) -> Result<(), String> {
    ensure(a.metrics == b.metrics, || format!("metrics {:?} and {:?}", a.metrics, b.metrics))?;
    ensure(a.flows == b.flows, || format!("flows {:?} and {:?}", a.flows, b.flows))?;
    ensure(a.links == b.links, || format!("links {:?} and {:?}", a.links, b.links))?;
    ensure(a.probes == b.probes, || format!("probes {:?} and {:?}", a.probes, b.probes))
}

fn get(figures: &Figures, name: &str) -> f64 {
    figures.get(name).copied().flatten().unwrap_or(0.0)
}

fn figures(o: &RunResult, config: &SimConfig) -> Result<(), String> {
    for (i, link) in o.links.iter().enumerate() {
        let utilization = get(link, "utilization");
        ensure((0.0..=1.0).contains(&utilization), || {
            format!("link {i}: utilization {utilization}")
        })?;
        let loss = get(link, "loss_rate");
        ensure((0.0..=1.0).contains(&loss), || format!("link {i}: loss rate {loss}"))?;
    }
    for (i, (flow, of)) in o.flows.iter().zip(&config.flows).enumerate() {
        let goodput = get(&flow.metrics, "goodput_mbps");
        let fastest =
            config.route(of).into_owned().there.into_iter().filter_map(|i| fastest(config.link(i)));
        let most = fastest.min().map_or(f64::INFINITY, |rate| rate.as_bits_per_sec() as f64 / 1e6);
        ensure(goodput <= most, || format!("flow {i}: {goodput} Mbit/s over {most} Mbit/s"))?;
        let (sent, read) =
            (get(&flow.metrics, "sent_bytes"), get(&flow.metrics, "completed_bytes"));
        ensure(sent >= read, || format!("flow {i}: {read} bytes read of {sent} sent"))?;
    }
    let [before, s_before, after, s_after, read_before, read_after] = o.probes[..] else {
        return Err(format!("no six probes: {:?}", o.probes));
    };
    // A packet counts whole in the window in which its last bit leaves.
    let packets = config.flows.iter().map(|f| u64::from(f.cc.smss) + 52);
    let packet = packets.max().unwrap_or(0).max(u64::from(MTU_BYTES)) as f64;
    for (part, seconds) in [(before, s_before), (after, s_after)] {
        let (Some(part), Some(seconds)) = (part, seconds) else { continue };
        let Some(rate) = constant(&config.links[0]) else { continue };
        let over = (part - 1.0) * seconds * rate.as_bytes_per_sec() as f64;
        ensure(over <= packet, || format!("utilization {part} in a window of {seconds} s"))?;
    }
    let (read, parts) = (get(&o.metrics, "completed_bytes"), [read_before, read_after]);
    let sum: f64 = parts.into_iter().flatten().sum();
    ensure(read == sum, || format!("{read} bytes read, {parts:?} in the two windows"))
}

/// The highest rate of a link's slowest bottleneck; nothing where one follows a trace.
fn fastest(link: &PathConfig) -> Option<Rate> {
    let rates = link.row.iter().filter_map(|element| match element {
        ElementConfig::Bottleneck { rate: RateConfig::Constant(rate), .. } => Some(*rate),
        ElementConfig::Bottleneck { rate: RateConfig::Steps(steps), .. } => {
            steps.iter().map(|step| step.1).max()
        }
        _ => None,
    });
    rates.min()
}

/// The rate of a link's first bottleneck, where it has one that stays.
fn constant(link: &PathConfig) -> Option<Rate> {
    let mut rates = link.row.iter().filter_map(|element| match element {
        ElementConfig::Bottleneck { rate, .. } => Some(rate),
        _ => None,
    });
    match rates.next() {
        Some(RateConfig::Constant(rate)) => Some(*rate),
        _ => None,
    }
}

/// Bytes come from somewhere and go somewhere, link after link.
fn conservation(sim: &Sim, config: &SimConfig) -> Result<(), String> {
    let data: Vec<Vec<usize>> =
        config.flows.iter().map(|flow| config.route(flow).into_owned().there).collect();
    let answers = config.flows.iter().map(|flow| config.route(flow).into_owned().back);
    let cross = config.cross.iter().map(|cross| config.cross_route(cross).into_owned().there);
    let others: Vec<Vec<usize>> = answers.chain(cross).collect();
    let all = || data.iter().chain(&others);
    let follow = || all().flat_map(|route| route.windows(2).map(|pair| (pair[0], pair[1])));
    for (i, link) in config.links.iter().enumerate() {
        let stats = sim.link(i).stats;
        let (arrived, copied) = (stats.arrived.bytes, stats.duplicated.bytes);
        // Were more gone than came, the difference would have passed zero.
        ensure(stats.inside.bytes <= arrived + copied, || format!("link {i}: {stats:?}"))?;
        ensure(stats.carried.bytes <= arrived + copied, || format!("link {i}: {stats:?}"))?;
        let begins = |route: &Vec<usize>| route.first() == Some(&i);
        let sent: u64 = (0..config.flows.len())
            .filter(|f| begins(&data[*f]))
            .map(|f| {
                let stats = sim.sender_stats(f);
                stats.sent_bytes + stats.sent_packets * header_bytes(config, f)
            })
            .sum();
        ensure(sent <= arrived, || format!("link {i}: {sent} bytes sent, {arrived} arrived"))?;
        let before: BTreeSet<usize> =
            follow().filter(|(_, to)| *to == i).map(|pair| pair.0).collect();
        let came: u64 = before.iter().map(|j| sim.link(*j).stats.delivered.bytes).sum();
        // Nobody counts the packets of cross traffic, of handshakes and of ACKs.
        let shakes = config.flows.iter().zip(&data).any(|(f, route)| f.handshake && begins(route));
        ensure(others.iter().any(begins) || shakes || arrived <= sent + came, || {
            format!("link {i}: {arrived} bytes arrived, {sent} sent and {came} passed on")
        })?;
        let after: BTreeSet<usize> =
            follow().filter(|(from, _)| *from == i).map(|pair| pair.1).collect();
        let went: u64 = after.iter().map(|j| sim.link(*j).stats.arrived.bytes).sum();
        let is_corrupting = link.row.iter().any(|e| matches!(e, ElementConfig::Corruption(_)));
        let ends = all().any(|route| route.last() == Some(&i));
        let (passed_on, is_used) = (stats.delivered.bytes, !after.is_empty());
        ensure(is_corrupting || ends || !is_used || went >= passed_on, || {
            format!("link {i}: {passed_on} bytes passed on, {went} arrived")
        })?;
    }
    for (f, flow) in sim.flows().iter().enumerate() {
        let (sent, read) = (sim.sender_stats(f).sent_bytes, flow.received());
        ensure(read <= sent, || format!("flow {f}: {read} bytes read of {sent} sent"))?;
    }
    Ok(())
}

/// IP and UDP, or IP and TCP with timestamps.
fn header_bytes(config: &SimConfig, flow: usize) -> u64 {
    match config.flows[flow].cc.transport {
        fullpipe_cc::Transport::Tcp => u64::from(IPV4_TCP_HEADER_BYTES),
        _ => u64::from(IPV4_UDP_HEADER_BYTES),
    }
}
