//! The plan of a command: the grid of a scenario, and the expectations of its runs.

mod extras;
mod memory;
mod network;
mod options;

use std::path::Path;

use fullpipe_scenario::{Edition, FileError, Grid, Over, ScenarioFile, Wrong, locate};

pub use extras::{PathExtras, TraceOption, table, trace_value};
pub use network::NetworkText;
pub use options::{Options, integer};

use crate::expect::{self, Expectation, Verdict};
use crate::metrics::{Probe, RunResult, mean_probes};

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Its description for people.
    pub about: Option<String>,
    /// The scenario's text.
    pub text: String,
    /// Stack, clock and link of the runs.
    pub over: Over,
    /// The runs.
    pub grid: Grid,
    /// The expectations of the runs.
    pub expectations: Vec<Expectation>,
    /// Parts that are shorter than published, in words, unless the full length was asked for.
    pub shortened: Option<String>,
    /// The values that each run has to bring for the expectations.
    pub probes: Vec<Probe>,
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
        let ScenarioFile { name, about, text, over, grid, shortened, expected } = scenario;
        let mut probes = Vec::new();
        let mut expectations = Vec::with_capacity(expected.len());
        for (i, expectation) in expected.iter().enumerate() {
            let parsed = expect::parse(&expectation.text, &grid, &mut probes);
            let mut parsed = parsed
                .map_err(|why| locate(&text, file, &Wrong::new(format!("expect[{i}]"), why)))?;
            parsed.known_failure.clone_from(&expectation.known_failure);
            expectations.push(parsed);
        }
        Ok(Self { name, about, text, over, grid, expectations, shortened, probes })
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
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace_tests;
