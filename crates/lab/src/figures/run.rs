//! Runs figures on all cores: the points of all their files are one list of work.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use super::outcome::Outcome;
use super::plays::Plays;
use super::stage::{Broken, Stage};
use super::{Figure, FigureResult, Way};
use crate::expect;
use crate::experiment::{self, ExperimentError, Series};
use crate::file::{Edition, FileError, Plan};

/// What somebody has to do.
#[derive(Clone, Copy)]
enum Work {
    /// A point of one of the files of a figure.
    Point { figure: usize, file: usize, point: usize },
    /// A figure that has no files.
    Whole { figure: usize },
}

/// What came of it.
enum Done {
    Run {
        file: usize,
        run: experiment::Outcome,
    },
    Whole {
        result: Outcome,
        shortened: Option<String>,
    },
    /// It cannot be simulated.
    Failed(String),
}

/// A figure under way: the runs of each file that are over, and how many are not.
struct UnderWay {
    runs: Vec<Vec<experiment::Outcome>>,
    left: usize,
}

impl Figure {
    fn plans(&self, edition: Edition) -> Result<Vec<Plan>, FileError> {
        let Way::Files(files, _) = &self.way else { return Ok(Vec::new()) };
        let plan = |file: &super::File| {
            let name = file.name.rsplit('/').next().unwrap_or(file.name);
            let stem = name.trim_end_matches(".toml");
            // What is in the program has no directory: it names no other file.
            Plan::parse(file.text, file.name, stem, Path::new(""), edition)
        };
        files.iter().map(plan).collect()
    }

    /// Whether what has to be seen was seen.
    fn judge(&self, plans: &[Plan], mut files: Vec<Vec<experiment::Outcome>>) -> FigureResult {
        let mut out = Outcome::default();
        let mut shortened: Vec<&str> = Vec::new();
        for (plan, runs) in plans.iter().zip(&mut files) {
            runs.sort_by_key(|run| run.run);
            let values: Vec<&[Option<f64>]> = runs.iter().map(|o| o.probes.as_slice()).collect();
            expect::check(plan, &values).iter().for_each(|v| out.verdict(v));
            shortened.extend(plan.shortened.as_deref());
        }
        let shortened = (!shortened.is_empty()).then(|| shortened.join(", "));
        if let Way::Files(_, draw) = &self.way {
            draw(&mut out, &files.into_iter().map(|runs| Plays { runs }).collect::<Vec<_>>());
        }
        out.result(self.name, shortened)
    }

    fn failed(&self, why: String) -> FigureResult {
        FigureResult {
            name: self.name,
            seen: false,
            figure: "nothing".to_owned(),
            target: self.title.to_owned(),
            detail: why,
            shortened: None,
            drawing: super::Drawing::default(),
        }
    }
}

/// What there is to tell while figures run.
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

/// Runs the figures with so many threads, and tells of each in their order, as soon as those before it are
/// through. Returns what was through, in order: all of it, unless `stop` was set.
///
/// # Errors
/// A scenario file makes no sense, which is a bug.
pub fn run_all(
    figures: &[&Figure],
    edition: Edition,
    jobs: usize,
    stop: &AtomicBool,
    mut tell: impl FnMut(News<'_>),
) -> Result<Vec<FigureResult>, FileError> {
    let plans = figures.iter().map(|f| f.plans(edition)).collect::<Result<Vec<_>, _>>()?;
    let work = work(&plans);
    let mut under_way: Vec<Option<UnderWay>> =
        plans.iter().map(|p| Some(UnderWay::of(p))).collect();
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    let mut in_order: BTreeMap<usize, FigureResult> = BTreeMap::new();
    let mut told = 0;
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, work.len().max(1)) {
            let (done, next, work, plans) = (done.clone(), &next, &work, &plans);
            scope.spawn(move || {
                while let Some(one) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = perform(*one, figures, plans, edition, stop);
                    let Some(result) = result else { return };
                    if done.send(result).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        for (done, (place, one)) in results.iter().enumerate() {
            tell(News::Runs { done: done + 1, all: work.len() });
            let figure = figures[place];
            let result = match one {
                Done::Whole { result, shortened } => result.result(figure.name, shortened),
                Done::Failed(why) => figure.failed(why),
                Done::Run { file, run } => {
                    let Some(mine) = &mut under_way[place] else { continue };
                    mine.runs[file].push(run);
                    mine.left -= 1;
                    if mine.left > 0 {
                        continue;
                    }
                    let Some(mine) = under_way[place].take() else { continue };
                    figure.judge(&plans[place], mine.runs)
                }
            };
            under_way[place] = None;
            in_order.entry(place).or_insert(result);
            while let Some(result) = in_order.get(&told) {
                tell(News::Figure(result));
                told += 1;
            }
        }
    });
    // After an interruption there may be gaps: what is behind one was not told yet.
    in_order.range(told..).for_each(|(_, result)| tell(News::Figure(result)));
    Ok(in_order.into_values().collect())
}

impl UnderWay {
    fn of(plans: &[Plan]) -> Self {
        let left = plans.iter().map(|plan| plan.runs.len()).sum();
        Self { runs: plans.iter().map(|_| Vec::new()).collect(), left }
    }
}

/// All points of all files, in the order of the figures.
fn work(plans: &[Vec<Plan>]) -> Vec<Work> {
    let mut work = Vec::new();
    for (figure, plans) in plans.iter().enumerate() {
        if plans.is_empty() {
            work.push(Work::Whole { figure });
        }
        for (file, plan) in plans.iter().enumerate() {
            work.extend((0..plan.runs.len()).map(|point| Work::Point { figure, file, point }));
        }
    }
    work
}

/// The figure's place and what came of it; nothing when it was stopped.
fn perform(
    work: Work,
    figures: &[&Figure],
    plans: &[Vec<Plan>],
    edition: Edition,
    stop: &AtomicBool,
) -> Option<(usize, Done)> {
    match work {
        Work::Point { figure, file, point } => {
            let plan = &plans[figure][file];
            match experiment::run(plan, point, Series::Asked, None, stop) {
                Ok(run) => Some((figure, Done::Run { file, run })),
                Err(ExperimentError::Interrupted) => None,
                Err(e) => Some((figure, Done::Failed(format!("{}, run {point}: {e}", plan.name)))),
            }
        }
        Work::Whole { figure } => {
            let Way::Code(run) = &figures[figure].way else { return None };
            let stage = Stage::new(edition.full, stop);
            match run(&stage) {
                Ok(result) => Some((figure, Done::Whole { result, shortened: stage.shortened() })),
                Err(Broken::Stopped) => None,
                Err(Broken::Sim(e)) => Some((figure, Done::Failed(e.to_string()))),
            }
        }
    }
}
