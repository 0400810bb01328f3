//! Verdicts for people and for other programs: the table, and JUnit's test cases.

use std::fmt::Write;

use super::Views;
use super::course::COURSES;
use super::verdict::{Grade, Judged, Judgement};
use fullpipe_lab::output::page::{self, escape};
use fullpipe_lab::output::plot::{Drawing, Line, Panel, PlotError};
use fullpipe_lab::output::table::{Table, number};

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

/// A page with the table, the defects, and the rate and the queue on each course.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(judged: &Judged, views: &Views) -> Result<String, PlotError> {
    let mut page = page::head("A verdict on a sender");
    let _ = writeln!(page, "<h1>A verdict on a sender</h1>");
    let _ = writeln!(page, "<p>It looks like {}.</p>", escape(&judged.looks_like));
    for defect in &judged.defects {
        let [name, about] = [&defect.name, &defect.about].map(|text| escape(text));
        let _ = writeln!(page, "<p><strong>{name}</strong>: {about}</p>");
    }
    page::html_table(&mut page, &table(judged));
    for (i, course) in COURSES.iter().enumerate() {
        let Some(view) = views.get(course.name) else { continue };
        let (name, about) = (escape(course.name), escape(course.about));
        let _ = writeln!(page, "<section>\n<h2>{name}</h2>\n<p>{about}</p>");
        let [rates, queue] = view.series(STEP_S);
        let time = "time, s";
        let drawing = Drawing::of(vec![
            Panel::new("Delivered", time, "Mbit/s").with(Line::new("rate", rates)),
            Panel::new("Queueing delay", time, "ms").with(Line::new("queue", queue)),
        ]);
        page::plot(&mut page, &format!("course-{i}"), &drawing)?;
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
        case(&format!("judge.{}", c.course), &c.check, &inside);
    }
    for defect in &judged.defects {
        let inside = format!("<failure message=\"{}\"/>", escape(&defect.about));
        case("judge.defects", &defect.name, &inside);
    }
    text + "</testsuite>\n</testsuites>\n"
}
