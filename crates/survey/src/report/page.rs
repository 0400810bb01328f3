//! The page of a survey: one HTML file that needs no network and nothing beside it.

use std::fmt::Write as _;
use std::path::Path;

use fullpipe_report::output::page::{self, PageError, escape};
use fullpipe_report::output::plot::{Drawing, Kind as Dots, Line, Panel, Scale};
use fullpipe_report::output::table::Table;

use super::{Report, table};
use crate::draw;
use crate::judge::{Comparison, Pair, Reference};
use crate::measure::Measure;

/// Writes the page in one step.
///
/// # Errors
/// The file cannot be written, or another program's file is there.
pub(super) fn write(path: &Path, report: &Report) -> Result<(), PageError> {
    page::check_replaceable(path)?;
    page::write_text(path, &render(report)?)
}

fn render(report: &Report) -> Result<String, PageError> {
    let title = format!("Survey of {}", report.algorithms.join(", "));
    let mut out = page::head(&format!("fullpipe: {title}"));
    let kinds: Vec<&str> = report.kinds.iter().map(|kind| kind.name()).collect();
    let kinds =
        if kinds.is_empty() { String::new() } else { format!(" with {}", kinds.join(", ")) };
    let _ = write!(
        out,
        "<h1>{}</h1>\n<p class=\"source\">{} random paths of seed {}{kinds}, over {}, {} clock.</p>\n",
        escape(&title),
        report.paths,
        report.seed,
        report.stack,
        report.clock
    );
    if report.seeds > 1 {
        let _ = writeln!(out, "<p>Each value is a mean of {} runs.</p>", report.seeds);
    }
    if report.interrupted {
        out.push_str("<p class=\"warning\">Stopped before its end: the results so far.</p>\n");
    }
    if !report.skipped.is_empty() {
        let count = report.skipped.len();
        let _ =
            writeln!(out, "<p>{count} of the paths need what {} does not have.</p>", report.stack);
    }
    let rules = Measure::ALL.map(|measure| format!("{measure} {}", measure.rule(report.limit)));
    let _ = writeln!(out, "<p class=\"detail\">A path is short where: {}.</p>", rules.join("; "));
    for fallen in report.fallen.iter().flatten() {
        let _ = writeln!(
            out,
            "<p class=\"warning\">Worse: {}</p>\n<details>\n<summary>{}</summary>\n<pre>{}</pre>\n</details>",
            escape(&fallen.to_string()),
            escape(&fallen.simplest.to_string()),
            escape(&fallen.text)
        );
    }
    for worse in report.worse.iter().flatten() {
        let _ = writeln!(out, "<p class=\"warning\">Worse: {}</p>", escape(&worse.to_string()));
    }
    for (i, pair) in report.pairs.iter().enumerate() {
        section(&mut out, report, i, pair)?;
    }
    distribution(&mut out);
    out.push_str(&page::foot(
        ". docs/survey.md says how paths are drawn and judged. Point at a plot to read its values.",
    ));
    Ok(out)
}

fn distribution(out: &mut String) {
    let header = [("drawn", ""), ("what", ""), ("from", "")];
    let rows = draw::table().into_iter().map(|row| row.map(|cell| cell.replace('`', "")).to_vec());
    out.push_str("<details>\n<summary>How paths are drawn</summary>\n");
    let table = Table { header: header.to_vec(), rows: rows.collect() };
    page::html_table(out, "How paths are drawn", &table);
    out.push_str("</details>\n");
}

fn section(out: &mut String, report: &Report, number: usize, pair: &Pair) -> Result<(), PageError> {
    let name = format!("{} against {}", pair.cc, pair.against);
    let _ = writeln!(out, "<section tabindex=\"-1\">\n<h2>{}</h2>", escape(&name));
    page::html_table(out, &name, &table::measures(pair));
    for comparison in &pair.comparisons {
        if let Some(drawing) = scatter(pair, comparison) {
            page::plot(out, &format!("plot-{number}-{}", comparison.measure), &drawing)?;
        }
    }
    if let Reference::Algorithm(against) = &pair.against {
        out.push_str("<h3>By kind of disturbance</h3>\n");
        page::html_table(out, &format!("{name}, by kind of disturbance"), &table::kinds(pair));
        worst(out, report, pair, against);
    }
    out.push_str("</section>\n");
    Ok(())
}

/// Each path as a dot: the reference's value to the right, the algorithm's own upwards. Nothing of
/// measures that lie between 0 and 1, where the table says more.
fn scatter(pair: &Pair, comparison: &Comparison) -> Option<Drawing> {
    let (what, unit, floor) = match comparison.measure {
        Measure::Goodput => ("Goodput", "Mbit/s", 1e-3),
        // A logarithm needs more than nothing: a queue of a microsecond is none.
        Measure::Queue => ("Queue, p95", "ms", 1e-3),
        Measure::Latency => ("Frames and answers, p99", "ms", 1e-3),
        _ => return None,
    };
    let points = |short: bool| {
        let chosen = comparison.points.iter().filter(|point| point.short == short);
        let places = chosen.filter_map(|p| Some((p.reference.max(floor), p.own?.max(floor))));
        let mut places: Vec<(f64, f64)> = places.collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        places
    };
    let ends = comparison.points.iter().map(|point| point.reference.max(floor));
    let (least, most) = ends.fold((f64::INFINITY, 0.0f64), |(a, b), x| (a.min(x), b.max(x)));
    if least > most {
        return None;
    }
    let panel = Panel::new(
        &format!("{what}: {} upwards, {} to the right", pair.cc, pair.against),
        &format!("{}, {unit}", pair.against),
        unit,
    )
    .scales(Scale::Log, Scale::Log)
    .with(Line::new("equal", [(least, least), (most, most)]).kind(Dots::Dashed))
    .with(Line::new("a path", points(false)).kind(Dots::Dots).colour("measured"))
    .with(Line::new("a path that is short", points(true)).kind(Dots::Dots).colour("cubic"));
    Some(Drawing::of(vec![panel]))
}

fn worst(out: &mut String, report: &Report, pair: &Pair, against: &str) {
    let of_pair = report.worst.iter().filter(|w| w.cc == pair.cc && w.against == against);
    for worst in of_pair {
        let name = worst.file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let _ = writeln!(
            out,
            "<details>\n<summary>{}, {} {}: {} ({})</summary>\n<pre>{}</pre>\n</details>",
            worst.measure,
            worst.measure.shown_in(),
            worst.measure.show(worst.shown.figure),
            escape(&worst.case.to_string()),
            escape(&name),
            escape(&worst.text)
        );
    }
}
