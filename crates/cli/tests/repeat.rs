//! `fullpipe run --repeat` and `--baseline`, and one file on every backend that is here.

mod common;

use std::collections::BTreeSet;

use common::{fullpipe, run};
use serde_json::Value;

fn json(dir: &std::path::Path, args: &[&str]) -> (Option<i32>, String, Value) {
    let said = run(fullpipe(dir, args));
    let value = serde_json::from_slice(&said.stdout).unwrap_or(Value::Null);
    (said.code, said.stderr, value)
}

const FILE: &str = "cc = \"cubic\"\nduration = \"1s\"\npath = { rate = \"10mbit\", rtt = \"20ms\" }\n\
                    expect = [\"goodput_mbps >= 1\"]\n";

#[test]
fn repeated_runs_have_intervals_and_are_a_baseline() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), FILE).expect("a file");
    let run_quic = ["run", "x.toml", "--backend", "quic", "--json"];
    let (code, stderr, once) = json(dir.path(), &run_quic);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stderr, before) = json(dir.path(), &[&run_quic[..], &["--repeat", "3"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let scenario = &before["scenarios"][0];
    assert_eq!(scenario["runs"].as_array().map(Vec::len), Some(3));
    let interval = &scenario["intervals"][0]["metrics"]["goodput_mbps"];
    assert_eq!(interval["n"], 3);
    assert!(interval["half_width"].as_f64() > Some(0.0), "{interval}");
    assert_eq!(scenario["expectations"][0]["value"], interval["mean"]);
    // Far below what it was: a baseline of the same runs with ten times the goodput.
    let mut fast = before.clone();
    for run in fast["scenarios"][0]["runs"].as_array_mut().expect("runs") {
        let goodput = run["metrics"]["goodput_mbps"].as_f64().expect("a number");
        run["metrics"]["goodput_mbps"] = (10.0 * goodput).into();
    }
    for (name, value) in [("once.json", &once), ("before.json", &before), ("fast.json", &fast)] {
        std::fs::write(dir.path().join(name), value.to_string()).expect("a file");
    }
    let against = |file: &str| {
        let said = run(fullpipe(
            dir.path(),
            &["run", "x.toml", "--over", "quic", "--repeat", "3", "--baseline", file],
        ));
        (said.code, String::from_utf8_lossy(&said.stdout).into_owned(), said.stderr)
    };
    let (code, stdout, stderr) = against("fast.json");
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stdout.contains("CHANGED goodput_mbps: ") && stdout.contains("± (95 %)"), "{stdout}");
    let (code, _, stderr) = against("once.json");
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("has one run of each point in it") && stderr.contains("--repeat 5"),
        "{stderr}"
    );
}

#[test]
fn a_baseline_of_the_simulator_is_met_to_the_last_digit_or_not() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), FILE).expect("a file");
    let (code, stderr, before) = json(dir.path(), &["run", "x.toml", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    std::fs::write(dir.path().join("b.json"), before.to_string()).expect("a file");
    let said = run(fullpipe(dir.path(), &["run", "x.toml", "--baseline", "b.json"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let mut other = before.clone();
    let rtt = other["scenarios"][0]["runs"][0]["metrics"]["rtt_ms.p50"].as_f64().expect("a number");
    other["scenarios"][0]["runs"][0]["metrics"]["rtt_ms.p50"] = (rtt + 0.001).into();
    std::fs::write(dir.path().join("o.json"), other.to_string()).expect("a file");
    let said = run(fullpipe(dir.path(), &["run", "x.toml", "--baseline", "o.json"]));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("1 metric left the interval of the baseline"), "{}", said.stderr);
    std::fs::write(dir.path().join("text.json"), "{}").expect("a file");
    std::fs::write(dir.path().join("y.toml"), FILE.replace("10mbit", "9mbit")).expect("a file");
    for (args, says) in [
        (&["x.toml", "--baseline", "text.json"][..], "no JSON of fullpipe run"),
        (&["x.toml", "--baseline", "none.json"], "--baseline none.json: No such file"),
        (&["y.toml", "--baseline", "b.json"], "it has no scenario 'y' with this text"),
        (
            &["x.toml", "--backend", "quic", "--baseline", "b.json"],
            "ran over sim in it and is to run over quic",
        ),
        (&["x.toml", "--repeat", "3"], "--repeat: every run of a seed is the same over sim"),
    ] {
        let said = run(fullpipe(dir.path(), &[&["run"], args].concat()));
        assert_eq!(
            (said.code, said.stderr.lines().count()),
            (Some(2), 1),
            "{args:?}: {}",
            said.stderr
        );
        assert!(said.stderr.contains(says), "{args:?}: {}", said.stderr);
    }
}

/// Names of the metrics of the run, of its flows, and which of the flows' have a value.
fn names(value: &Value) -> (BTreeSet<String>, Vec<BTreeSet<String>>, Vec<Vec<String>>) {
    let run = &value["scenarios"][0]["runs"][0];
    let keys =
        |of: &Value| of.as_object().expect("metrics").keys().cloned().collect::<BTreeSet<_>>();
    let flows = run["flows"].as_array().expect("flows");
    let known = |flow: &Value| {
        let metrics = flow["metrics"].as_object().expect("metrics").iter();
        metrics.filter(|(_, value)| !value.is_null()).map(|(name, _)| name.clone()).collect()
    };
    (
        keys(&run["metrics"]),
        flows.iter().map(|f| keys(&f["metrics"])).collect(),
        flows.iter().map(known).collect(),
    )
}

#[test]
fn one_file_brings_the_same_metrics_from_each_backend() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = include_str!("../../../scenarios/three-backends.toml");
    // Long enough that each flow has all of it; whether the expectations are met depends on the machine.
    std::fs::write(dir.path().join("x.toml"), text.replace("20s", "4s")).expect("a file");
    let (code, stderr, sim) = json(dir.path(), &["run", "x.toml", "--json"]);
    assert!(matches!(code, Some(0 | 1)), "{stderr}");
    let wanted = names(&sim);
    assert!(
        wanted.2[2].contains(&"latency_ms.p95".to_owned()),
        "the call's latency: {:?}",
        wanted.2[2]
    );
    for (backend, program) in [("quic", "bbr3"), ("tcp", "bbr3"), ("tcp", "linux:bbr")] {
        let text =
            text.replace("20s", "4s").replace("cc = \"bbr3\"", &format!("cc = \"{program}\""));
        std::fs::write(dir.path().join("y.toml"), text).expect("a file");
        let (code, stderr, real) =
            json(dir.path(), &["run", "y.toml", "--json", "--backend", backend]);
        if code == Some(2) && backend == "tcp" {
            // No root, no TUN, no such algorithm in the kernel, or no program for it in this build.
            println!("skipped {program} over tcp: {stderr}");
            continue;
        }
        assert!(matches!(code, Some(0 | 1)), "{backend}: {stderr}");
        let found = names(&real);
        assert_eq!((&found.0, &found.1), (&wanted.0, &wanted.1), "{backend}");
        for (flow, (found, wanted)) in found.2.iter().zip(&wanted.2).enumerate() {
            // The simulator knows the age of every byte; quic's and tcp's is that of writes.
            let missing: Vec<_> = wanted.iter().filter(|name| !found.contains(name)).collect();
            let is_latency = |name: &&&String| name.starts_with("latency_ms") && flow < 2;
            assert!(
                missing.iter().all(|name| is_latency(&name)),
                "{backend}, flow {flow}: no {missing:?}"
            );
        }
    }
}
