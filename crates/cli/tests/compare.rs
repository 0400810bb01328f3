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

const SCENARIO: &[&str] = &[
    "over",
    "cc",
    "rate_bps",
    "rtt_ms",
    "buffer",
    "buffer_bytes",
    "buffer_packets",
    "loss",
    "flows",
    "stagger_s",
    "duration_s",
    "bytes",
    "seed",
];
const RESULT: &[&str] = &[
    "cc",
    "goodput_bps",
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
    "interrupted",
];
const SERIES: &[&str] = &[
    "t_s",
    "goodput_bps",
    "queue_ms",
    "rtt_ms",
    "cwnd_bytes",
    "inflight_bytes",
    "pacing_bps",
    "state",
];

fn check_result(result: &Value, flows: usize) {
    has(result, RESULT);
    has(&result["series"], SERIES);
    let rows = result["series"]["t_s"].as_array().map_or(0, Vec::len);
    assert!(rows > 5, "{rows} rows");
    for column in SERIES {
        assert_eq!(result["series"][column].as_array().map(Vec::len), Some(rows), "{column}");
    }
    let each = result["flows"].as_array().expect("flows");
    assert_eq!(each.len(), flows);
    for flow in each {
        has(flow, &["goodput_bps", "completed_bytes", "start_s", "end_s"]);
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
    has(&object["scenario"], SCENARIO);
    assert_eq!(object["scenario"]["over"], "quic");
    assert_eq!(object["scenario"]["rate_bps"], 20_000_000);
    assert_eq!(object["scenario"]["rtt_ms"], 20.0);
    assert_eq!(object["scenario"]["buffer_bytes"], 100_000);
    assert_eq!(object["scenario"]["loss"], 0.001);
    assert_eq!(object["scenario"]["duration_s"], 2.0);
    assert_eq!(object["scenario"]["seed"], 7);
    assert_eq!(object["interrupted"], false);
    let results = object["results"].as_array().expect("results");
    assert_eq!(results.len(), 2);
    for (result, cc) in results.iter().zip(["bbr3", "noq:cubic"]) {
        assert_eq!(result["cc"], cc);
        check_result(result, 1);
        has(result, &["emulator.lateness_us.p50", "emulator.lateness_us.p99", "emulator.trusted"]);
        assert!(result["completed_bytes"].as_u64() > Some(0));
    }
    assert!(names(dir.path()).is_empty(), "a report that nobody asked for");
}

#[test]
fn without_a_path_the_object_holds_two_scenarios() {
    let dir = here();
    let said = compare(dir.path(), "--over sim --duration 2s --json --report both.html");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object = json(&said);
    let scenarios = object["scenarios"].as_array().expect("scenarios");
    assert_eq!(scenarios.len(), 2);
    for (s, (buffer, loss)) in scenarios.iter().zip([(3_000_000, 0.0), (500_000, 0.01)]) {
        has(&s["scenario"], SCENARIO);
        assert_eq!(s["scenario"]["buffer_bytes"], buffer);
        assert_eq!(s["scenario"]["loss"], loss);
        let results = s["results"].as_array().expect("results");
        assert_eq!(results.iter().map(|r| &r["cc"]).collect::<Vec<_>>(), ["bbr3", "cubic"]);
        for result in results {
            check_result(result, 1);
        }
    }
    assert_eq!(names(dir.path()), ["both.html"]);
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
    assert!(lines[0].starts_with("path") && lines[0].ends_with("jain"), "{text}");
    for (line, cc) in lines[2..].iter().zip(["bbr3", "cubic", "reno"]) {
        assert!(line.starts_with("100mbit 40ms 300pkts 2 flows") && line.contains(cc), "{text}");
    }
    assert_eq!(lines[5..], ["report: fullpipe-report.html"], "{text}");
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
        ("--cc bbr", "there are bbr3, bbr3-linux, bbr1, cubic, reno, and noq's own noq:bbr3"),
        ("--cc bbr3,", "unknown algorithm"),
        ("--cc bbr3,bbr3", "bbr3 is named twice"),
        ("--rate 0", "--rate is 0"),
        ("--rate fast", "write a rate like 100mbit"),
        ("--rate -5mbit", "'-5mbit' is not a rate"),
        ("--rate 100mbps", "bytes"),
        ("--rtt 40", "'40' has no unit"),
        ("--rtt 1h", "write a time like 40ms"),
        ("--buffer 1000", "too small for one packet of 1500"),
        ("--buffer 0pkts", "too small for one packet"),
        ("--buffer 6M", "write a buffer like 1bdp"),
        ("--loss 100%", "below 100%"),
        ("--loss 2", "if you meant 2%"),
        ("--loss -1%", "'-1%' is not a loss"),
        ("--flows 0", "--flows 0 is outside 1 to"),
        ("--flows 1001", "--flows 1001 is outside 1 to"),
        ("--flows two", "'two' is no whole number; write a whole number like 2"),
        ("--rate 100", "'100' has no unit; write a rate like 100mbit"),
        ("--flows -1", "'-1' is below 0; write a whole number like 2"),
        ("--duration 0s", "--duration is 0"),
        ("--bytes 0", "--bytes is 0"),
        ("--bytes 1MB --duration 1s", "cannot be used with"),
        ("--flows 3 --stagger 10s", "starts after the end"),
        ("--over udp", "there are quic, sim and tcp"),
        ("--over tcp --cc bbr1", "bbr1 does not run over tcp"),
        ("--cc linux:bbr", "linux:bbr is the kernel's and runs over tcp alone"),
        ("--cc linux:", "write one like linux:bbr"),
        ("--over sim --cc noq:bbr3", "cannot run over sim"),
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
    let results = object["results"].as_array().expect("results");
    assert_eq!(results.len(), 2, "{}", output.stderr);
    assert_eq!((&results[0]["cc"], &results[0]["interrupted"]), (&"cubic".into(), &false.into()));
    assert_eq!((&results[1]["cc"], &results[1]["interrupted"]), (&"bbr3".into(), &true.into()));
    assert!(results[1]["elapsed_s"].as_f64() < Some(2.0));
    assert_eq!(names(dir.path()), ["so-far.html"]);
}

#[test]
fn ctrl_c_before_anything_ran_leaves_the_report_from_before() {
    let dir = here();
    let report = dir.path().join("fullpipe-report.html");
    std::fs::write(&report, "from before").expect("a file");
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
    assert_eq!(std::fs::read_to_string(&report).expect("a file"), "from before");
}
