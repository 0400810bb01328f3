//! Runs on tables of rates, round-trip times and losses, over each backend with a virtual clock.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

use crate::beside_sim::figure;

/// Outages at the end and at the beginning, so that one lasts over the start of the next round.
const RATES: &str = "time,mbps\n0,0\n0.2,20\n0.6,5\n1.0,12\n1.5,0\n1.7,0\n";

fn run(dir: &Path, backend: BackendChoice, text: &str) -> RunResult {
    let plan = Plan::parse(text, "x.toml", "x", dir, Edition::default());
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    backend.check_plan(&plan, "x.toml").expect("the backend has all of it");
    let options = RunOptions { backend, rows: Some(100), ..RunOptions::default() };
    run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs")
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let file =
        |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a file");
    file("rates.csv", RATES);
    file("rtts.csv", "time,rtt_ms\n0,40\n1,120\n2,40\n");
    dir
}

#[test]
fn a_rate_that_is_0_at_both_ends_begins_again() {
    let dir = folder();
    for backend in [BackendChoice::SIM, BackendChoice::NOQ, BackendChoice::TCP] {
        let text = "cc = \"cubic\"\nduration = \"8s\"\npath = { trace = \"rates.csv\", rtt = \"20ms\", buffer = \"60kB\" }\n";
        let result = run(dir.path(), backend, text);
        // Of 1.9 s 0.4 s at 20 Mbit/s, 0.4 s at 5 and 0.5 s at 12.
        let mean = (0.4 * 20.0 + 0.4 * 5.0 + 0.5 * 12.0) / 1.9;
        let goodput = figure(&result.metrics, "goodput_mbps");
        assert!((0.2 * mean..=mean).contains(&goodput), "{backend}: {goodput} of {mean}");
        let utilization = figure(&result.metrics, "utilization");
        assert!((0.2..=1.0).contains(&utilization), "{backend}: {utilization}");
        assert!(
            figure(&result.metrics, "queue_ms.max") > 350.0,
            "{backend}: the outage lasts 0.6 s"
        );
    }
}

#[test]
fn an_rtt_over_time_is_that_of_its_time_in_both_directions() {
    let dir = folder();
    for backend in [BackendChoice::SIM, BackendChoice::NOQ, BackendChoice::TCP] {
        let text = "cc = \"cubic\"\nduration = \"3s\"\npath = { trace = \"rtts.csv\", rate = \"50mbit\" }\n\
                    [[flow]]\napp = { rate_limited = { rate = \"1mbit\" } }\nstart = \"0s\"\n";
        let result = run(dir.path(), backend, text);
        let (least, most) =
            (figure(&result.metrics, "rtt_ms.min"), figure(&result.metrics, "rtt_ms.max"));
        assert!((39.9..45.0).contains(&least), "{backend}: {least}");
        assert!((120.0..200.0).contains(&most), "{backend}: {most}");
    }
}

/// Without `repeat` the last row holds.
#[test]
fn a_trace_that_does_not_repeat_ends_with_its_last_row() {
    let dir = folder();
    std::fs::write(dir.path().join("up.csv"), "0 1\n1 20\n").expect("a file");
    let goodput = |more: &str| {
        let text = format!(
            "cc = \"cubic\"\nduration = \"6s\"\npath = {{ trace = {{ file = \"up.csv\"{more} }}, rtt = \"20ms\", buffer = \"60kB\" }}\n"
        );
        figure(&run(dir.path(), BackendChoice::SIM, &text).metrics, "goodput_mbps")
    };
    let (again, once) = (goodput(""), goodput(", repeat = false"));
    assert!(again < 10.5 && (12.0..17.0).contains(&once), "{again} and {once}");
}

#[test]
fn a_loss_over_time_is_that_of_its_time() {
    let dir = folder();
    std::fs::write(dir.path().join("loss.csv"), "t,loss_percent\n0,0\n2,20\n4,0\n")
        .expect("a file");
    let text = "cc = \"fixed:4mbit\"\nduration = \"6s\"\n\
                path = { trace = { file = \"loss.csv\", repeat = false }, rate = \"50mbit\", rtt = \"20ms\" }\n\
                expect = [\"loss_rate == 0 before 2s\", \"loss_rate >= 0.15 from 2s to 4s\", \"loss_rate <= 0.25 from 2s to 4s\", \
                \"loss_rate == 0 after 4s\"]\n";
    let plan = Plan::parse(text, "x.toml", "x", dir.path(), Edition::default()).expect("a plan");
    let result = run(dir.path(), BackendChoice::SIM, text);
    let unmet: Vec<_> = plan.judge_runs(&[result]).into_iter().filter(|v| !v.met).collect();
    assert!(unmet.is_empty(), "{unmet:?}");
}

/// The capacity in the series is that of the trace, and of a constant link its rate.
#[test]
fn the_capacity_over_time_is_that_of_the_first_link() {
    let dir = folder();
    for backend in [BackendChoice::SIM, BackendChoice::NOQ, BackendChoice::TCP] {
        let run = |path: &str| {
            let text = format!(
                "cc = \"cubic\"\nduration = \"3800ms\"\npath = {{ {path}, rtt = \"20ms\" }}\n"
            );
            run(dir.path(), backend, &text)
        };
        let result = run("trace = \"rates.csv\", buffer = \"60kB\"");
        let mut from = 0.0;
        let mut megabits = 0.0;
        for row in &result.series {
            megabits += row.capacity_mbps.expect("a bottleneck") * (row.t_s - from);
            from = row.t_s;
        }
        // Two rounds of 1.9 s, which carry 0.4 s at 20 Mbit/s, 0.4 s at 5 and 0.5 s at 12.
        assert!((megabits - 2.0 * 16.0).abs() < 0.2, "{backend}: {megabits} Mbit until {from} s");
        assert!(result.series.iter().any(|row| row.capacity_mbps == Some(0.0)), "{backend}");
        let result = run("rate = \"9mbit\"");
        assert!(result.series.len() > 50);
        let is_9 = |mbps: f64| (mbps - 9.0).abs() < 0.001;
        assert!(result.series.iter().all(|row| row.capacity_mbps.is_some_and(is_9)), "{backend}");
    }
}
