//! Verdicts for people and for other programs: the table, and JUnit's test cases.

use std::fmt::Write;

use super::Views;
use super::test_path::{GIVEN, TEST_PATHS};
use super::verdict::{Grade, Judged, Judgement};
use crate::program::{ProgramResult, ProgramSample};
use fullpipe_report::output::page::{self, escape};
use fullpipe_report::output::plot::{Drawing, Line, Panel, PlotError};
use fullpipe_report::output::table::{Table, number};

/// Characters of a line of the table.
const LINE: usize = 100;

/// Time between two points of a plot, in seconds.
const STEP_S: f64 = 0.1;

/// A row for each check. The limits come from the best and the worst of ours, which the row names.
pub fn table(judged: &Judged) -> Table {
    let header = vec![
        ("check", ""),
        ("figure", ""),
        ("", "unit"),
        ("good", "limit"),
        ("broken", "limit"),
        ("limits from", "best, worst of ours"),
        ("verdict", ""),
    ];
    let row = |c: &Judgement| {
        let grade = c.grade.map_or("not judged", Grade::name);
        let value = c.value.map_or("-".to_owned(), number);
        let mut from: Vec<_> = c.ours.iter().collect();
        from.sort_by(|a, b| a.1.total_cmp(b.1));
        if c.good > c.broken {
            from.reverse();
        }
        let from = match from.as_slice() {
            [] => "-".to_owned(),
            [(best, _), .., (worst, _)] => format!("{best}, {worst}"),
            [(only, _)] => (*only).clone(),
        };
        vec![
            c.check.clone(),
            value,
            c.unit.clone(),
            number(c.good),
            number(c.broken),
            from,
            grade.to_owned(),
        ]
    };
    Table { header, rows: judged.checks.iter().map(row).collect() }
}

/// The table, what was not judged, the kind, and the defects.
pub fn text(judged: &Judged) -> String {
    let mut text = table(judged).to_text_within(LINE);
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for c in &judged.checks {
        let Some(reason) = &c.reason else { continue };
        match reasons.iter_mut().find(|(why, _)| why == reason) {
            Some((_, checks)) => checks.push(&c.check),
            None => reasons.push((reason, vec![&c.check])),
        }
    }
    // Text is written to text without fail.
    for (reason, checks) in reasons {
        let checks = match checks.len() {
            n @ 0..=4 if n > 0 => checks.join(", "),
            n => format!("{n} checks"),
        };
        let _ = writeln!(text, "not judged: {checks}: {reason}");
    }
    let _ = writeln!(text, "looks like: {}", judged.looks_like);
    for defect in &judged.defects {
        let _ = writeln!(text, "defect: {}: {}", defect.name, defect.about);
    }
    text
}

/// A path: its name, what is special about it, the rate and the queue over time.
type PathSeries<'a> = (&'a str, &'a str, [Vec<(f64, f64)>; 2]);

/// A page with the table, the defects, and the rate and the queue on each path.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(judged: &Judged, views: &Views) -> Result<String, PlotError> {
    let series = |name: &str| views.get(name).map(|view| view.series(STEP_S));
    render(judged, &series_with(series))
}

/// The same of results that were kept: of the direction that carried the data.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page_of_runs(judged: &Judged, runs: &[ProgramResult]) -> Result<String, PlotError> {
    render(judged, &series_of(runs))
}

/// The plots of that page, each with the name of its path.
pub fn drawings_of_runs(runs: &[ProgramResult]) -> Vec<(String, Drawing)> {
    let all = series_of(runs).into_iter();
    all.map(|(name, _, series)| (name.to_owned(), drawing(series))).collect()
}

fn series_of(runs: &[ProgramResult]) -> Vec<PathSeries<'static>> {
    series_with(|name| {
        // The last one with a name, where a run was made again.
        let run = runs.iter().rev().find(|run| run.path == name)?;
        let way = usize::from(run.up.payload_bytes > run.down.payload_bytes);
        let each = |value: fn(&ProgramSample) -> [f64; 2]| {
            run.series.iter().map(|row| (row.at_s, value(row)[way])).collect()
        };
        Some([each(|row| row.mbps), each(|row| row.queue_ms)])
    })
}

/// All paths of which there is something.
fn series_with(series: impl Fn(&str) -> Option<[Vec<(f64, f64)>; 2]>) -> Vec<PathSeries<'static>> {
    let ours = TEST_PATHS.iter().map(|test_path| (test_path.name, test_path.about.as_ref()));
    let all = ours.chain([(GIVEN, "the path of the options")]);
    all.filter_map(|(name, about)| Some((name, about, series(name)?))).collect()
}

fn drawing([rates, queue]: [Vec<(f64, f64)>; 2]) -> Drawing {
    let time = "time, s";
    Drawing::of(vec![
        Panel::new("Delivered", time, "Mbit/s").with(Line::new("rate", rates)),
        Panel::new("Queueing delay", time, "ms").with(Line::new("queue", queue)),
    ])
}

fn render(judged: &Judged, test_paths: &[PathSeries<'_>]) -> Result<String, PlotError> {
    let mut page = page::head("A verdict on a sender");
    let _ = writeln!(page, "<h1>A verdict on a sender</h1>");
    let _ = writeln!(page, "<p>It looks like {}.</p>", escape(&judged.looks_like));
    for defect in &judged.defects {
        let [name, about] = [&defect.name, &defect.about].map(|text| escape(text));
        let _ = writeln!(page, "<p><strong>{name}</strong>: {about}</p>");
    }
    page::html_table(&mut page, "Checks", &table(judged));
    for (i, (name, about, series)) in test_paths.iter().enumerate() {
        let (name, about) = (escape(name), escape(about));
        let _ = writeln!(page, "<section tabindex=\"-1\">\n<h2>{name}</h2>\n<p>{about}</p>");
        page::plot(&mut page, &format!("course-{i}"), &drawing(series.clone()))?;
        page.push_str("</section>\n");
    }
    page.push_str(&page::foot(", fullpipe judge"));
    Ok(page)
}

/// One test suite: a case for each check, and one for each defect. What was not judged is skipped.
pub fn junit(judged: &Judged) -> String {
    let failed = judged.checks.iter().filter(|c| c.grade == Some(Grade::Broken)).count();
    let skipped = judged.checks.iter().filter(|c| c.grade.is_none()).count();
    let (tests, failures) =
        (judged.checks.len() + judged.defects.len(), failed + judged.defects.len());
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"judge\" tests=\"{tests}\" \
         failures=\"{failures}\" skipped=\"{skipped}\">\n"
    );
    let mut case = |class: &str, name: &str, inside: &str| {
        let (class, name) = (escape(class), escape(name));
        let _ =
            writeln!(text, "<testcase classname=\"{class}\" name=\"{name}\">{inside}</testcase>");
    };
    for c in &judged.checks {
        let figure = c.value.map_or(String::new(), |v| format!("{} {}", number(v), c.unit));
        let inside = match (c.grade, &c.reason) {
            (Some(Grade::Broken), _) => {
                let words = format!("{figure}, and broken begins at {}", number(c.broken));
                format!("<failure message=\"{}\"/>", escape(&words))
            }
            (None, Some(reason)) => format!("<skipped message=\"{}\"/>", escape(reason)),
            _ => String::new(),
        };
        case(&format!("judge.{}", c.test_path), &c.check, &inside);
    }
    for defect in &judged.defects {
        let inside = format!("<failure message=\"{}\"/>", escape(&defect.about));
        case("judge.defects", &defect.name, &inside);
    }
    text + "</testsuite>\n</testsuites>\n"
}
