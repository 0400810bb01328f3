//! Runs of the program `planted`.

use std::process::Command;

use fullpipe_testkit::{Ended, Entry, read_record};

/// Runs one planted test: its exit code, and its line of the record if it has one.
pub(crate) fn planted(test: &str, require: &str) -> (Option<i32>, Option<Entry>) {
    let dir = tempfile::tempdir().expect("a directory");
    let record = dir.path().join("record");
    let mut command = Command::new(env!("CARGO_BIN_EXE_planted"));
    command.args(["--exact", test]).env("FULLPIPE_TEST_RECORD", &record);
    command.env("FULLPIPE_REQUIRE", require);
    let ended = Ended::of(command);
    (ended.code, read_record(&record).pop())
}
