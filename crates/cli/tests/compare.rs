//! `fullpipe compare` as a process. The figures are the lab's business; here it is what comes out,
//! where, and how it ends. Every run over QUIC is short, and its speed is not looked at: machines
//! that test are busy.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::{Running, Said, fullpipe, names, run};
use serde_json::Value;

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn compare(dir: &Path, line: &str) -> Said {
    let args: Vec<&str> = std::iter::once("compare").chain(line.split_whitespace()).collect();
    run(fullpipe(dir, &args))
}

fn json(said: &Said) -> Value {
    let text = std::str::from_utf8(&said.stdout).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "one line and nothing else: {text}");
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}; {}", said.stderr))
}

/// That each of these fields is there, with a dot between an object and its field.
fn has(object: &Value, fields: &[&str]) {
    for field in fields {
        let found = field.split('.').try_fold(object, |o, name| o.get(name));
        assert!(found.is_some(), "{field} is missing in {object}");
    }
}

const RUN: &[&str] = &[
    "run",
    "scenario",
    "backend",
    "at",
    "seed",
    "rate_mbps",
    "empty_rtt_ms",
    "metrics",
    "flows",
    "links",
    "series",
];
const METRICS: &[&str] = &[
    "goodput_mbps",
    "utilization",
    "completed_bytes",
    "elapsed_s",
    "queue_ms.mean",
    "queue_ms.p50",
    "queue_ms.p95",
    "queue_ms.p99",
    "queue_ms.max",
    "rtt_ms.min",
    "rtt_ms.p50",
    "rtt_ms.p95",
    "rtt_ms.p99",
    "loss_rate",
    "retransmit_rate",
    "jain",
];
const ROW: &[&str] = &[
    "t_s",
    "flow",
    "goodput_mbps",
    "queue_ms",
    "rtt_ms",
    "cwnd_bytes",
    "inflight_bytes",
    "pacing_mbps",
    "state",
];

fn check_run(run: &Value, flows: usize) {
    has(run, RUN);
    for metric in METRICS {
        assert!(run["metrics"][metric].is_number(), "{metric} of {}", run["metrics"]);
    }
    let rows = run["series"].as_array().expect("rows");
    assert!(rows.len() > 5, "{} rows", rows.len());
    rows.iter().for_each(|row| has(row, ROW));
    let each = run["flows"].as_array().expect("flows");
    assert_eq!(each.len(), flows);
    for flow in each {
        has(flow, &["name", "cc", "start_s", "end_s", "metrics"]);
        assert!(flow["metrics"]["goodput_mbps"].is_number(), "{flow}");
        assert!(flow["metrics"]["completed_bytes"].is_number(), "{flow}");
    }
}

#[test]
fn json_is_one_object_with_every_field_and_nothing_beside_it() {
    let dir = here();
    let said = compare(
        dir.path(),
        "--cc bbr3,noq:cubic --rate 20mbit --rtt 20ms --buffer 2bdp --loss 0.1% --duration 2s \
         --seed 7 --json",
    );
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object = json(&said);
    assert_eq!((&object["schema_version"], &object["interrupted"]), (&1.into(), &false.into()));
    let scenario = &object["scenarios"][0];
    assert_eq!(
        (&scenario["scenario"], &scenario["link"]),
        (&"20mbit 20ms 2bdp 0.1%".into(), &"udp".into())
    );
    let toml = scenario["toml"].as_str().expect("a file");
    for line in [
        "rate = \"20mbit\"",
        "buffer = \"2bdp\"",
        "loss = \"0.1%\"",
        "duration = \"2s\"",
        "seed = 7",
    ] {
        assert!(toml.contains(line), "{line} in {toml}");
    }
    let runs = scenario["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for (run, cc) in runs.iter().zip(["bbr3", "noq:cubic"]) {
        assert_eq!((&run["flows"][0]["cc"], &run["backend"]), (&cc.into(), &"quic".into()));
        assert_eq!((&run["rate_mbps"], &run["seed"]), (&20.0.into(), &7.into()));
        check_run(run, 1);
        has(run, &["emulator.lateness_us.p50", "emulator.lateness_us.p99", "emulator.trusted"]);
        assert!(run["metrics"]["completed_bytes"].as_f64() > Some(0.0));
    }
    assert!(names(dir.path()).is_empty(), "a report that nobody asked for");
}

#[test]
fn without_a_path_there_are_two_paths() {
    let dir = here();
    let said = compare(dir.path(), "--over sim --duration 2s --json --report both.html");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object = json(&said);
    let runs = object["scenarios"][0]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    let places = [
        ("100mbit 40ms 6bdp", "bbr3"),
        ("100mbit 40ms 6bdp", "cubic"),
        ("100mbit 40ms 1bdp 1%", "bbr3"),
        ("100mbit 40ms 1bdp 1%", "cubic"),
    ];
    for (run, (path, cc)) in runs.iter().zip(places) {
        assert_eq!((&run["at"][0][1], &run["at"][1][1]), (&path.into(), &cc.into()));
        check_run(run, 1);
    }
    assert_eq!(names(dir.path()), ["both.html"]);
}

/// What compare made of its options runs as a file, and comes to the same.
#[test]
fn the_options_are_a_file() {
    let dir = here();
    let said =
        compare(dir.path(), "--backend sim --cc bbr3 --loss 0.5% --flows 2 --duration 2s --json");
    let ours = json(&said)["scenarios"][0].clone();
    std::fs::write(dir.path().join("same.toml"), ours["toml"].as_str().expect("a file"))
        .expect("written");
    let said = run(fullpipe(dir.path(), &["run", "same.toml", "--json"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(json(&said)["scenarios"][0]["runs"], ours["runs"]);
}

#[test]
fn the_table_has_a_row_for_each_run_and_names_the_report() {
    let dir = here();
    let said = compare(
        dir.path(),
        "--over sim --cc bbr3,cubic,reno --flows 2 --stagger 500ms --bytes 5MB --buffer 300pkts",
    );
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "100mbit 40ms 300pkts 2 flows");
    assert!(lines[1].starts_with("run") && lines[1].ends_with("jain"), "{text}");
    for (line, cc) in lines[3..].iter().zip(["bbr3", "cubic", "reno"]) {
        assert!(line.starts_with(cc), "{text}");
    }
    assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
    assert_eq!(lines[6..], ["report: fullpipe-report.html"], "{text}");
    assert_eq!(names(dir.path()), ["fullpipe-report.html"]);
    let page = std::fs::read_to_string(dir.path().join("fullpipe-report.html")).expect("a page");
    assert!(page.ends_with("</html>\n"));
    assert_eq!(said.stderr.lines().count(), 6, "two lines a run: {}", said.stderr);
}

#[test]
fn bad_input_is_one_line_and_starts_nothing() {
    let dir = here();
    std::fs::write(dir.path().join("file"), "x").expect("a file");
    for (line, says) in [
        (
            "--cc bbr",
            "there are bbr3, bbr3x, bbr3-linux, bbr3x-linux, bbr1, cubic, reno, and noq's own noq:bbr3",
        ),
        ("--cc bbr3,", "unknown algorithm"),
        ("--cc bbr3,bbr3", "--cc: 'bbr3' is named twice"),
        ("--rate 0", "--rate: '0bit' carries nothing; write a rate like 100mbit"),
        ("--rate fast", "write a rate like 100mbit"),
        ("--rate -5mbit", "'-5mbit' is not a rate"),
        ("--rate 100mbps", "bytes"),
        ("--rtt 40", "'40' has no unit"),
        ("--rtt 1h", "write a time like 40ms"),
        ("--buffer 1000B", "--buffer: "),
        ("--buffer 1000", "'1000' has no unit; write a buffer like 1bdp"),
        ("--buffer 0pkts", "--buffer: "),
        ("--buffer 6M", "write a buffer like 1bdp"),
        ("--loss 100%", "below 100%"),
        ("--loss 2", "if you meant 2%"),
        ("--loss -1%", "'-1%' is not a loss"),
        ("--flows 0", "--flows: 0 flows are none; write at least 1"),
        ("--flows 1001", "--flows: 1001 flows does not run over quic; write --backend sim"),
        ("--flows two", "'two' is no whole number; write a whole number like 2"),
        ("--rate 100", "'100' has no unit; write a rate like 100mbit"),
        ("--flows -1", "'-1' is below 0; write a whole number like 2"),
        ("--duration 0s", "--duration: 0 and nothing could happen"),
        ("--bytes 0", "--bytes: bytes of 0"),
        ("--bytes 1MB --duration 1s", "cannot be used with"),
        ("--flows 3 --stagger 10s", "--stagger: a flow starts at 20s, and the run ends at 10s"),
        ("--over udp", "there are sim, quic, tcp"),
        ("--over tcp --cc bbr1", "bbr1 does not run over tcp"),
        ("--cc linux:bbr", "linux:bbr does not run over quic; write --backend tcp"),
        ("--cc linux:", "write one like linux:bbr"),
        ("--cc quinn:bbr", "quinn:bbr does not run over quic; write --backend quic:quinn"),
        ("--over quic:quinn --cc quinn:bbr3", "over quic:quinn quinn's own quinn:bbr, quinn:cubic"),
        ("--cc s2n:bbr", "s2n:bbr does not run over quic; write --backend quic:s2n"),
        ("--over quic:s2n --cc s2n:bbr2", "over quic:s2n s2n-quic's own s2n:bbr, s2n:cubic"),
        ("--over quic:s2n --cc s2n:bbr2", "did you mean s2n:bbr?"),
        ("--over sim --cc noq:bbr3", "noq:bbr3 does not run over sim; write --backend quic"),
        ("--seed x", "'x' is no whole number"),
        ("--report no/such/dir.html", "cannot write the report"),
        ("--report file/report.html", "cannot write the report"),
        ("--report .", "cannot write the report"),
        ("--report /dev/null", "not a regular file"),
        ("--colour", "--colour"),
        ("extra", "extra"),
    ] {
        let said = compare(dir.path(), line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{line}");
        assert_eq!(said.stderr.lines().count(), 1, "{line}: {}", said.stderr);
        assert!(said.stderr.contains(says), "{line}: {}", said.stderr);
    }
    assert_eq!(names(dir.path()), ["file"]);
}

#[test]
fn ctrl_c_keeps_the_results_so_far() {
    let dir = here();
    let args = [
        "compare",
        "--cc",
        "cubic,bbr3",
        "--rate",
        "20mbit",
        "--duration",
        "2s",
        "--json",
        "--report",
        "so-far.html",
    ];
    let mut command = fullpipe(dir.path(), &args);
    // Long enough for the first algorithm and a part of the second.
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut process = Running(child.expect("the command starts"));
    let mut stderr = BufReader::new(process.0.stderr.take().expect("a pipe"));
    let mut news = String::new();
    while !news.contains("bbr3 on 20mbit 40ms 1bdp: running") {
        assert_ne!(stderr.read_line(&mut news).expect("a line"), 0, "it ended early: {news}");
    }
    std::thread::sleep(Duration::from_millis(700));
    process.interrupt();
    let (mut stdout, mut rest) = (Vec::new(), String::new());
    process.0.stdout.take().expect("a pipe").read_to_end(&mut stdout).expect("the output");
    stderr.read_to_string(&mut rest).expect("text");
    let output = Said { code: process.end().code(), stdout, stderr: news + &rest };
    assert_eq!(output.code, Some(130), "{}", output.stderr);
    assert!(output.stderr.ends_with("interrupted; these are the results so far\n"));
    let object = json(&output);
    assert_eq!(object["interrupted"], true);
    let results = object["scenarios"][0]["runs"].as_array().expect("runs");
    assert_eq!(results.len(), 2, "{}", output.stderr);
    assert_eq!(
        (&results[0]["flows"][0]["cc"], &results[0]["interrupted"]),
        (&"cubic".into(), &Value::Null)
    );
    assert_eq!(
        (&results[1]["flows"][0]["cc"], &results[1]["interrupted"]),
        (&"bbr3".into(), &true.into())
    );
    assert!(results[1]["metrics"]["elapsed_s"].as_f64() < Some(2.0));
    assert_eq!(names(dir.path()), ["so-far.html"]);
}

#[test]
fn ctrl_c_before_anything_ran_leaves_the_report_from_before() {
    let dir = here();
    let report = dir.path().join("fullpipe-report.html");
    let before = "<meta name=\"generator\" content=\"fullpipe 0.1.0\"> from before";
    std::fs::write(&report, before).expect("a file");
    // At 1 kbit/s no handshake is over before the interrupt.
    let mut command = fullpipe(dir.path(), &["compare", "--rate", "1kbit", "--buffer", "9pkts"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut process = Running(child.expect("the command starts"));
    let mut stderr = BufReader::new(process.0.stderr.take().expect("a pipe"));
    let mut news = String::new();
    stderr.read_line(&mut news).expect("a line");
    process.interrupt();
    assert_eq!(process.end().code(), Some(130));
    stderr.read_to_string(&mut news).expect("text");
    assert!(news.ends_with("interrupted; there are no results\n"), "{news}");
    assert_eq!(std::fs::read_to_string(&report).expect("a file"), before);
}

#[test]
fn a_report_that_cannot_be_written_costs_nothing_else() {
    let dir = here();
    let file = dir.path().join("fullpipe-report.html");
    std::fs::write(&file, "<title>my notes</title>").expect("a file");
    let short = "--over sim --cc cubic --rate 5mbit --duration 1s";
    // Nobody can write into /proc, root neither.
    for (at, why) in [
        (dir.path(), "the file there is no report of fullpipe; name another with --report"),
        (std::path::Path::new("/proc"), "cannot write the report"),
    ] {
        let said = compare(at, short);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(
            said.stderr.starts_with("no report: ") && said.stderr.contains(why),
            "{}",
            said.stderr
        );
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(text.contains("5mbit 40ms 1bdp") && !text.contains("report:"), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "<title>my notes</title>");
    // One that was asked for is wrong before anything runs.
    let said = compare(dir.path(), &format!("{short} --report fullpipe-report.html"));
    assert_eq!((said.code, said.stdout.len()), (Some(2), 0), "{}", said.stderr);
}
