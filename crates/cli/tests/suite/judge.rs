//! `fullpipe judge` where it runs nothing: files, and input that it refuses before it runs anything.

use std::path::Path;

use crate::checks::refused_with;
use crate::common::{fullpipe, run};
use crate::documents::root;

/// A capture of bbr3 over TCP at 4 Mbit/s and 40 ms, made under a virtual clock.
const CAPTURE: &str = "scenarios/captures/bbr3.pcap.gz";

#[test]
fn a_baseline_that_is_none_is_bad_input() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let said = run(fullpipe(Path::new("/"), &["judge", "--baseline", file, "--", "true"]));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("no JSON of fullpipe judge"), "{}", said.stderr);
}

#[test]
fn a_capture_is_told_in_words_and_as_an_object() {
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("x.html");
    let report = page.to_str().expect("UTF-8");
    let words = run(fullpipe(&root(), &["judge", "--pcap", CAPTURE, "--report", report]));
    assert_eq!(words.code, Some(0), "{}", words.stderr);
    let text = String::from_utf8(words.stdout).expect("text");
    for says in
        ["seen at the sender", "looks like: BBR, with a ProbeRTT every 5 s, paced", "cannot tell"]
    {
        assert!(text.contains(says), "{says}: {text}");
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<svg") && page.contains("In flight"), "{page:.300}");
    let object = run(fullpipe(&root(), &["judge", "--json", "--pcap", CAPTURE]));
    assert_eq!(object.code, Some(0), "{}", object.stderr);
    let object: serde_json::Value = serde_json::from_slice(&object.stdout).expect("one object");
    assert_eq!(object["place"], "sender");
    assert!(object["looks"]["kind"]["bbr_like"]["probe_rtt_s"].as_f64().is_some(), "{object}");
    let figures = &object["figures"];
    assert!((3.0..4.0).contains(&figures["goodput_mbps"].as_f64().expect("a rate")), "{figures}");
    assert!(
        (40.0..44.0).contains(&figures["rtt_ms"]["min"].as_f64().expect("a time")),
        "{figures}"
    );
    assert_eq!(object["defects"], serde_json::json!([]));
}

#[test]
fn files_that_are_none_are_bad_input() {
    let toml = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    refused_with(
        &root(),
        &[
            (&["judge"], &["COMMAND"]),
            (&["judge", "--pcap", toml], &["neither pcap nor pcapng"]),
            (&["judge", "--pcap", "/nowhere/x.pcap"], &["No such file"]),
            (&["judge", "--qlog", toml], &["no JSON"]),
            (&["judge", "--qlog", "."], &["no regular file"]),
            (&["judge", "--pcap", CAPTURE, "--flow", "7"], &["no such flow"]),
            (&["judge", "--pcap", CAPTURE, "--flow", "x"], &["write its number"]),
            (&["judge", "--pcap", CAPTURE, "--", "true"], &["cannot be used with"]),
            (&["judge", "--flow", "1", "--", "true"], &["cannot be used with"]),
        ],
    );
}

#[test]
fn the_example_of_the_help_about_a_file_runs() {
    let help = run(fullpipe(&root(), &["judge", "--help"]));
    let help = String::from_utf8(help.stdout).expect("text");
    let mut lines = help.lines().map(str::trim);
    let example = lines.find(|line| line.starts_with("fullpipe judge --pcap")).expect("one");
    let args: Vec<&str> = example.split_whitespace().skip(1).collect();
    let said = run(fullpipe(&root(), &args));
    assert_eq!(said.code, Some(0), "{example}: {}", said.stderr);
}
