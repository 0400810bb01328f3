//! The one JSON object that `run` and `compare` print.

use serde::Serialize;

use crate::expect::Verdict;
use crate::metrics::RunResult;
use crate::plan::Plan;

/// The version of the JSON's form. It grows when a field changes its name or its meaning; fields may be
/// added without.
pub const SCHEMA_VERSION: u32 = 1;

/// What the scenarios of a command came to.
#[derive(Debug, Serialize)]
pub struct Reports {
    schema_version: u32,
    scenarios: Vec<ScenarioReport>,
    /// Whether somebody stopped it: the runs are those that there are so far.
    interrupted: bool,
}

/// What one scenario came to.
#[derive(Clone, Debug, Serialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Its runs, in the order of the grid.
    pub runs: Vec<RunResult>,
    /// Whether they went as expected.
    pub expectations: Vec<Verdict>,
}

impl Reports {
    /// The object for these scenarios.
    pub fn new(scenarios: Vec<ScenarioReport>, interrupted: bool) -> Self {
        Self { schema_version: SCHEMA_VERSION, scenarios, interrupted }
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
            expectations: Vec::new(),
        }
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
