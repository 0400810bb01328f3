//! What `run` and `compare` share: plans are run, and what came of them is written.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_lab::metrics::RunResult;
use fullpipe_lab::output::{self, Reports, ScenarioReport, page, table};
use fullpipe_lab::run::run_points;
use fullpipe_lab::{BackendChoice, LinkKind, Plan, RunError, RunOptions, check_machine, run_point};

use crate::failure::Failure;
use crate::live::Live;
use crate::{print, say};

/// Where results go beside the table.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// One JSON object in place of the table.
    pub(crate) json: bool,
    /// Lines of values with commas between them, in place of the table.
    pub(crate) csv: bool,
    /// No table, and of the expectations only those that were not met.
    pub(crate) quiet: bool,
    /// The page.
    pub(crate) report: Option<PathBuf>,
    /// The expectations as JUnit has test cases.
    pub(crate) junit: Option<PathBuf>,
    /// The directory of each plan's tables.
    pub(crate) tables: Vec<PathBuf>,
}

/// A plan, and where it is from.
pub(crate) struct Experiment {
    pub(crate) plan: Plan,
    /// Nothing where it is made of options.
    pub(crate) file: Option<String>,
}

impl Experiment {
    /// What a run is called while it goes on.
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

/// What is wrong with the plans, the backend, the machine, or a place for results is said before anything
/// runs.
pub(crate) fn check(
    experiments: &[Experiment],
    backend: BackendChoice,
    link: Option<LinkKind>,
    outputs: &Outputs,
) -> Result<Option<LinkKind>, Failure> {
    let link = backend.link(link).map_err(Failure::bad_input)?;
    for Experiment { plan, file } in experiments {
        let checked = plan.check_backend(backend, file.as_deref().unwrap_or_default());
        checked.map_err(|error| match file {
            Some(_) => Failure::bad_input(error),
            None => Failure::bad_input(fullpipe_lab::Options::of_option(error)),
        })?;
        let options = RunOptions { backend, link, ..RunOptions::default() };
        check_machine(plan, &options).map_err(Failure::bad_input)?;
    }
    if let Some(path) = &outputs.report {
        page::check_writable(path).map_err(Failure::bad_input)?;
    }
    if let Some(path) = &outputs.junit {
        page::check_writable(path).map_err(Failure::bad_input)?;
    }
    Ok(link)
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
    let (mut unmet, mut failed) = (0, 0);
    let mut written = Ok(());
    for (i, experiment) in experiments.iter().enumerate() {
        let plan = &experiment.plan;
        let link = options.link.map(|link| link.name().to_owned());
        let mut report = ScenarioReport::of(plan, experiment.file.clone(), link);
        failed += run_plan(experiment, options, jobs, outputs.quiet, stop, &mut report.runs);
        // What was stopped or failed is no case in which an expectation could be met.
        let is_whole = report.runs.len() == plan.grid.runs.len()
            && report.runs.iter().all(|run| !run.interrupted);
        if is_whole {
            report.expectations = judge(plan, &report.runs);
        }
        unmet += report.expectations.iter().filter(|v| !v.met).count();
        // Tables of nothing would take the place of those from before.
        if !report.runs.is_empty() {
            print_report(&report, outputs)?;
            if let Some(dir) = outputs.tables.get(i) {
                written = output::write(dir, plan, &report.runs).map_err(Failure::run);
            }
        }
        reports.push(report);
        if stop.load(Ordering::Relaxed) || written.is_err() {
            break;
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let nothing = reports.iter().all(|report| report.runs.is_empty());
    // A page about nothing would take the place of the one from before.
    let pages = match nothing {
        true => Ok(()),
        false => write_pages(&reports, outputs),
    };
    if outputs.json {
        let object = Reports::new(reports, interrupted);
        print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
    }
    // The results were told before: they are not lost with a disk that is full.
    written.and(pages)?;
    if interrupted {
        return Err(Failure::interrupted(nothing));
    }
    match failed {
        0 => answer(unmet),
        _ if nothing => Err(Failure::run("no run gave a result")),
        n => Err(Failure::run(format!("{n} of the runs failed; the others are above"))),
    }
}

/// The runs of a plan, in their order; how many failed.
fn run_plan(
    experiment: &Experiment,
    options: &RunOptions<'_>,
    jobs: usize,
    quiet: bool,
    stop: &AtomicBool,
    runs: &mut Vec<RunResult>,
) -> usize {
    let plan = &experiment.plan;
    let all = plan.grid.runs.len();
    let mut failed = 0;
    let mut take = |i: usize, result: Result<RunResult, RunError>| match result {
        Ok(run) => {
            if let Some(warning) = run.emulator.as_ref().and_then(|e| e.warning.as_ref()) {
                say(&format!("{}: not to be trusted: {warning}", experiment.name_of(i)));
            }
            runs.push(run);
        }
        Err(RunError::StoppedEarly) => {}
        Err(error) => {
            failed += 1;
            say(&format!("error: {}: {error}", experiment.name_of(i)));
        }
    };
    if jobs > 1 && all > 1 && !options.backend.is_realtime() {
        let mut live = Live::of_runs(&plan.name, all, quiet);
        let mut results = run_points(plan, options, jobs, stop, |done| live.runs(done, all));
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

/// Whether the runs, which are all of the plan's, are as expected.
pub(crate) fn judge(plan: &Plan, runs: &[RunResult]) -> Vec<fullpipe_lab::expect::Verdict> {
    let values: Vec<&[Option<f64>]> = runs.iter().map(|o| o.probes.as_slice()).collect();
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

fn print_report(report: &ScenarioReport, outputs: &Outputs) -> Result<(), Failure> {
    if outputs.json {
        return Ok(());
    }
    if outputs.csv {
        return print(&output::csv(report));
    }
    let shown = report.expectations.iter().filter(|v| !outputs.quiet || !v.met);
    let verdicts: String = shown.map(table::verdict).collect();
    if outputs.quiet {
        return print(&verdicts);
    }
    let mut text =
        format!("{}\n{}", report.scenario, table::runs(&report.scenario, &report.runs).to_text());
    if let [run] = report.runs.as_slice()
        && run.flows.len() > 1
    {
        text.push_str(&table::flows(run).to_text());
    }
    print(&format!("{text}{verdicts}"))
}

fn write_pages(reports: &[ScenarioReport], outputs: &Outputs) -> Result<(), Failure> {
    if let Some(path) = &outputs.junit {
        page::write_text(path, &output::junit(reports)).map_err(Failure::run)?;
    }
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
