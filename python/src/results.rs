//! Runs that are over.

use std::path::PathBuf;
use std::sync::Arc;

use fullpipe_report::metrics::RunResult;
use fullpipe_report::output::{self, Reports, ScenarioReport};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::LinkKind;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::error::{of_output, of_run};
use crate::table::Table;

/// The runs of a plan, in the order of the grid.
#[pyclass(frozen, module = "fullpipe._fullpipe")]
pub(crate) struct Results {
    /// Shared: the plan of a large grid is large.
    plan: Arc<Plan>,
    report: ScenarioReport,
}

impl Results {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        file: Option<String>,
        link: Option<LinkKind>,
        mut runs: Vec<RunResult>,
    ) -> Self {
        runs.sort_by_key(|run| run.run);
        let link = link.map(|link| link.name().to_owned());
        let mut report = ScenarioReport::of(plan, file, link);
        report.runs = runs;
        // Some points of a grid are no case in which an expectation could be met.
        if report.runs.len() == plan.grid.runs.len() {
            report.expectations = plan.judge_runs(&report.runs);
        }
        Self { plan: plan.clone(), report }
    }
}

#[pymethods]
impl Results {
    /// A table by its name: summary, flows, links or series.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let tables = py.detach(|| output::tables(&self.plan, &self.report.runs));
        let found = tables.iter().find(|table| table.name == name);
        Table::of(&found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?.columns)
    }

    /// The expectations as a JSON list.
    fn expectations(&self) -> PyResult<String> {
        serde_json::to_string(&self.report.expectations).map_err(of_run)
    }

    /// The object that `fullpipe run --json` prints.
    fn json(&self) -> PyResult<String> {
        let reports = Reports::new(vec![self.report.clone()], false);
        serde_json::to_string(&reports).map_err(of_run)
    }

    /// The values that each run brought for the expectations.
    fn probes(&self) -> Vec<Vec<Option<f64>>> {
        self.report.runs.iter().map(|run| run.probes.clone()).collect()
    }

    /// Writes the files of `fullpipe run --out`.
    fn write(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        let write = || output::write(&directory, &self.plan, &self.report.runs);
        py.detach(write).map_err(of_output)
    }
}
