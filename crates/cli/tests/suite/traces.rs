//! Trace files as people have them, through the command. What is in them was drawn by hand.

use std::path::Path;

use crate::checks::{has, json, refused_with};
use crate::common::{fullpipe, names, run};

const ROWS: &str = "0,0\n1,8.5\n2,12\n3,4\n4,0\n";

fn files(dir: &Path) {
    let file = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("a file");
    file("plain.csv", &format!("time_s,rate_mbps\n{ROWS}"));
    file("windows.csv", &format!("\u{feff}Time,Throughput (Mbps)\n{ROWS}").replace('\n', "\r\n"));
    file("mac.csv", &format!("time,mbps\n{ROWS}").replace('\n', "\r"));
    file(
        "epoch.csv",
        "timestamp,mbps\n1577836800000,0\n1577836801000,8.5\n1577836802000,12\n1577836803000,4\n1577836804000,0\n",
    );
    file("bus.log", "0.000\t0\n1.000\t8.5\n2.000\t12\n3.000\t4\n4.000\t0\n");
    file("all.csv", "time,mbps,rtt_ms,loss\n0,0,40,0.02\n1,8.5,60,0\n2,12,40,0\n");
    file("irtt.csv", "seq,rtt_us,lost\n0,31914,0\n1,41217,1\n2,31786,0\n");
    file("r24.trace", "1\n1\n");
    file("red.trace", "1\n\u{1b}[31mred\n");
}

/// The same rates in five formats give the same run, to the last digit.
#[test]
fn the_rates_of_a_file_are_those_of_the_run_in_every_format() {
    let dir = tempfile::tempdir().expect("a directory");
    files(dir.path());
    let results = ["plain.csv", "windows.csv", "mac.csv", "epoch.csv", "bus.log"].map(|name| {
        let text = format!("name = \"x\"\ncc = \"cubic\"\nduration = \"7s\"\npath = {{ trace = \"{name}\", rtt = \"40ms\" }}\n");
        std::fs::write(dir.path().join("x.toml"), text).expect("a file");
        let said = run(fullpipe(dir.path(), &["run", "x.toml", "--csv"]));
        assert_eq!(said.code, Some(0), "{name}: {}", said.stderr);
        String::from_utf8(said.stdout).expect("text")
    });
    assert!(results.iter().all(|other| *other == results[0]), "{results:?}");
}

#[test]
fn trace_shows_what_is_understood() {
    let dir = tempfile::tempdir().expect("a directory");
    files(dir.path());
    let (code, stderr, said) = json(dir.path(), &["trace", "all.csv", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    has(&said, &["schema_version", "trace.rate_mbps.p95", "trace.rtt_ms.mean", "trace.loss.max"]);
    assert_eq!(
        (&said["trace"]["format"], &said["trace"]["duration_s"]),
        (&"table".into(), &3.0.into())
    );
    assert_eq!(said["trace"]["rate_course_mbps"].as_array().map(Vec::len), Some(64));
    let shown = |args: &[&str]| {
        let said = run(fullpipe(dir.path(), &[&["trace"], args].concat()));
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.stderr);
        String::from_utf8(said.stdout).expect("text")
    };
    let text = shown(&["all.csv"]);
    for part in [
        "all.csv: a table of 3 rows, a row each 1 s, 3 s long; begins again",
        "columns: time (time, s), mbps (rate, Mbit/s), rtt_ms (rtt, ms), loss (loss, from 0 to 1)",
        "rate Mbit/s",
        "the rate is 0 for 33.33 % of the time",
        "Mbit/s +---",
        "RTT ms +---",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = shown(&["{ file = \"irtt.csv\", interval = \"10ms\", repeat = false }"]);
    assert!(text.contains("not read: seq") && text.contains("holds for ever"), "{text}");
    assert!(shown(&["r24.trace"]).contains("Mahimahi's format, 2 packets, 0.001 s long"));
    assert!(shown(&["lte"]).contains("60 s long"));
    // What is written is read again.
    for (file, format) in [("all.csv", "csv"), ("plain.csv", "mahimahi")] {
        let text = shown(&[file, "--to", format]);
        std::fs::write(dir.path().join("again"), &text).expect("a file");
        assert_eq!(shown(&["again", "--to", format]), text, "{format}");
    }
}

#[test]
fn a_path_is_said_on_the_command_line() {
    let dir = tempfile::tempdir().expect("a directory");
    files(dir.path());
    let explain = [
        "explain",
        "--trace",
        "all.csv",
        "--queue",
        "codel",
        "--up-rate",
        "1mbit",
        "--duration",
        "3s",
        "--json",
    ];
    let (code, stderr, said) = json(dir.path(), &explain);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(said["path"], "the path of 1bdp all.csv codel up 1mbit");
    assert_eq!(said["truth"]["changes"], true);
    let compare = [
        "compare",
        "--stack",
        "sim",
        "--cc",
        "cubic",
        "--trace",
        "plain.csv",
        "--rtt",
        "30ms",
        "--up-trace",
        "bus.log",
        "--up-buffer",
        "20pkts",
        "--up-loss",
        "1%",
        "--jitter",
        "2ms",
        "--reorder",
        "1%,3ms",
        "--duration",
        "2s",
        "--json",
    ];
    let (code, stderr, said) = json(dir.path(), &compare);
    assert_eq!(code, Some(0), "{stderr}");
    let toml = said["scenarios"][0]["toml"].as_str().expect("a text");
    for line in [
        "trace = \"plain.csv\"",
        "[[path.down]]\njitter = \"2ms\"",
        "[path.down.reordering]\nchance = \"1%\"\ndelay = \"3ms\"",
        "[[path.up]]\nloss = \"1%\"",
        "[path.up.bottleneck]\ntrace = \"bus.log\"\nbuffer = \"20pkts\"",
    ] {
        assert!(toml.contains(line), "{line}: {toml}");
    }
    // The text is a file that runs the same again.
    std::fs::write(dir.path().join("again.toml"), toml).expect("a file");
    let (code, stderr, again) = json(dir.path(), &["run", "again.toml", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        said["scenarios"][0]["runs"][0]["metrics"],
        again["scenarios"][0]["runs"][0]["metrics"]
    );
}

/// The same options where a trace is shown, and where it is a path.
#[test]
fn options_say_what_a_file_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("a file");
    };
    file("bits.csv", "when,speed\n11/25/2019 03:34 PM,8000000\n11/25/2019 03:35 PM,4000000\n");
    file("delays.csv", "time,owd\n0,20000\n60,30000\n");
    let options = [
        "bits.csv",
        "--rate-unit",
        "bit/s",
        "--time-format",
        "%m/%d/%Y %I:%M %p",
        "--delay-trace",
        "delays.csv",
        "--rtt-unit",
        "us",
    ];
    let named = |name: &'static str| {
        file("named.csv", "time,speed\n0,8000000\n60,4000000\n");
        [&[name][..], &options[1..3], &options[5..]].concat()
    };
    let (code, stderr, said) =
        json(dir.path(), &[&["trace"][..], &named("named.csv"), &["--json"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let mean = |field: &str| said["trace"][field]["mean"].clone();
    assert_eq!((mean("rate_mbps"), mean("rtt_ms")), (6.0.into(), 50.0.into()));
    let (code, stderr, _) = json(
        dir.path(),
        &[&["explain", "--duration", "2s", "--json", "--trace"][..], &named("named.csv")].concat(),
    );
    assert_eq!(code, Some(0), "{stderr}");
    let table = "{ file = \"bits.csv\", columns = { time = \"when\", rate = \"speed\" } }";
    let dated = [&["trace", table][..], &options[1..]].concat();
    let said = run(fullpipe(dir.path(), &dated));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = String::from_utf8_lossy(&said.stdout);
    for part in ["120 s long", "when (time, date)", "owd (delay, us in each direction)"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let rows: &[(&[&str], &[&str])] = &[
        (&["trace", "named.csv"], &["8000000 Mbit/s in column 'speed'", "--rate-unit bit/s"]),
        (&["explain", "--trace", "named.csv"], &["--trace", "line 2", "--rate-unit bit/s"]),
        (&["trace", table, "--rate-unit", "bit/s"], &["--time-format '%m/%d/%Y %I:%M %p'"]),
        (&["trace", "named.csv", "--rate-unit", "bps"], &["--rate-unit", "kbit/s"]),
        (&["explain", "--rate-unit", "bit/s"], &["--trace"]),
        (&["explain", "--scenario", "x.toml", "--rate-unit", "bit/s"], &["--rate-unit"]),
        (&["explain", "--trace", "lte", "--delay-trace", "none.csv"], &["delay_trace: No such"]),
    ];
    refused_with(dir.path(), rows);
}

#[test]
fn what_is_no_trace_gets_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    files(dir.path());
    let scenario = |name: &str, path: &str| {
        std::fs::write(dir.path().join(name), format!("cc = \"cubic\"\npath = {path}\n"))
            .expect("a file");
    };
    scenario("red.toml", "{ trace = \"red.trace\", rtt = \"40ms\" }");
    scenario("rtt.toml", "{ trace = \"all.csv\", rtt = \"40ms\" }");
    let before = names(dir.path());
    let rows: &[(&[&str], &[&str])] = &[
        (&["run", "red.toml"], &["red.toml:2: path.trace", "line 2: \"\\u{1b}[31mred\""]),
        (&["run", "rtt.toml"], &["rtt.toml:2: path.rtt", "leave rtt out"]),
        (&["trace", "irtt.csv"], &["interval = \"10ms\""]),
        (&["trace", "none.csv"], &["No such file", "lte and wifi"]),
        (&["trace", "."], &["no regular file"]),
        (
            &["trace", "{ file = \"all.csv\", colums = {} }"],
            &["unknown field `colums`", "`columns`"],
        ),
        (&["trace", "{ file = "], &["write a file's name, or a table"]),
        (&["trace", "all.csv", "--to", "xml"], &["mahimahi, csv"]),
        (
            &["trace", "{ file = \"irtt.csv\", interval = \"10ms\" }", "--to", "mahimahi"],
            &["write --to csv"],
        ),
        (&["explain", "--trace", "red.trace"], &["--trace", "line 2"]),
        (
            &["explain", "--trace", "plain.csv", "--rate", "1mbit"],
            &["--trace: there is a rate too"],
        ),
        (
            &["explain", "--trace", "all.csv", "--rtt", "1ms"],
            &["--rtt: the trace has round-trip times"],
        ),
        (&["explain", "--trace", "all.csv", "--loss", "1%"], &["--loss: the trace has losses too"]),
        (&["explain", "--queue", "codl"], &["--queue", "did you mean codel?"]),
        (&["explain", "--reorder", "1%"], &["--reorder", "1%,3ms"]),
        (&["explain", "--loss-model", "ge:1%"], &["--loss-model", "ge:0.1%,10%"]),
        (&["explain", "--policer", "25mbit"], &["--policer", "25mbit,100kB"]),
        (&["explain", "--policer", "25mbit,1kB"], &["--policer", "at least 1500"]),
        (&["explain", "--buffer", "1us"], &["--buffer: '1us' is 12 bytes here (of 100mbit)"]),
        (
            &["explain", "--up-buffer", "9pkts"],
            &["--up-buffer", "write --up-rate or --up-trace too"],
        ),
        (&["explain", "--up-rate", "1mbit", "--up-trace", "lte"], &["--up-rate", "--up-trace"]),
        (&["explain", "red.toml", "--trace", "lte"], &["--trace"]),
        (&["link", "--trace", "red.trace", "--", "true"], &["--trace", "line 2"]),
        (
            &["link", "--trace", "plain.csv", "--rate", "1mbit", "--", "true"],
            &["--trace: there is a rate too"],
        ),
        (
            &["link", "--scenario", "rtt.toml", "--trace", "lte", "--", "true"],
            &["--scenario", "--trace"],
        ),
    ];
    refused_with(dir.path(), rows);
    assert_eq!(names(dir.path()), before, "nothing was made");
}
