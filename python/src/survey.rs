//! A survey: random paths, and where an algorithm falls short of others.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use fullpipe_lab::{RunError, run_point};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Cc, units};
use fullpipe_survey::Kind;
use fullpipe_survey::report::{Asked, Report};
use fullpipe_survey::results::{Ended, Outcomes, Results};
use fullpipe_survey::run::Options;
use fullpipe_survey::text::{Senders, numbered};
use fullpipe_survey::worst::Wanted;
use pyo3::prelude::*;

use crate::error::{of_argument, of_output, of_run};
use crate::plan::{backend_and_link, named, parse};
use crate::wait::{Shared, wait};

/// The paths of a survey, checked before anything runs.
#[pyclass(frozen, module = "fullpipe._fullpipe")]
pub(crate) struct Survey {
    survey: Arc<fullpipe_survey::run::Survey>,
    tested: Vec<String>,
    against: Vec<String>,
}

#[pymethods]
impl Survey {
    #[new]
    #[pyo3(signature = (cc, *, against = Vec::new(), paths = 500, seed = 1, seeds = 1, kinds = Vec::new(), stack = None, clock = None, link = None, jobs = None, max_memory = "2GB"))]
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        cc: Vec<String>,
        against: Vec<String>,
        paths: u64,
        seed: u64,
        seeds: usize,
        kinds: Vec<String>,
        stack: Option<&str>,
        clock: Option<&str>,
        link: Option<&str>,
        jobs: Option<usize>,
        max_memory: &str,
    ) -> PyResult<Self> {
        for name in cc.iter().chain(&against) {
            parse::<Cc>("cc", name)?;
        }
        let cc = numbered(&cc);
        let mut names = cc.clone();
        names.extend(against.iter().filter(|name| !cc.contains(name)).cloned());
        let numbers =
            [("paths", paths), ("seeds", seeds as u64), ("jobs", jobs.unwrap_or(1) as u64)];
        if let Some((name, _)) = numbers.iter().find(|(_, number)| *number == 0) {
            return Err(of_argument(name, "0; write 1 or more"));
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let (backend, link) = backend_and_link(named(stack, clock, link)?)?;
        let options = Options {
            paths,
            seed,
            seeds: NonZeroUsize::new(seeds).unwrap_or(NonZeroUsize::MIN),
            kinds: kinds.iter().map(|k| parse::<Kind>("kinds", k)).collect::<PyResult<_>>()?,
            senders: Senders { names, programs: Vec::new() },
            backend,
            link,
            jobs: jobs.unwrap_or_else(cores),
            max_memory: units::parse_bytes(max_memory).map_err(|e| of_argument("max_memory", e))?,
        };
        let new = || fullpipe_survey::run::Survey::new(options);
        let survey = py.detach(new).map_err(|error| of_argument("survey", error))?;
        Ok(Self { survey: survey.into(), tested: cc, against })
    }

    /// Number of its runs.
    fn __len__(&self) -> usize {
        self.survey.runs()
    }

    /// Runs some of them, one after the other. How each ended, as JSON that `SurveyResults.take`
    /// reads.
    fn run(&self, py: Python<'_>, numbers: Vec<usize>) -> PyResult<Vec<String>> {
        if let Some(number) = numbers.iter().find(|number| **number >= self.survey.runs()) {
            return Err(of_argument("numbers", format!("there is no run {number}")));
        }
        let ended = wait(py, None, |shared| {
            let run = |plan: &Plan, i: usize| point(&self.survey, plan, i, shared);
            numbers.iter().map(|number| self.survey.one(*number, &run)).collect::<Vec<_>>()
        })?;
        ended.iter().map(|ended| serde_json::to_string(ended).map_err(of_run)).collect()
    }

    /// Opens a directory of results. `program` differs for programs whose runs could have other
    /// results.
    fn open(&self, py: Python<'_>, out: PathBuf, program: Vec<u8>) -> PyResult<SurveyResults> {
        let results = py.detach(|| self.survey.open(&out, &program)).map_err(of_output)?;
        Ok(SurveyResults {
            survey: self.survey.clone(),
            tested: self.tested.clone(),
            against: self.against.clone(),
            out,
            state: Mutex::new(Some(State::Open(results))),
        })
    }
}

/// The results of a survey in their directory.
#[pyclass(frozen, module = "fullpipe._fullpipe")]
pub(crate) struct SurveyResults {
    survey: Arc<fullpipe_survey::run::Survey>,
    tested: Vec<String>,
    against: Vec<String>,
    out: PathBuf,
    /// Nothing while a call has it, and after one that failed.
    state: Mutex<Option<State>>,
}

enum State {
    /// Runs may come.
    Open(Results),
    /// All have come.
    Over(Outcomes),
}

#[pymethods]
impl SurveyResults {
    /// Numbers of the runs that are not done.
    fn todo(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let results = self.opened()?;
        let todo = py.detach(|| self.survey.todo(&results));
        self.put(State::Open(results));
        Ok(todo)
    }

    /// Takes runs that `Survey.run` carried out; when this returns, a crash cannot lose them.
    fn take(&self, py: Python<'_>, ended: Vec<String>) -> PyResult<()> {
        let read = |text: &String| serde_json::from_str::<Ended>(text).map_err(of_run);
        let ended = ended.iter().map(read).collect::<PyResult<Vec<_>>>()?;
        let mut results = self.opened()?;
        py.detach(|| results.take(ended)).map_err(of_output)?;
        self.put(State::Open(results));
        Ok(())
    }

    /// Runs all that is not done, on all cores. `progress` is called with how many are.
    #[pyo3(signature = (progress = None))]
    fn complete(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let results = self.opened()?;
        let outcomes = wait(py, progress, |shared| {
            let run = |plan: &Plan, i: usize| point(&self.survey, plan, i, shared);
            self.survey.run(results, &run, |done| shared.done.store(done, Ordering::Relaxed))
        })?;
        self.put(State::Over(outcomes.map_err(of_output)?));
        Ok(())
    }

    /// Judges what was run, makes the worst paths simpler, and writes the report. The object of
    /// survey.json.
    #[pyo3(signature = (*, limit = 0.95, worst = 3, shrink = true, progress = None))]
    fn report(
        &self,
        py: Python<'_>,
        limit: f64,
        worst: usize,
        shrink: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let outcomes = match self.taken()? {
            State::Over(outcomes) => outcomes,
            State::Open(results) => py.detach(|| self.survey.finish(results)).map_err(of_output)?,
        };
        let wanted = Wanted { count: worst, shrink, limit };
        let asked = Asked { tested: self.tested.clone(), against: self.against.clone(), wanted };
        let report = wait(py, progress, |shared| {
            let run = |plan: &Plan, i: usize| point(&self.survey, plan, i, shared);
            let tell = |done, _| shared.done.store(done, Ordering::Relaxed);
            let mut report =
                Report::of(&self.survey, outcomes, &asked, &run, &shared.call.stop, tell);
            report.write(&self.out)
        })?;
        report.map_err(of_output)
    }
}

impl SurveyResults {
    fn taken(&self) -> PyResult<State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.take().ok_or_else(|| of_run("the results are in use, or were reported already"))
    }

    fn put(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    fn opened(&self) -> PyResult<Results> {
        match self.taken()? {
            State::Open(results) => Ok(results),
            over => {
                self.put(over);
                Err(of_run("all runs of the survey are done"))
            }
        }
    }
}

/// Carries out a run of a plan for a call from Python.
fn point(
    survey: &fullpipe_survey::run::Survey,
    plan: &Plan,
    i: usize,
    Shared { call, .. }: &Shared,
) -> Result<fullpipe_report::metrics::RunResult, RunError> {
    let options = survey.options.run_options();
    let run = || run_point(plan, i, &options, &call.stop, &mut |_| ());
    call.run(options.backend.is_realtime(), run)
}
