//! The kernel's figures: algorithms of this kernel's TCP on the same eight paths, over the emulated link in
//! real time, and what each costs on loopback. As a table in markdown; needs Linux and root.

mod loopback;

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::Probability;

use crate::backend::tcp_linux;
use crate::backend::{RunError, check};
use crate::output::results::AlgorithmResult;
use crate::scenario::{Amount, Over, Scenario};
use crate::scenario::{Cc, KernelCc};
use crate::units::Buffer;

/// One of the algorithms that stand beside each other.
#[derive(Clone, Debug)]
pub struct Contender {
    /// What the table calls it.
    pub label: String,
    /// What the kernel calls it.
    pub cc: KernelCc,
}

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The algorithms.
    pub contenders: Vec<Contender>,
    /// Whom the second flow has where two algorithms share a path.
    pub beside: KernelCc,
    /// Of each run over the link.
    pub duration: Duration,
    /// Of each run over loopback, of which the middle of three counts.
    pub loopback: Duration,
}

/// Rate in Mbit/s, round trip in ms, the buffer, loss in percent, flows.
type Path = (u64, u64, Buffer, f64, u32);

const PATHS: [Path; 7] = [
    (400, 20, Buffer::Bytes(6_000_000), 0.0, 1),
    (400, 20, Buffer::Packets(700), 0.0, 1),
    (100, 100, Buffer::Bdp(1.0), 0.0, 1),
    (100, 100, Buffer::Bdp(1.0), 0.1, 1),
    (100, 100, Buffer::Bdp(1.0), 1.0, 1),
    (100, 100, Buffer::Bdp(1.0), 2.0, 1),
    (100, 20, Buffer::Bdp(1.0), 0.0, 4),
];

/// Where two algorithms meet.
const BESIDE: Path = (100, 20, Buffer::Bdp(1.0), 0.0, 2);

/// Measures, telling each step, until all is done or `stop` is set: then without the run under way. `so_far`
/// is called after each run: what else the caller knows of it goes into the table's last column, headed
/// `other`. A run that fails over the link is a row that says why.
///
/// # Errors
/// The machine cannot, or has no loopback.
pub fn run(
    plan: &Plan,
    other: &str,
    so_far: &mut dyn FnMut(&Contender) -> String,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<String, RunError> {
    let first = scenario(PATHS[0], plan);
    check(&Scenario { cc: plan.contenders.iter().map(|c| Cc::Kernel(c.cc)).collect(), ..first })?;
    let mut table = format!(
        "| path | | Mbit/s | sent again % | RTT ms: median | 95 % | queue ms: 95 % | {other} |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for path in PATHS.into_iter().chain([BESIDE]) {
        for contender in &plan.contenders {
            if stop.load(Ordering::Relaxed) {
                return Ok(table);
            }
            let scenario = scenario(path, plan);
            let beside = (path == BESIDE).then_some(Cc::Kernel(plan.beside));
            let name = name(path, beside);
            tell(&format!("{} on {name}", contender.label));
            let cc = Cc::Kernel(contender.cc);
            let result = match beside {
                Some(beside) => tcp_linux::run_beside(&scenario, cc, beside, stop, &mut |_| ()),
                None => tcp_linux::run(&scenario, cc, stop, &mut |_| ()),
            };
            let row = match result {
                Ok(result) if result.interrupted => return Ok(table),
                Ok(result) => row(&name, &contender.label, &result, &so_far(contender)),
                Err(RunError::StoppedEarly) => return Ok(table),
                // The others are not to be lost for it.
                Err(error) => format!("| {name} | {} | {error} |\n", contender.label),
            };
            tell(row.trim_end());
            table += &row;
        }
    }
    table += "\n| loopback, unshaped | Gbit/s | CPU seconds a gigabyte | ";
    table += other;
    table += " |\n|---|---|---|---|\n";
    for contender in &plan.contenders {
        tell(&format!("{} on loopback", contender.label));
        let runs = (0..3).map(|_| loopback::run(contender.cc, plan.loopback, stop));
        let mut runs = runs.collect::<Result<Vec<_>, _>>().map_err(RunError::Socket)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(table);
        }
        runs.sort_by(|a, b| a.gigabits_per_sec.total_cmp(&b.gigabits_per_sec));
        let middle = runs[1];
        let row = format!(
            "| {} | {:.2} | {:.3} | {} |\n",
            contender.label,
            middle.gigabits_per_sec,
            middle.cpu_seconds_per_gigabyte,
            so_far(contender)
        );
        tell(row.trim_end());
        table += &row;
    }
    Ok(table)
}

fn scenario((rate, rtt, buffer, loss, flows): Path, plan: &Plan) -> Scenario {
    Scenario {
        over: Over::Tcp,
        cc: Vec::new(),
        rate: Rate::from_bits_per_sec(rate * 1_000_000),
        rtt: Duration::from_millis(rtt),
        buffer,
        loss: Probability::new(loss / 100.0).unwrap_or_default(),
        flows,
        amount: Amount::Duration(plan.duration),
        ..Scenario::default()
    }
}

fn name((rate, rtt, buffer, loss, flows): Path, beside: Option<Cc>) -> String {
    let mut name = format!("{rate} Mbit/s {rtt} ms {buffer}");
    if loss > 0.0 {
        // Text is written to text without fail.
        let _ = write!(name, ", {loss} % loss");
    }
    match (beside, flows) {
        (Some(beside), _) => name + &format!(", beside one {beside}"),
        (None, 1) => name,
        (None, n) => name + &format!(", {n} flows"),
    }
}

fn row(path: &str, label: &str, r: &AlgorithmResult, other: &str) -> String {
    let trusted = r.emulator.as_ref().is_none_or(|e| e.trusted);
    let mark = if trusted { "" } else { " (!)" };
    let megabits = |bps: u64| bps as f64 / 1e6;
    let goodput = match (&r.flows[..], path.contains("beside")) {
        ([one, beside], true) => {
            format!("{:.1} : {:.1}", megabits(one.goodput_bps), megabits(beside.goodput_bps))
        }
        _ => format!("{:.1}", megabits(r.goodput_bps)),
    };
    let rtt = r.rtt_ms.unwrap_or_default();
    format!(
        "| {path} | {label}{mark} | {goodput} | {:.2} | {:.1} | {:.1} | {:.1} | {other} |\n",
        r.retransmit_rate * 100.0,
        rtt.p50,
        rtt.p95,
        r.queue_ms.p95,
    )
}
