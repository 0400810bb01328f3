//! Tables of a survey.

use std::fmt::Write as _;

use fullpipe_report::output::table::Table;

use super::Report;
use crate::case::Kind;
use crate::judge::{Comparison, Pair, Summary};
use crate::measure::Measure;

/// Characters of a line on a terminal.
const LINE: usize = 100;

/// All that a survey found, for a terminal.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    for pair in &report.pairs {
        // Text is written to text without fail; so below.
        let _ = writeln!(out, "{} against {}", pair.cc, pair.against);
        out.push_str(&measures(pair).to_text_within(LINE));
        if pair.comparisons.len() > 1 {
            let _ = write!(out, "\n{}", kinds(pair).to_text_within(LINE));
        }
        out.push('\n');
    }
    out.push_str("A path is short where\n");
    for measure in Measure::ALL {
        let _ = writeln!(out, "  {:<8} {}", measure.name(), measure.rule(report.limit));
    }
    if !report.worst.is_empty() {
        out.push_str("\nThe worst of each measure, as simple as they were found:\n");
    }
    for worst in &report.worst {
        let figure = worst.measure.show(worst.shown.figure);
        let _ = writeln!(out, "{} ({figure}): {}", worst.file.display(), worst.case);
    }
    for fallen in report.fallen.iter().flatten() {
        let _ = writeln!(out, "WORSE {fallen}");
        let _ = writeln!(out, "  {}: {}", fallen.file.display(), fallen.simplest);
    }
    for worse in report.worse.iter().flatten() {
        let _ = writeln!(out, "WORSE {worse}");
    }
    out
}

/// A row for each measure.
pub(super) fn measures(pair: &Pair) -> Table {
    let header = [
        ("measure", ""),
        ("figure", ""),
        ("paths", ""),
        ("short", "paths"),
        ("", "%"),
        ("median", ""),
        ("worst", ""),
        ("", "path"),
    ];
    let row = |c: &Comparison| {
        let s = &c.all;
        vec![
            c.measure.name().to_owned(),
            c.measure.shown_in().to_owned(),
            s.paths.to_string(),
            s.short.to_string(),
            format!("{:.1}", 100.0 * s.short as f64 / s.paths.max(1) as f64),
            c.measure.show(s.median),
            c.measure.show(s.worst),
            path(s),
        ]
    };
    Table { header: header.to_vec(), rows: pair.comparisons.iter().map(row).collect() }
}

/// A row for each kind of disturbance: the number of paths that are short, and the worst figure.
pub(super) fn kinds(pair: &Pair) -> Table {
    let mut header = vec![("disturbance", ""), ("paths", "")];
    for comparison in &pair.comparisons {
        header.extend([(comparison.measure.name(), "short"), ("", "worst")]);
    }
    let row = |kind: Kind| {
        let paths = pair.comparisons.iter().filter_map(|c| c.by_kind.get(&kind));
        let mut row = vec![kind.to_string(), paths.map(|s| s.paths).max()?.to_string()];
        for comparison in &pair.comparisons {
            row.extend(match comparison.by_kind.get(&kind) {
                Some(s) => [s.short.to_string(), comparison.measure.show(s.worst)],
                None => ["-".to_owned(), "-".to_owned()],
            });
        }
        Some(row)
    };
    Table { header, rows: Kind::ALL.into_iter().filter_map(row).collect() }
}

fn path(summary: &Summary) -> String {
    summary.worst_path.map_or("-".to_owned(), |path| path.to_string())
}
