//! `fullpipe run --baseline` over the simulator.

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
