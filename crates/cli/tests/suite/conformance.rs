//! `fullpipe conformance` as a process: what comes out, and how it ends. That the cases pass is the
//! lab's business; here are fast ones.

use crate::common::{fullpipe, run};
use serde_json::Value;

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn one_line_a_case_in_the_order_asked_for_and_the_count() {
    let dir = here();
    let said = run(fullpipe(
        dir.path(),
        &["conformance", "14", "appendix_11_idleness_is_as_good_as_probe_rtt"],
    ));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("ok   14 a_bdp_below_a_packet: "), "{text}");
    assert!(lines[1].starts_with("ok   11 idleness_is_as_good_as_probe_rtt: "), "{text}");
    assert_eq!(lines[2], "2 of 2");
}

#[test]
fn json_is_one_object() {
    let dir = here();
    let said = run(fullpipe(dir.path(), &["conformance", "a_bdp_below_a_packet", "--json"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let case = &object["cases"][0];
    assert_eq!((&case["id"], &case["passed"]), (&Value::from(14), &Value::from(true)));
    assert_eq!(case["name"], "a_bdp_below_a_packet");
    assert!(case["detail"].as_str().is_some_and(|d| d.contains("% of the link")), "{case}");
    assert!(object.get("interrupted").is_none());
}

#[test]
fn an_unknown_case_is_bad_input() {
    let dir = here();
    for name in ["0", "23", "nonsense"] {
        let said = run(fullpipe(dir.path(), &["conformance", name]));
        assert_eq!(said.code, Some(2), "{name}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
        assert!(said.stderr.contains(name) && said.stderr.contains("1 to 22"), "{}", said.stderr);
    }
}

#[test]
fn a_case_that_an_amendment_changes_is_named_with_it() {
    let dir = here();
    let said = run(fullpipe(dir.path(), &["conformance", "--cc", "bbr3x", "8", "12"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    let changed = "ok    8 down_ends_on_inflight: changed by short_probe: ";
    assert!(lines[0].starts_with(changed), "{text}");
    assert!(lines[1].starts_with("ok   12 startup_on_a_link_with_aggregation: "), "{text}");
    assert_eq!(lines[2], "1 of 2, 1 changed by amendments");
    let said = run(fullpipe(dir.path(), &["conformance", "--cc", "bbr-swift", "14", "4"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    let changed = "ok   14 a_bdp_below_a_packet: changed by min_pipe_cwnd: ";
    assert!(lines[0].starts_with(changed), "{text}");
    assert!(lines[1].starts_with("ok    4 drain_ends_on_time: "), "{text}");
    assert_eq!(lines[2], "1 of 2, 1 changed by its rules");
    let said = run(fullpipe(dir.path(), &["conformance", "--cc", "cubic"]));
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
    assert!(said.stderr.contains("write bbr3, bbr3x, bbr-swift, noq:bbr3"), "{}", said.stderr);
}

#[test]
fn a_stacks_own_fails_by_name_and_runs_in_its_stack_alone() {
    let dir = here();
    let own = ["conformance", "--cc", "noq:bbr3", "--stack", "noq", "8"];
    let said = run(fullpipe(dir.path(), &own));
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    assert_eq!(said.code, Some(1), "{text}{}", said.stderr);
    assert!(text.starts_with("FAIL  8 down_ends_on_inflight: step 4 "), "{text}");
    assert!(text.ends_with("\n0 of 1\n"), "{text}");
    assert!(said.stderr.ends_with("1 of 1 cases failed\n"), "{}", said.stderr);
    let rows = [
        (&["--cc", "noq:bbr3"][..], "write --stack noq"),
        (&["--cc", "bbr3x", "--stack", "noq"], "write --cc bbr3"),
        (&["--cc", "bbr-swift", "--stack", "noq"], "write --cc bbr3"),
    ];
    for (args, words) in rows {
        let said = run(fullpipe(dir.path(), &[&["conformance"], args].concat()));
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
        assert!(said.stderr.contains(words), "{}", said.stderr);
    }
}

#[cfg(feature = "quinn")]
#[test]
fn a_case_of_variables_that_a_version_has_not_is_not_applicable() {
    let dir = here();
    let own = ["conformance", "--cc", "quinn:bbr", "--stack", "quinn", "22"];
    let said = run(fullpipe(dir.path(), &own));
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let words = "not applicable: no such variable: ProbeBW_REFILL (step 1)";
    let line =
        format!("n/a  22 application_limited_in_refill: {words}\n0 of 1, 1 not applicable\n");
    assert_eq!(text, line);
    let said = run(fullpipe(dir.path(), &[&own[..], &["--json"]].concat()));
    let object: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let case = &object["cases"][0];
    assert_eq!((&case["passed"], &case["undecided"]), (&false.into(), &"not_applicable".into()));
}

#[test]
fn a_suite_is_a_table_of_its_conditions() {
    let dir = here();
    let said = run(fullpipe(dir.path(), &["conformance", "--suite", "quiche-bbr3", "drain"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    assert!(text.starts_with("scenarios/suites/quiche-bbr3/drain.toml\ncase "), "{text}");
    let last = text.lines().last().expect("a line");
    assert!(last.ends_with("of Google QUICHE, bbr3_simulator_test.cc are met"), "{text}");
}

/// The suites that are quick; the one of C4 takes minutes.
#[test]
fn the_suites_are_met_but_what_is_known() {
    let dir = here();
    for suite in ["quiche-bbr3", "linux-v3", "reports"] {
        let said = run(fullpipe(dir.path(), &["conformance", "--suite", suite, "--json"]));
        assert_eq!(said.code, Some(0), "{suite}: {}", said.stderr);
        let object: Value = serde_json::from_slice(&said.stdout).expect("JSON");
        assert_eq!(object["suite"], suite);
        let files = object["files"].as_array().expect("files");
        assert!(files.iter().all(|file| !file["conditions"].as_array().expect("some").is_empty()));
    }
}

#[test]
fn another_algorithm_fails_a_suite_and_one_that_it_cannot_have_is_refused() {
    let dir = here();
    let (quiche, linux) = ("quiche-bbr3", "linux-v3");
    for (args, code, says) in [
        (&["--suite", quiche, "--cc", "bbr1"][..], 1, "expectations were not met"),
        (&["--suite", linux, "1bdp", "--cc", "bbr1"], 1, "were not met"),
        (&["--suite", "reports", "late-host", "--cc", "nobody"], 2, "--cc: unknown algorithm"),
        (&["--suite", "quiche"], 2, "did you mean quiche-bbr3?"),
        (&["--suite", quiche, "drian"], 2, "there are startup, drain"),
        (&["--suite", quiche, "--stack", "linux"], 2, "under the virtual clock"),
        (&["--suite", quiche, "--stack", "noq"], 2, "no file of quiche-bbr3 runs over it"),
        (&["--stack", "tcp"], 2, "the draft's cases run over sim"),
    ] {
        let said = run(fullpipe(dir.path(), &[&["conformance"], args].concat()));
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(says), "{args:?}: {}", said.stderr);
    }
}
