//! `fullpipe compare` as a process. The figures are the lab's business; here it is what comes out,
//! where, and how it ends. Every run over QUIC is short, and its speed is not looked at: machines
//! that test are busy.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use super::terminal::{has_blocks, on_a_terminal};
use crate::checks::{check_run, has, one_object};
use crate::common::{Running, Said, fullpipe, names, run};
use serde_json::Value;

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn compare(dir: &Path, line: &str) -> Said {
    let args: Vec<&str> = std::iter::once("compare").chain(line.split_whitespace()).collect();
    run(fullpipe(dir, &args))
}

fn json_is_one_object_with_every_field_and_nothing_beside_it() {
    let dir = here();
    let said = compare(
        dir.path(),
        "--stack noq --clock real --cc bbr3,noq:cubic --rate 20mbit --rtt 20ms --buffer 2bdp --loss 0.1% --duration 1s \
         --seed 7 --json",
    );
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let object = one_object(&said);
    assert_eq!((&object["schema_version"], &object["interrupted"]), (&2.into(), &false.into()));
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
        "duration = \"1s\"",
        "seed = 7",
    ] {
        assert!(toml.contains(line), "{line} in {toml}");
    }
    let runs = scenario["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for (run, cc) in runs.iter().zip(["bbr3", "noq:cubic"]) {
        assert_eq!((&run["flows"][0]["cc"], &run["stack"]), (&cc.into(), &"noq".into()));
        assert_eq!((&run["rate_mbps"], &run["seed"]), (&20.0.into(), &7.into()));
        check_run(run, 1);
        has(run, &["emulator.lateness_us.p50", "emulator.lateness_us.p99", "emulator.trusted"]);
        assert!(run["metrics"]["completed_bytes"].as_f64() > Some(0.0));
    }
    assert!(names(dir.path()).is_empty(), "a report that nobody asked for");
}

fn ctrl_c_keeps_the_results_so_far() {
    let dir = here();
    // CUBIC takes ten times as long as BBR where so much is lost.
    let line = "compare --stack noq --clock real --cc bbr3,cubic --rate 20mbit --bytes 2MB --loss 5% --json --report \
                so-far.html";
    let args: Vec<&str> = line.split(' ').collect();
    let (shown, stdout, code) = on_a_terminal(dir.path(), &args, |shown| {
        shown.split_once("2 of 2: cubic on ").is_some_and(|(_, second)| has_blocks(second))
    });
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("interrupted; these are the results so far"), "{shown}");
    let object: Value = serde_json::from_str(&stdout).expect("JSON and nothing else");
    assert_eq!(object["interrupted"], true);
    let results = object["scenarios"][0]["runs"].as_array().expect("runs");
    assert_eq!(results.len(), 2, "{shown}");
    assert_eq!(
        (&results[0]["flows"][0]["cc"], &results[0]["interrupted"]),
        (&"bbr3".into(), &Value::Null)
    );
    assert_eq!(
        (&results[1]["flows"][0]["cc"], &results[1]["interrupted"]),
        (&"cubic".into(), &true.into())
    );
    assert!(results[1]["metrics"]["completed_bytes"].as_f64() < Some(2e6), "{}", results[1]);
    assert_eq!(names(dir.path()), ["so-far.html"]);
}

fn ctrl_c_before_anything_ran_leaves_the_report_from_before() {
    let dir = here();
    let report = dir.path().join("fullpipe-report.html");
    let before = "<meta name=\"generator\" content=\"fullpipe 0.1.0\"> from before";
    std::fs::write(&report, before).expect("a file");
    // At 1 kbit/s no handshake is over before the interrupt.
    let line = "compare --stack noq --clock real --rate 1kbit --buffer 9pkts";
    let args: Vec<&str> = line.split(' ').collect();
    let mut command = fullpipe(dir.path(), &args);
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

fullpipe_testkit::tests! {
    [] json_is_one_object_with_every_field_and_nothing_beside_it,
        ctrl_c_keeps_the_results_so_far,
        ctrl_c_before_anything_ran_leaves_the_report_from_before;
}
