//! The record of what a JUnit file does not say: tests that were skipped, repeated or inconclusive.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Outcome of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It did not run.
    Skipped,
    /// It passed at a later try.
    Repeated,
    /// No try counts.
    Inconclusive,
}

/// A line of the record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub test: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason, in one line.
    pub why: String,
}

/// Adds a line to the file that `FULLPIPE_TEST_RECORD` names, if it names one.
pub(crate) fn write(entry: &Entry) {
    eprintln!("{}: {:?}: {}", entry.test, entry.outcome, entry.why);
    let Some(path) = env::var_os("FULLPIPE_TEST_RECORD") else { return };
    let line = serde_json::to_string(entry).expect("text") + "\n";
    let file = OpenOptions::new().append(true).create(true).open(&path);
    // One write, so that lines of processes beside each other stay whole.
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("FULLPIPE_TEST_RECORD={path:?}: {error}"));
}

/// The lines of a record; none where there is no file.
pub fn read(path: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of a record")).collect()
}
