//! The plan of a command: the grid of a scenario, and the expectations of its runs.

mod extras;
mod memory;
mod network;
mod options;

use std::path::Path;

use fullpipe_scenario::{Edition, FileError, Grid, ScenarioFile, Wrong, locate};
use fullpipe_sim::FlowConfig;

pub use extras::{PathExtras, TraceText};
pub use network::NetworkText;
pub use options::Options;

use crate::backend::BackendChoice;
use crate::expect::{self, Expectation, Verdict};
use crate::metrics::{Metric, Probe, RunResult, Scope, mean_probes};

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Its description for people.
    pub about: Option<String>,
    /// The scenario's text.
    pub text: String,
    /// The runs.
    pub grid: Grid,
    /// The expectations of the runs.
    pub expectations: Vec<Expectation>,
    /// Parts that are shorter than published, in words, unless the full length was asked for.
    pub shortened: Option<String>,
    /// The values that each run has to bring for the expectations.
    pub(crate) probes: Vec<Probe>,
}

impl Plan {
    /// Reads a file and checks all that it holds.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn load(path: &Path, edition: Edition) -> Result<Self, FileError> {
        let file = path.display().to_string();
        Self::of(ScenarioFile::load(path, edition)?, &file)
    }

    /// Reads a text as a file of this name would be; traces are looked for in `dir`.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(
        text: &str,
        file: &str,
        stem: &str,
        dir: &Path,
        edition: Edition,
    ) -> Result<Self, FileError> {
        Self::of(ScenarioFile::parse(text, file, stem, dir, edition)?, file)
    }

    fn of(scenario: ScenarioFile, file: &str) -> Result<Self, FileError> {
        let ScenarioFile { name, about, text, grid, shortened, expected } = scenario;
        let mut probes = Vec::new();
        let mut expectations = Vec::with_capacity(expected.len());
        for (i, expectation) in expected.iter().enumerate() {
            let parsed = expect::parse(&expectation.text, &grid, &mut probes);
            let mut parsed = parsed
                .map_err(|why| locate(&text, file, &Wrong::new(format!("expect[{i}]"), why)))?;
            parsed.known_failure.clone_from(&expectation.known_failure);
            expectations.push(parsed);
        }
        Ok(Self { name, about, text, grid, expectations, shortened, probes })
    }

    /// Identifier that differs from that of every other plan.
    pub fn fingerprint(&self) -> String {
        self.grid.fingerprint(&self.text)
    }

    /// Judges all runs of the plan; of several of a point, their means.
    pub fn judge_runs(&self, runs: &[RunResult]) -> Vec<Verdict> {
        let means = mean_probes(runs);
        let values: Vec<&[Option<f64>]> = means.iter().map(Vec::as_slice).collect();
        self.judge(&values)
    }

    /// Judges the runs; `values[run]` are what that run brought for the plan's probes.
    pub fn judge(&self, values: &[&[Option<f64>]]) -> Vec<Verdict> {
        expect::check(&self.expectations, &self.grid, values)
    }

    /// Checks that a backend can run all of it, expectations included. This is the one place that
    /// refuses what a backend does not have.
    ///
    /// # Errors
    /// The first field that it cannot serve, with its line, and which backend can.
    pub fn check_backend(&self, backend: BackendChoice, file: &str) -> Result<(), FileError> {
        let wrong = self.grid.runs.iter().find_map(|run| {
            let scenario = run.scenario().ok()?;
            let lacks = |need| backend.lacks(need).map(|why| Wrong::new(&need.field, why));
            scenario.needs.iter().find_map(lacks)
        });
        let wrong = wrong.or_else(|| self.unmeasured(backend));
        wrong.map_or(Ok(()), |wrong| Err(locate(&self.text, file, &wrong)))
    }

    /// An expectation of something that the backend does not see in any run.
    fn unmeasured(&self, backend: BackendChoice) -> Option<Wrong> {
        let is_seen = |probe: &Probe| match (&probe.scope, probe.metric) {
            (Scope::Link(n), _) if *n > 0 => backend.get().sees_each_link(),
            (_, Metric::Latency(_)) => {
                let times = |flow: &FlowConfig| backend.get().times_writes_of(&flow.application);
                let scenarios = self.grid.runs.iter().filter_map(|run| run.scenario().ok());
                scenarios.into_iter().any(|scenario| scenario.config.flows.iter().any(times))
            }
            _ => true,
        };
        let each = self.expectations.iter().enumerate();
        each.flat_map(|(i, e)| e.probes().into_iter().map(move |p| (i, p))).find_map(|(i, probe)| {
            let probe = &self.probes[probe];
            (!is_seen(probe)).then(|| {
                let metric = probe.metric;
                let why = format!("{metric} is not measured over {backend}; leave it out, or write --backend sim");
                Wrong::new(format!("expect[{i}]"), why)
            })
        })
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace_tests;
