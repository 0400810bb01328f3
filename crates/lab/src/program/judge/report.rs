//! Verdicts for people and for other programs: the table, and JUnit's test cases.

use std::fmt::Write;

use super::verdict::{Grade, Judged, Judgement};
use crate::output::page::escape;
use crate::output::table::{Table, number};

/// Characters of a line of the table.
const LINE: usize = 100;

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
        let _ = writeln!(text, "not judged: {}: {reason}", checks.join(", "));
    }
    let _ = writeln!(text, "looks like: {}", judged.looks_like);
    for defect in &judged.defects {
        let _ = writeln!(text, "defect: {}: {}", defect.name, defect.about);
    }
    text
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
