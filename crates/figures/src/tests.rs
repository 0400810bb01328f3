use std::sync::atomic::AtomicBool;

use super::*;
use fullpipe_lab::backend::BackendChoice;
use fullpipe_scenario::{Edition, Over, Stack};

fn figure(name: &str) -> &'static Figure {
    FIGURES.iter().find(|f| f.name == name).expect(name)
}

/// Result of a figure; `None` if it is stopped at once.
fn result(name: &str, stopped: bool) -> Option<FigureResult> {
    let stop = AtomicBool::new(stopped);
    let all =
        run_all(&[figure(name)], BackendChoice::SIM, false, 1, &stop, |_| ()).expect("sound files");
    all.into_iter().next()
}

#[test]
fn a_name_is_given_once() {
    for (i, figure) in FIGURES.iter().enumerate() {
        assert!(FIGURES[..i].iter().all(|f| f.name != figure.name), "{}", figure.name);
        assert!(figure.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    }
}

#[test]
fn the_same_figure_is_the_same_to_the_last_digit() {
    let run = |name: &str| result(name, false).expect("a result");
    for name in ["fig4", "tuning"] {
        let result = run(name);
        // Gaps in lines are not numbers, which equal nothing.
        assert_eq!(format!("{result:?}"), format!("{:?}", run(name)), "{name}");
        assert!(!result.drawing.panels.is_empty(), "{name} draws nothing");
        assert_eq!(result.figure.matches("; ").count(), result.target.matches("; ").count());
    }
}

#[test]
fn a_figure_that_is_stopped_has_no_result() {
    assert_eq!(result("fig4", true), None);
    assert_eq!(result("fig6", true), None);
}

#[test]
fn what_is_not_seen_is_told_first() {
    let mut out = checks::Checks::default();
    out.at_most("lost", 0.5, 0.1);
    out.at_most("queue ms", 3.0, 5.0);
    out.note("a note");
    let result = out.result("x", None);
    assert!(!result.seen && !result.as_known);
    assert_eq!(result.figure, "lost 0.5; queue ms 3");
    assert_eq!(result.target, "<= 0.1; <= 5");
    assert_eq!(result.detail, "not seen: lost 0.5. a note");
    let mut out = checks::Checks::default();
    out.within("gain", f64::NAN, 0.0, 1.0);
    assert!(!out.result("x", None).seen, "not a number is nothing seen");
    assert!(!checks::Checks::default().result("x", None).seen, "nor is no check");
}

#[test]
fn every_figure_can_be_built_in_every_edition_and_expects_something() {
    let real = Over::in_real_time(Stack::Noq);
    for (full, over) in [(false, Over::default()), (true, Over::default()), (false, real)] {
        for figure in &FIGURES {
            let plans = figure.plans(Edition { full, over });
            let plans = plans.unwrap_or_else(|e| panic!("{e}"));
            assert!(!plans.is_empty(), "{}", figure.name);
            for plan in plans {
                assert!(!plan.expectations.is_empty(), "{} expects nothing", plan.name);
                assert!(!full || plan.shortened.is_none(), "{}", plan.name);
            }
        }
    }
}

#[test]
fn the_links_of_retx_are_those_of_fig9() {
    let links = |name: &str| {
        let text = figure(name).files[0].text;
        text.split_once("variant = [").expect("its links").1.to_owned()
    };
    assert_eq!(links("fig9"), links("retx"));
}

#[test]
fn a_figure_of_many_files_says_how_much_of_each_was_seen() {
    let verdict = |met| fullpipe_report::expect::Verdict {
        expect: "jain >= 1".into(),
        name: "jain".into(),
        comparison: ">=".into(),
        met,
        cases: 2,
        unmet: usize::from(!met),
        value: Some(0.5),
        bound: Some(1.0),
        margin: Some(-0.5),
        at: vec![("seed".into(), "7".into())],
        known_failure: None,
    };
    let mut out = checks::Checks::default();
    out.verdicts("a", &[verdict(true), verdict(true)]);
    out.verdicts("b", &[verdict(true), verdict(false)]);
    let result = out.result("x", None);
    assert_eq!((result.seen, result.figure.as_str()), (false, "a: 2 met; b: 1 met"));
    assert_eq!(
        (result.target.as_str(), result.detail.as_str()),
        ("all 2; all 2", "not seen: b: 1 met")
    );
    let mut out = checks::Checks::default();
    out.verdict(&verdict(false));
    let result = out.result("x", None);
    assert_eq!((result.figure.as_str(), result.target.as_str()), ("jain 0.5 (7)", ">= 1"));
}

#[test]
fn harm_is_what_cubic_lacks() {
    assert_eq!(nsperf::harm(5.0, 10.0), 0.5);
    assert_eq!(nsperf::harm(12.0, 10.0), 0.0);
    assert_eq!(nsperf::harm(1.0, 0.0), 0.0);
}

#[test]
fn the_page_is_complete_and_needs_nothing_beside_it() {
    let run = |name: &str| result(name, false).expect("a result");
    let results = [run("fig2"), run("fig4"), run("tuning")];
    let page = page::render(&results, BackendChoice::SIM).expect("a page");
    assert!(!page.contains("<script src") && !page.contains("<link"));
    for r in &results {
        let start = page.find(&format!("id=\"plot-{}\"", r.name)).expect("a plot");
        let json = page[start..].split_once("application/json\">").expect("values").1;
        let json = json.split_once("</script>").expect("an end").0;
        let plot: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let lines: Vec<usize> = r.drawing.panels.iter().map(|p| p.lines.len()).collect();
        let panels = plot["panels"].as_array().expect("panels").iter();
        let told = panels.map(|p| p["lines"].as_array().map_or(0, Vec::len));
        assert_eq!(told.collect::<Vec<_>>(), lines, "{}", r.name);
        assert_eq!(plot["places"]["narrow"].as_array().map(Vec::len), Some(lines.len()));
    }
    assert!(page.contains("ProbeBW_CRUISE"));
    // The limit is that of all figures together.
    assert!(page.len() < 400_000, "{}", page.len());
}

#[test]
fn what_runs_over_quic_says_what_it_leaves_out() {
    let over = Edition { over: Over::in_real_time(Stack::Noq), ..Edition::default() };
    let figures: Vec<&Figure> =
        FIGURES.iter().filter(|f| f.runs_over(BackendChoice::NOQ_REAL)).collect();
    let names: Vec<&str> = figures.iter().map(|f| f.name).collect();
    for name in ["fig3", "fig4", "fig5", "fig8", "smoltcp", "goodput"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    // Stopped before the first run: what is left is that every file can run.
    let stop = AtomicBool::new(true);
    assert_eq!(
        run_all(&figures, BackendChoice::NOQ_REAL, false, 2, &stop, |_| ()).expect("sound files"),
        []
    );
    let shorter = |name: &str| {
        let text = figure(name).files[0].text;
        let plan = fullpipe_report::plan::Plan::parse(text, name, name, "".as_ref(), over);
        plan.expect("a sound file").shortened
    };
    let fig8 = shorter("fig8").expect("it is shorter");
    for part in ["duration 32s of 60s", "cc 3 values of 4 values", "loss 6 values of 16 values"] {
        assert!(fig8.contains(part), "{part} in {fig8}");
    }
    assert!(!fig8.contains("expect"), "{fig8}");
    assert_eq!(shorter("fig4"), None);
}

/// A panel's points by the names of their lines; all are numbers.
fn points(panel: &fullpipe_report::output::plot::Panel) -> Vec<(&str, Vec<(f64, f64)>)> {
    let of = |line: &fullpipe_report::output::plot::Line| -> Vec<(f64, f64)> {
        line.x.iter().copied().zip(line.y.iter().copied()).collect()
    };
    let lines: Vec<_> = panel.lines.iter().map(|line| (line.name.as_str(), of(line))).collect();
    for (name, points) in &lines {
        assert!(!points.is_empty(), "{name} of {}", panel.title);
        assert!(points.iter().all(|(x, y)| x.is_finite() && y.is_finite()), "{name}: {points:?}");
    }
    lines
}

#[test]
fn a_port_with_many_senders_is_drawn_over_their_number() {
    let result = result("swift", false).expect("a result");
    assert!(result.seen, "{}", result.figure);
    let [goodput, dropped, queue] = &result.drawing.panels[..] else { panic!("three panels") };
    let names = ["bbr-swift", "bbr3", "bbr3-linux with ECN", "cubic"];
    for panel in [goodput, dropped, queue] {
        let lines = points(panel);
        assert_eq!(lines.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        for (_, line) in lines {
            assert_eq!(
                line.iter().map(|(x, _)| *x).collect::<Vec<_>>(),
                [10.0, 30.0, 100.0, 300.0, 1000.0]
            );
        }
    }
    let last = |panel, line: usize| points(panel)[line].1[4].1;
    // In Gbit/s of 100, in % and in us: of the buffer of 320.
    assert!((90.0..100.0).contains(&last(goodput, 0)));
    assert!(last(dropped, 0) == 0.0 && last(dropped, 1) > 10.0);
    assert!(last(queue, 0) < 160.0 && (310.0..330.0).contains(&last(queue, 1)));
    assert_eq!(result.drawing.tables[0].rows.len(), 6);
}

#[test]
fn the_queues_and_shares_of_l4s_are_drawn_over_the_round_trip() {
    let result = result("l4s", false).expect("a result");
    assert!(result.seen, "{}", result.figure);
    let [queue, shares, beside] = &result.drawing.panels[..] else { panic!("three panels") };
    let queue = points(queue);
    assert_eq!(
        queue.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["prague", "bbr3", "bbr3x", "bbr3-linux"]
    );
    assert!(queue[0].1.iter().all(|(_, ms)| *ms < 2.0), "{queue:?}");
    // Over 50 ms bbr3-linux counts no marks.
    assert!(queue[3].1[2].1 > 10.0, "{queue:?}");
    for (name, line) in &points(shares)[..2] {
        assert!(name.ends_with(" Mbit/s"), "{name}");
        assert_eq!(line.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [5.0, 10.0, 20.0, 50.0]);
        assert!(line.iter().all(|(_, share)| (30.0..70.0).contains(share)), "{line:?}");
    }
    assert!(points(beside).iter().all(|(_, line)| line.iter().all(|(_, ms)| *ms < 2.0)));
    assert_eq!(result.drawing.tables.len(), 5);
}

#[test]
fn a_megabyte_is_read_in_less_than_half_of_the_time_with_saved_parameters() {
    let result = result("resume", false).expect("a result");
    assert!(result.seen, "{}", result.figure);
    let lines = points(&result.drawing.panels[0]);
    assert_eq!(lines.len(), 4);
    for (_, line) in &lines {
        assert!(line.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1 + 1e-9), "{line:?}");
        // The last row of the series is less than an interval before the last byte.
        assert!(line[line.len() - 2].1 > 0.8, "{line:?}");
        assert_eq!(line.last().map(|(_, megabytes)| *megabytes), Some(1.0));
    }
    let end = |line: usize| lines[line].1.last().map_or(f64::NAN, |(t_s, _)| *t_s);
    for pair in [0, 2] {
        assert!(lines[pair + 1].0.ends_with(" resuming"));
        assert!(end(pair + 1) < end(pair) / 2.0, "{} {}", end(pair + 1), end(pair));
    }
}

#[test]
fn what_an_encoder_makes_is_drawn_beside_the_link() {
    let result = result("media", false).expect("a result");
    assert!(result.as_known, "{}", result.detail);
    let [read, believed, rtt, late] = &result.drawing.panels[..] else { panic!("four panels") };
    let read = points(read);
    assert_eq!(
        read.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["bbr3", "bbr3x", "bbr1", "cubic", "the link"]
    );
    let at = |line: &[(f64, f64)], t_s| line.iter().rfind(|(x, _)| *x <= t_s).expect("a point").1;
    for (name, line) in &read[..4] {
        let [fast, slow, again] = [18.0, 38.0, 58.0].map(|t_s| at(line, t_s));
        assert!(fast > 5.0 && slow < 4.0 && again > 5.0, "{name}: {fast} {slow} {again}");
    }
    assert_eq!([18.0, 38.0, 58.0].map(|t_s| at(&read[4].1, t_s)), [10.0, 4.0, 10.0]);
    let names: Vec<&str> = points(believed).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["bbr3", "bbr3x", "bbr1", "the link"], "cubic has no estimate of it");
    assert_eq!(points(rtt).len(), 4);
    assert_eq!(late.names, ["bbr3", "bbr3x", "bbr1", "cubic"]);
    // More than the round trip of the empty path.
    assert!(points(late)[0].1.iter().all(|(_, ms)| *ms > 40.0));
}

#[test]
fn each_figure_that_draws_has_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let stop = AtomicBool::new(false);
    let named = ["fig2", "tuning"];
    let figures: Vec<_> = FIGURES.iter().filter(|f| named.contains(&f.name)).collect();
    let results = run_all(&figures, BackendChoice::SIM, false, 1, &stop, |_| ());
    let mut results = results.expect("sound files");
    let empty = FigureResult { drawing: Drawing::default(), name: "empty", ..results[0].clone() };
    results.push(empty);
    assert_eq!(
        page::write_pictures(dir.path(), &results).expect("written"),
        ["fig2.svg", "tuning.svg"]
    );
    for result in &results[..2] {
        let text = std::fs::read_to_string(dir.path().join(format!("{}.svg", result.name)));
        let text = text.expect("a file");
        assert!(roxmltree::Document::parse(&text).is_ok(), "{}", result.name);
        for line in result.drawing.panels.iter().flat_map(|p| &p.lines) {
            let name = line.name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            assert!(text.contains(&name), "{} in {}", line.name, result.name);
        }
    }
}

#[test]
fn a_known_failure_is_no_change_until_it_is_met() {
    let verdict = |met, known: Option<&str>| fullpipe_report::expect::Verdict {
        expect: "jain >= 1".into(),
        name: "jain".into(),
        comparison: ">=".into(),
        met,
        cases: 1,
        unmet: usize::from(!met),
        value: Some(0.5),
        bound: Some(1.0),
        margin: Some(-0.5),
        at: Vec::new(),
        known_failure: known.map(str::to_owned),
    };
    let told = |verdict| {
        let mut out = checks::Checks::default();
        out.verdict(&verdict);
        let mut many = checks::Checks::default();
        many.verdicts("a", std::slice::from_ref(&verdict));
        assert_eq!(many.result("x", None).as_known, verdict.is_as_known());
        let result = out.result("x", None);
        (result.seen, result.as_known, result.detail)
    };
    assert_eq!(told(verdict(true, None)), (true, true, String::new()));
    assert_eq!(told(verdict(false, None)), (false, false, "not seen: jain 0.5".to_owned()));
    let known = "known: jain 0.5: it is slow".to_owned();
    assert_eq!(told(verdict(false, Some("it is slow"))), (false, true, known));
    let now = "now met, remove its known_failure: jain 0.5".to_owned();
    assert_eq!(told(verdict(true, Some("it is slow"))), (true, false, now));
}
