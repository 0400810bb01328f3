//! `fullpipe peers`: the list, what is refused, and a run of our own stack. Runs need Linux and root.

mod common;

use std::path::Path;

use common::{Said, fullpipe, run};
use serde_json::Value;

fn peers(dir: &Path, line: &str) -> Said {
    let arguments: Vec<&str> = std::iter::once("peers").chain(line.split_whitespace()).collect();
    let mut command = fullpipe(dir, &arguments);
    command.env("XDG_CACHE_HOME", dir.join("cache"));
    run(command)
}

#[test]
fn the_list_says_what_is_there_and_why_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = peers(dir.path(), "list --json");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let json: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let stacks = json["stacks"].as_array().expect("stacks");
    let stack = |name: &str| {
        stacks.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no {name}"))
    };
    assert!(
        stack("fullpipe")["installed"]["says"].as_str().is_some_and(|s| s.contains("fullpipe"))
    );
    assert_eq!(stack("quic-go")["installed"], Value::Null);
    assert!(stack("quic-go")["reason"].as_str().is_some_and(|why| !why.is_empty()));
    let text = String::from_utf8(peers(dir.path(), "list").stdout).expect("text");
    assert!(text.contains("senders: linux:bbr, linux:cubic"), "{text}");
    assert!(!dir.path().join("cache").exists(), "a list makes nothing");
}

#[test]
fn what_cannot_be_right_is_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    for (line, part) in [
        ("run linx", "did you mean linux"),
        ("run linux:bbr9", "linux:cubic"),
        ("install quic_go", "did you mean quic-go"),
        ("run --rate 0mbit linux", "rate"),
        ("run --report / linux", "not a regular file"),
    ] {
        let said = peers(dir.path(), line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{line}: {}", said.stderr);
        assert!(said.stderr.contains(part), "{line}: {}", said.stderr);
    }
    let said = peers(dir.path(), "run --paths clear linux");
    assert!(said.code == Some(2) && said.stderr.contains("clean, deep"), "{}", said.stderr);
}

#[test]
fn our_own_stack_is_a_row_of_the_table_and_of_the_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let line =
        "run fullpipe:cubic quic-go --paths clean --rate 10mbit -d 3s --json --report p.html";
    let said = peers(dir.path(), line);
    if ["need root", "no /dev/net/tun", "need Linux"].iter().any(|what| said.stderr.contains(what))
    {
        eprintln!("skipped: {}", said.stderr.trim());
        return;
    }
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let json: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let report = &json["peers"];
    assert_eq!(report["missing"][0]["name"], "quic-go");
    let sender = &report["senders"][0];
    assert_eq!(sender["name"], "fullpipe:cubic");
    let runs = sender["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().map(|run| &run["copies"]).collect::<Vec<_>>(), [&1, &2]);
    for run in runs {
        let flow = &run["result"]["flows"][0]["metrics"];
        let goodput = flow["goodput_mbps"].as_f64().unwrap_or_else(|| panic!("{run}"));
        // Of 10 Mbit/s, of which two copies have a part each.
        assert!((0.3..10.0).contains(&goodput), "{goodput}");
        assert!(flow["queue_ms.p95"].as_f64().is_some(), "{run}");
    }
    let page = std::fs::read_to_string(dir.path().join("p.html")).expect("a page");
    assert!(page.contains("fullpipe:cubic") && page.contains("<li>quic-go "), "{page}");
}
