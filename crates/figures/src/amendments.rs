//! The amendments of bbr3x: the effect of each, alone and taken from the rest.

use fullpipe_cc::{Amendment, Amendments};

use super::checks::{Checks, show};
use super::runs::{FigureRun, FileRuns};
use fullpipe_report::output::plot::{CellTable, Drawing, Kind, Line, Panel};
use fullpipe_scenario::formulas::percentile;

/// A path on which the amendments are compared, and the figures that show their effect.
struct ComparedPath {
    /// Number of the file.
    file: usize,
    /// The value of the axis that chooses the path; of a file with one path nothing.
    at: &'static [&'static str],
    title: &'static str,
    /// Names and units of the figures, and their values. The first is drawn.
    figures: &'static [(&'static str, Value)],
}

type Value = fn(FigureRun<'_>) -> f64;

const MBIT: (&str, Value) = ("Mbit/s", |run| run.figure("goodput_mbps"));
const P50: (&str, Value) = ("queue p50, ms", |run| run.figure("queue_ms.p50"));
const P95: (&str, Value) = ("queue p95, ms", |run| run.figure("queue_ms.p95"));
const JAIN: (&str, Value) = ("Jain", |run| run.figure("jain"));
const SHARE: (&str, Value) = ("share, %", |run| 100.0 * run.of_flow(1, "share"));

const PLACES: [ComparedPath; 6] = [
    ComparedPath { file: 0, at: &["4 BDP"], title: "One flow, 4 BDP", figures: &[P95, MBIT] },
    ComparedPath {
        file: 0,
        at: &["1 % lost"],
        title: "One flow, 1 % lost, 1 BDP",
        figures: &[MBIT],
    },
    ComparedPath {
        file: 0,
        at: &["3 % lost"],
        title: "One flow, 3 % lost, 1 BDP",
        figures: &[MBIT],
    },
    ComparedPath { file: 1, at: &["1bdp"], title: "Four flows, 1 BDP", figures: &[P50, JAIN] },
    ComparedPath { file: 1, at: &["4bdp"], title: "Four flows, 4 BDP", figures: &[P50, JAIN] },
    ComparedPath { file: 2, at: &[], title: "Beside CUBIC, 8 BDP", figures: &[SHARE] },
];

/// The value of `bbr3x_without` that leaves those on for which `is_on` is true.
fn without(is_on: impl Fn(Amendment) -> bool) -> String {
    let off = Amendment::ALL.into_iter().filter(|amendment| !is_on(*amendment));
    off.fold(Amendments::NONE, Amendments::with).to_string()
}

impl ComparedPath {
    /// The median over the seeds.
    fn value(&self, plays: &[FileRuns], without: &str, value: Value) -> f64 {
        let at: Vec<&str> = self.at.iter().copied().chain([without]).collect();
        let mut values: Vec<f64> = plays[self.file].runs(&at).map(value).collect();
        percentile(&mut values, 50).unwrap_or(f64::NAN)
    }
}

/// A panel for each path, with bars for all amendments without one and for one alone, and a table
/// of all figures.
pub(super) fn amendments(out: &mut Checks, plays: &[FileRuns]) {
    let (all, draft) = (without(|_| true), without(|_| false));
    let each: Vec<[String; 2]> =
        Amendment::ALL.into_iter().map(|a| [without(|b| b != a), without(|b| b == a)]).collect();
    let mut names = vec!["bbr3x".to_owned()];
    names.extend((1..=each.len()).map(|n| n.to_string()));
    names.push("bbr3".to_owned());
    let mut panels = Vec::new();
    let mut tables = Vec::new();
    for place in &PLACES {
        let (unit, drawn) = place.figures[0];
        let mut panel = Panel::new(place.title, "Amendment", unit);
        for (line, name) in ["all but it", "it alone"].into_iter().enumerate() {
            let ends = [&all, &draft];
            let these = each.iter().map(|pair| &pair[line]);
            let row = std::iter::once(ends[0]).chain(these).chain([ends[1]]);
            let points = row.enumerate().map(|(x, w)| (x as f64, place.value(plays, w, drawn)));
            panel = panel.with(Line::new(name, points).kind(Kind::Bars));
        }
        panel.names.clone_from(&names);
        panels.push(panel);
        tables.push(table(place, plays, &each, [&all, &draft]));
    }
    out.drawing = Drawing::of(panels);
    for table in tables {
        out.drawing.tables.push(table);
    }
    let numbers = Amendment::ALL.into_iter().zip(1..).map(|(a, n)| format!("{n} {}", a.name()));
    out.note(numbers.collect::<Vec<_>>().join(", "));
    out.note("medians over three seeds; bbr3x has all amendments, and bbr3 none");
}

/// The figures of a path, a row for each amendment.
fn table(
    place: &ComparedPath,
    plays: &[FileRuns],
    each: &[[String; 2]],
    ends: [&str; 2],
) -> CellTable {
    let units: Vec<&str> = place.figures.iter().map(|(unit, _)| *unit).collect();
    let units = units.join("; ");
    let header = [place.title, &format!("all but it: {units}"), &format!("it alone: {units}")];
    let mut table = CellTable::new(&header);
    let cell = |without: &str| {
        let values = place.figures.iter().map(|(_, v)| show(place.value(plays, without, *v)));
        values.collect::<Vec<_>>().join("; ")
    };
    table.row(["bbr3x, bbr3".to_owned(), cell(ends[0]), cell(ends[1])]);
    for (amendment, [but, alone]) in Amendment::ALL.into_iter().zip(each) {
        table.row([amendment.name().to_owned(), cell(but), cell(alone)]);
    }
    table
}
