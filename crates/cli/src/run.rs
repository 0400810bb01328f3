//! `fullpipe run`: scenario files over the simulator, and whether they went as expected.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_lab::backend::{self, ExperimentError, Series};
use fullpipe_lab::expect::Verdict;
use fullpipe_lab::metrics::Outcome;
use fullpipe_lab::output::summary::Table;
use fullpipe_lab::output::{self, QlogDir, StoreError, file_name_of};
use fullpipe_lab::{Edition, Over, Plan, RunError};
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::{print, say};

/// More runs than these are a sweep's work.
const MAX_RUNS: usize = 1000;

/// The kernel's algorithms have no names in scenario files.
const NOT_OVER_TCP: &str =
    "scenario files run over sim and quic; over tcp there is fullpipe compare";

/// Rows of a course whose interval the file does not say: as many as a plot has points.
const ROWS: u64 = 500;

/// Run scenario files in the simulator
///
/// Each file is a path, the flows on it, and what is expected of them; docs/scenarios.md describes
/// it. A field with a list of values makes one run of each. Prints a line a run, and for each
/// expectation whether it was met and by how much.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario files
    #[arg(value_name = "FILE.toml", required = true)]
    files: Vec<PathBuf>,
    /// What carries the flows: sim (a virtual clock), or quic (real packets on a link inside this
    /// process, in real time; one link of any kind, and bulk flows with one algorithm)
    #[arg(long, value_name = "BACKEND", default_value = "sim")]
    over: Over,
    /// Take the fields of a file's table `full` in place of the shorter ones
    #[arg(long)]
    full: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
    /// Write summary.parquet, flows.parquet, links.parquet, series.parquet and scenario.toml into
    /// this directory; of several files, each into one of its scenario's name in it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a qlog of each flow of each run into this directory, while it runs and a sample each
    /// interval of the file; qvis opens them. Over sim alone
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe run scenarios/quickstart.toml
  fullpipe run scenarios/*.toml --json
  fullpipe run scenarios/fairness.toml --out results
  fullpipe run scenarios/fairness.toml --qlog qlogs

Exit status: 0 all expectations met, 1 one was not, 2 a file is wrong (one line says where).";

/// What a file came to, as it stands in the JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    file: String,
    scenario: String,
    runs: Vec<Outcome>,
    expectations: Vec<Verdict>,
}

#[derive(Debug, Serialize)]
struct Reports {
    scenarios: Vec<Report>,
    /// Whether somebody stopped it: the runs are those that there are so far.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let over_quic = match args.over {
        Over::Sim => false,
        Over::Quic => true,
        Over::Tcp => return Err(Failure::bad_input(NOT_OVER_TCP)),
    };
    let plans = load(&args.files, Edition { full: args.full, over_quic })?;
    for (plan, file) in plans.iter().zip(&args.files) {
        let runs = plan.grid.runs.len();
        if runs > MAX_RUNS {
            let file = file.display();
            return Err(Failure::bad_input(format!(
                "{file}: its lists make {runs} runs, more than the {MAX_RUNS} of this command; \
                 write fullpipe sweep {file} --out DIR"
            )));
        }
    }
    if over_quic {
        for (plan, file) in plans.iter().zip(&args.files) {
            plan.check_over_quic(file).map_err(Failure::bad_input)?;
        }
    }
    let (qlog, outs) = (qlog_dir(args, &plans)?, out_dirs(args, &plans)?);
    let stop = Interrupt::install()?.flag();
    let mut reports: Vec<Report> = Vec::new();
    let mut unmet = 0;
    let mut written = Ok(());
    for (i, (plan, file)) in plans.iter().zip(&args.files).enumerate() {
        let outcomes = match over_quic {
            false => run_plan(plan, qlog.as_ref(), &stop)?,
            true => run_over_quic(plan, &stop)?,
        };
        // What was stopped is no case in which an expectation could be met.
        let is_whole =
            outcomes.len() == plan.grid.runs.len() && outcomes.iter().all(|o| !o.interrupted);
        let verdicts = if is_whole { verdicts(plan, &outcomes) } else { Vec::new() };
        unmet += verdicts.iter().filter(|v| !v.met).count();
        // Tables of nothing would take the place of those from before.
        if !outcomes.is_empty() {
            if !args.json {
                print(&text(plan, &outcomes, &verdicts))?;
            }
            if let Some(dir) = outs.get(i) {
                written = output::write(dir, plan, &outcomes).map_err(Failure::run);
            }
        }
        let scenario = plan.name.clone();
        let file = file.display().to_string();
        reports.push(Report { file, scenario, runs: outcomes, expectations: verdicts });
        if !is_whole || written.is_err() {
            break;
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let nothing = reports.iter().all(|report| report.runs.is_empty());
    if args.json {
        let object = Reports { scenarios: reports, interrupted };
        print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
    }
    // The results were told before: they are not lost with a disk that is full.
    written?;
    if interrupted {
        return Err(Failure::interrupted(nothing));
    }
    answer(unmet)
}

/// What is wrong with a file is said before anything runs.
pub(crate) fn load(files: &[PathBuf], edition: Edition) -> Result<Vec<Plan>, Failure> {
    files.iter().map(|file| Plan::load(file, edition).map_err(Failure::bad_input)).collect()
}

/// Where the qlogs go; what is wrong with that is said before anything runs.
fn qlog_dir(args: &Args, plans: &[Plan]) -> Result<Option<QlogDir>, Failure> {
    let Some(dir) = &args.qlog else { return Ok(None) };
    if args.over != Over::Sim {
        return Err(Failure::bad_input("--qlog is written over sim alone; leave out --over"));
    }
    names(args, plans, "--qlog")?;
    QlogDir::create(dir).map(Some).map_err(|e| no_directory("--qlog", &e))
}

/// The directory of each file's tables, made before anything runs; none without --out.
fn out_dirs(args: &Args, plans: &[Plan]) -> Result<Vec<PathBuf>, Failure> {
    let Some(out) = &args.out else { return Ok(Vec::new()) };
    let dirs: Vec<PathBuf> = match plans {
        [_] => vec![out.clone()],
        _ => names(args, plans, "--out")?.iter().map(|name| out.join(name)).collect(),
    };
    let make = |dir: &PathBuf| output::create_dir(dir).map_err(|e| no_directory("--out", &e));
    dirs.iter().try_for_each(make)?;
    Ok(dirs)
}

/// What the scenarios are called in the names of files. Those of an option must not be the same for
/// two, or one would write over the other.
fn names(args: &Args, plans: &[Plan], option: &str) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = plans.iter().map(|plan| file_name_of(&plan.name)).collect();
    for (i, name) in names.iter().enumerate() {
        if let Some(before) = names[..i].iter().position(|n| n == name) {
            return Err(Failure::bad_input(format!(
                "{} and {}: both scenarios are '{name}' in the names of files, and {option} would write \
                 one over the other; give one another name, or run one at a time",
                args.files[before].display(),
                args.files[i].display(),
            )));
        }
    }
    Ok(names)
}

fn no_directory(option: &str, error: &StoreError) -> Failure {
    Failure::bad_input(format!("{option}: {error}; write a directory that can be written into"))
}

/// The runs of a plan; fewer when it is stopped.
fn run_plan(
    plan: &Plan,
    qlog: Option<&QlogDir>,
    stop: &AtomicBool,
) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes = Vec::new();
    for i in 0..plan.grid.runs.len() {
        let mut live = Live::quiet(name_of(plan, i));
        let watch = &mut |tick| live.tick(&tick);
        let outcome = backend::run_watched(plan, i, Series::Rows(ROWS), qlog, stop, watch);
        live.end(None);
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(ExperimentError::Interrupted) => break,
            Err(error) => return Err(Failure::run(format!("{}, run {i}: {error}", plan.name))),
        }
    }
    Ok(outcomes)
}

fn run_over_quic(plan: &Plan, stop: &AtomicBool) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes = Vec::new();
    for i in 0..plan.grid.runs.len() {
        let name = name_of(plan, i);
        let mut live = Live::start(name.clone(), "over quic");
        let watch = &mut |tick| live.tick(&tick);
        let outcome = backend::run_over_quic(plan, i, Series::Rows(ROWS), stop, watch);
        live.end(None);
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(RunError::StoppedEarly) => break,
            Err(error) => return Err(Failure::run(error)),
        }
        let emulator = outcomes.last().and_then(|o| o.emulator.as_ref());
        if let Some(warning) = emulator.and_then(|e| e.warning.as_ref()) {
            say(&format!("{name}: not to be trusted: {warning}"));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(outcomes)
}

fn name_of(plan: &Plan, run: usize) -> String {
    format!("{} {}", plan.name, place(&plan.grid.runs[run].at, "")).trim_end().to_owned()
}

/// Whether the outcomes, which are all of the plan's, are what was expected.
pub(crate) fn verdicts(plan: &Plan, outcomes: &[Outcome]) -> Vec<Verdict> {
    let values: Vec<&[Option<f64>]> = outcomes.iter().map(|o| o.probes.as_slice()).collect();
    plan.judge(&values)
}

/// Exit code 1 when something was not met.
pub(crate) fn answer(unmet: usize) -> Result<(), Failure> {
    match unmet {
        0 => Ok(()),
        1 => Err(Failure::run("1 expectation was not met")),
        n => Err(Failure::run(format!("{n} expectations were not met"))),
    }
}

/// The table of the runs, and a line for each expectation.
pub(crate) fn text(plan: &Plan, outcomes: &[Outcome], verdicts: &[Verdict]) -> String {
    let mut text = format!("{}\n{}", plan.name, table(plan, outcomes).to_text());
    text.push_str(&expectations(verdicts));
    text
}

/// A line for each expectation.
pub(crate) fn expectations(verdicts: &[Verdict]) -> String {
    verdicts.iter().map(line).collect()
}

const COLUMNS: [(&str, &str, &str); 9] = [
    ("goodput", "Mbit/s", "goodput_mbps"),
    ("utilization", "", "utilization"),
    ("queue ms", "p50", "queue_ms.p50"),
    ("", "p95", "queue_ms.p95"),
    ("rtt ms", "p50", "rtt_ms.p50"),
    ("", "p95", "rtt_ms.p95"),
    ("loss", "", "loss_rate"),
    ("retransmit", "", "retransmit_rate"),
    ("jain", "", "jain"),
];

fn table(plan: &Plan, outcomes: &[Outcome]) -> Table {
    let mut header = vec![("run", "")];
    header.extend(COLUMNS.map(|(name, unit, _)| (name, unit)));
    let rows = outcomes.iter().map(|outcome| {
        let trusted = outcome.emulator.as_ref().is_none_or(|e| e.trusted);
        let mark = match (outcome.interrupted, trusted) {
            (true, _) => " (stopped)",
            (_, false) => " (!)",
            _ => "",
        };
        let mut row = vec![format!("{}{mark}", place(&outcome.at, &plan.name))];
        row.extend(COLUMNS.map(|(_, _, metric)| figure(outcome.metrics.get(metric).copied())));
        row
    });
    Table { header, rows: rows.collect() }
}

fn figure(value: Option<Option<f64>>) -> String {
    value.flatten().map_or("-".to_owned(), short)
}

/// Four digits that mean something.
fn short(x: f64) -> String {
    let digits = match x.abs() {
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        x if x >= 1.0 => 3,
        _ => 4,
    };
    format!("{x:.digits$}")
}

/// Where in the grid a run is.
fn place(at: &[(String, String)], otherwise: &str) -> String {
    match at {
        [] => otherwise.to_owned(),
        [(_, value)] => value.clone(),
        many => {
            many.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(" ")
        }
    }
}

fn line(verdict: &Verdict) -> String {
    let state = if verdict.met { "met    " } else { "NOT MET" };
    let figures = match (verdict.value, verdict.bound, verdict.margin) {
        (Some(value), Some(bound), Some(margin)) => {
            let by = if margin < 0.0 { "missed by" } else { "by" };
            format!("{} against {}, {by} {}", short(value), short(bound), short(margin.abs()))
        }
        _ => "there is no value".to_owned(),
    };
    let place = match place(&verdict.at, "") {
        none if none.is_empty() => none,
        place => format!(" in {place}"),
    };
    let cases = match (verdict.unmet, verdict.cases) {
        (_, 1) => String::new(),
        (0, n) => format!(", the closest of {n}"),
        (unmet, n) => format!(", {unmet} of {n} not met"),
    };
    format!("{state} {}: {figures}{place}{cases}\n", verdict.expect)
}
