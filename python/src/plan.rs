//! A scenario that was read and checked.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fullpipe_lab::run::{SweepProgress, run_points_with, sweep_with};
use fullpipe_lab::{BackendChoice, RunError, RunOptions, check_machine, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_scenario::{Edition, LinkKind, Over, units};
use pyo3::prelude::*;

use crate::error::{of_argument, of_file, of_run, of_sweep};
use crate::results::Results;
use crate::wait::{Shared, wait};

/// A scenario's grid of runs and its expectations.
#[pyclass(frozen, module = "fullpipe._fullpipe")]
pub(crate) struct Plan {
    plan: Arc<fullpipe_report::plan::Plan>,
    /// As it was named; none where the text came from Python.
    file: Option<String>,
    backend: BackendChoice,
    link: Option<LinkKind>,
}

/// An argument that is written as text.
pub(crate) fn parse<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| of_argument(name, error))
}

/// Stack, clock and link by their names.
pub(crate) fn named(
    stack: Option<&str>,
    clock: Option<&str>,
    link: Option<&str>,
) -> PyResult<Over> {
    Ok(Over {
        stack: stack.map(|stack| parse("stack", stack)).transpose()?,
        clock: clock.map(|clock| parse("clock", clock)).transpose()?,
        link: link.map(|link| parse("link", link)).transpose()?,
    })
}

/// The backend and its link.
pub(crate) fn backend_and_link(over: Over) -> PyResult<(BackendChoice, Option<LinkKind>)> {
    let backend = BackendChoice::of(over).map_err(|why| of_argument("clock", why))?;
    Ok((backend, backend.link(over.link).map_err(|why| of_argument("link", why))?))
}

#[pymethods]
impl Plan {
    /// Reads a file.
    #[staticmethod]
    #[pyo3(signature = (file, *, stack = None, clock = None, link = None, full = false))]
    fn load(
        py: Python<'_>,
        file: PathBuf,
        stack: Option<&str>,
        clock: Option<&str>,
        link: Option<&str>,
        full: bool,
    ) -> PyResult<Self> {
        let edition = Edition { full, over: named(stack, clock, link)? };
        let plan =
            py.detach(|| fullpipe_report::plan::Plan::load(&file, edition)).map_err(of_file)?;
        let (backend, link) = backend_and_link(plan.over)?;
        let file = Some(file.display().to_string());
        Ok(Self { plan: plan.into(), file, backend, link })
    }

    /// Reads a text as a file would be; its traces are looked for in `directory`.
    #[staticmethod]
    #[pyo3(signature = (text, *, name = "scenario", directory = PathBuf::new(), stack = None, clock = None, link = None, full = false))]
    fn parse(
        py: Python<'_>,
        text: &str,
        name: &str,
        directory: PathBuf,
        stack: Option<&str>,
        clock: Option<&str>,
        link: Option<&str>,
        full: bool,
    ) -> PyResult<Self> {
        let edition = Edition { full, over: named(stack, clock, link)? };
        let read = || fullpipe_report::plan::Plan::parse(text, name, name, &directory, edition);
        let plan = py.detach(read).map_err(of_file)?;
        let (backend, link) = backend_and_link(plan.over)?;
        Ok(Self { plan: plan.into(), file: None, backend, link })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.plan.name
    }

    /// Its text.
    #[getter]
    fn text(&self) -> &str {
        &self.plan.text
    }

    /// The fields with lists.
    #[getter]
    fn axes(&self) -> Vec<String> {
        self.plan.grid.axes.clone()
    }

    /// The trace files that it reads, by the names that it has for them.
    #[getter]
    fn trace_files(&self) -> Vec<String> {
        self.plan.grid.trace_files()
    }

    /// SHA-256 of all that its runs are made of.
    #[getter]
    fn fingerprint(&self) -> String {
        self.plan.fingerprint()
    }

    /// Number of its runs.
    fn __len__(&self) -> usize {
        self.plan.grid.runs.len()
    }

    /// Refuses what the backend or this machine cannot run; how many runs may go on beside each
    /// other.
    #[pyo3(signature = (jobs = None, max_memory = "2GB", rows = None))]
    fn check(
        &self,
        py: Python<'_>,
        jobs: Option<usize>,
        max_memory: &str,
        rows: Option<u64>,
    ) -> PyResult<usize> {
        if jobs == Some(0) {
            return Err(of_argument("jobs", "0; write 1 or more"));
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let most = units::parse_bytes(max_memory).map_err(|e| of_argument("max_memory", e))?;
        let file = self.file.as_deref().unwrap_or("scenario");
        py.detach(|| {
            self.backend.check_plan(&self.plan, file).map_err(of_file)?;
            let jobs = jobs.unwrap_or_else(cores);
            let jobs = self.plan.jobs_within(most, jobs, rows, file).map_err(of_file)?;
            check_machine(&self.plan, &self.options(rows)).map_err(of_run)?;
            Ok(jobs)
        })
    }

    /// Runs some of the points, or all. `progress` is called with how many are done.
    #[pyo3(signature = (points = None, *, jobs = 1, rows = None, progress = None))]
    fn run(
        &self,
        py: Python<'_>,
        points: Option<Vec<usize>>,
        jobs: usize,
        rows: Option<u64>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Results> {
        let points = points.unwrap_or_else(|| (0..self.plan.grid.runs.len()).collect());
        let options = self.options(rows);
        let jobs = if self.backend.is_realtime() { 1 } else { jobs };
        let work = |shared: &Shared| {
            let tell = |done| shared.done.store(done, Ordering::Relaxed);
            run_points_with(&points, jobs, |i| self.run_one(i, &options, shared), tell)
        };
        let mut results = wait(py, progress, work)?;
        results.sort_by_key(|(run, _)| *run);
        let several = self.plan.grid.runs.len() > 1;
        let of_run = |run: usize, error: RunError| match several {
            true => of_run(format!("run {run}: {error}")),
            false => of_run(error),
        };
        let kept = results.into_iter().map(|(run, result)| result.map_err(|e| of_run(run, e)));
        let runs = kept.collect::<PyResult<_>>()?;
        Ok(Results::new(&self.plan, self.file.clone(), self.link, runs))
    }

    /// Runs all points into a directory, as `fullpipe sweep` does.
    #[pyo3(signature = (out, *, jobs = 1, progress = None))]
    fn sweep(
        &self,
        py: Python<'_>,
        out: PathBuf,
        jobs: usize,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Results> {
        if self.backend != BackendChoice::SIM {
            let why = "a sweep in Python runs in the simulator; leave it out, or call run";
            return Err(of_argument("stack", why));
        }
        let work = |shared: &Shared| {
            let tell = &mut |p: SweepProgress| shared.done.store(p.done, Ordering::Relaxed);
            let run = |i| self.run_one(i, &RunOptions::default(), shared);
            sweep_with(&self.plan, Path::new(&out), jobs, run, tell)
        };
        let runs = wait(py, progress, work)?.map_err(of_sweep)?;
        Ok(Results::new(&self.plan, self.file.clone(), self.link, runs))
    }

    /// The expectations as a JSON list, of the values that each run brought for them.
    fn judge(&self, py: Python<'_>, values: Vec<Vec<Option<f64>>>) -> PyResult<String> {
        let rows: Vec<&[Option<f64>]> = values.iter().map(Vec::as_slice).collect();
        let verdicts = py.detach(|| self.plan.judge(&rows));
        serde_json::to_string(&verdicts).map_err(of_run)
    }
}

impl Plan {
    fn options(&self, rows: Option<u64>) -> RunOptions<'static> {
        RunOptions { backend: self.backend, link: self.link, rows, ..RunOptions::default() }
    }

    fn run_one(
        &self,
        index: usize,
        options: &RunOptions<'_>,
        Shared { call, .. }: &Shared,
    ) -> Result<RunResult, RunError> {
        let run = || run_point(&self.plan, index, options, &call.stop, &mut |_| ());
        call.run(options.backend.is_realtime(), run)
    }
}
