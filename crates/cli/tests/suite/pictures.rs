//! `--svg` and `--series-csv`: plots and series of one's own runs as files.

use std::path::Path;

use crate::checks::refused_with;
use crate::common::{fullpipe, names, run};

/// Two runs with two flows each.
const FILE: &str = "name = \"mine\"\ncc = [\"bbr3\", \"cubic\"]\nduration = \"1s\"\ninterval = \"100ms\"\n\
    path = { rate = \"10mbit\", rtt = \"40ms\" }\nflow = [{ name = \"a\" }, { name = \"b\" }]\n";

const BOTH: [&str; 4] = ["--svg", "plots", "--series-csv", "series.csv"];

fn stdout(dir: &Path, args: &[&str]) -> String {
    let said = run(fullpipe(dir, args));
    assert_eq!(said.code, Some(0), "{args:?}: {}", said.stderr);
    String::from_utf8(said.stdout).expect("text")
}

/// The files that [`BOTH`] names: the lines, and each plot.
fn written(dir: &Path) -> (Vec<String>, Vec<(String, Vec<u8>)>) {
    let csv = std::fs::read_to_string(dir.join("series.csv")).expect("the series");
    let plot = |name: String| {
        let svg = std::fs::read(dir.join("plots").join(&name)).expect("a plot");
        assert!(svg.starts_with(b"<svg"), "{name}");
        (name, svg)
    };
    let plots = names(&dir.join("plots")).into_iter().map(plot).collect();
    (csv.lines().map(str::to_owned).collect(), plots)
}

#[test]
fn a_run_writes_what_report_writes_of_its_results() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    std::fs::write(dir.join("x.toml"), FILE).expect("a file");
    let json = stdout(dir, &[&["run", "x.toml", "--json"], &BOTH[..]].concat());
    let ours = written(dir);
    std::fs::write(dir.join("x.json"), &json).expect("a file");
    assert_eq!(stdout(dir, &[&["report", "x.json"], &BOTH[..]].concat()), "");
    assert!(written(dir) == ours, "other files");
    let (lines, plots) = ours;
    assert_eq!(plots.len(), 1);
    assert_eq!(plots[0].0, "00-mine.svg");
    let start =
        "scenario,stack,clock,seed,cc_axis,flow,name,cc,t_s,goodput_mbps,capacity_mbps,rtt_ms,";
    assert!(lines[0].starts_with(start), "{}", lines[0]);
    // Each line is a row of the object, in its order.
    let object: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let runs = object["scenarios"][0]["runs"].as_array().expect("runs");
    let mut left = lines[1..].iter();
    for run in runs {
        for row in run["series"].as_array().expect("rows") {
            let cells: Vec<&str> = left.next().expect("a line").split(',').collect();
            let flow = &run["flows"][row["flow"].as_u64().expect("a number") as usize];
            let names = [
                &run["scenario"],
                &run["stack"],
                &run["clock"],
                &run["at"][0][1],
                &flow["name"],
                &flow["cc"],
            ];
            assert_eq!(
                [cells[0], cells[1], cells[2], cells[4], cells[6], cells[7]].map(Some),
                names.map(|v| v.as_str())
            );
            for (column, name) in [(8, "t_s"), (9, "goodput_mbps"), (11, "rtt_ms")] {
                assert_eq!(cells[column].parse::<f64>().ok(), row[name].as_f64(), "{name}");
            }
        }
    }
    assert_eq!(left.next(), None);
    assert!(lines.len() > 30, "{} lines", lines.len());
}

#[test]
fn compare_and_explain_write_them_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let compare = ["compare", "--stack", "sim", "--duration", "1s", "--json"];
    stdout(dir, &[&compare, &BOTH[..]].concat());
    let (lines, plots) = written(dir);
    assert_eq!(plots.len(), 2, "one for each path");
    assert!(
        lines[0].starts_with("scenario,stack,clock,seed,variant,cc_axis,flow,"),
        "{}",
        lines[0]
    );
    std::fs::remove_dir_all(dir.join("plots")).expect("a directory");

    std::fs::write(dir.join("x.toml"), FILE).expect("a file");
    stdout(dir, &[&["run", "x.toml"], &BOTH[..]].concat());
    let of_run = written(dir).0;
    let story = stdout(dir, &["explain", "x.toml", "--run", "1"]);
    assert_eq!(stdout(dir, &[&["explain", "x.toml", "--run", "1"], &BOTH[..]].concat()), story);
    let of_story = written(dir).0;
    // The rows of the second run, which the story is of.
    let rows = of_story.len() - 1;
    assert!(rows > 15, "{rows} rows");
    assert_eq!(of_story[1..], of_run[of_run.len() - rows..]);
}

/// The story of a flow is of the backend that was asked for: noq's probes come at other times than
/// the simulator's.
#[test]
fn explain_runs_over_the_backend_that_it_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let story = |stack: &str| {
        stdout(dir.path(), &["explain", "--duration", "2s", "--stack", stack, "--json"])
    };
    let [sim, noq] = ["sim", "noq"].map(story);
    assert!(noq.contains("over real packets (noq (virtual clock))"), "{noq:.300}");
    assert!(!sim.contains("over real packets"), "{sim:.300}");
}

#[test]
fn a_place_that_cannot_be_written_is_told_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    std::fs::write(dir.join("x.toml"), FILE.replace("1s", "100000s")).expect("a file");
    std::fs::write(dir.join("file"), "").expect("a file");
    let before = names(dir);
    let run = ["run", "x.toml", "--max-memory", "200GB"];
    let compare = ["compare", "--stack", "sim", "--duration", "1000s", "--json"];
    let explain = ["explain", "--duration", "1000s"];
    let link = ["link", "--udp", "0=127.0.0.1:9"];
    for command in [&run[..], &compare, &explain, &link] {
        let with = |options: [&'static str; 2]| [command, &options].concat();
        refused_with(
            dir,
            &[
                (&with(["--svg", "file/plots"]), &["--svg: cannot write file/plots"]),
                (&with(["--series-csv", "no/x.csv"]), &["--series-csv: cannot write no/x.csv"]),
                (
                    &with(["--series-csv", "."]),
                    &["--series-csv: cannot write .: it is not a regular file"],
                ),
            ],
        );
    }
    let real = ["explain", "x.toml", "--stack", "noq", "--clock", "real", "--svg", "plots"];
    refused_with(dir, &[(&real, &["--svg", "fullpipe run FILE.toml --stack noq --clock real"])]);
    assert_eq!(names(dir), before, "nothing was made");
}
