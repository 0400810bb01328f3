//! The runs of a survey: which are done, which are left, and what became of them.

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fullpipe_lab::RunError;
use fullpipe_lab::run::{Journal, JournalOf, each_together};
use fullpipe_report::plan::Plan;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::case::Case;
use crate::error::SurveyError;
use crate::measure::Values;
use crate::run::{Options, Prepared, RunPoint, Survey};

/// Result of one algorithm on one path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Number of the path.
    pub path: u64,
    /// The algorithm.
    pub cc: String,
    /// The values.
    #[serde(flatten)]
    pub values: Values,
}

/// A run without a result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failed {
    /// Number of the path.
    pub path: u64,
    /// The algorithm.
    pub cc: String,
    /// The reason, in one line.
    pub reason: String,
}

/// The end of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// With a result.
    Done(Outcome),
    /// Without one.
    Failed(Failed),
    /// Somebody stopped it.
    Stopped,
}

/// The results of a survey.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcomes {
    /// Results of the runs that came to their end, by path and then in the order of the algorithms.
    pub done: Vec<Outcome>,
    /// Runs that did not come to their end.
    pub failed: Vec<Failed>,
    /// True if somebody stopped it before its end.
    pub interrupted: bool,
}

/// The results so far, those with one in a journal.
#[derive(Debug)]
pub struct Results {
    journal: Journal,
    known: Vec<Outcome>,
    failed: Vec<Failed>,
    interrupted: bool,
}

impl Results {
    /// Takes runs that are over; when this returns, a crash cannot lose their results.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn take(&mut self, ended: impl IntoIterator<Item = Ended>) -> Result<(), SurveyError> {
        let first_new = self.known.len();
        for ended in ended {
            match ended {
                Ended::Done(outcome) => self.known.push(outcome),
                Ended::Failed(failed) => self.failed.push(failed),
                Ended::Stopped => self.interrupted = true,
            }
        }
        let written = self.journal.append(&self.known[first_new..]);
        if written.is_err() {
            self.known.truncate(first_new);
        }
        Ok(written?)
    }
}

impl Survey {
    /// Opens the journal in a directory, and reads what was done before. `program` differs from
    /// that of every other program whose runs could have other results. A survey of more paths or
    /// of other algorithms goes on in it.
    ///
    /// # Errors
    /// The directory belongs to something else, is in use, or cannot be written.
    pub fn open(&self, dir: &Path, program: &[u8]) -> Result<Results, SurveyError> {
        let Options { seed, seeds, kinds, senders, backend, link, .. } = &self.options;
        let runs = format!("{seed} {seeds} {kinds:?} {:?} {backend} {link:?}", senders.programs);
        let mut hash = Sha256::new();
        for part in [program, runs.as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let fingerprint = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let of = JournalOf { what: "survey", fingerprint, runs: self.runs() };
        let mut known = BTreeSet::new();
        let is_run = |outcome: &Outcome| known.insert((outcome.path, outcome.cc.clone()));
        let (journal, known) = Journal::open(dir, of, is_run)?;
        Ok(Results { journal, known, failed: Vec::new(), interrupted: false })
    }

    /// Numbers of the runs that are not done, from 0: those of the first path are first.
    pub fn todo(&self, results: &Results) -> Vec<usize> {
        let known: BTreeSet<(u64, &str)> =
            results.known.iter().map(|o| (o.path, o.cc.as_str())).collect();
        let is_left = |number: &usize| {
            let (prepared, cc) = self.place(*number);
            !known.contains(&(prepared.case.path, self.options.senders.names[cc].as_str()))
        };
        (0..self.runs()).filter(is_left).collect()
    }

    /// The path of a run, and the number of its algorithm.
    fn place(&self, number: usize) -> (&Prepared, usize) {
        let algorithms = self.options.senders.names.len();
        (&self.paths[number / algorithms], number % algorithms)
    }

    /// Carries out a run.
    pub fn one(&self, number: usize, run: RunPoint<'_>) -> Ended {
        let (Prepared { case, plan }, cc) = self.place(number);
        let (path, name) = (case.path, self.options.senders.names[cc].clone());
        let runs = self.options.senders.runs_of(&name, self.options.seeds.get());
        match values(case, plan, runs, run) {
            Ok(values) => Ended::Done(Outcome { path, cc: name, values }),
            Err(NoResult::Failed(reason)) => Ended::Failed(Failed { path, cc: name, reason }),
            Err(NoResult::Stopped) => Ended::Stopped,
        }
    }

    /// Runs all that is not done, until one is stopped. `tell` is called with the number of runs
    /// that are over, at the start and each time that there is one more.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn run(
        &self,
        mut results: Results,
        run: RunPoint<'_>,
        mut tell: impl FnMut(usize),
    ) -> Result<Outcomes, SurveyError> {
        let todo = self.todo(&results);
        let mut done = self.runs() - todo.len();
        tell(done);
        let mut written = Ok(());
        each_together(
            &todo,
            self.jobs,
            |number| self.one(number, run),
            |ended| {
                done += ended.len();
                written = results.take(ended.into_iter().map(|(_, ended)| ended));
                tell(done);
                !results.interrupted && written.is_ok()
            },
        );
        written?;
        self.finish(results)
    }

    /// Brings the journal into its order, unless a run was stopped, and sums up.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn finish(&self, results: Results) -> Result<Outcomes, SurveyError> {
        let Results { journal, mut known, mut failed, interrupted } = results;
        let names = &self.options.senders.names;
        // Algorithms of another survey in the same journal come last.
        let order = |cc: &str| names.iter().position(|name| name == cc).unwrap_or(names.len());
        let place = |o: &Outcome| (o.path, order(&o.cc), o.cc.clone());
        if !interrupted {
            let mut lines: Vec<usize> = (0..known.len()).collect();
            lines.sort_by_cached_key(|i| place(&known[*i]));
            journal.finish(&lines)?;
        }
        known.sort_by_cached_key(place);
        failed.sort_by_key(|f| (f.path, order(&f.cc)));
        let is_asked = |o: &Outcome| order(&o.cc) < names.len() && self.case(o.path).is_some();
        Ok(Outcomes { done: known.into_iter().filter(is_asked).collect(), failed, interrupted })
    }
}

/// Reason why a run has no result.
pub(crate) enum NoResult {
    Stopped,
    Failed(String),
}

/// Means of some runs on a path.
pub(crate) fn values(
    case: &Case,
    plan: &Plan,
    runs: Range<usize>,
    run: RunPoint<'_>,
) -> Result<Values, NoResult> {
    let each: Result<Vec<Values>, NoResult> = runs.map(|i| one(case, plan, i, run)).collect();
    Ok(Values::mean(&each?))
}

/// A single run. One that panics has no result, and the others go on.
fn one(case: &Case, plan: &Plan, i: usize, run: RunPoint<'_>) -> Result<Values, NoResult> {
    match catch_unwind(AssertUnwindSafe(|| run(plan, i))) {
        Ok(Ok(run)) if run.interrupted => Err(NoResult::Stopped),
        Ok(Ok(run)) => Ok(Values::of(case, &run.probes)),
        Ok(Err(RunError::StoppedEarly)) => Err(NoResult::Stopped),
        Ok(Err(error)) => Err(NoResult::Failed(error.to_string())),
        Err(panic) => Err(NoResult::Failed(panic_text(panic.as_ref()))),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without words").lines().next().unwrap_or_default())
}
