//! All points of a plan, on as many threads as there is work for, and on from where it was stopped.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_report::metrics::RunResult;
use fullpipe_report::output::{self, StoreError};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::LinkKind;

use super::journal::{Journal, JournalError, JournalOf};
use super::point::{RunOptions, run_point};
use super::pool::each_together;
use crate::backend::RunError;

/// Progress of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SweepProgress {
    /// Runs that were done when it began.
    pub before: usize,
    /// Runs that are done now, those included.
    pub done: usize,
    /// Runs of the grid.
    pub all: usize,
}

/// A sweep that did not come to its end: one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum SweepError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("run {run}: {source}")]
    Run { run: usize, source: RunError },
    #[error("interrupted: {done} of {all} runs are done; the same command goes on from there")]
    Interrupted { done: usize, all: usize },
}

impl SweepError {
    /// True if the directory is not one for this sweep.
    pub fn is_of_input(&self) -> bool {
        match self {
            Self::Journal(error) => error.is_of_input(),
            Self::Store(_) | Self::Run { .. } | Self::Interrupted { .. } => false,
        }
    }
}

/// Runs every point of the plan that the directory does not hold yet, and writes the tables. Where
/// time is virtual, what they hold depends on the file alone, and not on `jobs` or on how often it
/// was interrupted.
///
/// # Errors
/// The directory belongs to something else or cannot be written, a point cannot be run, or `stop`
/// was set; what is done by then stays.
pub fn sweep(
    plan: &Plan,
    dir: &Path,
    options: &RunOptions<'_>,
    jobs: usize,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(SweepProgress),
) -> Result<Vec<RunResult>, SweepError> {
    // In real time a run that was stopped has figures, which are not those of the point.
    let run = |i| match run_point(plan, i, options, stop, &mut |_| ()) {
        Ok(result) if result.interrupted => Err(RunError::StoppedEarly),
        result => result,
    };
    sweep_over(plan, dir, options, jobs, run, watch)
}

/// As [`sweep`] in the simulator, by the caller's way to carry out a run: one that it refuses is
/// not in the directory.
///
/// # Errors
/// Those of [`sweep`], and those of `run`.
pub fn sweep_with(
    plan: &Plan,
    dir: &Path,
    jobs: usize,
    run: impl Fn(usize) -> Result<RunResult, RunError> + Sync,
    watch: &mut dyn FnMut(SweepProgress),
) -> Result<Vec<RunResult>, SweepError> {
    sweep_over(plan, dir, &RunOptions::default(), jobs, run, watch)
}

fn sweep_over(
    plan: &Plan,
    dir: &Path,
    options: &RunOptions<'_>,
    jobs: usize,
    run: impl Fn(usize) -> Result<RunResult, RunError> + Sync,
    watch: &mut dyn FnMut(SweepProgress),
) -> Result<Vec<RunResult>, SweepError> {
    let (mut journal, mut outcomes) = open(dir, plan)?;
    let (stack, clock) = (options.backend.stack(), options.backend.clock());
    let link = options.backend.link(options.link).ok().flatten().map(LinkKind::name);
    let other = |of| Err(JournalError::Other { dir: dir.to_owned(), of }.into());
    if outcomes.iter().any(|outcome| (outcome.stack, outcome.clock) != (stack, clock)) {
        return other("stack or clock");
    }
    // A journal of an earlier version names no link.
    if outcomes.iter().any(|outcome| outcome.link.is_some() && outcome.link.as_deref() != link) {
        return other("link");
    }
    let all = plan.grid.runs.len();
    let before = outcomes.len();
    watch(SweepProgress { before, done: before, all });
    let mut is_done = vec![false; all];
    outcomes.iter().for_each(|o| is_done[o.run] = true);
    let todo: Vec<usize> = (0..all).filter(|i| !is_done[*i]).collect();
    let mut failed = None;
    // Short runs are over sooner than the disk has one: those that ended meanwhile go together.
    each_together(&todo, jobs, run, |ready| {
        let first_new = outcomes.len();
        for (run, result) in ready {
            match result {
                Ok(outcome) => outcomes.push(outcome),
                Err(source) => _ = failed.get_or_insert(SweepError::Run { run, source }),
            }
        }
        if let Err(error) = journal.append(&outcomes[first_new..]) {
            outcomes.truncate(first_new);
            failed = Some(error.into());
        }
        watch(SweepProgress { before, done: outcomes.len(), all });
        failed.is_none()
    });
    match failed {
        Some(SweepError::Run { source: RunError::StoppedEarly, .. }) => {
            return Err(SweepError::Interrupted { done: outcomes.len(), all });
        }
        Some(error) => return Err(error),
        None => {}
    }
    let mut order: Vec<usize> = (0..outcomes.len()).collect();
    order.sort_by_key(|i| outcomes[*i].run);
    journal.finish(&order)?;
    outcomes.sort_by_key(|o| o.run);
    output::write(dir, plan, &outcomes)?;
    Ok(outcomes)
}

/// Opens the journal of a sweep into this directory, and reads what is done already.
pub(super) fn open(dir: &Path, plan: &Plan) -> Result<(Journal, Vec<RunResult>), JournalError> {
    check_scenario(dir, plan)?;
    let runs = plan.grid.runs.len();
    let of = JournalOf { what: "scenario", fingerprint: plan.fingerprint(), runs };
    let mut is_known = vec![false; runs];
    let is_run = |outcome: &RunResult| {
        let is_new =
            is_known.get_mut(outcome.run).is_some_and(|known| !std::mem::replace(known, true));
        is_new && outcome.probes.len() == plan.probes.len()
    };
    let opened = Journal::open(dir, of, is_run)?;
    output::write_scenario(dir, plan)?;
    Ok(opened)
}

/// A directory with another scenario's results, or with those of `run --out`, is not written into:
/// where both kinds are in one directory, those of `run` are the later ones.
fn check_scenario(dir: &Path, plan: &Plan) -> Result<(), JournalError> {
    if dir.join(crate::kept::RESULTS).exists() {
        return Err(JournalError::OfRun { dir: dir.to_owned() });
    }
    let path = dir.join("scenario.toml");
    match std::fs::read_to_string(&path) {
        Ok(text) if text != plan.text => {
            Err(JournalError::Other { dir: dir.to_owned(), of: "scenario" })
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(JournalError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendChoice;
    use fullpipe_scenario::{Clock, Edition, Stack};

    #[test]
    fn a_directory_is_of_one_link_alone() {
        let text = "cc = \"bbr3\"\nduration = \"100ms\"\nseed = [1, 2]\npath = { rate = \"10mbit\", rtt = \"20ms\" }\n";
        let plan = Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default());
        let plan = plan.expect("a sound file");
        let dir = tempfile::tempdir().expect("a directory");
        // As a run over the link would end; the first is stopped before its second run.
        let sweep = |link: LinkKind, runs: usize| {
            let quic = RunOptions {
                backend: BackendChoice::NOQ_REAL,
                link: Some(link),
                ..RunOptions::default()
            };
            let run = |i: usize| {
                if i >= runs {
                    return Err(RunError::StoppedEarly);
                }
                let stop = AtomicBool::new(false);
                let result = run_point(&plan, i, &RunOptions::default(), &stop, &mut |_| ())?;
                let link = Some(link.name().to_owned());
                Ok(RunResult { stack: Stack::Noq, clock: Clock::Real, link, ..result })
            };
            sweep_over(&plan, dir.path(), &quic, 1, run, &mut |_| ()).map(|done| done.len())
        };
        let stopped = sweep(LinkKind::Udp, 1).expect_err("it was stopped");
        assert!(matches!(stopped, SweepError::Interrupted { done: 1, all: 2 }), "{stopped}");
        let other = sweep(LinkKind::Tun, 2).expect_err("results of udp are there");
        assert!(other.is_of_input(), "{other}");
        assert!(other.to_string().contains("holds the results of another link"), "{other}");
        assert_eq!(sweep(LinkKind::Udp, 2).expect("it goes on"), 2);
    }
}
