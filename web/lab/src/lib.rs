//! The lab for a page: a scenario's text in, results out. Nothing here knows of pages; `web/src`
//! calls it from a worker.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::explain;
use fullpipe_lab::run::ROWS;
use fullpipe_lab::{BackendChoice, RunOptions, run_point};
use fullpipe_report::expect::Verdict;
use fullpipe_report::metrics::RunResult;
use fullpipe_report::output::{self, Reports, ScenarioReport};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Edition, Over, Stack};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// Nothing here is stopped from outside: a worker that is not wanted any more is ended as a whole.
static NEVER: AtomicBool = AtomicBool::new(false);

/// The most that a scenario may need by the plan's estimate. A page has 4 GiB, in which its results
/// are text as well.
const MOST_BYTES: u64 = 1_000_000_000;

#[wasm_bindgen]
extern "C" {
    /// A function of the page's: hears how much of a run is done, from 0 to 1.
    pub type Tell;

    #[wasm_bindgen(method, js_name = call)]
    fn call(this: &Tell, receiver: &JsValue, done: f64);
}

/// A mistake in a scenario, for an editor.
#[derive(Serialize)]
struct Mistake {
    /// The line, from 1; none where the whole text is meant.
    line: Option<usize>,
    field: String,
    message: String,
}

/// A scenario and its results.
#[wasm_bindgen]
pub struct Experiment {
    plan: Plan,
    results: Vec<RunResult>,
}

#[wasm_bindgen]
impl Experiment {
    /// Reads a scenario as the command reads a file of that name.
    ///
    /// # Errors
    /// The first mistake, as JSON: `line`, `field` and `message`.
    #[wasm_bindgen(constructor)]
    pub fn new(toml: &str, name: &str) -> Result<Self, String> {
        let file = format!("{name}.toml");
        let plan = Plan::parse(
            toml,
            &file,
            name,
            Path::new(""),
            Edition { full: false, over: Over::of(Stack::Sim) },
        )
        .and_then(|plan| {
            BackendChoice::SIM.check_plan(&plan, &file)?;
            plan.jobs_within(MOST_BYTES, 1, Some(ROWS), &file)?;
            Ok(plan)
        });
        plan.map(|plan| Self { plan, results: Vec::new() }).map_err(|wrong| {
            let message = wrong.message.lines().map(str::trim).collect::<Vec<_>>().join(", ");
            // A page has no options.
            let message = message.replace(", or a larger --max-memory", "");
            json(&Mistake { line: wrong.line, field: wrong.field, message })
        })
    }

    /// The number of runs.
    #[wasm_bindgen(getter)]
    pub fn runs(&self) -> usize {
        self.plan.grid.runs.len()
    }

    /// Carries out the next run, and hears about ten times a second how much of it is done. True if
    /// there is another.
    ///
    /// # Errors
    /// It has no result: why, in one line.
    pub fn step(&mut self, tell: &Tell) -> Result<bool, String> {
        let index = self.results.len();
        if index < self.runs() {
            let options = RunOptions { rows: Some(ROWS), ..RunOptions::default() };
            let watch =
                &mut |progress: fullpipe_lab::Progress| tell.call(&JsValue::NULL, progress.done);
            let result = run_point(&self.plan, index, &options, &NEVER, watch);
            self.results.push(result.map_err(|why| why.to_string())?);
        }
        Ok(self.results.len() < self.runs())
    }

    /// One of the runs so far as JSON, as it stands among those of [`Self::json`].
    ///
    /// # Errors
    /// There is no such run yet.
    pub fn run(&self, index: usize) -> Result<String, String> {
        let found = self.results.get(index);
        found.map(json).ok_or_else(|| format!("run {index} is not done"))
    }

    /// The verdicts about the runs as JSON; none before the last run is over.
    pub fn expectations(&self) -> String {
        json(&self.verdicts())
    }

    /// Output of `fullpipe run --json` for the runs so far.
    pub fn json(&self) -> String {
        let mut report = ScenarioReport::of(&self.plan, None, None);
        report.runs.clone_from(&self.results);
        report.expectations = self.verdicts();
        json(&Reports::new(vec![report], !self.is_whole()))
    }

    /// A table of the runs so far as Parquet: `summary`, `flows`, `links` or `series`.
    ///
    /// # Errors
    /// There is no such table, or Parquet cannot hold it.
    pub fn parquet(&self, table: &str) -> Result<Vec<u8>, String> {
        let tables = output::tables(&self.plan, &self.results);
        let found = tables.iter().find(|t| t.name == table);
        let found = found.ok_or_else(|| format!("no table '{table}'"))?;
        found.parquet().map_err(|why| why.to_string())
    }

    /// The story of a flow in a run, as `fullpipe explain --json` tells it.
    ///
    /// # Errors
    /// No story can be told of it: why, in one line.
    pub fn story(&self, run: usize, flow: usize) -> Result<String, String> {
        let story = explain::tell(&self.plan, run, flow, (BackendChoice::SIM, None), &NEVER);
        story.map(|story| json(&story)).map_err(|why| why.to_string())
    }
}

impl Experiment {
    fn is_whole(&self) -> bool {
        self.results.len() == self.runs()
    }

    fn verdicts(&self) -> Vec<Verdict> {
        if self.is_whole() { self.plan.judge_runs(&self.results) } else { Vec::new() }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
