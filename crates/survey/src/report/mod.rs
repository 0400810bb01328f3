//! The report of a survey: one JSON object, tables for a terminal, and a page.

mod page;
mod table;

pub use table::text;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_report::output::page::write_text;
use fullpipe_scenario::{Clock, Stack};
use serde::Serialize;

use crate::baseline::{Fallen, Worse};
use crate::case::{Case, Kind};
use crate::error::SurveyError;
use crate::judge::{Pair, judge, pairs};
use crate::results::{Failed, Outcome, Outcomes};
use crate::run::{RunPoint, Skipped, Survey};
use crate::worst::{self, Wanted, Worst, worst};

/// Name of the page in the directory of the results.
pub const PAGE: &str = "report.html";

/// The version of the JSON's form. It grows when a field changes its name or its meaning; fields
/// may be added without.
pub const SCHEMA_VERSION: u32 = 4;

/// The results of a survey as a whole.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    schema_version: u32,
    /// Version of the program.
    pub fullpipe: &'static str,
    /// Seed of the paths.
    pub seed: u64,
    /// Runs of each algorithm on each path, whose means are compared.
    pub seeds: usize,
    /// Number of paths that were drawn.
    pub paths: u64,
    /// Kinds of disturbances that were asked for; all where none is named.
    pub kinds: Vec<Kind>,
    /// Stack that carried the flows.
    pub stack: Stack,
    /// Clock by which they moved.
    pub clock: Clock,
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
    /// Comparisons that are worse than in the baseline; null if none was given.
    pub worse: Option<Vec<Worse>>,
    /// Algorithms that fall short of themselves in the baseline; null if none was given.
    pub fallen: Option<Vec<Fallen>>,
    /// The paths.
    pub cases: Vec<Case>,
    /// The values of each run.
    pub outcomes: Vec<Outcome>,
}

/// Questions to the results.
#[derive(Clone, PartialEq, Debug)]
pub struct Asked {
    /// The algorithms under test.
    pub tested: Vec<String>,
    /// Those that each is compared with; the first with the others where none is named.
    pub against: Vec<String>,
    /// The worst paths that are wanted, and the limit of a goodput.
    pub wanted: Wanted,
}

impl Report {
    /// Judges the results, and finds and shrinks the worst paths. `tell` is called with the number
    /// of those that are done and that of all.
    pub fn of(
        survey: &Survey,
        outcomes: Outcomes,
        asked: &Asked,
        run: RunPoint<'_>,
        stop: &AtomicBool,
        tell: impl FnMut(usize, usize),
    ) -> Self {
        let Asked { tested, against, wanted } = asked;
        let limit = wanted.limit;
        let pairs: Vec<Pair> = pairs(tested, against)
            .iter()
            .map(|(cc, reference)| judge(survey, &outcomes.done, cc, reference, limit))
            .collect();
        let worst = worst(survey, &outcomes.done, &pairs, *wanted, run, stop, tell);
        let options = &survey.options;
        Self {
            schema_version: SCHEMA_VERSION,
            fullpipe: env!("CARGO_PKG_VERSION"),
            seed: options.seed,
            seeds: options.seeds.get(),
            paths: options.paths,
            kinds: options.kinds.clone(),
            stack: options.backend.stack(),
            clock: options.backend.clock(),
            algorithms: options.senders.names.clone(),
            limit,
            interrupted: outcomes.interrupted,
            skipped: survey.skipped.clone(),
            failed: outcomes.failed,
            pairs,
            worst,
            worse: None,
            fallen: None,
            cases: survey.paths.iter().map(|path| path.case.clone()).collect(),
            outcomes: outcomes.done,
        }
    }

    /// Writes all files of a report into a directory. Returns the JSON object.
    ///
    /// # Errors
    /// One of them cannot be written.
    pub fn write(&mut self, out: &Path) -> Result<String, SurveyError> {
        let fallen = self.fallen.as_deref_mut().unwrap_or_default();
        worst::write(&out.join("worst"), &mut self.worst, fallen)?;
        let json = serde_json::to_string(self)? + "\n";
        write_text(&out.join("survey.json"), &json)?;
        page::write(&out.join(PAGE), self)?;
        Ok(json)
    }
}
