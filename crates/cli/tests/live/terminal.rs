//! The progress that a terminal shows while `compare` and `run` are at work, and what a file gets
//! instead.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use crate::common::{Running, fullpipe, run};

const FILE: &str = "cc = \"bbr3\"\nduration = \"1s\"\n\
    path = { rate = \"5mbit\", rtt = \"10ms\", buffer = \"4bdp\" }\n[[flow]]\ncount = 2\n";

const RUN: [&str; 6] = ["run", "x.toml", "--stack", "noq", "--clock", "real"];
const COMPARE: [&str; 10] = [
    "compare",
    "--stack=noq",
    "--clock=real",
    "--cc",
    "bbr3",
    "--rate",
    "5mbit",
    "--rtt",
    "10ms",
    "--duration=1s",
];

/// The command's output to a terminal that is its stderr, and its stdout. The command is
/// interrupted when `interrupt` is true of the terminal's text.
pub(crate) fn on_a_terminal(
    dir: &Path,
    args: &[&str],
    interrupt: impl Fn(&str) -> bool,
) -> (String, String, Option<i32>) {
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    let mut command = fullpipe(dir, args);
    command.env("TERM", "xterm-256color");
    command.stderr(Stdio::from(terminal.slave)).stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("it starts"));
    // With it goes the last handle on the terminal's other end in this process.
    drop(command);
    let mut stdout = running.0.stdout.take().expect("a pipe");
    // Beside the terminal: whoever waits for room in a pipe does not end.
    let printed = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("text");
        text
    });
    let mut master = std::fs::File::from(terminal.master);
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    let mut is_told = false;
    // Linux ends a terminal whose other end is closed with an error.
    while let Ok(n) = master.read(&mut buffer) {
        if n == 0 {
            break;
        }
        shown.extend_from_slice(&buffer[..n]);
        if !is_told && interrupt(&String::from_utf8_lossy(&shown)) {
            running.interrupt();
            is_told = true;
        }
    }
    let stdout = printed.join().expect("no panic");
    (String::from_utf8_lossy(&shown).into_owned(), stdout, running.end().code())
}

pub(crate) fn has_blocks(text: &str) -> bool {
    text.chars().any(|c| ('▁'..='█').contains(&c))
}

fn a_terminal_shows_sparklines_of_each_flow_and_of_the_queue() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), FILE).expect("a file");
    for (args, lines) in
        [(&RUN[..], &["flow 0", "flow 1", "queue"][..]), (&COMPARE, &["goodput", "queue"])]
    {
        let (shown, stdout, code) = on_a_terminal(dir.path(), args, |_| false);
        assert_eq!(code, Some(0), "{shown}");
        assert!(has_blocks(&shown), "{shown}");
        for line in lines {
            assert!(shown.contains(&format!("  {line} ")), "{line} in {shown}");
        }
        assert!(!stdout.contains('\x1b') && !has_blocks(&stdout), "{stdout}");
    }
}

fn what_is_no_terminal_gets_plain_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), FILE).expect("a file");
    for args in [&RUN[..], &COMPARE] {
        let said = run(fullpipe(dir.path(), args));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stderr.contains(": running, "), "{}", said.stderr);
        let stdout = String::from_utf8_lossy(&said.stdout);
        for text in [&said.stderr, stdout.as_ref()] {
            assert!(
                !text.contains('\x1b') && !text.contains('\r') && !has_blocks(text),
                "{text:?}"
            );
        }
    }
}

fn ctrl_c_keeps_what_there_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let long = FILE.replace("\"1s\"", "\"60s\"");
    std::fs::write(dir.path().join("x.toml"), long).expect("a file");
    let args = [&RUN[..], &["--json"]].concat();
    let (shown, stdout, code) = on_a_terminal(dir.path(), &args, has_blocks);
    assert_eq!(code, Some(130), "{shown}");
    let object: serde_json::Value = serde_json::from_str(&stdout).expect("JSON and nothing else");
    assert_eq!(object["interrupted"], true);
    let run = &object["scenarios"][0]["runs"][0];
    assert_eq!(run["interrupted"], true);
    assert!(run["metrics"]["elapsed_s"].as_f64().expect("a figure") < 30.0, "{run}");
    assert!(shown.contains("interrupted; these are the results so far"), "{shown}");
}

fn ctrl_c_in_the_only_run_of_the_simulator_says_that_there_is_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let long = FILE.replace("\"1s\"", "\"100000s\"");
    std::fs::write(dir.path().join("x.toml"), long).expect("a file");
    let args = ["run", "x.toml", "--json", "--out", "out"];
    let (shown, stdout, code) = on_a_terminal(dir.path(), &args, has_blocks);
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("interrupted; there are no results"), "{shown}");
    let object: serde_json::Value = serde_json::from_str(&stdout).expect("JSON and nothing else");
    assert_eq!(
        (&object["interrupted"], &object["scenarios"][0]["runs"]),
        (&true.into(), &serde_json::json!([]))
    );
    assert!(crate::common::names(&dir.path().join("out")).is_empty());
}

fullpipe_testkit::tests! {
    [] a_terminal_shows_sparklines_of_each_flow_and_of_the_queue,
        ctrl_c_keeps_what_there_is,
        ctrl_c_in_the_only_run_of_the_simulator_says_that_there_is_nothing;
    long [] what_is_no_terminal_gets_plain_lines;
}
