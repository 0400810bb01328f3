//! The page of a report, made of runs in the simulator.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{RunOptions, run_point};
use fullpipe_report::observe::{EmulatorRecord, Lateness};
use fullpipe_report::output::ScenarioReport;
use fullpipe_report::output::page::{check_replaceable, check_writable, render, write};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

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
    report.runs[0].emulator = Some(EmulatorRecord {
        lateness_us: Lateness { p50: 8.0, p99: 120.0, p999: 400.0 },
        trusted: true,
        warning: None,
    });
    let page = render(&[report]).expect("a page");
    assert_eq!(page.matches("<div class=\"plot\"").count(), 2, "a plot for each path");
    assert_eq!(page.matches("<svg").count(), 4, "each in two widths");
    assert!(!page.contains("<script src") && !page.contains("<link"));
    assert!(page.contains("id=\"plot-0-0\"") && page.contains("id=\"plot-0-1\""));
    assert_eq!(page.matches("<h3>Flows of ").count(), 4, "the flows of each run");
    let row = "<th scope=\"row\"><code>jain &gt; 2</code></th><td class=\"missed\">NOT MET</td>";
    assert!(page.contains(row) && page.contains("cc = [&quot;bbr3&quot;"));
    assert!(page.contains("8 µs at p50, 120 µs at p99, 400 µs at p99.9, trusted"));
    assert!(page.contains("Behind the lines: the state of deep bbr3: bbr3 #0"), "whose states");
    assert!(page.len() < 1_500_000, "{}", page.len());
}

#[test]
fn nothing_from_a_result_becomes_markup() {
    let mut report = report();
    let evil = "</script><script>alert('x')</script>&";
    report.scenario = evil.to_owned();
    report.toml = evil.to_owned();
    let run = &mut report.runs[0];
    run.at[0].1 = evil.to_owned();
    (run.flows[0].name, run.flows[0].cc) = (evil.to_owned(), evil.to_owned());
    run.series[0].state = Some(evil.into());
    run.emulator = Some(EmulatorRecord {
        lateness_us: Lateness::default(),
        trusted: false,
        warning: Some(evil.to_owned()),
    });
    let page = render(&[report]).expect("a page");
    assert!(!page.contains("<script>alert"), "markup got through");
}

#[test]
fn a_result_that_is_not_trusted_says_so_before_its_plots() {
    let mut report = report();
    report.runs[0].emulator = Some(EmulatorRecord {
        lateness_us: Lateness::default(),
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
    write(&path, &[]).expect("an old report");
    check_replaceable(&path).expect("our own");
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

#[test]
fn a_file_that_is_no_report_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("thesis.html");
    std::fs::write(&path, "<!doctype html><title>somebody else's</title>").expect("a file");
    for error in [check_replaceable(&path), write(&path, &[report()])] {
        let error = error.expect_err("it is not ours").to_string();
        assert!(error.contains("no report of fullpipe; name another with --report"), "{error}");
    }
    assert!(std::fs::read_to_string(&path).expect("read").contains("somebody else's"));
    // An empty file is one that mktemp made for it.
    std::fs::write(&path, "").expect("a file");
    write(&path, &[report()]).expect("written");
}

/// Runs of one path with so many flows of each algorithm.
fn crowd(flows: usize) -> ScenarioReport {
    let text = format!(
        "cc = [\"bbr3\", \"cubic\"]\nduration = \"2s\"\npath = {{ rate = \"20mbit\", rtt = \"40ms\" }}\n\
         flow = [{{ count = {flows} }}]\n"
    );
    let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default()).expect("sound");
    let options = RunOptions { rows: Some(100), ..RunOptions::default() };
    let stop = AtomicBool::new(false);
    let mut report = ScenarioReport::of(&plan, None, None);
    for i in 0..2 {
        report.runs.push(run_point(&plan, i, &options, &stop, &mut |_| ()).expect("it runs"));
    }
    report
}

#[test]
fn many_flows_have_a_small_plot_each_and_what_is_left_out_is_said() {
    let page = render(&[crowd(2)]).expect("a page");
    assert!(!page.contains("class=\"small\""), "four lines are told apart");
    let page = render(&[crowd(10)]).expect("a page");
    assert_eq!(page.matches("<div class=\"small\">").count(), 20);
    assert!(!page.contains("flows have a plot"));
    let page = render(&[crowd(20)]).expect("a page");
    assert_eq!(page.matches("<div class=\"small\">").count(), 24);
    assert!(page.contains("The first 24 of 40 flows have a plot."));
    assert!(page.len() < 1_500_000, "{}", page.len());
}

#[test]
fn an_axis_that_is_cut_off_says_so() {
    let mut report = crowd(1);
    report.runs[0].series[3].pacing_mbps = Some(4321.0);
    let page = render(&[report]).expect("a page");
    assert!(page.contains("Pacing rate; cut off at 40.00, the highest is 4321.0"), "not said");
}
