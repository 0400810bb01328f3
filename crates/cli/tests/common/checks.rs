//! Checks of the command's output, for tests of both kinds.
#![allow(dead_code, unreachable_pub)]

use std::path::Path;

use serde_json::Value;

use crate::common::{Said, fullpipe, run};

/// Each row: the arguments, and what the line must tell.
pub fn refused_with(dir: &Path, rows: &[(&[&str], &[&str])]) {
    for (args, telling) in rows {
        let said = run(fullpipe(dir, args));
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {}", said.stderr);
        assert!(said.stderr.starts_with("error: "), "{args:?}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{args:?}");
        for part in *telling {
            assert!(said.stderr.contains(part), "{args:?} should tell {part:?}: {}", said.stderr);
        }
    }
}

/// The one line of JSON that a command printed.
pub fn one_object(said: &Said) -> Value {
    let text = std::str::from_utf8(&said.stdout).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "one line and nothing else: {text}");
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}; {}", said.stderr))
}

/// That each of these fields is there, with a dot between an object and its field.
pub fn has(object: &Value, fields: &[&str]) {
    for field in fields {
        let found = field.split('.').try_fold(object, |o, name| o.get(name));
        assert!(found.is_some(), "{field} is missing in {object}");
    }
}

const RUN: &[&str] = &[
    "run",
    "scenario",
    "stack",
    "clock",
    "at",
    "seed",
    "rate_mbps",
    "empty_rtt_ms",
    "metrics",
    "flows",
    "links",
    "series",
];
const METRICS: &[&str] = &[
    "goodput_mbps",
    "utilization",
    "completed_bytes",
    "elapsed_s",
    "queue_ms.mean",
    "queue_ms.p50",
    "queue_ms.p95",
    "queue_ms.p99",
    "queue_ms.max",
    "rtt_ms.min",
    "rtt_ms.p50",
    "rtt_ms.p95",
    "rtt_ms.p99",
    "loss_rate",
    "retransmit_rate",
    "jain",
];
const ROW: &[&str] = &[
    "t_s",
    "flow",
    "goodput_mbps",
    "queue_ms",
    "rtt_ms",
    "cwnd_bytes",
    "inflight_bytes",
    "pacing_mbps",
    "state",
];

/// That a run has each field, a value of each metric, and a series.
pub fn check_run(run: &Value, flows: usize) {
    has(run, RUN);
    for metric in METRICS {
        assert!(run["metrics"][metric].is_number(), "{metric} of {}", run["metrics"]);
    }
    let rows = run["series"].as_array().expect("rows");
    assert!(rows.len() > 5, "{} rows", rows.len());
    rows.iter().for_each(|row| has(row, ROW));
    let each = run["flows"].as_array().expect("flows");
    assert_eq!(each.len(), flows);
    for flow in each {
        has(flow, &["name", "cc", "start_s", "end_s", "metrics"]);
        assert!(flow["metrics"]["goodput_mbps"].is_number(), "{flow}");
        assert!(flow["metrics"]["completed_bytes"].is_number(), "{flow}");
    }
}

/// A scenario of two runs, the second with bbr3.
pub const TWO_RUNS: &str = "cc = [\"cubic\", \"bbr3\"]\nduration = \"2s\"\n\
                path = { rate = \"10mbit\", rtt = \"20ms\" }\n";

/// That `explain` told the second of them.
pub fn check_story(said: &Said) {
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let story: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!((&story["cc"], &story["chapters"][0]["state"]), (&"bbr3".into(), &"Startup".into()));
    assert!(story["chapters"].as_array().is_some_and(|c| c.len() > 2), "{story}");
    assert!(story["received_bytes"].as_u64().is_some_and(|n| n > 1_000_000), "{story}");
}

/// Exit code, stderr, and JSON of a command.
pub fn json(dir: &Path, args: &[&str]) -> (Option<i32>, String, Value) {
    let said = run(fullpipe(dir, args));
    let value = serde_json::from_slice(&said.stdout).unwrap_or(Value::Null);
    (said.code, said.stderr, value)
}

/// That each expectation of these files of scenarios/bbr3x is met or known not to be.
pub fn limits_of_bbr3x(files: &[&str]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bbr3x");
    let said = run(fullpipe(&dir, &[&["run", "--json"], files].concat()));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let report: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let scenarios = report["scenarios"].as_array().expect("a list");
    assert_eq!(scenarios.len(), files.len());
    for scenario in scenarios {
        let expectations = scenario["expectations"].as_array().expect("a list");
        assert!(!expectations.is_empty(), "{} expects nothing", scenario["file"]);
    }
}
