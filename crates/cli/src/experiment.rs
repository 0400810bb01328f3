//! The common part of `run` and `compare`: plans are run, and their results are written.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_lab::run::run_points;
use fullpipe_lab::{BackendChoice, RunError, RunOptions, check_machine, run_point};
use fullpipe_report::expect::Verdict;
use fullpipe_report::metrics::{RunResult, changes};
use fullpipe_report::output::{self, Reports, ScenarioReport, page, table};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{LinkKind, units};

use crate::colour;
use crate::failure::Failure;
use crate::live::Live;
use crate::pictures::Pictures;
use crate::width::in_columns;
use crate::{print, say};

/// Forms of the results of scenario files.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Forms {
    /// Print one JSON object and nothing else
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print a line of comma-separated values for each run in place of the table
    #[arg(long)]
    pub(crate) csv: bool,
    /// Write a page with the tables, and with the plots where series were recorded
    #[arg(long, short = 'r', value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// Options of runs that are independent of what runs.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Runs at a time where time is virtual [default: as many as there are cores]
    #[arg(long, short = 'j', value_name = "N", value_parser = units::parse_count_above_0, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) memory: Memory,
}

impl Work {
    /// Runs at a time.
    pub(crate) fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.jobs.map_or_else(cores, NonZeroUsize::get)
    }
}

/// The outputs of results beside the table, or in its place.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// One JSON object in place of the table.
    pub(crate) json: bool,
    /// Lines of values with commas between them, in place of the table.
    pub(crate) csv: bool,
    /// No table, and of the expectations only those that were not met.
    pub(crate) quiet: bool,
    /// The page.
    pub(crate) report: Option<PathBuf>,
    /// Plots and series as files.
    pub(crate) pictures: Pictures,
    /// The expectations as JUnit has test cases.
    pub(crate) junit: Option<PathBuf>,
    /// Rows of each flow's series where the file names no interval; `None` where nothing shows
    /// them, because they take longer to make than a short run.
    pub(crate) rows: Option<u64>,
    /// The directory of each plan's tables.
    pub(crate) tables: Vec<PathBuf>,
    /// Runs of each point.
    pub(crate) repeat: usize,
    /// All of them have the seed of the file.
    pub(crate) same_seed: bool,
    /// The runs of before of each plan; none without a baseline.
    pub(crate) baselines: Vec<Vec<RunResult>>,
}

impl Default for Outputs {
    /// The table alone, of one run of each point.
    fn default() -> Self {
        Self {
            json: false,
            csv: false,
            quiet: false,
            report: None,
            pictures: Pictures::default(),
            junit: None,
            rows: None,
            tables: Vec::new(),
            repeat: 1,
            same_seed: false,
            baselines: Vec::new(),
        }
    }
}

/// Most memory that runs may have.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// The most memory that runs may need, as it is estimated before they begin: fewer go on beside
    /// each other, and a scenario of which not one fits is refused
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, default_value = "2GB", allow_hyphen_values = true)]
    pub(crate) max_memory: u64,
}

/// A plan, and where it is from.
pub(crate) struct Experiment {
    pub(crate) plan: Plan,
    /// Nothing where it is made of options.
    pub(crate) file: Option<String>,
}

impl Experiment {
    /// Name of a run while it goes on.
    fn name_of(&self, run: usize) -> String {
        let at = &self.plan.grid.runs[run].at;
        match &self.file {
            Some(_) => format!("{} {}", self.plan.name, table::place(at, "")).trim_end().to_owned(),
            None => {
                let path = at.iter().find(|(axis, _)| axis == "variant");
                let path = path.map_or(self.plan.name.as_str(), |(_, value)| value);
                let cc =
                    at.iter().find(|(axis, _)| axis == "cc").map(|(_, cc)| format!("{cc} on "));
                format!("{}{path}", cc.unwrap_or_default())
            }
        }
    }
}

/// Checks the plans, the backend, the machine and the places for results before
/// anything runs.
pub(crate) fn check(
    experiments: &[Experiment],
    backend: BackendChoice,
    link: Option<LinkKind>,
    outputs: &Outputs,
    jobs: usize,
    memory: Memory,
) -> Result<(Option<LinkKind>, usize), Failure> {
    let mut jobs = jobs;
    let link = backend.link(link).map_err(Failure::bad_input)?;
    for Experiment { plan, file } in experiments {
        let name = file.as_deref().unwrap_or_default();
        let of_field = |error| match file {
            Some(_) => Failure::bad_input(error),
            None => Failure::bad_input(fullpipe_report::plan::Options::of_option(error)),
        };
        backend.check_plan(plan, name).map_err(of_field)?;
        let fit = plan.jobs_within(memory.max_memory, jobs, outputs.rows, name);
        jobs = fit.map_err(of_field)?;
        let options = RunOptions { backend, link, ..RunOptions::default() };
        check_machine(plan, &options).map_err(Failure::bad_input)?;
    }
    if let Some(path) = &outputs.report {
        page::check_replaceable(path).map_err(Failure::bad_input)?;
    }
    if let Some(path) = &outputs.junit {
        page::check_writable(path).map_err(Failure::bad_input)?;
    }
    outputs.pictures.check()?;
    Ok((link, jobs))
}

/// Runs plans one after the other, prints what came of each, and writes the rest at the end.
pub(crate) fn perform(
    experiments: &[Experiment],
    options: &RunOptions<'_>,
    jobs: usize,
    outputs: &Outputs,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let mut reports: Vec<ScenarioReport> = Vec::new();
    let mut failed = Failed::default();
    let mut written = Ok(());
    for (i, experiment) in experiments.iter().enumerate() {
        let plan = &experiment.plan;
        let link = options.link.map(|link| link.name().to_owned());
        let mut report = ScenarioReport::of(plan, experiment.file.clone(), link);
        for repetition in 0..outputs.repeat {
            let mut runs = Vec::new();
            let number = if outputs.same_seed { 0 } else { repetition as u64 };
            let options = RunOptions { repetition: number, ..*options };
            failed.add(run_plan(experiment, &options, jobs, outputs.quiet, stop, &mut runs));
            report.runs.extend(runs.into_iter().map(|run| RunResult { repetition, ..run }));
        }
        report.runs.sort_by_key(|run| (run.run, run.repetition));
        report.summarize();
        // What was stopped or failed is no case in which an expectation could be met.
        let is_whole = report.runs.len() == plan.grid.runs.len() * outputs.repeat
            && report.runs.iter().all(|run| !run.interrupted);
        if is_whole {
            report.expectations = plan.judge_runs(&report.runs);
            report.changes = outputs.baselines.get(i).map(|before| changes(before, &report.runs));
        }
        // Tables of nothing would take the place of those from before.
        if !report.runs.is_empty() {
            print_report(&report, outputs)?;
            if let Some(dir) = outputs.tables.get(i) {
                let tables = output::write(dir, plan, &report.runs);
                let kept = tables.and_then(|()| {
                    fullpipe_lab::kept::keep(dir, report.clone(), stop.load(Ordering::Relaxed))
                });
                written = kept.map_err(Failure::run);
            }
        }
        reports.push(report);
        if stop.load(Ordering::Relaxed) || written.is_err() {
            break;
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let left = reports.iter().filter_map(|r| r.changes.as_ref()).map(Vec::len).sum();
    let answer = answer(reports.iter().flat_map(|report| &report.expectations));
    let answer = answer.and_then(|()| unchanged(left));
    let nothing = reports.iter().all(|report| report.runs.is_empty());
    // A page about nothing would take the place of the one from before.
    let pages = match nothing {
        true => Ok(()),
        false => write_pages(&reports, outputs),
    };
    if outputs.csv && !nothing {
        print(&output::csv(&reports))?;
    }
    if outputs.json {
        let object = Reports::new(reports, interrupted);
        print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
    }
    // The results were told before: they are not lost with a disk that is full.
    written.and(pages)?;
    if interrupted {
        return Err(Failure::interrupted(nothing));
    }
    match failed.all {
        0 => answer,
        all if nothing && failed.of_input == all => Err(Failure::bad_input("no run gave a result")),
        _ if nothing => Err(Failure::run("no run gave a result")),
        n => Err(Failure::run(format!("{n} of the runs failed; the others are above"))),
    }
}

/// Number of runs that failed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failed {
    all: usize,
    /// Number of them that could not have gone well.
    of_input: usize,
}

impl Failed {
    pub(crate) fn add(&mut self, others: Self) {
        self.all += others.all;
        self.of_input += others.of_input;
    }

    /// True if none failed.
    pub(crate) fn is_none(self) -> bool {
        self.all == 0
    }
}

/// The runs of a plan, in their order; how many failed.
pub(crate) fn run_plan(
    experiment: &Experiment,
    options: &RunOptions<'_>,
    jobs: usize,
    quiet: bool,
    stop: &AtomicBool,
    runs: &mut Vec<RunResult>,
) -> Failed {
    let plan = &experiment.plan;
    let all = plan.grid.runs.len();
    let mut failed = Failed::default();
    let mut take = |i: usize, result: Result<RunResult, RunError>| match result {
        Ok(run) => {
            if let Some(warning) = run.emulator.as_ref().and_then(|e| e.warning.as_ref()) {
                say(&format!("{}: not to be trusted: {warning}", experiment.name_of(i)));
            }
            if let Some(note) = run.note() {
                say(&format!("{}: {note}", experiment.name_of(i)));
            }
            runs.push(run);
        }
        Err(RunError::StoppedEarly) => {}
        Err(error) => {
            failed.all += 1;
            failed.of_input += usize::from(error.is_of_input());
            say(&format!("error: {}: {error}", experiment.name_of(i)));
        }
    };
    if jobs > 1 && all > 1 && !options.backend.is_realtime() {
        let mut live = Live::of_many(&plan.name, "runs", all, quiet);
        let points: Vec<usize> = (0..all).collect();
        let mut results =
            run_points(plan, &points, options, jobs, stop, |done| live.over(done, all));
        live.end(None);
        results.sort_by_key(|(i, _)| *i);
        results.into_iter().for_each(|(i, result)| take(i, result));
        return failed;
    }
    for i in 0..all {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = experiment.name_of(i);
        let is_announced = !quiet && (experiment.file.is_none() || options.backend.is_realtime());
        let mut live = match is_announced {
            true => Live::start(name, &format!("over {}", options.backend)),
            false => Live::quiet(name, quiet),
        };
        live.is_one_of(i + 1, all);
        let result = run_point(plan, i, options, stop, &mut |progress| live.tick(&progress));
        let said = result.as_ref().ok().filter(|_| is_announced).map(in_short);
        live.end(said.as_deref());
        take(i, result);
    }
    failed
}

fn in_short(run: &RunResult) -> String {
    let figure =
        |name: &str| run.metrics.get(name).copied().flatten().map_or("-".to_owned(), table::number);
    format!("{} Mbit/s, queue p95 {} ms", figure("goodput_mbps"), figure("queue_ms.p95"))
}

/// Exit code 1 when something was not met that is not known, or a known failure was met.
pub(crate) fn answer<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Result<(), Failure> {
    let (met, unmet): (Vec<&Verdict>, _) =
        verdicts.filter(|v| !v.is_as_known()).partition(|v| v.met);
    let count = |n: usize, one: &str, many: &str| match n {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {many}")),
    };
    let parts = [
        count(unmet.len(), "expectation was not met", "expectations were not met"),
        count(
            met.len(),
            "known failure was met: remove its known_failure",
            "known failures were met: remove their known_failure",
        ),
    ];
    match parts.into_iter().flatten().collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => Ok(()),
        words => Err(Failure::run(words)),
    }
}

/// Exit code 1 when a metric left the interval of the baseline.
fn unchanged(left: usize) -> Result<(), Failure> {
    match left {
        0 => Ok(()),
        1 => Err(Failure::run("1 metric left the interval of the baseline")),
        n => Err(Failure::run(format!("{n} metrics left the interval of the baseline"))),
    }
}

fn print_report(report: &ScenarioReport, outputs: &Outputs) -> Result<(), Failure> {
    if outputs.json || outputs.csv {
        return Ok(());
    }
    let shown = report.expectations.iter().filter(|v| !outputs.quiet || !v.is_as_known());
    let changes = report.changes.iter().flatten().map(table::change);
    let verdicts = colour::verdicts(shown) + &changes.collect::<String>();
    if outputs.quiet {
        return print(&verdicts);
    }
    let mut text = format!(
        "{}\n{}",
        report.scenario,
        in_columns(&table::runs(&report.scenario, &report.rows()))
    );
    if let [run] = report.runs.as_slice()
        && run.flows.len() > 1
    {
        text.push_str(&in_columns(&table::flows(run)));
    }
    print(&format!("{text}{verdicts}"))
}

/// Writes the page, the plots, the series and the test cases, where they are asked for.
pub(crate) fn write_pages(reports: &[ScenarioReport], outputs: &Outputs) -> Result<(), Failure> {
    if let Some(path) = &outputs.junit {
        page::write_text(path, &output::junit(reports)).map_err(Failure::run)?;
    }
    outputs.pictures.write_reports(reports)?;
    let Some(path) = &outputs.report else { return Ok(()) };
    page::write(path, reports).map_err(Failure::run)?;
    tell_report(path, outputs)
}

/// The path of the report is a result; beside JSON it is only news.
fn tell_report(path: &Path, outputs: &Outputs) -> Result<(), Failure> {
    let line = format!("report: {}", path.display());
    if outputs.json || outputs.csv || outputs.quiet {
        say(&line);
        return Ok(());
    }
    print(&format!("{line}\n"))
}
