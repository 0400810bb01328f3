//! `fullpipe peers`: the list, and what is refused.

use std::path::Path;

use serde_json::Value;

use crate::common::{Said, fullpipe, run};

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
        ("bulk fullpipe:cubic2", "did you mean fullpipe:cubic"),
        ("bulk linux:cubic", "no bulk transfer"),
    ] {
        let said = peers(dir.path(), line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{line}: {}", said.stderr);
        assert!(said.stderr.contains(part), "{line}: {}", said.stderr);
    }
    let said = peers(dir.path(), "run --paths clear linux");
    assert!(said.code == Some(2) && said.stderr.contains("clean, deep"), "{}", said.stderr);
    let said = peers(dir.path(), "bulk --from disk");
    assert!(said.code == Some(2) && said.stderr.contains("memory and file"), "{}", said.stderr);
}
