//! Runs every algorithm on every path, on all cores.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::run::each;
use fullpipe_lab::scenario::FileError;
use fullpipe_lab::{
    BackendChoice, Edition, LinkKind, Plan, RunError, RunOptions, check_machine, run_point,
};
use serde::{Deserialize, Serialize};

use crate::case::{Case, Kind};
use crate::draw::draw;
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

/// A survey that cannot be made, or did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum SurveyError {
    #[error("--cc {0}: name at least two algorithms, like bbr3x,bbr3,cubic, or one and --against")]
    OneAlgorithm(String),
    #[error("--cc: {0} is named twice")]
    NamedTwice(String),
    #[error("path {path}: {error}")]
    Path { path: u64, error: FileError },
    #[error("path {path}: {error}")]
    Machine { path: u64, error: RunError },
    #[error("none of the {0} paths can be run over {1}: {2}")]
    NoPath(u64, &'static str, FileError),
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
    /// The field that the backend does not have, in words.
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

/// The paths of a survey, checked before anything runs.
#[derive(Debug)]
pub struct Survey {
    /// What was asked for.
    pub options: Options,
    /// The paths that can be run.
    pub paths: Vec<Prepared>,
    /// Those that the backend cannot run.
    pub skipped: Vec<Skipped>,
    jobs: usize,
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
            return Err(SurveyError::OneAlgorithm(names.join(",")));
        }
        let (mut paths, mut skipped, mut lacking) = (Vec::new(), Vec::new(), None);
        let mut jobs = if options.backend.is_realtime() { 1 } else { options.jobs };
        let run_options =
            RunOptions { backend: options.backend, link: options.link, ..RunOptions::default() };
        for path in 0..options.paths {
            let case = draw(options.seed, path, &options.kinds);
            let of_path = |error| SurveyError::Path { path, error };
            let plan = plan(&case, &options.senders).map_err(of_path)?;
            let file = "survey";
            if let Err(error) = plan.check_backend(options.backend, file) {
                skipped.push(Skipped { path, reason: error.to_string() });
                lacking = Some(error);
                continue;
            }
            jobs = plan.jobs_within(options.max_memory, jobs, None, file).map_err(of_path)?;
            check_machine(&plan, &run_options)
                .map_err(|error| SurveyError::Machine { path, error })?;
            paths.push(Prepared { case, plan });
        }
        match lacking {
            Some(error) if paths.is_empty() => {
                Err(SurveyError::NoPath(options.paths, options.backend.name(), error))
            }
            _ => Ok(Self { options, paths, skipped, jobs }),
        }
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.paths.len() * self.options.senders.names.len()
    }

    /// Runs all. `tell` is called with the number of runs that are over, each time that there is one more.
    pub fn run(&self, stop: &AtomicBool, mut tell: impl FnMut(usize)) -> Outcomes {
        let algorithms = &self.options.senders.names;
        let todo: Vec<(usize, usize)> = (0..self.paths.len())
            .flat_map(|path| (0..algorithms.len()).map(move |cc| (path, cc)))
            .collect();
        let options = RunOptions {
            backend: self.options.backend,
            link: self.options.link,
            ..RunOptions::default()
        };
        let mut outcomes = Outcomes::default();
        let mut done = 0;
        let work = |(path, cc): (usize, usize)| {
            let Prepared { case, plan } = &self.paths[path];
            let run = run_point(plan, cc, &options, stop, &mut |_| ())?;
            match run.interrupted {
                true => Err(RunError::StoppedEarly),
                false => Ok(Values::of(case, &run.probes)),
            }
        };
        let mut places = Vec::new();
        each(&todo, self.jobs, work, |place, result| {
            let (path, cc) = (self.paths[place.0].case.path, algorithms[place.1].clone());
            match result {
                Ok(values) => {
                    outcomes.done.push(Outcome { path, cc, values });
                    places.push(place);
                }
                Err(RunError::StoppedEarly) => outcomes.interrupted = true,
                Err(error) => {
                    outcomes.failed.push(Failed { path, cc, reason: error.to_string() });
                }
            }
            done += 1;
            tell(done);
            !outcomes.interrupted
        });
        let order = |cc: &String| algorithms.iter().position(|name| name == cc);
        outcomes.done.sort_by_key(|o| (o.path, order(&o.cc)));
        outcomes.failed.sort_by_key(|f| (f.path, order(&f.cc)));
        outcomes
    }
}

/// The plan of a path: a run for each sender.
pub(crate) fn plan(case: &Case, senders: &Senders) -> Result<Plan, FileError> {
    let text = text::scenario(case, senders, &[], &Values::expectations(case));
    Plan::parse(&text, "survey", "survey", Path::new(""), Edition::default())
}
