//! `fullpipe judge` where it runs nothing: files, and input that it refuses before it runs
//! anything.

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

/// A log of a sender that goes on as if nothing were lost: a third of its packets are.
fn deaf_log() -> String {
    let mut events: Vec<(u64, String)> = Vec::new();
    for n in 0..6000_u64 {
        let (at, header) = (2 * n, format!(r#""packet_type":"1RTT","packet_number":{n}"#));
        let mut event = |at: u64, name: &str, more: &str| {
            let data = format!(r#"{{"header":{{{header}}},"raw":{{"length":1200}}{more}}}"#);
            events.push((at, format!(r#"{{"time":{at}.5,"name":"{name}","data":{data}}}"#)));
        };
        event(at, "transport:packet_sent", "");
        if n % 3 == 0 {
            event(at + 50, "recovery:packet_lost", "");
        } else {
            let ack = format!(r#","frames":[{{"frame_type":"ack","acked_ranges":[[{n}]]}}]"#);
            event(at + 40, "transport:packet_received", &ack);
        }
    }
    events.sort_by_key(|event| event.0);
    let head = r#"{"qlog_version":"0.3","qlog_format":"JSON-SEQ","trace":{}}"#;
    let records = std::iter::once(head).chain(events.iter().map(|event| event.1.as_str()));
    records.map(|record| format!("\u{1e}{record}\n")).collect()
}

/// The story is the same, but for explain a defect is no failure.
#[test]
fn explain_tells_of_a_file_what_judge_tells() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("deaf.sqlog");
    std::fs::write(&log, deaf_log()).expect("written");
    let log = log.to_str().expect("UTF-8");
    for (file, code) in [(["--pcap", CAPTURE], 0), (["--qlog", log], 1)] {
        for form in [&[][..], &["--json"], &["--flow", "1"]] {
            let told =
                |command: &str| run(fullpipe(&root(), &[&[command][..], &file, form].concat()));
            let (judged, explained) = (told("judge"), told("explain"));
            assert_eq!(judged.code, Some(code), "{}", judged.stderr);
            assert_eq!((explained.code, explained.stderr.as_str()), (Some(0), ""));
            assert_eq!(explained.stdout, judged.stdout);
        }
    }
    let keys = dir.path().join("keys");
    std::fs::write(&keys, format!("CLIENT_TRAFFIC_SECRET_0 {0} {0}\n", "00".repeat(32)))
        .expect("written");
    let keys = keys.to_str().expect("UTF-8");
    refused_with(
        &root(),
        &[
            (&["explain", "--pcap", CAPTURE, "--cc", "bbr3"], &["cannot be used with"]),
            (&["explain", "x.toml", "--qlog", log], &["cannot be used with"]),
            (&["explain", "--pcap", CAPTURE, "--flow", "0"], &["--flow", "from 1"]),
            (&["explain", "--pcap", CAPTURE, "--flow", "10.0.0.9:1"], &["no such flow"]),
            (&["explain", "--flow", "10.0.0.9:1"], &["--flow needs a scenario file"]),
            (&["explain", "--keys", keys], &["--pcap"]),
            (&["judge", "--keys", keys, "--qlog", log], &["cannot be used with"]),
            (&["judge", "--pcap", CAPTURE, "--keys", keys], &["one of TCP", "leave out --keys"]),
            (&["judge", "--pcap", CAPTURE, "--keys", CAPTURE], &["it has no secrets"]),
        ],
    );
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
