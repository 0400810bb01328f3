//! Runs figures on all cores: the points of all their files are one list of work.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::checks::{Checks, show};
use super::runs::FileRuns;
use super::{Figure, FigureResult};
use fullpipe_lab::backend::{BackendChoice, RunError};
use fullpipe_lab::run::{RunOptions, each, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::observe::EmulatorRecord;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Edition, FileError, stacks_with_tables};

/// A point of one of the files of a figure.
#[derive(Clone, Copy)]
struct Work {
    figure: usize,
    file: usize,
    point: usize,
}

/// A figure under way: the runs of each file that are over, and how many are not.
struct UnderWay {
    runs: Vec<Vec<RunResult>>,
    left: usize,
}

impl Figure {
    /// True if it runs there: in the simulator always, elsewhere where its files say what of it
    /// does.
    pub fn runs_over(&self, backend: BackendChoice) -> bool {
        let says = |text| stacks_with_tables(text).contains(&backend.stack());
        !backend.is_realtime() || self.files.iter().all(|file| says(file.text))
    }

    pub(super) fn plans(&self, edition: Edition) -> Result<Vec<Plan>, FileError> {
        let plan = |file: &super::File| {
            let name = file.name.rsplit('/').next().unwrap_or(file.name);
            let stem = name.trim_end_matches(".toml");
            // What is in the program has no directory: it names no other file.
            Plan::parse(file.text, file.name, stem, Path::new(""), edition)
        };
        self.files.iter().map(plan).collect()
    }

    /// The figure's result: verdicts on all that has to be seen.
    fn judge(&self, plans: &[Plan], files: Vec<Vec<RunResult>>) -> FigureResult {
        let mut out = Checks::default();
        let mut shortened: Vec<&str> = Vec::new();
        let mut plays = Vec::with_capacity(files.len());
        for ((plan, mut runs), file) in plans.iter().zip(files).zip(self.files) {
            runs.sort_by_key(|run| run.run);
            let values: Vec<&[Option<f64>]> = runs.iter().map(|o| o.probes.as_slice()).collect();
            let verdicts = plan.judge(&values);
            if self.files.len() == 1 {
                verdicts.iter().for_each(|v| out.verdict(v));
            } else {
                out.verdicts(&plan.name, &verdicts);
            }
            shortened.extend(plan.shortened.as_deref());
            let (name, about) = (plan.name.clone(), plan.about.clone().unwrap_or_default());
            plays.push(FileRuns { name, about, file: file.name, runs, verdicts });
        }
        let shortened = (!shortened.is_empty()).then(|| shortened.join(", "));
        (self.draw)(&mut out, &plays);
        let lateness = plays.iter().flat_map(|p| &p.runs).filter_map(|run| run.emulator.as_ref());
        if let Some(words) = in_words(&lateness.collect::<Vec<_>>()) {
            out.note(words);
        }
        let anew = plays.iter().flat_map(|p| &p.runs).filter(|run| run.late_starts > 0).count();
        if anew > 0 {
            out.note(format!("{anew} runs were begun anew after a start that was too late"));
        }
        out.result(self.name, shortened)
    }

    fn failed(&self, why: String) -> FigureResult {
        FigureResult {
            name: self.name,
            seen: false,
            as_known: false,
            checks: Vec::new(),
            figure: "nothing".to_owned(),
            target: self.title.to_owned(),
            detail: why,
            shortened: None,
            drawing: fullpipe_report::output::plot::Drawing::default(),
        }
    }
}

/// Summary of the trust in runs over QUIC; `None` for simulations.
fn in_words(emulators: &[&EmulatorRecord]) -> Option<String> {
    let late = emulators.iter().map(|e| e.lateness_us.p99 / 1e3).fold(0.0, f64::max);
    let doubtful = emulators.iter().filter(|e| !e.trusted).count();
    let trust = match doubtful {
        0 => "none of them late enough to doubt it".to_owned(),
        n => format!("NOT TO BE TRUSTED: the machine was too busy in {n} of {}", emulators.len()),
    };
    let runs = emulators.len();
    (runs > 0).then(|| {
        format!(
            "real packets of noq's QUIC over the emulated link in {runs} runs, which left {} ms late \
             at p99 in the worst; {trust}",
            show(late)
        )
    })
}

/// Progress reports while figures run.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A figure and all before it are through.
    Figure(&'a FigureResult),
    /// So many runs of all are over.
    Runs {
        /// Over.
        done: usize,
        /// Of all figures together.
        all: usize,
    },
}

/// Runs the figures with so many threads, and tells of each in their order, as soon as those before
/// it are through. Returns what was through, in order: all of it, unless `stop` was set. Runs over
/// QUIC are one after the other: in real time they would disturb each other.
///
/// # Errors
/// A scenario file makes no sense, which is a bug.
pub fn run_all(
    figures: &[&Figure],
    backend: BackendChoice,
    full: bool,
    jobs: usize,
    stop: &AtomicBool,
    mut tell: impl FnMut(News<'_>),
) -> Result<Vec<FigureResult>, FileError> {
    let edition = Edition { full, over: backend.over() };
    let plans = figures.iter().map(|f| f.plans(edition)).collect::<Result<Vec<_>, _>>()?;
    let files = figures.iter().flat_map(|f| f.files);
    for (plan, file) in plans.iter().flatten().zip(files) {
        backend.check_plan(plan, file.name)?;
    }
    let work = work(&plans);
    let mut under_way: Vec<Option<UnderWay>> =
        plans.iter().map(|p| Some(UnderWay::of(p))).collect();
    let all = work.len();
    let jobs = if backend.is_realtime() { 1 } else { jobs };
    let mut in_order: BTreeMap<usize, FigureResult> = BTreeMap::new();
    let (mut told, mut done) = (0, 0);
    each(
        &work,
        jobs,
        |one| perform(one, &plans, backend, stop),
        |work, run| {
            // One that was stopped; so are those that follow.
            let Some(run) = run else { return true };
            done += 1;
            tell(News::Runs { done, all });
            let Work { figure: place, file, .. } = work;
            let figure = figures[place];
            let Some(mine) = &mut under_way[place] else { return true };
            let result = match run {
                Err(why) => figure.failed(why),
                Ok(run) => {
                    mine.runs[file].push(run);
                    mine.left -= 1;
                    if mine.left > 0 {
                        return true;
                    }
                    let runs = std::mem::take(&mut mine.runs);
                    figure.judge(&plans[place], runs)
                }
            };
            under_way[place] = None;
            in_order.insert(place, result);
            while let Some(result) = in_order.get(&told) {
                tell(News::Figure(result));
                told += 1;
            }
            true
        },
    );
    // After an interruption there may be gaps: what is behind one was not told yet.
    in_order.range(told..).for_each(|(_, result)| tell(News::Figure(result)));
    Ok(in_order.into_values().collect())
}

impl UnderWay {
    fn of(plans: &[Plan]) -> Self {
        let left = plans.iter().map(|plan| plan.grid.runs.len()).sum();
        Self { runs: plans.iter().map(|_| Vec::new()).collect(), left }
    }
}

/// All points of all files, in the order of the figures.
fn work(plans: &[Vec<Plan>]) -> Vec<Work> {
    let mut work = Vec::new();
    for (figure, plans) in plans.iter().enumerate() {
        for (file, plan) in plans.iter().enumerate() {
            work.extend((0..plan.grid.runs.len()).map(|point| Work { figure, file, point }));
        }
    }
    work
}

/// Result of the run, or the reason why it cannot be run; `None` if it was stopped.
fn perform(
    work: Work,
    plans: &[Vec<Plan>],
    backend: BackendChoice,
    stop: &AtomicBool,
) -> Option<Result<RunResult, String>> {
    let plan = &plans[work.figure][work.file];
    let options = RunOptions { backend, ..RunOptions::default() };
    match run_point(plan, work.point, &options, stop, &mut |_| ()) {
        Ok(run) if run.interrupted => None,
        Ok(run) => Some(Ok(run)),
        Err(RunError::StoppedEarly) => None,
        Err(e) => Some(Err(format!("{}, run {}: {e}", plan.name, work.point))),
    }
}
