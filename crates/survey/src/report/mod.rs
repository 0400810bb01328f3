//! What a survey found: one JSON object, tables for a terminal, and a page.

mod page;
mod table;

pub use page::write as write_page;
pub use table::text;

use serde::Serialize;

use crate::baseline::Worse;
use crate::case::{Case, Kind};
use crate::judge::Pair;
use crate::run::{Failed, Outcome, Outcomes, Skipped, Survey};
use crate::worst::Worst;

/// The version of the JSON's form. It grows when a field changes its name or its meaning; fields may be added without.
pub const SCHEMA_VERSION: u32 = 1;

/// The results of a survey as a whole.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    schema_version: u32,
    /// Version of the program.
    pub fullpipe: &'static str,
    /// Seed of the paths.
    pub seed: u64,
    /// Number of paths that were drawn.
    pub paths: u64,
    /// Kinds of disturbances that were asked for; all where none is named.
    pub kinds: Vec<Kind>,
    /// Backend that carried the flows.
    pub backend: &'static str,
    /// The algorithms.
    pub algorithms: Vec<String>,
    /// A goodput below this part of the reference's falls short.
    pub limit: f64,
    /// True if it was stopped: then the results are those so far.
    pub interrupted: bool,
    /// Paths that the backend cannot run.
    pub skipped: Vec<Skipped>,
    /// Runs without a result.
    pub failed: Vec<Failed>,
    /// The comparisons.
    pub pairs: Vec<Pair>,
    /// The worst paths.
    pub worst: Vec<Worst>,
    /// What is worse than in the baseline; null if none was given.
    pub worse: Option<Vec<Worse>>,
    /// The paths.
    pub cases: Vec<Case>,
    /// What was measured.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// The report of a survey, without the worst paths and a baseline.
    pub fn new(survey: &Survey, outcomes: Outcomes, pairs: Vec<Pair>, limit: f64) -> Self {
        let options = &survey.options;
        Self {
            schema_version: SCHEMA_VERSION,
            fullpipe: env!("CARGO_PKG_VERSION"),
            seed: options.seed,
            paths: options.paths,
            kinds: options.kinds.clone(),
            backend: options.backend.name(),
            algorithms: options.senders.names.clone(),
            limit,
            interrupted: outcomes.interrupted,
            skipped: survey.skipped.clone(),
            failed: outcomes.failed,
            pairs,
            worst: Vec::new(),
            worse: None,
            cases: survey.paths.iter().map(|path| path.case.clone()).collect(),
            outcomes: outcomes.done,
        }
    }
}
