//! `fullpipe run --repeat` and `--baseline`, and one file on every backend that is here.

use std::collections::BTreeSet;

use crate::checks::json;
use crate::common::{fullpipe, run};
use serde_json::Value;

const FILE: &str = "cc = \"cubic\"\nduration = \"1s\"\npath = { rate = \"10mbit\", rtt = \"20ms\" }\n\
                    expect = [\"goodput_mbps >= 1\"]\n";

fn repeated_runs_have_intervals_and_are_a_baseline() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), FILE).expect("a file");
    let run_quic = ["run", "x.toml", "--stack", "noq", "--clock", "real", "--json"];
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
            &[
                "run",
                "x.toml",
                "--stack",
                "noq",
                "--clock",
                "real",
                "--repeat",
                "3",
                "--baseline",
                file,
            ],
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

const THREE_BACKENDS: &str = include_str!("../../../../scenarios/three-backends.toml");

/// That a run over a backend has the metrics that one over the simulator has.
fn has_the_metrics_of_the_simulator(stack: &str, cc: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    // Long enough that each flow has all of it; whether the expectations are met depends on the
    // machine.
    let text = THREE_BACKENDS.replace("20s", "4s");
    std::fs::write(dir.path().join("x.toml"), &text).expect("a file");
    let (code, stderr, sim) = json(dir.path(), &["run", "x.toml", "--json"]);
    assert!(matches!(code, Some(0 | 1)), "{stderr}");
    let wanted = names(&sim);
    assert!(
        wanted.2[2].contains(&"latency_ms.p95".to_owned()),
        "the call's latency: {:?}",
        wanted.2[2]
    );
    let text = text.replace("cc = \"bbr3\"", &format!("cc = \"{cc}\""));
    std::fs::write(dir.path().join("y.toml"), text).expect("a file");
    let (code, stderr, real) =
        json(dir.path(), &["run", "y.toml", "--json", "--stack", stack, "--clock", "real"]);
    assert!(matches!(code, Some(0 | 1)), "{stack}: {stderr}");
    let found = names(&real);
    assert_eq!((&found.0, &found.1), (&wanted.0, &wanted.1), "{stack}");
    for (flow, (found, wanted)) in found.2.iter().zip(&wanted.2).enumerate() {
        // The simulator knows the age of every byte; quic's and tcp's is that of writes.
        let missing: Vec<_> = wanted.iter().filter(|name| !found.contains(name)).collect();
        let is_latency = |name: &&&String| name.starts_with("latency_ms") && flow < 2;
        assert!(
            missing.iter().all(|name| is_latency(&name)),
            "{stack}, flow {flow}: no {missing:?}"
        );
    }
}

fn a_file_brings_the_same_metrics_over_quic() {
    has_the_metrics_of_the_simulator("noq", "bbr3");
}

fn a_file_brings_the_same_metrics_over_the_kernels_tcp() {
    let loaded = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if !loaded.is_ok_and(|names| names.split_whitespace().any(|name| name == "bbr")) {
        fullpipe_testkit::skip("no bbr in this kernel");
    }
    has_the_metrics_of_the_simulator("linux", "linux:bbr");
}

/// With the program for the kernel, which a build has that asks for it.
fn a_file_brings_the_same_metrics_over_the_kernels_tcp_with_our_program() {
    if !cfg!(feature = "kernel") {
        fullpipe_testkit::skip("this build is without the feature kernel");
    }
    has_the_metrics_of_the_simulator("linux", "bbr3");
}

fullpipe_testkit::tests! {
    long timed [] a_file_brings_the_same_metrics_over_quic;
    long [] repeated_runs_have_intervals_and_are_a_baseline;
    long timed [Root, Tun, Ip] a_file_brings_the_same_metrics_over_the_kernels_tcp;
    long timed [Root, Tun, Ip, Kernel] a_file_brings_the_same_metrics_over_the_kernels_tcp_with_our_program;
}
