//! `fullpipe explain` and `fullpipe figures` as processes.

use crate::checks::{TWO_RUNS, check_story};
use crate::common::{fullpipe, run};

fn json(args: &[&str]) -> (Option<i32>, serde_json::Value) {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run(fullpipe(dir.path(), args));
    let value = serde_json::from_slice(&said.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}"));
    (said.code, value)
}

#[test]
fn a_figure_that_is_seen_ends_well_and_says_what_it_saw() {
    let (code, value) =
        json(&["figures", "fig4", "fig1", "--json", "--out", "page", "--svg", "svg"]);
    assert_eq!(code, Some(0));
    let figures = value["figures"].as_array().expect("figures");
    assert_eq!(figures.len(), 2);
    for (figure, name) in figures.iter().zip(["fig4", "fig1"]) {
        assert_eq!(figure["name"], name);
        assert_eq!(figure["seen"], true);
        for field in ["figure", "target", "detail"] {
            assert!(figure[field].as_str().is_some_and(|s| !s.is_empty()), "{name}: {field}");
        }
    }
}

#[test]
fn one_that_is_known_not_to_be_seen_ends_well() {
    // BBRv3 has no flat round trip where the first windows alone last longer than its ProbeRTT's
    // interval.
    let (code, value) = json(&["figures", "fig10", "--json"]);
    let figure = &value["figures"][0];
    assert_eq!((&figure["seen"], &figure["as_known"]), (&false.into(), &true.into()), "{figure}");
    assert_eq!(code, Some(0));
    let checks = figure["checks"].as_array().expect("checks");
    let unmet: Vec<_> = checks.iter().filter(|check| check["met"] == false).collect();
    assert!(!unmet.is_empty() && unmet.iter().all(|c| c["known_failure"].is_string()), "{figure}");
}

/// Goodput is 9.5 Mbit/s: the first expectation is not met, the second is.
#[test]
fn a_known_failure_of_a_file_is_no_failure_until_it_is_met() {
    let dir = tempfile::tempdir().expect("a directory");
    let known =
        |that: &str| format!("{{ that = \"{that}\", known_failure = \"a link of 10 Mbit/s\" }}");
    let (missed, met) = ("goodput_mbps >= 20", "goodput_mbps >= 5");
    for (expect, code, says) in [
        (format!("\"{missed}\""), 1, "1 expectation was not met"),
        (known(missed), 0, ""),
        (known(met), 1, "1 known failure was met: remove its known_failure"),
        (format!("{}, \"{met}\", {}", known(met), known(missed)), 1, "1 known failure was met"),
        (
            "{ that = \"jain >= 1\" }".to_owned(),
            2,
            "x.toml:4: expect[0]: no known failure; write { that =",
        ),
        (known("jam >= 1"), 2, "x.toml:4: expect[0]: 'jam' is no metric"),
    ] {
        let text = format!(
            "cc = \"cubic\"\nduration = \"2s\"\npath = {{ rate = \"10mbit\", rtt = \"20ms\" }}\nexpect = [{expect}]\n"
        );
        std::fs::write(dir.path().join("x.toml"), text).expect("a file");
        let said = run(fullpipe(dir.path(), &["run", "x.toml", "--junit", "x.xml"]));
        assert_eq!(said.code, Some(code), "{expect}: {}", said.stderr);
        assert!(said.stderr.contains(says), "{expect}: {}", said.stderr);
        if code == 2 {
            continue;
        }
        let table = String::from_utf8_lossy(&said.stdout).into_owned();
        let junit = std::fs::read_to_string(dir.path().join("x.xml")).expect("a file");
        let failures = if code == 0 { "failures=\"0\" skipped=\"1\"" } else { "failures=\"1\"" };
        assert!(junit.contains(failures), "{expect}: {junit}");
        if code == 0 {
            assert!(table.contains(". Known: a link of 10 Mbit/s"), "{table}");
        }
    }
}

#[test]
fn without_a_name_there_is_a_list_and_a_wrong_one_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = run(fullpipe(dir.path(), &["figures"]));
    assert_eq!(said.code, Some(0));
    assert!(String::from_utf8_lossy(&said.stdout).contains("\nfig10"));
    let (code, value) = json(&["figures", "--json"]);
    let figures = value["figures"].as_array().expect("figures");
    let fig10 = figures.iter().find(|f| f["name"] == "fig10").expect("one of them");
    assert_eq!((code, fig10["title"].is_string()), (Some(0), true), "{fig10}");
    let said = run(fullpipe(dir.path(), &["figures", "fig11"]));
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("fig10") && said.stderr.lines().count() == 1, "{}", said.stderr);
}

#[test]
fn a_story_is_one_object_too() {
    let (code, value) = json(&["explain", "--cc", "bbr3", "--duration", "2s", "--json"]);
    assert_eq!(code, Some(0));
    assert_eq!(value["chapters"][0]["state"], "Startup");
    assert_eq!(value["elapsed_s"], 2.0);
    assert_eq!(value["interrupted"], false);
    let dir = tempfile::tempdir().expect("a directory");
    for (bad, says) in [
        (&["--cc", "noq:bbr3"][..], "fullpipe compare --stack noq --cc noq:bbr3"),
        (
            &["--cc", "noq:bbr3", "--stack", "noq", "--clock", "real"],
            "fullpipe compare --stack noq --cc noq:bbr3",
        ),
        (&["--rate", "0"], "--rate"),
        (&["--duration", "0s"], "--duration: must be greater than 0"),
        (&["--stack", "noq", "--clock", "real"], "--stack noq --clock real needs a scenario file"),
        (
            &["--stack", "noq", "--clock", "real", "--cc", "bbr3"],
            "--stack noq --clock real needs a scenario file",
        ),
        (&["--run", "1", "--duration", "1s"], "--run needs a scenario file"),
        (&["--flow", "1", "--duration", "1s"], "--flow needs a scenario file"),
    ] {
        let said = run(fullpipe(dir.path(), &[&["explain"], bad].concat()));
        assert_eq!(
            (said.code, said.stderr.lines().count()),
            (Some(2), 1),
            "{bad:?}: {}",
            said.stderr
        );
        assert!(said.stderr.contains(says), "{bad:?}: {}", said.stderr);
    }
}

#[test]
fn explain_takes_a_flow_of_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), TWO_RUNS).expect("a file");
    let explain =
        |args: &[&str]| run(fullpipe(dir.path(), &[&["explain", "x.toml"], args].concat()));
    let said = explain(&["--run", "1", "--stack", "sim", "--json"]);
    check_story(&said);
    for (args, says) in [
        (&[][..], "its lists make 2 runs (0 cc=cubic, 1 cc=bbr3)"),
        (&["--run", "2"], "run 2 of 0 to 1"),
        (&["--rate", "5mbit"], "cannot be used with"),
    ] {
        let said = explain(args);
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains(says), "{says:?}: {}", said.stderr);
    }
}

#[test]
fn a_figure_that_does_not_run_over_a_transport_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    for (args, says) in [
        (
            ["fig2", "--stack=noq", "--clock=real"],
            "fig2 does not run over noq (real clock); there are fig3, fig4",
        ),
        (
            ["fig4", "--stack=linux", "--clock=real"],
            "fig4 does not run over linux (real clock); no figure does",
        ),
    ] {
        let said = run(fullpipe(dir.path(), &["figures", args[0], args[1], args[2]]));
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains(says), "{}", said.stderr);
    }
}
