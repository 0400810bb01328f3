//! Surveys in the simulator.

mod drawing;
mod finding;
#[path = "../../../judge/tests/planted/mod.rs"]
#[allow(dead_code, reason = "the names of the defects are for another test")]
mod planted;
mod resuming;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunError, RunOptions, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::plan::Plan;
use fullpipe_survey::Kind;
use fullpipe_survey::results::Outcomes;
use fullpipe_survey::run::{Options, Survey};
use fullpipe_survey::text::Senders;

/// A survey of these algorithms on so many paths.
fn options(names: &[&str], paths: u64, kinds: &[Kind]) -> Options {
    Options {
        paths,
        seed: 1,
        kinds: kinds.to_vec(),
        seeds: NonZeroUsize::MIN,
        senders: Senders {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            programs: Vec::new(),
        },
        backend: BackendChoice::SIM,
        link: None,
        jobs: 2,
        max_memory: 2_000_000_000,
    }
}

fn survey(options: Options) -> Survey {
    Survey::new(options).expect("paths that can be run")
}

/// Everything that is not in the directory yet.
fn run(survey: &Survey, dir: &Path) -> Outcomes {
    let results = survey.open(dir, b"this program").expect("a directory");
    survey.run(results, &point, |_| ()).expect("it is written")
}

/// A run in the simulator.
fn point(plan: &Plan, i: usize) -> Result<RunResult, RunError> {
    run_point(plan, i, &RunOptions::default(), &AtomicBool::new(false), &mut |_| ())
}
