//! The findings of a survey of an algorithm with a known defect.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;
use fullpipe_survey::baseline::Baseline;
use fullpipe_survey::draw::draw;
use fullpipe_survey::judge::Point;
use fullpipe_survey::report::{self, Asked, PAGE, Report};
use fullpipe_survey::results::Outcomes;
use fullpipe_survey::run::{Options, Survey};
use fullpipe_survey::text::{Senders, numbered, scenario};
use fullpipe_survey::worst::Wanted;
use fullpipe_survey::{Disturbance, Kind, Measure, Values};

use crate::{options, planted, point, run, survey};

/// The report of a survey of two algorithms, with the worst path of each measure.
fn report_of(survey: &Survey, outcomes: Outcomes) -> Report {
    let asked = Asked {
        tested: survey.options.senders.names.clone(),
        against: Vec::new(),
        wanted: Wanted { count: 1, shrink: true, limit: 0.95 },
    };
    Report::of(survey, outcomes, &asked, &point, &AtomicBool::new(false), |_, _| ())
}

/// Runs a file of a worst path as `fullpipe run` does; true if its expectation is met.
fn is_met(file: &Path) -> bool {
    let plan = Plan::load(file, Edition::default()).expect("a scenario file");
    let all = 0..plan.grid.runs.len();
    let runs: Vec<_> = all.map(|i| point(&plan, i).expect("a run")).collect();
    let verdicts = plan.judge_runs(&runs);
    assert_eq!((verdicts.len(), runs.len()), (1, 2));
    verdicts[0].met
}

#[test]
fn the_disturbance_that_breaks_an_algorithm_is_what_is_left_of_its_worst_path() {
    fullpipe_adapter::register_algorithms(&planted::ALL);
    let dir = tempfile::tempdir().expect("a directory");
    let kinds = [Kind::AckBursts, Kind::Policer, Kind::Cross, Kind::Requests];
    let survey = survey(options(&["no-room-for-acks", "wrapped"], 16, &kinds));
    let outcomes = run(&survey, &dir.path().join("runs"));
    assert_eq!((outcomes.done.len(), outcomes.failed.len()), (32, 0), "{:?}", outcomes.failed);
    let mut report = report_of(&survey, outcomes);
    report.write(dir.path()).expect("files");
    let goodput = &report.pairs[0].comparisons[0];
    assert_eq!(goodput.measure, Measure::Goodput);
    let bursts = goodput.by_kind[&Kind::AckBursts];
    assert!(bursts.short > 0 && goodput.all.short < 16, "{goodput:?}");
    let simple =
        report.worst.iter().find(|w| w.measure == Measure::Goodput).expect("the worst goodput");
    let kinds: Vec<Kind> = simple.case.kinds().collect();
    assert_eq!(kinds, [Kind::AckBursts], "{}", simple.text);
    assert_eq!(simple.case.tested_flows(), 1, "{}", simple.text);
    let (drawn, shown) = (simple.drawn.figure.expect("a figure"), simple.shown.figure);
    assert!(1.0 - shown.expect("a figure") >= (1.0 - drawn) / 2.0, "{simple:?}");
    for worst in &report.worst {
        assert!(worst.case.disturbances.len() <= 2, "{}", worst.text);
        assert!(!is_met(&worst.file), "{}", worst.text);
    }
    let text = report::text(&report);
    assert!(text.contains("no-room-for-acks-below-wrapped-goodput-1.toml"), "{text}");
    let page = std::fs::read_to_string(dir.path().join(PAGE)).expect("a page");
    assert!(page.contains("How paths are drawn") && page.contains("<circle"), "no plot");
    // An earlier survey's files make room.
    report.worst.clear();
    report.write(dir.path()).expect("files");
    assert_eq!(std::fs::read_dir(dir.path().join("worst")).expect("a directory").count(), 0);
}

#[test]
fn an_algorithm_is_no_worse_than_itself() {
    fullpipe_adapter::register_algorithms(&planted::ALL);
    let dir = tempfile::tempdir().expect("a directory");
    let survey = survey(options(&["wrapped", "bbr3"], 6, &[]));
    let outcomes = run(&survey, dir.path());
    let report = report_of(&survey, outcomes);
    for comparison in &report.pairs[0].comparisons {
        assert_eq!(comparison.all.short, 0, "{comparison:?}");
        let equal = |point: &Point| point.own >= Some(point.reference);
        assert!(comparison.measure == Measure::Share || comparison.points.iter().all(equal));
    }
    assert_eq!(report.worst, []);
}

/// An algorithm that runs twice has other seeds, and where it falls short of itself no file is
/// written. A value is the mean over the seeds.
#[test]
fn an_algorithm_against_itself_shows_what_chance_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let names = numbered(&["bbr3", "cubic", "bbr3"].map(str::to_owned));
    assert_eq!(names, ["bbr3", "cubic", "bbr3#2"]);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let kinds = [Kind::Trace, Kind::Jitter];
    let two = Options { seeds: NonZeroUsize::new(2).expect("2"), ..options(&names, 3, &kinds) };
    let survey = survey(two);
    let runs = Mutex::new(BTreeMap::new());
    let noted = |plan: &Plan, i: usize| {
        let done = point(plan, i)?;
        let at = plan.grid.runs[i].at.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        let goodput = done.probes[0].expect("a goodput");
        assert_eq!(runs.lock().expect("no panic").insert((plan.name.clone(), at), goodput), None);
        Ok(done)
    };
    let results = survey.open(&dir.path().join("runs"), b"this program").expect("a directory");
    let outcomes = survey.run(results, &noted, |_| ()).expect("it is written");
    for outcome in &outcomes.done {
        let case = survey.case(outcome.path).expect("a path");
        let (cc, first) = match outcome.cc.as_str() {
            "bbr3#2" => ("bbr3", case.seed + 2),
            cc => (cc, case.seed),
        };
        let goodput = |seed: u64| {
            let at = vec![cc.to_owned(), seed.to_string()];
            runs.lock().expect("no panic")[&(format!("survey path {}", outcome.path), at)]
        };
        let mean = (goodput(first) + goodput(first + 1)) / 2.0;
        assert_eq!(outcome.values.goodput_mbps, Some(mean), "{outcome:?}");
    }
    let limit = 1.01;
    let wanted = Wanted { count: 1, shrink: false, limit };
    let tested = survey.options.senders.names.clone();
    let asked = Asked { tested, against: Vec::new(), wanted };
    let mut report =
        Report::of(&survey, outcomes, &asked, &point, &AtomicBool::new(false), |_, _| ());
    report.write(dir.path()).expect("files");
    assert!(!report.worst.is_empty());
    for worst in &report.worst {
        assert_eq!(worst.against, "cubic");
        let plan = Plan::load(&worst.file, Edition::default()).expect("a scenario file");
        let runs: Vec<_> =
            (0..plan.grid.runs.len()).map(|i| point(&plan, i).expect("a run")).collect();
        assert_eq!((plan.judge_runs(&runs)[0].met, runs.len()), (false, 4), "{}", worst.text);
    }
}

/// The goodput of flows that come and go is over the time that is judged, as that of the others.
#[test]
fn flows_that_come_and_go_have_their_part_of_the_time() {
    let [cc, name] = ["fixed:2mbit", "bbr3"].map(str::to_owned);
    let visits = Disturbance::Competitor { cc, flows: 1, start_percent: 0.0, visits: 3 };
    let mut case = draw(1, 0, &[]);
    (case.rate_mbps, case.rtt_ms, case.buffer_bdp, case.flows) = (10.0, 50.0, 1.0, 1);
    case.disturbances = vec![visits];
    let senders = Senders { names: vec![name], programs: Vec::new() };
    let text = scenario(&case, &senders, 1, &[], &Values::expectations(&case));
    let plan = Plan::parse(&text, "a file", "it", Path::new(""), Edition::default());
    let run = point(&plan.expect("a scenario"), 0).expect("a run");
    let values = Values::of(&case, &run.probes);
    // There for 40 of the 75 % that are judged.
    let expected = 2.0 * 40.0 / 75.0;
    let other = values.competitor_goodput_mbps.expect("a goodput");
    assert!((other / expected - 1.0).abs() < 0.1, "{other} of {expected}");
}

#[test]
fn a_run_that_panics_is_one_failure() {
    static PANICS: fullpipe_cc::CustomAlgorithm = fullpipe_cc::CustomAlgorithm {
        name: "panics",
        new: &|_, _, _| panic!("a bug of somebody's own"),
    };
    fullpipe_adapter::register_algorithms(&[&PANICS]);
    let dir = tempfile::tempdir().expect("a directory");
    let survey = survey(options(&["panics", "cubic"], 2, &[Kind::Aqm]));
    let outcomes = run(&survey, dir.path());
    assert_eq!((outcomes.done.len(), outcomes.failed.len()), (2, 2));
    let reason = &outcomes.failed[0].reason;
    assert_eq!(reason, "it panicked: a bug of somebody's own");
}

#[test]
fn more_short_paths_than_in_the_baseline_are_worse() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = |own: &str, name: &str| {
        // One name for two algorithms, as if one had changed.
        let survey = survey(options(&[own, "cubic"], 6, &[Kind::Aqm, Kind::RttStep]));
        let mut outcomes = run(&survey, &dir.path().join(name));
        let renamed = survey_of("changed");
        outcomes.done.iter_mut().filter(|o| o.cc == own).for_each(|o| o.cc = "changed".into());
        let wanted = Wanted { count: 0, shrink: false, limit: 0.95 };
        let asked = Asked { tested: vec!["changed".into()], against: vec!["cubic".into()], wanted };
        Report::of(&renamed, outcomes, &asked, &point, &AtomicBool::new(false), |_, _| ())
    };
    let (good, bad) = (report("bbr3", "good"), report("fixed:100kbit", "bad"));
    let file = dir.path().join("before.json");
    std::fs::write(&file, serde_json::to_string(&good).expect("JSON")).expect("a file");
    let baseline = Baseline::load(&file).expect("a baseline");
    assert_eq!(baseline.worse(&good), []);
    assert_eq!(baseline.fallen(&survey_of("changed"), &good), []);
    let mut fallen = baseline.fallen(&survey_of("changed"), &bad);
    let goodput = fallen.iter().find(|f| f.measure == Measure::Goodput).expect("a goodput");
    assert_eq!((goodput.cc.as_str(), goodput.short.len(), goodput.better), ("changed", 6, 0));
    assert!(fallen.iter().all(|fallen| fallen.cc == "changed"), "CUBIC is as it was: {fallen:?}");
    assert!(goodput.to_string().starts_with("changed against itself before in goodput: 6 paths"));
    a_file_shows_the_fall(goodput);
    fullpipe_survey::worst::write(&dir.path().join("worst"), &mut [], &mut fallen).expect("files");
    let written = fallen.iter().map(|fallen| std::fs::read_to_string(&fallen.file));
    assert!(written.zip(&fallen).all(|(text, fallen)| text.expect("a file") == fallen.text));
    let worse = baseline.worse(&bad);
    let goodput = worse.iter().find(|w| w.measure == Measure::Goodput).expect("goodput is worse");
    assert_eq!((goodput.short, goodput.short_before), (6, good.pairs[0].comparisons[0].all.short));
    assert!(goodput.to_string().starts_with("changed against cubic in goodput: 6 paths are short"));
    baseline.check(&file, &survey_of("changed").options).expect("the same paths");
    let others = fullpipe_survey::run::Options { seed: 2, ..survey_of("changed").options };
    let error = baseline.check(&file, &others).expect_err("other paths").to_string();
    assert!(error.contains("seed 1"), "{error}");
}

/// The file of a fall is a path with as few disturbances as any that fell as far, and its
/// expectation is met by the algorithm of before alone.
fn a_file_shows_the_fall(goodput: &fullpipe_survey::baseline::Fallen) {
    assert_eq!(goodput.simplest.disturbances.len(), 1, "{}", goodput.simplest);
    for (cc, is_met) in [("bbr3", true), ("fixed:100kbit", false)] {
        let text = goodput.text.replace("\"changed\"", &format!("\"{cc}\""));
        let plan = Plan::parse(&text, "a file", "it", Path::new(""), Edition::default());
        let plan = plan.expect("the file makes sense");
        let run = point(&plan, 0).expect("it runs");
        assert_eq!(plan.judge_runs(&[run])[0].met, is_met, "{cc}: {text}");
    }
}

/// The paths of a survey whose first algorithm has another name.
fn survey_of(name: &str) -> Survey {
    let mut survey = survey(options(&["bbr3", "cubic"], 6, &[Kind::Aqm, Kind::RttStep]));
    survey.options.senders.names[0] = name.to_owned();
    survey
}
