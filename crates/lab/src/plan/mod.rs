//! What is to run: the grid of a scenario, and what is expected of its runs.

use std::path::Path;

use crate::expect::{self, Expectation, Verdict};
use crate::metrics::{Probe, is_measured_over_quic};
use crate::scenario::{Edition, FileError, Grid, ScenarioFile, Wrong, locate};

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// What it says of itself to people.
    pub about: Option<String>,
    /// The scenario's text.
    pub text: String,
    /// The runs.
    pub grid: Grid,
    /// What is expected of them.
    pub expectations: Vec<Expectation>,
    /// What is shorter than published, in words, unless it was asked for in full.
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
            let parsed = expect::parse(expectation, &grid, &mut probes);
            expectations
                .push(parsed.map_err(|why| {
                    locate(&text, file, &Wrong::new(format!("expect[{i}]"), why))
                })?);
        }
        Ok(Self { name, about, text, grid, expectations, shortened, probes })
    }

    /// Whether the runs are as expected; `values[run]` are what that run brought for the plan's probes.
    pub fn judge(&self, values: &[&[Option<f64>]]) -> Vec<Verdict> {
        expect::check(&self.expectations, &self.grid, values)
    }

    /// Whether all of it can run over QUIC, expectations included.
    ///
    /// # Errors
    /// The first field that cannot, and what there is instead.
    pub fn check_over_quic(&self, file: &Path) -> Result<(), FileError> {
        let of_run = self.grid.runs.iter().try_for_each(|run| run.quic().map(drop));
        of_run
            .and_then(|()| self.check_probes())
            .map_err(|wrong| locate(&self.text, &file.display().to_string(), &wrong))
    }

    fn check_probes(&self) -> Result<(), Wrong> {
        for (i, expectation) in self.expectations.iter().enumerate() {
            let probes = expectation.probes().into_iter().map(|p| &self.probes[p]);
            if let Some(probe) = probes.into_iter().find(|p| !is_measured_over_quic(p)) {
                let why = format!(
                    "{} is not measured over quic; leave it out, or run over sim",
                    probe.metric
                );
                return Err(Wrong::new(format!("expect[{i}]"), why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
