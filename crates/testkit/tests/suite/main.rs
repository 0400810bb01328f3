//! The harness on tests whose outcome is known, and the summary of their record.

#[path = "../common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Command;

use fullpipe_testkit::{Ended, Outcome};

use common::planted;

#[test]
fn what_passes_and_what_fails_is_told_by_the_exit_code() {
    assert_eq!(planted("known::passes", ""), (Some(0), None));
    assert_eq!(planted("known::fails", ""), (Some(101), None));
}

#[test]
fn a_skipped_test_is_recorded_with_its_reason() {
    for (test, why) in [
        ("known::finds_out_that_it_cannot", "as planted"),
        ("known::needs_what_is_not_there", "nothing of this kind anywhere"),
    ] {
        let (code, entry) = planted(test, "");
        let entry = entry.expect(test);
        assert_eq!((code, entry.outcome, entry.why.as_str()), (Some(0), Outcome::Skipped, why));
        assert_eq!(entry.test, test);
    }
}

#[test]
fn what_is_required_and_not_there_is_a_failure() {
    assert_eq!(planted("known::needs_what_is_not_there", "nowhere"), (Some(101), None));
    // One that is found out in the middle of a test is not named, and cannot be required.
    assert_eq!(planted("known::passes", "nowhere"), (Some(0), None));
    assert_eq!(planted("known::passes", "no-such-need"), (Some(2), None));
}

#[test]
fn a_try_that_proves_nothing_is_repeated_and_told() {
    let (code, entry) = planted("known::says_that_it_proves_nothing", "");
    let entry = entry.expect("an entry");
    assert_eq!((code, entry.outcome), (Some(0), Outcome::Inconclusive));
    assert!(entry.why.starts_with("3 tries") && entry.why.contains("load"), "{}", entry.why);
    let (code, entry) = planted("known::proves_something_at_its_second_try", "");
    let entry = entry.expect("an entry");
    assert_eq!((code, entry.outcome), (Some(0), Outcome::Repeated));
    assert!(entry.why.contains("as planted"), "{}", entry.why);
}

#[test]
fn a_long_test_is_ignored_until_it_is_asked_for() {
    let list = |argument: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planted"));
        command.args(["--list", "--format", "terse"]).args(argument);
        String::from_utf8(Ended::of(command).stdout).expect("text")
    };
    assert!(list(&["--ignored"]).trim() == "known::is_long: test", "{}", list(&["--ignored"]));
    assert!(list(&[]).contains("known::passes: test"));
}

#[test]
fn the_summary_counts_what_nextest_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let (record, junit) = (dir.path().join("record"), dir.path().join("junit.xml"));
    let line = |test: &str, outcome: &str| {
        format!("{{\"test\":\"{test}\",\"outcome\":\"{outcome}\",\"why\":\"no tun\"}}\n")
    };
    let all = [
        line("a", "skipped"),
        line("b", "skipped"),
        line("c", "inconclusive"),
        line("d", "repeated"),
    ];
    std::fs::write(&record, all.concat()).expect("a file");
    let case = |name: &str, inner: &str| {
        format!("<testcase name=\"{name}\" classname=\"x\">{inner}</testcase>")
    };
    let page = |failing: &str| {
        let passed: String = ["a", "b", "c", "d"].iter().map(|name| case(name, "")).collect();
        format!("<testsuites><testsuite name=\"x\">{passed}{failing}</testsuite></testsuites>")
    };
    std::fs::write(&junit, page(&case("e", "<failure/>"))).expect("a file");
    let ended = summary(&record, &junit);
    let text = String::from_utf8(ended.stdout).expect("text");
    assert_eq!(ended.code, Some(1), "{text}");
    assert_eq!(text.lines().last(), Some("1 passed, 1 failed, 3 skipped"), "{text}");
    assert!(text.contains("skipped, no tun: a, b") && text.contains("failed: x e"), "{text}");

    std::fs::write(&junit, page("")).expect("a file");
    let ended = summary(&record, &junit);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    std::fs::write(&junit, "<testsuites/>").expect("a file");
    assert_eq!(summary(&record, &junit).code, Some(1), "no test ran");
}

fn summary(record: &Path, junit: &Path) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-summary"));
    command.args([record, junit]);
    Ended::of(command)
}
