//! The one JSON object that `run` and `compare` print.

use fullpipe_scenario::{Clock, Over, Stack};
use serde::{Deserialize, Serialize};

use crate::expect::Verdict;
use crate::metrics::{
    Change, Paired, Repeated, RunResult, mean_rows, over_seeds, paired, repeated,
};
use crate::plan::Plan;

/// The version of the JSON's form. It grows when a field changes its name or its meaning; fields
/// may be added without.
pub const SCHEMA_VERSION: u32 = 2;

#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

/// Results of a command's scenarios.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reports {
    schema_version: u32,
    scenarios: Vec<ScenarioReport>,
    /// True if it was stopped: then the runs are those so far.
    interrupted: bool,
}

/// Result of one scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// The file; null when the scenario was made of options.
    pub file: Option<String>,
    /// The scenario's name.
    pub scenario: String,
    /// The text that it was read from: saved as a file, it runs again.
    pub toml: String,
    /// The fields in which its runs differ.
    pub axes: Vec<String>,
    /// The link of a run in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Its runs, in the order of the grid.
    pub runs: Vec<RunResult>,
    /// Of several runs of each point the mean of each metric, and its confidence interval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Repeated>,
    /// Of a file with a list of seeds, the same over the seeds of each point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_seeds: Vec<Repeated>,
    /// The differences of the algorithms to the first, if each point has several runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paired: Vec<Paired>,
    /// The verdicts on the expectations; of several runs of a point their means.
    pub expectations: Vec<Verdict>,
    /// Metrics outside the interval of the baseline; null if none was given.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
}

/// A baseline that is none for what is to run: one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum BaselineError {
    #[error("no JSON of fullpipe run: {0}; write what fullpipe run --json printed")]
    NoJson(#[from] serde_json::Error),
    #[error("its schema_version is {0}, and this program's {SCHEMA_VERSION}; record it again")]
    OtherVersion(u32),
    #[error("it has no scenario '{0}' with this text; record it again with fullpipe run --json")]
    NoScenario(String),
    #[error("'{name}' ran with {before} in it and is to run with {now}; record it again")]
    OtherStack { name: String, before: String, now: String },
    #[error(
        "'{0}' has one run of each point in it, which no interval can be made of; record it with --repeat 5"
    )]
    OneRun(String),
}

impl Reports {
    /// Its scenarios.
    pub fn into_scenarios(self) -> Vec<ScenarioReport> {
        self.scenarios
    }

    /// The object for these scenarios.
    pub fn new(scenarios: Vec<ScenarioReport>, interrupted: bool) -> Self {
        Self { schema_version: SCHEMA_VERSION, scenarios, interrupted }
    }

    /// Reads what [`Reports::new`] made and was printed as JSON.
    ///
    /// # Errors
    /// It is something else, or of another version.
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        let version: Version = serde_json::from_str(text)?;
        match version.schema_version {
            SCHEMA_VERSION => Ok(serde_json::from_str(text)?),
            other => Err(BaselineError::OtherVersion(other)),
        }
    }

    /// The runs of a plan, for a comparison with those that are to come over this stack, by this clock.
    ///
    /// # Errors
    /// There are none, or they are no measure: in real time one run of a point.
    pub fn baseline_of(
        &self,
        plan: &Plan,
        (stack, clock): (Stack, Clock),
    ) -> Result<&[RunResult], BaselineError> {
        let name = || plan.name.clone();
        let found = self.scenarios.iter().find(|s| s.scenario == plan.name && s.toml == plan.text);
        let report = found.ok_or_else(|| BaselineError::NoScenario(name()))?;
        let is_other = |run: &&RunResult| (run.stack, run.clock) != (stack, clock);
        if let Some(run) = report.runs.iter().find(is_other) {
            let options = |stack, clock| {
                Over { stack: Some(stack), clock: Some(clock), link: None }.options()
            };
            let (before, now) = (options(run.stack, run.clock), options(stack, clock));
            return Err(BaselineError::OtherStack { name: name(), before, now });
        }
        if clock == Clock::Real && report.intervals.is_empty() {
            return Err(BaselineError::OneRun(name()));
        }
        Ok(&report.runs)
    }
}

impl ScenarioReport {
    /// A plan with no runs yet.
    pub fn of(plan: &Plan, file: Option<String>, link: Option<String>) -> Self {
        Self {
            file,
            scenario: plan.name.clone(),
            toml: plan.text.clone(),
            axes: plan.grid.axes.clone(),
            link,
            runs: Vec::new(),
            intervals: Vec::new(),
            over_seeds: Vec::new(),
            paired: Vec::new(),
            expectations: Vec::new(),
            changes: None,
        }
    }

    /// Puts the repetitions of each point together, or the seeds of a file, where there are any.
    pub fn summarize(&mut self) {
        if self.runs.iter().any(|run| run.repetition > 0) {
            self.intervals = repeated(&self.runs);
        } else if self.axes.iter().any(|axis| axis == "seed") {
            self.over_seeds = over_seeds(&self.runs);
        }
        self.paired = paired(&self.axes, &self.runs);
    }

    /// The rows of a table: the runs, or of several of each point their means and intervals; then
    /// the means over the seeds of a file, and the differences of the algorithms.
    pub fn rows(&self) -> Vec<RunResult> {
        let mut rows = match self.intervals.is_empty() {
            true => self.runs.clone(),
            false => mean_rows(&self.intervals, &self.runs),
        };
        rows.extend(mean_rows(&self.over_seeds, &self.runs));
        let differences: Vec<Repeated> = self.paired.iter().map(Paired::as_point).collect();
        rows.extend(mean_rows(&differences, &self.runs));
        rows
    }

    /// The sentences about runs that began anew, one for each.
    pub fn notes(&self) -> Vec<String> {
        let each = self.runs.iter().filter_map(|run| {
            Some(format!("{}: {}", super::table::place(&run.at, &self.scenario), run.note()?))
        });
        each.collect()
    }

    /// The sentences about runs whose link was too late, one for each.
    pub fn warnings(&self) -> Vec<String> {
        let each = self.runs.iter().filter_map(|run| {
            let warning = run.emulator.as_ref()?.warning.as_ref()?;
            Some(format!("{}: {warning}", super::table::place(&run.at, &self.scenario)))
        });
        each.collect()
    }
}
