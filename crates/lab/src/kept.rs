//! Results that an earlier command kept: a directory of `sweep` or of `run --out`, and the object
//! that `run --json` printed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fullpipe_report::metrics::RunResult;
use fullpipe_report::output::{BaselineError, Reports, ScenarioReport, StoreError, write_whole};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

use crate::run::{Journal, JournalError};

/// Name of the object in a directory of `run --out`.
pub(crate) const RESULTS: &str = "results.json";

/// The text of the scenario in a directory of results.
const SCENARIO: &str = "scenario.toml";

/// No results that could be read: one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum KeptError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Object { path: PathBuf, source: BaselineError },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(
        "{} holds no results: neither {RESULTS} of fullpipe run --out, nor {} of fullpipe sweep, nor a directory with one of them",
        .0.display(), Journal::NAME
    )]
    Nothing(PathBuf),
}

/// Writes a scenario's results beside its tables.
///
/// # Errors
/// The file cannot be written.
pub fn keep(dir: &Path, report: ScenarioReport, interrupted: bool) -> Result<(), StoreError> {
    let object = Reports::new(vec![report], interrupted);
    write_whole(&dir.join(RESULTS), |file| {
        serde_json::to_writer(io::BufWriter::new(file), &object).map_err(io::Error::from)
    })
}

/// The scenarios of a directory, or of the directories in it in the order of their names.
///
/// # Errors
/// There are none, or a file was changed since, or is of another version.
pub fn read_dir(dir: &Path) -> Result<Vec<ScenarioReport>, KeptError> {
    if let Some(found) = of_dir(dir)? {
        return Ok(found);
    }
    let read = |source| KeptError::Read { path: dir.to_owned(), source };
    let mut inner: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(read)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(read)?;
    inner.sort();
    let mut all = Vec::new();
    for dir in inner.iter().filter(|path| path.is_dir()) {
        all.extend(of_dir(dir)?.into_iter().flatten());
    }
    if all.is_empty() { Err(KeptError::Nothing(dir.to_owned())) } else { Ok(all) }
}

fn of_dir(dir: &Path) -> Result<Option<Vec<ScenarioReport>>, KeptError> {
    // A sweep begins in no directory that has this file: beside a journal it is the later one.
    let results = dir.join(RESULTS);
    if results.is_file() {
        let text = fs::read_to_string(&results);
        let text = text.map_err(|source| KeptError::Read { path: results.clone(), source })?;
        return read_object(&text, &results).map(Some);
    }
    if dir.join(Journal::NAME).is_file() {
        return of_sweep(dir).map(|report| Some(vec![report]));
    }
    Ok(None)
}

/// The scenarios of an object that `run --json` or `compare --json` printed.
///
/// # Errors
/// It is none, or of another version.
pub fn read_object(text: &str, path: &Path) -> Result<Vec<ScenarioReport>, KeptError> {
    let object = |source| KeptError::Object { path: path.to_owned(), source };
    Reports::parse(text).map(Reports::into_scenarios).map_err(object)
}

/// The runs of a sweep so far: it may be at work.
fn of_sweep(dir: &Path) -> Result<ScenarioReport, KeptError> {
    let mut runs: Vec<RunResult> = Journal::look(dir)?;
    runs.sort_by_key(|run| (run.run, run.repetition));
    let path = dir.join(SCENARIO);
    let toml = match fs::read_to_string(&path) {
        Ok(toml) => toml,
        Err(source) if source.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(KeptError::Read { path, source }),
    };
    let mut report = ScenarioReport {
        file: None,
        scenario: runs.first().map_or_else(String::new, |run| run.scenario.clone()),
        toml,
        axes: runs.first().into_iter().flat_map(|run| &run.at).map(|at| at.0.clone()).collect(),
        link: None,
        runs,
        intervals: Vec::new(),
        over_seeds: Vec::new(),
        paired: Vec::new(),
        expectations: Vec::new(),
        changes: None,
    };
    report.summarize();
    // A scenario whose traces are elsewhere is no plan here, and its results are ones all the same.
    let plan = Plan::parse(&report.toml, SCENARIO, &report.scenario, dir, Edition::default());
    if let Ok(plan) = plan
        && plan.grid.runs.len() == report.runs.len()
    {
        report.expectations = plan.judge_runs(&report.runs);
    }
    Ok(report)
}
