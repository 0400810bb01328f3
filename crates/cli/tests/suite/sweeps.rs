//! `fullpipe sweep`: where its results are, and how it goes on after it was stopped.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Running, fullpipe, names, run};
use fullpipe_testkit::until;

const PATH: &str = "path = { rate = \"10mbit\", rtt = \"40ms\" }\n";

/// Forty runs of some hundredths of a second of work each.
fn sweep_file(dir: &Path) {
    let seeds: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
    let content = format!(
        "cc = [\"bbr3\", \"cubic\"]\nduration = \"20s\"\ninterval = \"1s\"\nseed = [{}]\n\
         path = {{ rate = \"100mbit\", rtt = \"40ms\", loss = \"0.1%\" }}\n\
         expect = [\"goodput_mbps > 1\"]\n",
        seeds.join(", ")
    );
    std::fs::write(dir.join("sweep.toml"), content).expect("a file");
}

fn done_in(dir: &Path) -> usize {
    let text = std::fs::read_to_string(dir.join("runs.jsonl")).unwrap_or_default();
    text.matches("}\n").count().saturating_sub(1)
}

/// That two directories hold the same files.
pub(crate) fn assert_same(a: &Path, b: &Path) {
    assert_eq!(names(a), names(b));
    for name in names(a) {
        let (a, b) = (std::fs::read(a.join(&name)), std::fs::read(b.join(&name)));
        assert!(a.expect("a file") == b.expect("a file"), "{name:?} differs");
    }
}

/// Sweeps until the kernel kills it in the middle of a line of its journal, which is longer than
/// the shell lets a file be.
fn killed_sweep(dir: &Path, out: &str) {
    let script = r#"ulimit -c 0; ulimit -f 200; exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_fullpipe"), "sweep", "sweep.toml"]);
    // One at a time, the journal is the same each time, and so is where it ends.
    command.args(["--jobs", "1", "--out", out]).current_dir(dir);
    assert_eq!(run(command).code, None, "a signal");
}

#[test]
fn a_killed_sweep_goes_on_and_comes_to_what_an_undisturbed_one_does() {
    let dir = tempfile::tempdir().expect("a directory");
    sweep_file(dir.path());
    for (out, jobs) in [("one", "1"), ("two", "2")] {
        let said =
            run(fullpipe(dir.path(), &["sweep", "sweep.toml", "--jobs", jobs, "--out", out]));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stderr.contains("40 runs, 0 of them done before"), "{}", said.stderr);
    }
    assert_same(&dir.path().join("one"), &dir.path().join("two"));

    let out = dir.path().join("killed");
    killed_sweep(dir.path(), "killed");
    let done = done_in(&out);
    assert!((3..40).contains(&done), "{done} were done when it was killed");
    assert!(!out.join("summary.parquet").exists());
    let torn = std::fs::read(out.join("runs.jsonl")).expect("a file");
    assert_ne!(torn.last(), Some(&b'\n'), "half a line");
    let said = run(fullpipe(dir.path(), &["sweep", "sweep.toml", "--out", "killed"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stderr.contains(&format!("{done} of them done before")), "{}", said.stderr);
    assert_same(&dir.path().join("one"), &out);

    let said = run(fullpipe(dir.path(), &["sweep", "sweep.toml", "--out", "killed"]));
    assert!(said.stderr.contains("40 of them done before"), "{}", said.stderr);
    assert_same(&dir.path().join("one"), &out);
}

#[test]
fn ctrl_c_stops_a_sweep_which_then_says_where_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    // The last runs have no end that anybody would see.
    let content = format!(
        "cc = \"bbr3\"\nduration = [\"1s\", \"100000s\"]\ninterval = \"1s\"\nseed = [1, 2, 3]\n{PATH}"
    );
    std::fs::write(dir.path().join("sweep.toml"), content).expect("a file");
    let mut command = fullpipe(dir.path(), &["sweep", "sweep.toml", "--out", "out"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().expect("it starts"));
    until("the short runs are in the journal", || done_in(&dir.path().join("out")) == 3);
    running.interrupt();
    assert_eq!(running.end().code(), Some(130));
    assert_eq!(done_in(&dir.path().join("out")), 3);
    let stderr = running.stderr();
    assert!(stderr.contains("interrupted: 3 of 6 runs are done"), "{stderr}");
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let content = format!("cc = \"bbr3\"\nduration = \"1s\"\n{PATH}");
    std::fs::write(dir.path().join("a.toml"), &content).expect("a file");
    std::fs::write(dir.path().join("b.toml"), content.replace("1s", "2s")).expect("a file");
    let sweep = |file: &str| run(fullpipe(dir.path(), &["sweep", file, "--out", "out"]));
    assert_eq!(sweep("a.toml").code, Some(0));
    let before = std::fs::read(dir.path().join("out/summary.parquet")).expect("a file");
    let said = sweep("b.toml");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("out holds the results of another scenario"), "{}", said.stderr);
    std::fs::write(dir.path().join("out/runs.jsonl"), "nonsense\n").expect("a file");
    let said = sweep("a.toml");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("out/runs.jsonl:1 is no run of this scenario"), "{}", said.stderr);
    let after = std::fs::read(dir.path().join("out/summary.parquet")).expect("a file");
    assert_eq!(before, after);
}

#[test]
fn run_writes_what_sweep_does() {
    let dir = tempfile::tempdir().expect("a directory");
    sweep_file(dir.path());
    let small = std::fs::read_to_string(dir.path().join("sweep.toml")).expect("a file");
    let small = small
        .replace("20s", "1s")
        .replace("[1, 2,", "[")
        .replace("interval = \"1s\"", "interval = \"100ms\"");
    std::fs::write(dir.path().join("sweep.toml"), small).expect("a file");
    for command in ["run", "sweep"] {
        let said = run(fullpipe(dir.path(), &[command, "sweep.toml", "--out", command]));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
    }
    for name in
        ["summary.parquet", "flows.parquet", "links.parquet", "series.parquet", "scenario.toml"]
    {
        let read =
            |dir_name: &str| std::fs::read(dir.path().join(dir_name).join(name)).expect("a file");
        assert!(read("run") == read("sweep"), "{name} differs");
    }
}

/// Real noq under the virtual clock, with what `run` has of outputs. The directory is of that
/// backend alone.
#[test]
fn a_sweep_runs_over_other_backends_and_prints_what_run_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let content = format!("cc = [\"bbr3\", \"cubic\"]\nduration = \"300ms\"\n{PATH}");
    std::fs::write(dir.path().join("a.toml"), content).expect("a file");
    let over_noq = |arguments: &[&str]| {
        let sweep = ["sweep", "a.toml", "--out", "out", "--stack", "noq"];
        run(fullpipe(dir.path(), &[&sweep, arguments].concat()))
    };
    let said = over_noq(&["--csv", "--report", "page.html"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let run_csv = run(fullpipe(dir.path(), &["run", "a.toml", "--stack", "noq", "--csv"]));
    assert_eq!(said.stdout, run_csv.stdout);
    let lines = String::from_utf8(said.stdout).expect("UTF-8");
    assert_eq!(lines.matches(",noq,virtual,").count(), 2, "{lines}");
    let page = std::fs::read_to_string(dir.path().join("page.html")).expect("a page");
    assert!(page.contains("cubic"));
    let said = over_noq(&["--json"]);
    let object: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let runs = object["scenarios"][0]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    let said = run(fullpipe(dir.path(), &["sweep", "a.toml", "--out", "out"]));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(
        said.stderr.contains("out holds the results of another stack or clock"),
        "{}",
        said.stderr
    );
}
