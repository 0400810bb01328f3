//! One point of a plan on a backend, from the start to the result.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;

use fullpipe_report::metrics::{Measurement, RunContext, RunResult, moments};
use fullpipe_report::observe::Observations;
use fullpipe_report::output::{Qlog, QlogDir};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Cc, LinkKind, Scenario};

use crate::backend::{BackendChoice, OnSample, Request, RunError};
use crate::observe::{Progress, Sampling};

/// Rows of a time series whose interval the scenario does not name: as many as a plot has points.
pub const ROWS: u64 = 500;

/// Options for the runs of a plan.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// Backend that carries the flows.
    pub backend: BackendChoice,
    /// One of the backend's links, or the usual one.
    pub link: Option<LinkKind>,
    /// The number of the repetition: the first, 0, has the seed of the file, and each of the others
    /// one of its own, which its result names.
    pub repetition: u64,
    /// So many rows of the series where the scenario names no interval; `None`: no series then.
    pub rows: Option<u64>,
    /// Directory for a qlog of each flow, written during the run, with a sample for each row of the
    /// series.
    pub qlog: Option<&'a QlogDir>,
}

impl Default for RunOptions<'_> {
    /// The simulator, and no more than the scenario asks for.
    fn default() -> Self {
        Self { backend: BackendChoice::SIM, link: None, repetition: 0, rows: None, qlog: None }
    }
}

/// The scenario of a point, with the algorithms that its flows have on this backend.
fn scenario(
    plan: &Plan,
    index: usize,
    repetition: u64,
    backend: BackendChoice,
) -> Result<Cow<'_, Scenario>, RunError> {
    let run = plan.grid.runs.get(index).ok_or(RunError::Lost)?;
    let scenario = run.repetition(repetition);
    let mut scenario = scenario.map_err(|w| RunError::Scenario(w.to_string()))?;
    for need in &scenario.needs {
        if let Some(why) = backend.lacks(need) {
            return Err(RunError::Scenario(format!("{}: {why}", need.field)));
        }
    }
    let other = |cc: Cc| backend.get().algorithm(cc).filter(|other| *other != cc);
    if scenario.flows.iter().any(|flow| other(flow.cc).is_some()) {
        for flow in &mut scenario.to_mut().flows {
            flow.cc = other(flow.cc).unwrap_or(flow.cc);
        }
    }
    Ok(scenario)
}

/// Checks that this machine can run all of a plan.
///
/// # Errors
/// The missing requirement, in one line.
pub fn check_machine(plan: &Plan, options: &RunOptions<'_>) -> Result<(), RunError> {
    let each = 0..plan.grid.runs.len();
    each.map(|i| scenario(plan, i, 0, options.backend)).try_for_each(|scenario| {
        let scenario = scenario?;
        options.backend.get().check(&scenario, options.link)
    })
}

/// Starts of a run whose start may come too late.
const STARTS: usize = 3;

/// Runs a scenario on a backend. One that began too late, on a machine that was busy for a moment,
/// begins anew.
fn carry_out(
    backend: BackendChoice,
    scenario: &Scenario,
    request: Request<'_>,
) -> Result<Observations, RunError> {
    let Request { moments, sampling, arrivals, link, stop, watch, on_sample } = request;
    let mut late_starts = 0;
    loop {
        let request = Request {
            moments,
            sampling,
            arrivals,
            link,
            stop,
            watch: &mut *watch,
            on_sample: &mut *on_sample,
        };
        match backend.get().run(scenario, request) {
            Ok(seen) => return Ok(Observations { late_starts, ..seen }),
            Err(error) if !error.is_transient() || late_starts + 1 >= STARTS => return Err(error),
            // Whether it is to stop is what a run looks at first.
            Err(_) => late_starts += 1,
        }
    }
}

/// Runs point number `index` of a plan until it is over or `stop` is set. `watch` is called about
/// ten times a second. In real time, a run that was stopped has the result so far, and says so.
///
/// # Errors
/// The backend cannot run it, or there is nothing that could be called a result.
pub fn run_point(
    plan: &Plan,
    index: usize,
    options: &RunOptions<'_>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress),
) -> Result<RunResult, RunError> {
    let scenario = scenario(plan, index, options.repetition, options.backend)?;
    let mut qlog = match options.qlog {
        Some(dir) => Some(Qlog::start(dir, plan, index, &scenario).map_err(store)?),
        None => None,
    };
    let sampling = options.rows.map_or(Sampling::Asked, Sampling::Rows);
    let moments = moments(&plan.probes, &scenario);
    let seen = carry_out(
        options.backend,
        &scenario,
        Request {
            moments: &moments,
            sampling,
            arrivals: 0,
            link: options.link,
            stop,
            watch,
            on_sample: &mut |flow, t, sample| match &mut qlog {
                Some(qlog) => qlog.sample(flow, t, sample).map_err(store),
                None => Ok(()),
            },
        },
    );
    // Also of a run that was stopped: what was seen is worth reading.
    let written = qlog.map_or(Ok(()), Qlog::finish).map_err(store);
    let seen = seen?;
    written?;
    let place = RunContext {
        scenario: &plan.name,
        stack: options.backend.stack(),
        clock: options.backend.clock(),
        link: options.backend.link(options.link).unwrap_or_default(),
        run: index,
        at: &plan.grid.runs[index].at,
        probes: &plan.probes,
    };
    Ok(Measurement::new(&scenario, seen).result(&place))
}

/// Runs these points of a plan with so many threads, and tells how many are over. The results come
/// as they are ready, each with its number; in real time there is one thread.
pub fn run_points(
    plan: &Plan,
    points: &[usize],
    options: &RunOptions<'_>,
    jobs: usize,
    stop: &AtomicBool,
    tell: impl FnMut(usize),
) -> Vec<(usize, Result<RunResult, RunError>)> {
    let jobs = if options.backend.is_realtime() { 1 } else { jobs };
    run_points_with(points, jobs, |i| run_point(plan, i, options, stop, &mut |_| ()), tell)
}

/// As [`run_points`], by the caller's way to carry out one of them.
pub fn run_points_with(
    points: &[usize],
    jobs: usize,
    run: impl Fn(usize) -> Result<RunResult, RunError> + Sync,
    mut tell: impl FnMut(usize),
) -> Vec<(usize, Result<RunResult, RunError>)> {
    let mut results = Vec::with_capacity(points.len());
    super::each(points, jobs, run, |i, result| {
        results.push((i, result));
        tell(results.len());
        true
    });
    results
}

fn store(error: fullpipe_report::output::StoreError) -> RunError {
    RunError::Store(Box::new(error))
}

/// Runs a point whose samples somebody else looks at, one in every `interval`.
pub(crate) fn observe(
    plan: &Plan,
    index: usize,
    (backend, link): (BackendChoice, Option<LinkKind>),
    interval: fullpipe_cc::Duration,
    on_sample: &mut OnSample<'_>,
    stop: &AtomicBool,
) -> Result<Observations, RunError> {
    let scenario = scenario(plan, index, 0, backend)?.into_owned();
    let scenario = Scenario { interval: Some(interval), ..scenario };
    let request = Request {
        moments: &[],
        sampling: Sampling::Asked,
        arrivals: 0,
        link: backend.link(link).map_err(RunError::Scenario)?,
        stop,
        watch: &mut |_| (),
        on_sample: &mut |flow, t, sample| on_sample(flow, t, sample),
    };
    carry_out(backend, &scenario, request)
}

/// Runs the first point of a plan in the simulator; what entered its first link and its way back,
/// up to so many packets of each.
///
/// # Errors
/// The run is refused or was stopped, or kept no packets.
pub fn arrivals(
    plan: &Plan,
    most: usize,
    stop: &AtomicBool,
) -> Result<[Vec<fullpipe_path::Arrival>; 2], RunError> {
    let backend = BackendChoice::SIM;
    let request = Request {
        moments: &[],
        sampling: Sampling::Asked,
        arrivals: most,
        link: None,
        stop,
        watch: &mut |_| (),
        on_sample: &mut |_, _, _| Ok(()),
    };
    let scenario = scenario(plan, 0, 0, backend)?;
    let seen = carry_out(backend, &scenario, request)?;
    seen.arrivals.ok_or(RunError::Lost)
}
