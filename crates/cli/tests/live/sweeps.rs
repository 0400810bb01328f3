//! `fullpipe sweep` in real time: stopped, and on from there.

use std::process::Stdio;

use fullpipe_testkit::until;

use crate::common::{Running, fullpipe, run};

fullpipe_testkit::tests! {
    long [] a_sweep_over_quic_that_was_stopped_goes_on_and_keeps_what_it_has;
}

/// The second run takes ten seconds, in which Ctrl-C comes.
const FILE: &str = "cc = \"bbr3\"\nduration = [\"300ms\", \"10s\"]\n\
    path = { rate = \"5mbit\", rtt = \"10ms\" }\n";

fn a_sweep_over_quic_that_was_stopped_goes_on_and_keeps_what_it_has() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), FILE).expect("a file");
    let args = ["sweep", "x.toml", "--stack", "noq", "--clock", "real", "--out", "out"];
    let mut command = fullpipe(dir.path(), &args);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().expect("it starts"));
    let journal = dir.path().join("out/runs.jsonl");
    let lines = || {
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
    };
    until("the first run is in the journal", || {
        let lines: Vec<String> = lines();
        lines.len() == 2
    });
    running.interrupt();
    assert_eq!(running.end().code(), Some(130));
    let stderr = running.stderr();
    assert!(stderr.contains("interrupted: 1 of 2 runs are done"), "{stderr}");
    let before: Vec<String> = lines();
    assert!(before.len() == 2 && before[1].contains("\"link\":\"udp\""), "{before:?}");
    let said = run(fullpipe(dir.path(), &args));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stderr.contains("2 runs, 1 of them done before"), "{}", said.stderr);
    let after: Vec<String> = lines();
    assert_eq!((after.len(), &after[..2]), (3, &before[..]));
}
