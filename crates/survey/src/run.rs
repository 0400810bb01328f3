//! The paths of a survey and their plans, checked before anything runs.

use std::num::NonZeroUsize;
use std::path::Path;

use fullpipe_lab::{BackendChoice, RunError, RunOptions, check_machine};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::FileError;
use fullpipe_scenario::{Edition, LinkKind};
use serde::Serialize;

use crate::case::{Case, Kind};
use crate::draw::draw;
use crate::error::SurveyError;
use crate::measure::Values;
use crate::text::{self, Senders};

/// Options of a survey.
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
    /// Runs of each algorithm on each path, each with a seed of its own. Their means are compared.
    pub seeds: NonZeroUsize,
    /// Backend that carries the flows.
    pub backend: BackendChoice,
    /// One of the backend's links, or the usual one.
    pub link: Option<LinkKind>,
    /// Runs at a time under a virtual clock.
    pub jobs: usize,
    /// Most memory of all runs at a time, in bytes.
    pub max_memory: u64,
}

/// A path that can be run.
#[derive(Debug)]
pub struct Prepared {
    /// The path as it was drawn.
    pub case: Case,
    pub(crate) plan: Plan,
}

/// A path that the backend cannot run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Skipped {
    /// Number of the path.
    pub path: u64,
    /// The feature that the backend does not have, in words.
    pub reason: String,
}

/// Carries out a run of a plan, by its number.
pub type RunPoint<'a> = &'a (dyn Fn(&Plan, usize) -> Result<RunResult, RunError> + Sync);

/// The paths of a survey, checked before anything runs.
#[derive(Debug)]
pub struct Survey {
    /// Its options.
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
        if options.seeds.get() > MAX_SEEDS {
            return Err(SurveyError::TooManySeeds(options.seeds));
        }
        if names.len() < 2 {
            return Err(SurveyError::NothingToCompare(names.join(",")));
        }
        let (mut paths, mut skipped, mut lacking) = (Vec::new(), Vec::new(), None);
        let mut jobs = if options.backend.is_realtime() { 1 } else { options.jobs };
        for path in 0..options.paths {
            let case = draw(options.seed, path, &options.kinds);
            // A program decides for itself what others are told, so that some paths are none for
            // it.
            let checked = plan(&case, &options.senders, options.seeds).and_then(|plan| {
                options.backend.check_plan(&plan, FILE)?;
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
                let (paths, backend) = (options.paths, options.backend);
                Err(SurveyError::NoPath { paths, backend, error })
            }
            _ => Ok(Self { options, paths, skipped, jobs }),
        }
    }

    /// Number of results: each is that of an algorithm on a path.
    pub fn runs(&self) -> usize {
        self.paths.len() * self.options.senders.names.len()
    }

    /// The path of this number.
    pub fn case(&self, path: u64) -> Option<&Case> {
        let found = self.paths.binary_search_by_key(&path, |prepared| prepared.case.path).ok()?;
        Some(&self.paths[found].case)
    }
}

impl Options {
    /// Options of each run.
    pub fn run_options(&self) -> RunOptions<'static> {
        RunOptions { backend: self.backend, link: self.link, ..RunOptions::default() }
    }
}

/// The most seeds of an algorithm on a path.
pub(crate) const MAX_SEEDS: usize = 1000;

/// Name of a path's text in errors.
const FILE: &str = "survey";

/// The plan of a path.
pub(crate) fn plan(case: &Case, senders: &Senders, seeds: NonZeroUsize) -> Result<Plan, FileError> {
    let text = text::scenario(case, senders, seeds.get(), &[], &Values::expectations(case));
    Plan::parse(&text, FILE, FILE, Path::new(""), Edition::default())
}
