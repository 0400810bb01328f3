//! Runs of one scenario over a backend with a virtual clock and in the simulator.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::metrics::{Figures, RunResult};
use fullpipe_lab::{BackendChoice, Edition, Plan, RunOptions, run_point};

pub(crate) fn plan(text: &str) -> Plan {
    let edition = Edition::default();
    Plan::parse(text, "x.toml", "x", Path::new(""), edition).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn run(backend: BackendChoice, text: &str) -> RunResult {
    let plan = plan(text);
    plan.check_backend(backend, "x.toml").expect("the backend has all of it");
    let options = RunOptions { backend, rows: Some(200), ..RunOptions::default() };
    run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs")
}

/// Over the backend, and in the simulator.
pub(crate) fn both(backend: BackendChoice, text: &str) -> [RunResult; 2] {
    [backend, BackendChoice::SIM].map(|backend| run(backend, text))
}

pub(crate) fn figure(figures: &Figures, name: &str) -> f64 {
    figures.get(name).copied().flatten().unwrap_or_else(|| panic!("no {name}: {figures:?}"))
}

/// Both values of a figure of the run.
pub(crate) fn figures(runs: &[RunResult; 2], name: &str) -> (f64, f64) {
    (figure(&runs[0].metrics, name), figure(&runs[1].metrics, name))
}

pub(crate) fn assert_near(runs: &[RunResult; 2], name: &str, within: f64) {
    let (ours, simulated) = figures(runs, name);
    assert!(
        (ours / simulated - 1.0).abs() <= within,
        "{name}: {ours} over the backend, {simulated} in the simulator"
    );
}

pub(crate) const PATH: &str = "path = { rate = \"50mbit\", rtt = \"40ms\", buffer = \"1bdp\" }\n";
