//! Steps, outages and losses that begin again, and jitter with a distribution, in scenario files.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

use crate::beside_sim::figure;

/// Shorter than the fourth round.
const HEAD: &str = "cc = \"cubic\"\nduration = \"3900ms\"\n";

fn parse(path: &str) -> Result<Plan, String> {
    let text = format!("{HEAD}path = {{ {path} }}\n");
    let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
    plan.map_err(|error| error.to_string())
}

fn run(path: &str, backend: BackendChoice) -> RunResult {
    let plan = parse(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    backend.check_plan(&plan, "x.toml").expect("the backend has all of it");
    let options = RunOptions { backend, rows: Some(40), ..RunOptions::default() };
    run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs")
}

const RATE: &str = "rate = \"8mbit\", rtt = \"20ms\"";

/// Each list with its rounds, and the same written out.
const PAIRS: [(&str, &str); 5] = [
    (
        "steps = { every = \"1s\", list = [{ at = \"700ms\", rate = \"2mbit\" }] }",
        "steps = [{ at = \"700ms\", rate = \"2mbit\" }, { at = \"1s\", rate = \"8mbit\" }, \
         { at = \"1700ms\", rate = \"2mbit\" }, { at = \"2s\", rate = \"8mbit\" }, \
         { at = \"2700ms\", rate = \"2mbit\" }, { at = \"3s\", rate = \"8mbit\" }, \
         { at = \"3700ms\", rate = \"2mbit\" }]",
    ),
    (
        "steps = { every = \"1s\", repeat = 2, list = [{ at = \"700ms\", rate = \"2mbit\" }] }",
        "steps = [{ at = \"700ms\", rate = \"2mbit\" }, { at = \"1s\", rate = \"8mbit\" }, \
         { at = \"1700ms\", rate = \"2mbit\" }, { at = \"2s\", rate = \"8mbit\" }]",
    ),
    (
        "down = [{ blackhole = { every = \"1500ms\", list = [{ from = \"1s\", to = \"1500ms\" }] } }]",
        "down = [{ blackhole = [{ from = \"1s\", to = \"1500ms\" }, { from = \"2500ms\", to = \"3s\" }] }]",
    ),
    (
        "down = [{ delay_steps = { every = \"2s\", list = [{ at = \"0s\", delay = \"0ms\" }, { at = \"1s\", delay = \"9ms\" }] } }]",
        "down = [{ delay_steps = [{ at = \"0s\", delay = \"0ms\" }, { at = \"1s\", delay = \"9ms\" }, \
         { at = \"2s\", delay = \"0ms\" }, { at = \"3s\", delay = \"9ms\" }] }]",
    ),
    (
        "down = [{ loss_steps = { every = \"2s\", list = [{ at = \"0s\", loss = \"0%\" }, { at = \"1s\", loss = \"5%\" }] } }]",
        "down = [{ loss_steps = [{ at = \"0s\", loss = \"0%\" }, { at = \"1s\", loss = \"5%\" }, \
         { at = \"2s\", loss = \"0%\" }, { at = \"3s\", loss = \"5%\" }] }]",
    ),
];

#[test]
fn what_begins_again_is_the_same_written_out() {
    let plain = run(RATE, BackendChoice::SIM);
    for (short, long) in PAIRS {
        let [short_run, long_run] =
            [short, long].map(|more| run(&format!("{RATE}, {more}"), BackendChoice::SIM));
        assert!(short_run == long_run, "{short}: not the same as {long}");
        assert!(short_run.metrics != plain.metrics, "{short} does nothing");
    }
}

/// Outages that begin with the run, and whose rounds are counted: none after the last.
#[test]
fn outages_from_the_start_end_with_their_rounds() {
    let [short, long] = [
        "down = [{ blackhole = { every = \"1s\", repeat = 2, list = [{ from = \"0s\", to = \"200ms\" }] } }]",
        "down = [{ blackhole = [{ from = \"0s\", to = \"200ms\" }, { from = \"1s\", to = \"1200ms\" }] }]",
    ]
    .map(|more| run(&format!("{RATE}, {more}"), BackendChoice::SIM));
    assert!(short == long);
}

#[test]
fn rounds_hold_over_the_other_virtual_backends_too() {
    for backend in [BackendChoice::NOQ, BackendChoice::TCP] {
        let half = run(&format!("{RATE}, {}", PAIRS[2].0), backend);
        // Outages of a third of the time.
        let utilization = figure(&half.metrics, "utilization");
        assert!((0.3..0.8).contains(&utilization), "{backend}: {utilization}");
    }
}

#[test]
fn a_jitter_of_each_distribution_delays_by_its_mean() {
    let rtt = |more: &str| {
        let text = format!(
            "{HEAD}path = {{ {RATE}, {more} }}\n[[flow]]\napp = {{ rate_limited = {{ rate = \"1mbit\" }} }}\n"
        );
        let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
        let plan = plan.unwrap_or_else(|e| panic!("{more}: {e}"));
        let options = RunOptions::default();
        let run = run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ());
        figure(&run.expect("it runs").metrics, "rtt_ms.mean")
    };
    let plain = rtt("up = [{ delay = \"0ms\" }]");
    for (jitter, mean_ms) in [
        ("\"2ms\"", 1.0),
        ("{ spread = \"2ms\" }", 1.0),
        ("{ spread = \"2ms\", distribution = \"normal\" }", 8.0),
        ("{ spread = \"2ms\", distribution = \"pareto\" }", 1.27),
        ("{ spread = \"2ms\", distribution = \"normal\", correlation = \"25%\" }", 8.0),
    ] {
        let more = rtt(&format!("up = [{{ jitter = {jitter} }}]")) - plain;
        assert!((more - mean_ms).abs() < 0.5, "{jitter}: {more} ms");
    }
}

#[test]
fn a_list_that_cannot_begin_again_is_refused_with_its_field() {
    let steps = "[{ at = \"5s\", rate = \"2mbit\" }]";
    let down = |element: &str| format!("{RATE}, down = [{{ {element} }}]");
    for (path, says) in [
        (
            format!("{RATE}, steps = {{ every = \"5s\", list = {steps} }}"),
            "x.toml:3: path.steps.every: after 5s it begins again",
        ),
        (format!("{RATE}, steps = {{ every = \"0s\", list = {steps} }}"), "every is 0"),
        (format!("{RATE}, steps = {{ list = {steps} }}"), "every"),
        (
            format!("{RATE}, steps = {{ every = \"9s\", repeat = 0, list = {steps} }}"),
            "repeat is 0",
        ),
        (
            format!("{RATE}, steps = {{ every = \"9s\", repeat = 9000000, list = {steps} }}"),
            "path.steps.repeat: 9000000 rounds are too many",
        ),
        (
            down("blackhole = { every = \"2s\", list = [{ from = \"1s\", to = \"3s\" }] }"),
            "path.down[0].blackhole.every: after 2s it begins again",
        ),
        (
            down("loss_steps = [{ at = \"1s\", loss = \"1%\" }]"),
            "path.down[0].loss_steps: the first step has to be at 0",
        ),
        (down("jitter = { spread = \"2ms\", distribution = \"weibull\" }"), "weibull"),
        (down("jitter = { distribution = \"normal\" }"), "spread"),
        (down("jitter = true"), "a time like 2ms, or a table"),
    ] {
        let error = parse(&path).expect_err(&path);
        assert!(error.contains(says) && !error.contains('\n'), "{path}: {error}");
    }
}
