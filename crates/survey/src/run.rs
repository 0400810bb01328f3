//! Runs every algorithm on every path, on all cores.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::run::{Journal, JournalOf, each};
use fullpipe_lab::scenario::FileError;
use fullpipe_lab::{
    BackendChoice, Edition, LinkKind, Plan, RunError, RunOptions, check_machine, run_point,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::case::{Case, Kind};
use crate::draw::draw;
use crate::error::SurveyError;
use crate::measure::Values;
use crate::text::{self, Senders};

/// What a survey draws and runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of paths.
    pub paths: u64,
    /// Seed of the paths.
    pub seed: u64,
    /// Kinds of disturbances; all where none is named.
    pub kinds: Vec<Kind>,
    /// The algorithms.
    pub senders: Senders,
    /// Backend that carries the flows.
    pub backend: BackendChoice,
    /// One of the backend's links, or the usual one.
    pub link: Option<LinkKind>,
    /// Runs at a time under a virtual clock.
    pub jobs: usize,
    /// Most memory of all runs at a time, in bytes.
    pub max_memory: u64,
}

/// A path that can be run: run number `i` of its plan is that of algorithm number `i`.
#[derive(Debug)]
pub struct Prepared {
    /// What was drawn.
    pub case: Case,
    plan: Plan,
}

/// A path that the backend cannot run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Skipped {
    /// Number of the path.
    pub path: u64,
    /// What the backend does not have, in words.
    pub reason: String,
}

/// Result of one algorithm on one path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Number of the path.
    pub path: u64,
    /// The algorithm.
    pub cc: String,
    /// What was measured.
    #[serde(flatten)]
    pub values: Values,
}

/// A run without a result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failed {
    /// Number of the path.
    pub path: u64,
    /// The algorithm.
    pub cc: String,
    /// Why, in one line.
    pub reason: String,
}

/// The results of a survey.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcomes {
    /// Those of runs that came to their end, by path and then in the order of the algorithms.
    pub done: Vec<Outcome>,
    /// Those that did not.
    pub failed: Vec<Failed>,
    /// True if somebody stopped it before its end.
    pub interrupted: bool,
}

/// Why a run has no result.
pub(crate) enum NoResult {
    Stopped,
    Failed(String),
}

/// The paths of a survey, checked before anything runs.
#[derive(Debug)]
pub struct Survey {
    /// What was asked for.
    pub options: Options,
    /// The paths that can be run.
    pub paths: Vec<Prepared>,
    /// Those that the backend cannot run.
    pub skipped: Vec<Skipped>,
    pub(crate) jobs: usize,
}

impl Survey {
    /// Draws the paths.
    ///
    /// # Errors
    /// An algorithm, the backend or the machine cannot run them.
    pub fn new(options: Options) -> Result<Self, SurveyError> {
        let names = &options.senders.names;
        if let Some(i) = (1..names.len()).find(|i| names[..*i].contains(&names[*i])) {
            return Err(SurveyError::NamedTwice(names[i].clone()));
        }
        if names.len() < 2 {
            return Err(SurveyError::NothingToCompare(names.join(",")));
        }
        let (mut paths, mut skipped, mut lacking) = (Vec::new(), Vec::new(), None);
        let mut jobs = if options.backend.is_realtime() { 1 } else { options.jobs };
        for path in 0..options.paths {
            let case = draw(options.seed, path, &options.kinds);
            // A program decides for itself what others are told, so that some paths are none for it.
            let checked = plan(&case, &options.senders).and_then(|plan| {
                plan.check_backend(options.backend, FILE)?;
                Ok(plan)
            });
            let plan = match checked {
                Ok(plan) => plan,
                Err(error) => {
                    let reason = format!("{}: {}", error.field, error.message);
                    skipped.push(Skipped { path, reason });
                    lacking = Some(error);
                    continue;
                }
            };
            jobs = plan
                .jobs_within(options.max_memory, jobs, None, FILE)
                .map_err(|error| SurveyError::Path { path, error })?;
            check_machine(&plan, &options.run_options())
                .map_err(|error| SurveyError::Machine { path, error })?;
            paths.push(Prepared { case, plan });
        }
        match lacking {
            Some(error) if paths.is_empty() => {
                let (paths, backend) = (options.paths, options.backend.name());
                Err(SurveyError::NoPath { paths, backend, error })
            }
            _ => Ok(Self { options, paths, skipped, jobs }),
        }
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.paths.len() * self.options.senders.names.len()
    }

    /// The path of this number.
    pub fn case(&self, path: u64) -> Option<&Case> {
        let found = self.paths.binary_search_by_key(&path, |prepared| prepared.case.path).ok()?;
        Some(&self.paths[found].case)
    }

    /// Opens the journal in a directory, and reads what was done before. `program` differs from that of every other
    /// program whose runs could have other results. A survey of more paths or of other algorithms goes on in it.
    ///
    /// # Errors
    /// The directory belongs to something else, is in use, or cannot be written.
    pub fn open(&self, dir: &Path, program: &[u8]) -> Result<(Journal, Vec<Outcome>), SurveyError> {
        let Options { seed, kinds, senders, backend, link, .. } = &self.options;
        let runs = format!("{seed} {kinds:?} {:?} {backend} {link:?}", senders.programs);
        let mut hash = Sha256::new();
        for part in [program, runs.as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let fingerprint = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let of = JournalOf { what: "survey", fingerprint, runs: self.runs() };
        let mut known = BTreeSet::new();
        let is_run = |outcome: &Outcome| known.insert((outcome.path, outcome.cc.clone()));
        Ok(Journal::open(dir, of, is_run)?)
    }

    /// Runs all that is not done. `tell` is called with the number of runs that are over, each time that there is one more.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn run(
        &self,
        (mut journal, mut known): (Journal, Vec<Outcome>),
        stop: &AtomicBool,
        mut tell: impl FnMut(usize),
    ) -> Result<Outcomes, SurveyError> {
        let names = &self.options.senders.names;
        let before: BTreeSet<(u64, &str)> = known.iter().map(|o| (o.path, o.cc.as_str())).collect();
        let all = (0..self.paths.len()).flat_map(|path| (0..names.len()).map(move |cc| (path, cc)));
        let todo: Vec<(usize, usize)> = all
            .filter(|(path, cc)| {
                !before.contains(&(self.paths[*path].case.path, names[*cc].as_str()))
            })
            .collect();
        drop(before);
        let mut outcomes = Outcomes::default();
        let mut done = self.runs() - todo.len();
        tell(done);
        let mut written = Ok(());
        let work = |(path, cc): (usize, usize)| {
            let Prepared { case, plan } = &self.paths[path];
            self.options.values(case, plan, cc, stop)
        };
        each(&todo, self.jobs, work, |(path, cc), result| {
            let (path, cc) = (self.paths[path].case.path, names[cc].clone());
            match result {
                Ok(values) => {
                    let outcome = Outcome { path, cc, values };
                    written = journal.append(&outcome);
                    known.push(outcome);
                }
                Err(NoResult::Stopped) => outcomes.interrupted = true,
                Err(NoResult::Failed(reason)) => outcomes.failed.push(Failed { path, cc, reason }),
            }
            done += 1;
            tell(done);
            !outcomes.interrupted && written.is_ok()
        });
        written?;
        // Algorithms of another survey in the same journal come last.
        let order = |cc: &str| names.iter().position(|name| name == cc).unwrap_or(names.len());
        known.sort_by(|a, b| (a.path, order(&a.cc), &a.cc).cmp(&(b.path, order(&b.cc), &b.cc)));
        outcomes.failed.sort_by_key(|f| (f.path, order(&f.cc)));
        if !outcomes.interrupted {
            journal.finish(&known)?;
        }
        let is_asked = |o: &Outcome| order(&o.cc) < names.len() && self.case(o.path).is_some();
        outcomes.done = known.into_iter().filter(is_asked).collect();
        Ok(outcomes)
    }
}

impl Options {
    fn run_options(&self) -> RunOptions<'static> {
        RunOptions { backend: self.backend, link: self.link, ..RunOptions::default() }
    }

    /// Runs one algorithm on a path. An algorithm that panics has no result, and the others go on.
    pub(crate) fn values(
        &self,
        case: &Case,
        plan: &Plan,
        cc: usize,
        stop: &AtomicBool,
    ) -> Result<Values, NoResult> {
        let run = || run_point(plan, cc, &self.run_options(), stop, &mut |_| ());
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(run)) if run.interrupted => Err(NoResult::Stopped),
            Ok(Ok(run)) => Ok(Values::of(case, &run.probes)),
            Ok(Err(RunError::StoppedEarly)) => Err(NoResult::Stopped),
            Ok(Err(error)) => Err(NoResult::Failed(error.to_string())),
            Err(panic) => Err(NoResult::Failed(panic_text(panic.as_ref()))),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without words").lines().next().unwrap_or_default())
}

/// What errors call a path's text.
const FILE: &str = "survey";

/// The plan of a path: a run for each sender.
pub(crate) fn plan(case: &Case, senders: &Senders) -> Result<Plan, FileError> {
    let text = text::scenario(case, senders, &[], &Values::expectations(case));
    Plan::parse(&text, FILE, FILE, Path::new(""), Edition::default())
}
