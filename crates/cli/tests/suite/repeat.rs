//! `fullpipe run --baseline` and `--repeat` over the simulator.

use crate::checks::json;
use crate::common::{fullpipe, run};

const FILE: &str = "cc = \"cubic\"\nduration = \"1s\"\npath = { rate = \"10mbit\", rtt = \"20ms\" }\n\
                    expect = [\"goodput_mbps >= 1\"]\n";

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
            &["x.toml", "--stack", "noq", "--clock", "real", "--baseline", "b.json"],
            "ran with --stack sim --clock virtual in it and is to run with --stack noq --clock real",
        ),
        (
            &["x.toml", "--repeat", "3", "--same-seed"],
            "--same-seed: every run of a seed is the same over sim (virtual clock); leave it out",
        ),
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

/// Random events differ from one repetition to the next, and each repetition can be run again by
/// its seed.
#[test]
fn each_repetition_has_a_seed_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "cc = \"bbr3\"\nseed = 7\nduration = \"3s\"\n\
                path = { rate = \"20mbit\", rtt = \"20ms\", loss = \"1%\" }\n";
    std::fs::write(dir.path().join("x.toml"), file).expect("a file");
    let (code, stderr, said) = json(dir.path(), &["run", "x.toml", "--repeat", "5", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    let scenario = &said["scenarios"][0];
    let runs = scenario["runs"].as_array().expect("runs");
    let seeds: Vec<u64> = runs.iter().map(|run| run["seed"].as_u64().expect("a seed")).collect();
    let distinct: std::collections::BTreeSet<&u64> = seeds.iter().collect();
    assert_eq!((seeds.len(), seeds[0], distinct.len()), (5, 7, 5), "{seeds:?}");
    let goodput = &scenario["intervals"][0]["metrics"]["goodput_mbps"];
    assert_eq!(goodput["n"], 5);
    assert!(goodput["half_width"].as_f64() > Some(0.01), "{goodput}");

    let again = file.replace("seed = 7", &format!("seed = {}", seeds[3]));
    std::fs::write(dir.path().join("y.toml"), again).expect("a file");
    let (code, stderr, said) = json(dir.path(), &["run", "y.toml", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(said["scenarios"][0]["runs"][0]["metrics"], runs[3]["metrics"]);
}

/// One table of several files: one line of names, also where they have other axes.
#[test]
fn csv_of_several_files_has_one_header() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), FILE).expect("a file");
    let other = FILE.replace("\"10mbit\"", "[\"5mbit\", \"9mbit\"]");
    std::fs::write(dir.path().join("y.toml"), other).expect("a file");
    let said = run(fullpipe(dir.path(), &["run", "x.toml", "y.toml", "--csv"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
    let rate = lines[0].iter().position(|name| *name == "rate").expect("an axis");
    let rates: Vec<&str> = lines[1..].iter().map(|line| line[rate]).collect();
    assert_eq!(rates, ["", "5mbit", "9mbit"]);
}
