//! What a survey found: tables, and the worst paths as scenario files.

use fullpipe_lab::output::table::number;

use crate::case::Case;
use crate::judge::{Comparison, Pair, Point, Reference};
use crate::measure::Measure;
use crate::text::{self, Senders};

/// Columns of numbers under their names: the first is text.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |c: usize| rows.iter().filter_map(|row| row.get(c)).map(|s| s.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(c, (cell, width))| match c {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

fn shown(figure: Option<f64>) -> String {
    figure.map_or("none".to_owned(), |x| format!("{x:.3}"))
}

/// A pair's tables for a terminal.
pub fn table(pair: &Pair, limit: f64) -> String {
    let mut rows = vec![
        ["measure", "figure", "falls short", "paths", "short", "median", "worst", "path"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let row = |name: String, c: &Comparison, s: &crate::judge::Summary| {
        vec![
            name,
            c.measure.figure_is().to_owned(),
            c.measure.rule(limit),
            s.paths.to_string(),
            s.short.to_string(),
            shown(s.median),
            shown(s.worst),
            s.worst_path.map_or("-".to_owned(), |path| path.to_string()),
        ]
    };
    rows.extend(pair.comparisons.iter().map(|c| row(c.measure.name().to_owned(), c, &c.all)));
    let mut out = format!("{} against {}\n{}", pair.cc, pair.against, aligned(&rows));
    if pair.against == Reference::Best {
        return out;
    }
    for comparison in &pair.comparisons {
        if comparison.all.short == 0 {
            continue;
        }
        let mut rows = vec![
            [comparison.measure.name(), "paths", "short", "median", "worst", "path"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for (kind, s) in comparison.by_kind.iter().filter(|(_, s)| s.short > 0) {
            rows.push(vec![
                format!("  {kind}"),
                s.paths.to_string(),
                s.short.to_string(),
                shown(s.median),
                shown(s.worst),
                s.worst_path.map_or("-".to_owned(), |path| path.to_string()),
            ]);
        }
        out.push_str(&aligned(&rows));
    }
    out
}

/// Name of a worst path's file.
pub fn file_name(pair: &Pair, measure: Measure, path: u64) -> String {
    let against = match &pair.against {
        Reference::Algorithm(name) => name.as_str(),
        Reference::Best => "best",
    };
    let name = format!("{}-below-{against}-{measure}-{path}", pair.cc);
    format!("{}.toml", fullpipe_lab::output::file_name_of(&name))
}

/// A scenario file that shows where an algorithm falls short.
pub fn worst_file(
    pair: &Pair,
    comparison: &Comparison,
    point: &Point,
    case: &Case,
    senders: &Senders,
    seed: u64,
    limit: f64,
) -> String {
    let measure = comparison.measure;
    let value = |value: Option<f64>| value.map_or("none".to_owned(), number);
    let about = [
        format!("Path {} of the survey with seed {seed}: {case}.", point.path),
        format!(
            "{measure}: {} {}, {} {} ({} {}). `fullpipe run FILE` runs it again.",
            pair.cc,
            value(point.own),
            pair.against,
            value(Some(point.reference)),
            measure.figure_is(),
            shown(point.figure)
        ),
    ];
    let names: Vec<&str> = match &pair.against {
        Reference::Algorithm(name) => vec![&pair.cc, name],
        Reference::Best => senders.names.iter().map(String::as_str).collect(),
    };
    let expect: Vec<String> = names
        .iter()
        .filter(|name| **name != pair.cc)
        .map(|name| expectation(measure, case, &pair.cc, name, limit))
        .collect();
    text::scenario(case, &senders.only(&names), &about, &expect)
}

/// What the algorithm under test misses, as the scenario's expectation.
fn expectation(measure: Measure, case: &Case, cc: &str, name: &str, limit: f64) -> String {
    let from_s = case.judged_from_s();
    let side = |term: &str, of: &str| format!("{term}[{of}]");
    let competitor = "flow[competitor].goodput_mbps";
    match measure {
        Measure::Goodput => {
            let goodput = "goodput_mbps";
            format!("{} >= {limit} * {} after {from_s}s", side(goodput, cc), side(goodput, name))
        }
        Measure::Queue | Measure::Latency => {
            let term = match (measure, case.has(crate::Kind::Media)) {
                (Measure::Queue, _) => "queue_ms.p95",
                (_, true) => "flow[media].latency_ms.p99",
                (_, false) => "flow[requests].completion_ms.p99",
            };
            format!("{} <= 1.25 * {} + 2 after {from_s}s", side(term, cc), side(term, name))
        }
        Measure::Jain => {
            format!("{} >= {} - 0.1 after {from_s}s", side("jain", cc), side("jain", name))
        }
        Measure::Retransmissions => format!(
            "{} <= {} + 0.005 after {from_s}s",
            side("retransmit_rate", cc),
            side("retransmit_rate", name)
        ),
        Measure::Share => {
            let share = |of: &str| {
                let (own, other) = (side("goodput_mbps", of), side(competitor, of));
                format!("{own} / ({own} + {other})")
            };
            format!("{} >= {} - 0.1 after {from_s}s", share(cc), share(name))
        }
    }
}
