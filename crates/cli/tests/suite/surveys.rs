//! `fullpipe survey`: what it prints and writes, and its exit codes.

use std::path::Path;
use std::process::Stdio;

use fullpipe_testkit::until;

use crate::checks::{has, one_object, refused_with};
use crate::common::{Running, Said, fullpipe, names, run};

/// A survey in which the algorithm under test is no match for the other.
const BROKEN: [&str; 7] =
    ["survey", "--cc", "fixed:100kbit,cubic", "--paths", "3", "--kind", "aqm"];

fn survey(dir: &Path, more: &[&str]) -> Said {
    run(fullpipe(dir, &[&BROKEN, more].concat()))
}

fn stdout(said: &Said) -> &str {
    std::str::from_utf8(&said.stdout).expect("UTF-8")
}

#[test]
fn the_worst_paths_are_files_that_run_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = survey(dir.path(), &["--shrink", "1"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for part in
        ["fixed:100kbit against cubic", "goodput", "aqm", "report: fullpipe-survey/report.html"]
    {
        assert!(stdout(&said).contains(part), "no {part}: {}", stdout(&said));
    }
    let out = dir.path().join("fullpipe-survey");
    assert_eq!(names(&out), ["report.html", "runs.jsonl", "survey.json", "worst"]);
    let file = "fullpipe-survey/worst/fixed_100kbit-below-cubic-goodput-1.toml";
    assert!(stdout(&said).contains(file), "{}", stdout(&said));
    let again = run(fullpipe(dir.path(), &["run", file]));
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    assert!(stdout(&again).contains("NOT MET goodput_mbps[fixed:100kbit]"), "{}", stdout(&again));
}

#[test]
fn json_is_one_object_with_units_in_its_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = survey(dir.path(), &["--json", "--out", "a"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let report = one_object(&said);
    has(&report, &["schema_version", "seed", "paths", "algorithms", "limit", "pairs", "worst"]);
    has(&report["cases"][0], &["path", "rate_mbps", "rtt_ms", "buffer_bdp", "disturbances"]);
    has(&report["pairs"][0], &["cc", "against"]);
    has(&report["pairs"][0]["comparisons"][0], &["measure", "paths", "short", "median", "worst"]);
    assert_eq!(report["pairs"][0]["comparisons"][0]["measure"], "goodput_mbps");
    has(&report["outcomes"][0], &["path", "cc", "goodput_mbps"]);
    // Its names have a dot of their own.
    assert!(report["outcomes"][0]["queue_ms.p95"].is_number(), "{}", report["outcomes"][0]);
    let written = std::fs::read(dir.path().join("a/survey.json")).expect("a file");
    assert!(written == said.stdout, "the file is what was printed");
    let again = survey(dir.path(), &["--json", "--out", "a"]);
    assert!(again.stdout == said.stdout, "nothing is left to be run");
    let fresh = survey(dir.path(), &["--json", "--out", "b", "--jobs", "1"]);
    let elsewhere = stdout(&fresh).replace("\"b/worst/", "\"a/worst/");
    assert!(elsewhere.as_bytes() == said.stdout, "the same on each machine");
}

#[test]
fn what_falls_below_is_exit_code_1() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = survey(dir.path(), &["--out", "before", "--fail-below", "0.001"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let said = survey(dir.path(), &["--out", "before", "--fail-below", "0.85"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("3 goodputs are below 0.85 x"), "{}", said.stderr);
    let said = survey(dir.path(), &["--baseline", "before/survey.json"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // As if no path had been short before.
    let before = dir.path().join("before/survey.json");
    let text = std::fs::read_to_string(&before).expect("a file");
    std::fs::write(&before, text.replace("\"short\":true", "\"short\":false")).expect("a file");
    let said = survey(dir.path(), &["--baseline", "before/survey.json"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(
        stdout(&said).contains("WORSE fixed:100kbit against cubic in goodput"),
        "{}",
        stdout(&said)
    );
}

#[test]
fn against_names_who_is_compared_with_whom() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["survey", "--paths", "1", "--kind", "aqm", "--shrink", "0"];
    let pairs = |more: &[&str]| {
        let said = run(fullpipe(dir.path(), &[&args, more, &["--json"]].concat()));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let report = one_object(&said);
        let pairs = report["pairs"].as_array().expect("a list").iter();
        let name =
            |pair: &serde_json::Value, of: &str| pair[of].as_str().expect("a name").to_owned();
        pairs.map(|pair| (name(pair, "cc"), name(pair, "against"))).collect::<Vec<_>>()
    };
    let owned = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
    let usual = [("bbr1", "cubic"), ("bbr1", "reno"), ("bbr1", "the best of the others")];
    assert_eq!(pairs(&["--cc", "bbr1,cubic,reno"]), usual.map(owned));
    let each = [("bbr1", "reno"), ("cubic", "reno")];
    assert_eq!(pairs(&["--cc", "bbr1,cubic", "--against", "reno"]), each.map(owned));
}

#[test]
fn a_directory_that_was_named_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let other = |more: &[&str]| survey(dir.path(), &[&["--seed", "2"], more].concat());
    assert_eq!(survey(dir.path(), &["--out", "mine"]).code, Some(0));
    let said = other(&["--out", "mine"]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
    assert!(said.stderr.contains("mine holds the results of another survey"), "{}", said.stderr);
    assert_eq!(survey(dir.path(), &[]).code, Some(0));
    assert_eq!(other(&[]).code, Some(0));
}

#[test]
fn ctrl_c_keeps_what_is_done() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut args = BROKEN;
    args[4] = "2000";
    let mut command = fullpipe(dir.path(), &[&args[..], &["--out", "out"]].concat());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().expect("it starts"));
    let journal = dir.path().join("out/runs.jsonl");
    let lines = || std::fs::read_to_string(&journal).unwrap_or_default().lines().count();
    until("some runs are in the journal", || lines() > 5);
    running.interrupt();
    assert_eq!(running.end().code(), Some(130));
    let stderr = running.stderr();
    assert!(stderr.contains("runs are done; the same command goes on from there"), "{stderr}");
    assert!(dir.path().join("out/survey.json").exists());
    // Fewer paths than were asked for go on there as well.
    assert_eq!(survey(dir.path(), &["--out", "out"]).code, Some(0));
}

#[test]
fn bad_input_is_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.json"), "{\"schema_version\": 4}").expect("a file");
    refused_with(
        dir.path(),
        &[
            (&["survey", "--cc", "bbr3"], &["'bbr3' has nothing to be compared with"]),
            (&["survey", "--seeds", "0"], &["--seeds", "too few"]),
            (&["survey", "--cc", "bbr"], &["unknown algorithm", "did you mean"]),
            (&["survey", "--cc", "noq:bbr3,cubic"], &["none of the 500 paths", "noq:bbr3"]),
            (&["survey", "--kind", "wind"], &["'wind'", "late-host"]),
            (&["survey", "--paths", "0"], &["--paths", "too few"]),
            (&["survey", "--paths", "-3"], &["--paths", "below 0"]),
            (&["survey", "--limit", "95%"], &["--limit", "0.95"]),
            (&["survey", "--fail-below", "nan"], &["--fail-below", "0.95"]),
            (&["survey", "--baseline", "none.json"], &["--baseline none.json", "No such file"]),
            (&["survey", "--baseline", "x.json"], &["--baseline x.json", "survey.json"]),
            (
                &["survey", "--stack", "noq", "--clock", "real", "--baseline", "x.json"],
                &["--baseline", "sim"],
            ),
            (&["survey", "--out", "x.json"], &["x.json"]),
        ],
    );
    assert_eq!(names(dir.path()), ["x.json"]);
}
