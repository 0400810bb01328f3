//! Runs of `fullpipe link`, and what they leave on the machine.

use std::path::Path;

use crate::common::{Said, fullpipe, run};

/// The rate of TCP's data on a link of 20 Mbit/s, in Mbit/s: packets have 1500 bytes, and 52 of
/// them are headers with a time stamp.
pub(crate) const CAPACITY: f64 = 20.0 * 1448.0 / 1500.0;

pub(crate) fn arguments<'a>(line: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let line = std::iter::once("link").chain(line.split_whitespace());
    line.chain(["--"]).chain(command.iter().copied()).collect()
}

pub(crate) fn link(line: &str, command: &[&str]) -> Said {
    run(fullpipe(Path::new("/"), &arguments(line, command)))
}

pub(crate) fn json(said: &Said) -> serde_json::Value {
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("one object");
    object["link"].clone()
}

pub(crate) fn figure(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The files that a run of this process number has left.
pub(crate) fn names_of(process: u32) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/run/fullpipe") else { return Vec::new() };
    let names = entries.filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()));
    names.filter(|name| name.starts_with(&format!("{process}-"))).collect()
}

/// A number of seconds that nobody else on this machine sleeps for; `digit` tells those of a test
/// apart.
pub(crate) fn seconds(digit: u32) -> String {
    assert!(digit < 10);
    format!("31.{}{digit}", std::process::id())
}

/// Processes that sleep for these [`seconds`].
pub(crate) fn sleepers(seconds: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = entries.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{seconds}\0").into_bytes()).count()
}
