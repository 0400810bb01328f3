use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::plan::Plan;
use crate::run::{RunOptions, run_point};
use crate::scenario::Edition;

/// Two algorithms on two paths, for two seconds.
fn report() -> ScenarioReport {
    let text = "name = \"two\"\ncc = [\"bbr3\", \"cubic\"]\nduration = \"2s\"\nexpect = [\"jain > 2\"]\n\
        path = { rate = \"20mbit\", rtt = \"40ms\" }\nflow = [{ count = 2 }]\n\
        [[variant]]\nname = \"deep\"\npath = { buffer = \"6bdp\" }\n\
        [[variant]]\nname = \"lossy\"\npath = { loss = \"1%\" }\n";
    let plan = Plan::parse(text, "two.toml", "two", Path::new(""), Edition::default());
    let plan = plan.expect("a sound file");
    let options = RunOptions { rows: Some(100), ..RunOptions::default() };
    let stop = AtomicBool::new(false);
    let mut report = ScenarioReport::of(&plan, Some("two.toml".to_owned()), None);
    for i in 0..plan.grid.runs.len() {
        report.runs.push(run_point(&plan, i, &options, &stop, &mut |_| ()).expect("it runs"));
    }
    let probes: Vec<&[Option<f64>]> = report.runs.iter().map(|r| r.probes.as_slice()).collect();
    report.expectations = plan.judge(&probes);
    report
}

#[test]
fn the_page_is_complete_and_needs_nothing_beside_it() {
    let mut report = report();
    report.runs[0].emulator = Some(crate::observe::EmulatorRecord {
        lateness_us: crate::observe::Lateness { p50: 8.0, p99: 120.0, p999: 400.0 },
        trusted: true,
        warning: None,
    });
    let page = render(&[report]).expect("a page");
    assert_eq!(page.matches("* plotly.js v").count(), 1, "the script stands there once");
    assert_eq!(page.matches("Plotly.newPlot(\"plot-").count(), 2, "a plot for each path");
    assert!(!page.contains("<script src") && !page.contains("<link"));
    assert!(!page.contains("MathJax-script"));
    assert!(page.contains("id=\"plot-0-0\"") && page.contains("id=\"plot-0-1\""));
    assert_eq!(page.matches("<h3>Flows of ").count(), 4, "the flows of each run");
    assert!(page.contains("NOT MET jain &gt; 2: ") && page.contains("cc = [&quot;bbr3&quot;"));
    assert!(page.contains("8 µs at p50, 120 µs at p99, 400 µs at p99.9, trusted"));
    assert!(page.len() < 6_000_000, "{}", page.len());
}

#[test]
fn nothing_from_a_result_becomes_markup() {
    let mut report = report();
    let evil = "</script><script>alert('x')</script>&";
    report.scenario = evil.to_owned();
    report.toml = evil.to_owned();
    let run = &mut report.runs[0];
    run.at[0].1 = evil.to_owned();
    run.backend = evil.to_owned();
    (run.flows[0].name, run.flows[0].cc) = (evil.to_owned(), evil.to_owned());
    run.series[0].state = Some(evil.into());
    run.emulator = Some(crate::observe::EmulatorRecord {
        lateness_us: crate::observe::Lateness::default(),
        trusted: false,
        warning: Some(evil.to_owned()),
    });
    let page = render(&[report]).expect("a page");
    assert!(!page.contains("<script>alert"), "markup got through");
}

#[test]
fn a_result_that_is_not_trusted_says_so_before_its_plots() {
    let mut report = report();
    report.runs[0].emulator = Some(crate::observe::EmulatorRecord {
        lateness_us: crate::observe::Lateness::default(),
        trusted: false,
        warning: Some("the link was late".to_owned()),
    });
    report.runs[1].interrupted = true;
    let page = render(&[report]).expect("a page");
    let warning = page.find("Not to be trusted: deep bbr3: the link was late").expect("a warning");
    assert!(warning < page.find("id=\"plot-").expect("a plot"));
    assert!(page.contains("Stopped before its time"));
    assert!(page.contains("deep bbr3 (!)") && page.contains("deep cubic (stopped)"));
}

#[test]
fn the_file_is_written_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("report.html");
    std::fs::write(&path, "old").expect("an old report");
    check_writable(&path).expect("writable");
    write(&path, &[report()]).expect("written");
    assert!(std::fs::read_to_string(&path).expect("read").ends_with("</html>\n"));
    let left = std::fs::read_dir(dir.path()).expect("list").count();
    assert_eq!(left, 1, "something was left beside the report");
}

#[test]
fn a_path_that_cannot_be_written_is_known_before() {
    let dir = tempfile::tempdir().expect("a directory");
    for bad in [
        dir.path().to_owned(),
        dir.path().join("no/such/report.html"),
        PathBuf::from("/dev/null"),
        PathBuf::from("/"),
        PathBuf::from(""),
        PathBuf::from("/proc/report.html"),
    ] {
        let error = check_writable(&bad).expect_err(&bad.display().to_string()).to_string();
        assert!(!error.contains('\n') && error.starts_with("cannot write the report"), "{error}");
    }
}
