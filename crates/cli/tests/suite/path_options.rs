//! The path on the command line: the same options with the same meaning for each command.

use std::path::Path;

use crate::checks::{json, refused_with};
use crate::common::{fullpipe, run};

/// Each option with a value, and what the scenario has of it.
const OPTIONS: [(&[&str], &str); 16] = [
    (&["--rate", "20mbit"], "rate = \"20mbit\""),
    (&["--rtt", "60ms"], "rtt = \"60ms\""),
    (&["--buffer", "50ms"], "buffer = \"50ms\""),
    (&["--loss", "0.5%"], "loss = \"0.5%\""),
    (&["--trace", "lte"], "trace = \"lte\""),
    (&["--queue", "codel"], "queue = \"codel\""),
    (&["--loss-model", "ge:0.1%,10%"], "gilbert_elliott"),
    (&["--policer", "25mbit,100kB"], "policer"),
    (&["--jitter", "2ms"], "[[path.down]]\njitter = \"2ms\""),
    (
        &["--jitter", "2ms,normal"],
        "[path.down.jitter]\nspread = \"2ms\"\ndistribution = \"normal\"",
    ),
    (
        &["--jitter", "2ms,pareto,25%"],
        "spread = \"2ms\"\ndistribution = \"pareto\"\ncorrelation = \"25%\"",
    ),
    (&["--reorder", "1%,3ms"], "reordering"),
    (&["--up-rate", "500kbit"], "rate = \"500kbit\""),
    (&["--up-trace", "wifi"], "trace = \"wifi\""),
    (&["--up-rate", "500kbit", "--up-buffer", "3pkts"], "buffer = \"3pkts\""),
    (&["--up-loss", "20%"], "[[path.up]]\nloss = \"20%\""),
];

#[test]
fn each_command_with_a_path_has_each_option() {
    for command in [&["compare"][..], &["explain"], &["link"], &["judge"], &["peers", "run"]] {
        let help = run(fullpipe(Path::new("."), &[command, &["--help"]].concat()));
        let help = String::from_utf8(help.stdout).expect("text");
        let all = OPTIONS.iter().map(|(option, _)| option[0]).chain(["--scenario", "--seed"]);
        let of_a_trace =
            ["--rate-unit", "--rtt-unit", "--time-unit", "--time-format", "--delay-trace"];
        for option in all.chain(of_a_trace) {
            assert!(help.contains(&format!("{option} <")), "{command:?}: no {option}");
        }
    }
}

#[test]
fn each_option_changes_the_run() {
    let figures = |options: &[&str]| {
        let head = ["compare", "--stack", "sim", "--cc", "bbr3", "--duration", "3s", "--json"];
        let (code, stderr, said) = json(Path::new("."), &[&head, options].concat());
        assert_eq!(code, Some(0), "{options:?}: {stderr}");
        let scenario = &said["scenarios"][0];
        let toml = scenario["toml"].as_str().expect("a text").to_owned();
        (scenario["runs"][0]["metrics"].clone(), toml)
    };
    let (usual, _) = figures(&["--rate", "100mbit"]);
    for (options, part) in OPTIONS {
        let (metrics, toml) = figures(options);
        assert!(toml.contains(part), "{options:?}: {toml}");
        assert_ne!(metrics, usual, "{options:?} changes nothing");
    }
}

const FILE: &str = "name = \"mine\"\ncc = \"reno\"\nduration = \"3s\"\nseed = 7\n\
    expect = [\"goodput_mbps > 1000\"]\ncross = [{ rate = \"2mbit\", arrivals = \"poisson\" }]\n\
    path = { rate = \"10mbit\", rtt = \"30ms\", trace = { file = \"x.csv\", columns = { time = \"t\", loss = \"loss\" } }, \
    steps = { every = \"1s\", list = [{ at = \"700ms\", rate = \"5mbit\" }] } }\n\
    flow = [{ count = 2 }]\n";

#[test]
fn a_scenarios_path_carries_other_flows() {
    let dir = tempfile::tempdir().expect("a directory");
    // The traces are beside the scenario and not where the command is.
    let inside = dir.path().join("inside");
    std::fs::create_dir(&inside).expect("a directory");
    let file = |name: &str, text: &str| std::fs::write(inside.join(name), text).expect("a file");
    file("x.csv", "t,loss\n0,0\n1,0.01\n");
    file("x.toml", FILE);
    file("one.toml", &FILE.replace("count = 2", "cc = \"cubic\"").replace("> 1000", "> 0"));
    let metrics = |args: &[&str]| {
        let (code, stderr, said) = json(dir.path(), args);
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
        said["scenarios"][0]["runs"][0]["metrics"].clone()
    };
    let compare = ["compare", "--stack", "sim", "--cc", "cubic", "--json", "--scenario"];
    let compared = metrics(&[&compare[..], &["inside/x.toml"]].concat());
    assert_eq!(compared, metrics(&["run", "inside/one.toml", "--json"]));
    let explain = ["explain", "--cc", "cubic", "--scenario", "inside/x.toml", "--json"];
    let (code, stderr, said) = json(dir.path(), &explain);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(said["truth"]["changes"], true);
    assert!((2.9..3.1).contains(&said["elapsed_s"].as_f64().expect("the file's")), "{said:.300}");
}

/// A file of three variants, of which one says nothing of the path and two the same, and three
/// seeds, is two paths with three seeds each.
#[test]
fn the_paths_of_a_file_with_variants_and_seeds_are_all_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "cc = \"cubic\"\nduration = \"1s\"\nseed = [3, 4, 5]\n\
        path = { rate = \"10mbit\", rtt = \"30ms\", loss = \"1%\" }\n\
        [[variant]]\nname = \"as it is\"\ncc = \"reno\"\n\
        [[variant]]\nname = \"slow\"\npath = { rate = \"5mbit\" }\n\
        [[variant]]\nname = \"slow too\"\ncc = \"reno\"\npath = { rate = \"5mbit\" }\n";
    std::fs::write(dir.path().join("x.toml"), text).expect("a file");
    // Each point with its metrics, in the order of the grid.
    let points = |args: &[&str]| {
        let (code, stderr, said) = json(dir.path(), args);
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
        let runs = said["scenarios"][0]["runs"].as_array().expect("runs").clone();
        let point = |run: &serde_json::Value| (run["at"].to_string(), run["metrics"].clone());
        runs.iter().map(point).collect::<Vec<_>>()
    };
    let compare = ["compare", "--stack", "sim", "--cc", "reno", "--json", "--scenario", "x.toml"];
    let compared = points(&compare);
    let own = points(&["run", "x.toml", "--json"]);
    assert_eq!(compared.len(), 6, "{compared:?}");
    // Those of the file whose algorithm is reno as well.
    assert_eq!(compared[..3], own[..3]);
    let metrics = |points: &[(String, serde_json::Value)]| {
        points.iter().map(|(_, metrics)| metrics.clone()).collect::<Vec<_>>()
    };
    assert_eq!(metrics(&compared[3..]), metrics(&own[6..]));
    let explain = ["explain", "--cc", "reno", "--scenario", "x.toml"];
    let (code, stderr, _) = json(dir.path(), &[&explain[..], &["--json", "--run", "4"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let rows: &[(&[&str], &[&str])] = &[
        (&explain, &["x.toml: its lists make 6 runs", "--run 0"]),
        (&[&explain[..], &["--run", "6"]].concat(), &["x.toml"]),
        (&["judge", "--scenario", "x.toml", "--", "true"], &["x.toml: its list of 3 seeds"]),
        (&["link", "--scenario", "x.toml", "--", "true"], &["x.toml: its lists make 6 paths"]),
        (&["peers", "run", "linux", "--scenario", "x.toml"], &["x.toml: its list of 3 seeds"]),
    ];
    refused_with(dir.path(), rows);
}

#[test]
fn a_path_that_is_none_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, path: &str| {
        let text = format!("cc = \"cubic\"\npath = {path}\n");
        std::fs::write(dir.path().join(name), text).expect("a file");
    };
    file("x.toml", "{ rate = \"10mbit\", rtt = \"40ms\" }");
    file("wrong.toml", "{ rate = \"10mbit\" }");
    file("two.toml", "{ rate = [\"10mbit\", \"20mbit\"], rtt = \"40ms\" }");
    file("cross.toml", "{ rate = \"10mbit\", rtt = \"40ms\" }\ncross = [{ rate = \"1mbit\" }]");
    let rows: &[(&[&str], &[&str])] = &[
        (&["compare", "--scenario", "x.toml", "--rtt", "1ms"], &["--scenario", "--rtt"]),
        (&["compare", "--scenario", "wrong.toml"], &["wrong.toml:2: path: no rtt"]),
        (&["explain", "--scenario", "none.toml"], &["none.toml", "No such file"]),
        (&["explain", "x.toml", "--scenario", "x.toml"], &["--scenario"]),
        (&["explain", "--jitter", "2ms,cauchy"], &["--jitter", "no distribution", "2ms,pareto"]),
        (&["explain", "--policer", "25mbit,100"], &["--policer: a bucket of 100 bytes"]),
        (
            &["explain", "--jitter", "1ms", "--policer", "25mbit,100", "--loss-model", "ge:1%,10%"],
            &["error: --policer: "],
        ),
        (&["link", "--policer", "25mbit,100", "--", "true"], &["error: --policer: "]),
        (&["explain", "--up-rate", "0bit"], &["error: --up-rate: '0bit' carries nothing"]),
        (&["explain", "--queue", "red"], &["--queue: missing field `min`; write { red = {"]),
        (&["judge", "--scenario", "wrong.toml", "--", "true"], &["wrong.toml:2: path: no rtt"]),
        (&["judge", "--scenario", "two.toml", "--", "true"], &["2 paths"]),
        (&["judge", "--scenario", "cross.toml", "--", "true"], &["cross"]),
        (&["judge", "--trace", "lte", "--rate", "1mbit", "--", "true"], &["there is a rate too"]),
        (&["judge", "--quick", "--rate", "1mbit", "--", "true"], &["--quick", "--rate"]),
        (&["judge", "--duration", "20s", "--", "true"], &["--duration is that of a path"]),
        (&["judge", "--rate", "1mbit", "--duration", "2s", "--", "true"], &["from 6 s to an hour"]),
        (&["judge", "--pcap", "x.pcap", "--rate", "1mbit"], &["--pcap"]),
        (&["peers", "run", "linux", "--queue", "codl"], &["did you mean codel?"]),
        (&["peers", "run", "linux", "--scenario", "two.toml"], &["2 paths"]),
    ];
    refused_with(dir.path(), rows);
}
