//! The kernel's figures: algorithms of this kernel's TCP on the same eight paths, over the emulated
//! link in real time, and what each costs on loopback. As a table in markdown; needs Linux and
//! root.

mod loopback;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::Duration;

use fullpipe_lab::backend::{BackendChoice, RunError};
use fullpipe_lab::run::{RunOptions, check_machine, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::output::table::number;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::units::show_duration;
use fullpipe_scenario::{Edition, KernelCc, Over, Stack};

/// The paths, with the program for the kernel by the name `bbr3`.
const SCENARIO: &str = include_str!("../../../../scenarios/kernel/paths.toml");

/// One of the algorithms that stand beside each other.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Name in the table.
    pub label: String,
    /// Name in the kernel.
    pub cc: KernelCc,
}

/// Algorithms to measure, and durations of the runs.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The algorithms.
    pub contenders: Vec<Contender>,
    /// Of each run over the link.
    pub duration: Duration,
    /// Of each run over loopback, of which the middle of three counts.
    pub loopback: Duration,
}

impl Campaign {
    /// The scenario file, of these algorithms and of this length.
    fn plan(&self) -> Result<Plan, RunError> {
        let cc: Vec<_> = self.contenders.iter().map(|c| format!("\"{}\"", c.cc)).collect();
        let lines = SCENARIO.lines().map(|line| match line.split_once(" = ") {
            Some(("cc", _)) => format!("cc = [{}]\n", cc.join(", ")),
            Some(("duration", _)) => format!("duration = \"{}\"\n", show_duration(self.duration)),
            _ => format!("{line}\n"),
        });
        let text: String = lines.collect();
        let edition = Edition { over: Over::of(Stack::Linux), ..Edition::default() };
        Plan::parse(&text, "scenarios/kernel/paths.toml", "kernel", Path::new(""), edition)
            .and_then(|plan| {
                BackendChoice::LINUX.check_plan(&plan, "scenarios/kernel/paths.toml").map(|()| plan)
            })
            .map_err(|error| RunError::Scenario(error.to_string()))
    }
}

/// Measures, telling each step, until all is done or `stop` is set: then without the run under way.
/// `so_far` is called after each run: what else the caller knows of it goes into the table's last
/// column, headed `other`. A run that fails over the link is a row that says why.
///
/// # Errors
/// The machine cannot, or has no loopback.
pub fn run(
    campaign: &Campaign,
    other: &str,
    so_far: &mut dyn FnMut(&Contender) -> String,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<String, RunError> {
    let plan = campaign.plan()?;
    let options = RunOptions { backend: BackendChoice::LINUX, ..RunOptions::default() };
    check_machine(&plan, &options)?;
    let mut table = format!(
        "| path | | Mbit/s | retransmitted % | RTT ms: median | 95 % | queue ms: 95 % | {other} |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    // The last list of the file is that of the algorithms.
    for (i, contender) in (0..plan.grid.runs.len()).zip(campaign.contenders.iter().cycle()) {
        if stop.load(Ordering::Relaxed) {
            return Ok(table);
        }
        let at = &plan.grid.runs[i].at;
        let path = at.first().map_or("", |(_, path)| path.as_str());
        tell(&format!("{} on {path}", contender.label));
        let row = match run_point(&plan, i, &options, stop, &mut |_| ()) {
            Ok(run) if run.interrupted => return Ok(table),
            Ok(run) => row(path, &contender.label, &run, &so_far(contender)),
            Err(RunError::StoppedEarly) => return Ok(table),
            // The others are not to be lost for it.
            Err(error) => format!("| {path} | {} | {error} |\n", contender.label),
        };
        tell(row.trim_end());
        table += &row;
    }
    table += "\n| loopback, unshaped | Gbit/s | CPU seconds a gigabyte | ";
    table += other;
    table += " |\n|---|---|---|---|\n";
    for contender in &campaign.contenders {
        tell(&format!("{} on loopback", contender.label));
        let runs = (0..3).map(|_| loopback::run(contender.cc, campaign.loopback, stop));
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

fn row(path: &str, label: &str, run: &RunResult, other: &str) -> String {
    let trusted = run.emulator.as_ref().is_none_or(|e| e.trusted);
    let mark = if trusted { "" } else { " (!)" };
    let figure = |name: &str| run.metrics.get(name).copied().flatten();
    let show = |x: Option<f64>| x.map_or("-".to_owned(), number);
    let of_flow = |name: &str, flow: usize| {
        run.flows.get(flow).and_then(|f| f.metrics.get(name).copied().flatten())
    };
    let beside = run.flows.iter().position(|flow| flow.name == "beside");
    let goodput = match beside {
        Some(beside) => {
            let [ours, theirs] = [0, beside].map(|flow| show(of_flow("goodput_mbps", flow)));
            format!("{ours} : {theirs}")
        }
        None => show(figure("goodput_mbps")),
    };
    format!(
        "| {path} | {label}{mark} | {goodput} | {} | {} | {} | {} | {other} |\n",
        show(figure("retransmit_rate").map(|x| 100.0 * x)),
        show(figure("rtt_ms.p50")),
        show(figure("rtt_ms.p95")),
        show(figure("queue_ms.p95")),
    )
}
