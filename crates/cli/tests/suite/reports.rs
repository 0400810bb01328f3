//! `fullpipe report`: what other commands kept, as pages, lines of values and drawings.

use std::path::Path;

use serde_json::json;

use crate::checks::refused_with;
use crate::common::{Said, fullpipe, names, run};

const FILE: &str = "name = \"mine\"\ncc = [\"bbr3\", \"cubic\"]\nduration = \"2s\"\ninterval = \"100ms\"\n\
    path = { rate = \"10mbit\", rtt = \"40ms\", steps = { every = \"1s\", list = [{ at = \"500ms\", rate = \"5mbit\" }] } }\n\
    expect = [\"goodput_mbps >= 1\"]\n";

fn said(dir: &Path, args: &[&str]) -> Said {
    let said = run(fullpipe(dir, args));
    assert_eq!(said.code, Some(0), "{args:?}: {}", said.stderr);
    said
}

fn stdout(dir: &Path, args: &[&str]) -> String {
    String::from_utf8(said(dir, args).stdout).expect("text")
}

#[test]
fn kept_runs_become_the_page_and_the_lines_of_the_run_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    std::fs::write(dir.join("x.toml"), FILE).expect("a file");
    let json = stdout(dir, &["run", "x.toml", "--json", "--out", "out"]);
    std::fs::write(dir.join("x.json"), json).expect("a file");
    let csv = stdout(dir, &["run", "x.toml", "--csv", "--report", "own.html"]);
    said(dir, &["sweep", "x.toml", "--out", "all/sweep"]);
    let page = |name: &str| std::fs::read_to_string(dir.join(name)).expect("a page");
    let own = page("own.html");
    assert!(own.contains("the path&#39;s capacity") || own.contains("the path's capacity"));
    // A directory of directories, a sweep, a run's directory and its object.
    for kept in ["all", "all/sweep", "out", "x.json"] {
        assert_eq!(stdout(dir, &["report", kept, "--csv"]), csv, "{kept}");
        let line = stdout(dir, &["report", kept, "--report", "kept.html"]);
        assert_eq!(line, "report: kept.html\n");
        assert!(page("kept.html") == own, "{kept}: another page");
    }
    let two = stdout(dir, &["report", "out", "x.json", "--csv"]);
    assert_eq!(two.lines().count(), 5, "{two}");
    said(dir, &["report", "out", "--svg", "drawings"]);
    assert_eq!(names(&dir.join("drawings")), ["00-mine.svg"]);
    let svg = page("drawings/00-mine.svg");
    assert!(svg.starts_with("<svg") && svg.contains("<polygon"), "{svg:.200}");
    // Half a line: a sweep that is at work, or was killed.
    let journal = dir.join("all/sweep/runs.jsonl");
    let text = std::fs::read_to_string(&journal).expect("a journal");
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&journal, format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..50]))
        .expect("a file");
    assert_eq!(stdout(dir, &["report", "all/sweep", "--csv"]).lines().count(), 2);
    assert!(std::fs::read_to_string(&journal).expect("a journal").ends_with(&lines[2][..50]));
}

/// Both commands write the same tables, so a directory tells of the later one alone.
#[test]
fn a_directory_is_of_a_sweep_or_of_the_run_that_came_after_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    std::fs::write(dir.join("x.toml"), FILE).expect("a file");
    std::fs::write(dir.join("y.toml"), FILE.replace("10mbit", "8mbit")).expect("a file");
    said(dir, &["sweep", "x.toml", "--out", "out"]);
    let of_the_sweep = stdout(dir, &["report", "out", "--csv"]);
    let csv = stdout(dir, &["run", "y.toml", "--csv", "--out", "out"]);
    assert_ne!(csv, of_the_sweep);
    assert_eq!(stdout(dir, &["report", "out", "--csv"]), csv);
    let before = std::fs::read(dir.join("out/summary.parquet")).expect("a table");
    refused_with(
        dir,
        &[(&["sweep", "x.toml", "--out", "out"], &["out holds what", "results.json"])],
    );
    assert_eq!(std::fs::read(dir.join("out/summary.parquet")).expect("a table"), before);
    // A run after a run writes over it.
    said(dir, &["run", "x.toml", "--out", "out"]);
    assert_eq!(stdout(dir, &["report", "out", "--csv"]), of_the_sweep);
}

/// A run of a program as `link --json` and `judge --json` have it.
fn program() -> serde_json::Value {
    let way = |bytes: u64| {
        json!({
            "rate_mbps": 20.0, "sent_packets": 10, "delivered_packets": 10, "delivered_bytes": bytes,
            "payload_bytes": bytes, "lost_packets": {}, "marked_packets": 0, "corrupted_packets": 0,
            "metrics": { "goodput_mbps": 12.5, "utilization": 0.7 },
        })
    };
    let row = |at_s: f64| {
        json!({
            "at_s": at_s, "mbps": [9.0, 0.4], "capacity_mbps": [20.0 * at_s, 20.0],
            "queue_ms": [3.0, 0.0], "lost": [0, 0],
        })
    };
    json!({
        "path": "clean", "toml": "", "command": ["iperf3"], "ended": null, "elapsed_s": 3.0,
        "active_s": 3.0, "rtt_ms": 40.0, "down": way(90_000), "up": way(500), "relay": null,
        "server": null, "pcap": null,
        "emulator": { "lateness_us": { "p50": 1.0, "p99": 2.0, "p999": 3.0 }, "trusted": true, "warning": null },
        "interrupted": false, "series": [row(1.0), row(2.0), row(3.0)],
    })
}

#[test]
fn a_kept_verdict_and_a_kept_link_have_their_own_pages() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let file = |name: &str, object: &serde_json::Value| {
        std::fs::write(dir.join(name), object.to_string()).expect("a file");
    };
    let check = json!({
        "check": "fills the path", "course": "clean", "unit": "%", "value": 31.5, "good": 76.0,
        "broken": 40.0, "ours": { "bbr3": 95.0, "reno": 80.0 }, "grade": "broken", "reason": null,
    });
    let verdict = json!({
        "schema_version": 2, "quick": false, "checks": [check], "looks_like": "a kind of its own",
        "looks": { "kind": "unknown", "paced": null }, "worse": null, "interrupted": false,
        "defects": [{ "name": "stuck", "about": "it does not move" }], "runs": [program()],
    });
    file("judge.json", &verdict);
    file("link.json", &json!({ "schema_version": 2, "link": program() }));
    let page = |name: &str| std::fs::read_to_string(dir.join(name)).expect("a page");
    said(dir, &["report", "judge.json", "-r", "judge.html"]);
    let judge = page("judge.html");
    for part in ["a kind of its own", "stuck", "fills the path", "<svg", "Queueing delay"] {
        assert!(judge.contains(part), "{part}");
    }
    let csv = stdout(dir, &["report", "judge.json", "--csv", "--svg", "judge"]);
    assert!(csv.starts_with("check,figure,figure unit,good limit,"), "{csv}");
    assert!(csv.contains("fills the path,31.50,%,"), "{csv}");
    assert_eq!(names(&dir.join("judge")), ["00-clean.svg"]);
    said(dir, &["report", "link.json", "-r", "link.html", "--svg", "link"]);
    assert!(page("link.html").contains("capacity to the command"));
    assert!(page("link/00-clean.svg").contains("<polygon"));
    let csv = stdout(dir, &["report", "link.json", "--csv", "--series-csv", "link.csv"]);
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let series = page("link.csv");
    let lines: Vec<&str> = series.lines().collect();
    let names = "t_s,mbps.down,capacity_mbps.down,queue_ms.down,lost_packets.down,mbps.up,";
    assert!(lines[0].starts_with(names), "{series}");
    assert_eq!(
        &lines[1..],
        ["1,9,20,3,0,0.4,20,0,0", "2,9,40,3,0,0.4,20,0,0", "3,9,60,3,0,0.4,20,0,0"]
    );
    refused_with(
        dir,
        &[(
            &["report", "judge.json", "--series-csv", "x.csv"],
            &["--series-csv: nothing over time"],
        )],
    );
}

#[test]
fn what_has_no_page_gets_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let file = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("a file");
    std::fs::create_dir_all(dir.join("empty/inside")).expect("a directory");
    std::fs::create_dir_all(dir.join("other")).expect("a directory");
    file("other/runs.jsonl", "{\"a\":1}\n");
    file("text", "no JSON");
    file("foreign.json", "{\"a\": 1}");
    file("old.json", "{\"schema_version\": 0, \"scenarios\": []}");
    file("none.json", "{\"schema_version\": 2, \"scenarios\": [], \"interrupted\": false}");
    file("trace.json", "{\"schema_version\": 2, \"trace\": {}}");
    file("link.json", &json!({ "schema_version": 2, "link": program() }).to_string());
    file("short.json", "{\"schema_version\": 2, \"link\": { \"path\": \"x\" }}");
    let before = names(dir);
    let rows: &[(&[&str], &[&str])] = &[
        (&["report"], &["PATH"]),
        (&["report", "nowhere"], &["nowhere", "No such file"]),
        (&["report", "empty"], &["empty holds no results", "results.json", "runs.jsonl"]),
        (&["report", "other"], &["runs.jsonl:1 is no run"]),
        (&["report", "text"], &["text: no JSON of fullpipe", "--json"]),
        (&["report", "foreign.json"], &["no schema_version"]),
        (&["report", "old.json"], &["schema_version is 0"]),
        (&["report", "none.json"], &["no run is over yet"]),
        (&["report", "trace.json"], &["no results that have a page"]),
        (&["report", "short.json"], &["short.json: no JSON of fullpipe"]),
        (&["report", "link.json", "link.json"], &["give it alone"]),
        (&["report", "link.json", "-r", "text"], &["no report of fullpipe"]),
    ];
    refused_with(dir, rows);
    assert_eq!(names(dir), before, "nothing was made");
}
