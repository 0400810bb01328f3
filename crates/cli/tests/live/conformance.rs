//! Ctrl-C while `fullpipe conformance` is at work.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use fullpipe_testkit::{first_line, until};
use serde_json::Value;

use crate::common::{Running, fullpipe, processor_time};

fn start(args: &[&str]) -> (tempfile::TempDir, Running) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = fullpipe(dir.path(), args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    (dir, Running(command.spawn().expect("the command starts")))
}

/// The long case beside the fast one would take minutes more on all cores.
fn an_interruption_ends_a_case_in_its_middle() {
    let args = [&["conformance", "14"][..], &["1"; 99]].concat();
    let (_dir, mut process) = start(&args);
    let first = first_line(&mut process);
    assert!(first.starts_with("ok   14 "), "{first}");
    process.interrupt();
    assert_eq!(process.end().code(), Some(130));
    assert!(process.stderr().contains("interrupted"));
}

fn an_interruption_keeps_what_is_through() {
    // Each takes hundredths of a second of a processor.
    let args = [&["conformance", "--json"][..], &["14"; 20_000]].concat();
    let (_dir, mut process) = start(&args);
    until("some cases are through", || {
        processor_time(process.0.id()) >= Duration::from_millis(500)
    });
    process.interrupt();
    let mut text = String::new();
    let stdout = process.0.stdout.as_mut().expect("a pipe");
    stdout.read_to_string(&mut text).expect("text");
    assert_eq!(process.end().code(), Some(130));
    let object: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(object["interrupted"], true);
    assert_eq!(object["cases"][0]["id"], 14, "{object}");
    assert!(process.stderr().contains("interrupted"));
}

fullpipe_testkit::tests! {
    [] an_interruption_ends_a_case_in_its_middle,
        an_interruption_keeps_what_is_through;
}
