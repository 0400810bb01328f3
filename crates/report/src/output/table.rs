//! The table of runs, on the terminal and on the page, and the one way in which numbers are
//! written.

use crate::expect::Verdict;
use crate::metrics::{Change, Figures, RunResult};
use crate::observe::EmulatorRecord;

/// A table of text, a cell each; `header` has one line for names and one for units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Name and unit of each column. An empty name continues the one to its left.
    pub header: Vec<(&'static str, &'static str)>,
    /// The cells, row by row. The first column is text.
    pub rows: Vec<Vec<String>>,
}

/// Number format of a column.
#[derive(Clone, Copy)]
enum Scale {
    Plain,
    Percent,
}

/// Name, unit, metric, and how it is shown.
const COLUMNS: [(&str, &str, &str, Scale); 9] = [
    ("goodput", "Mbit/s", "goodput_mbps", Scale::Plain),
    ("util", "%", "utilization", Scale::Percent),
    ("queue ms", "p50", "queue_ms.p50", Scale::Plain),
    ("", "p95", "queue_ms.p95", Scale::Plain),
    ("rtt ms", "p50", "rtt_ms.p50", Scale::Plain),
    ("", "p95", "rtt_ms.p95", Scale::Plain),
    ("loss", "%", "loss_rate", Scale::Percent),
    ("retr", "%", "retransmit_rate", Scale::Percent),
    ("jain", "", "jain", Scale::Plain),
];

/// A row for each run; `name` stands where a run has no place in a grid.
pub fn runs(name: &str, runs: &[RunResult]) -> Table {
    let several = runs.iter().any(|run| run.flows.len() > 1);
    let columns: Vec<_> = COLUMNS.iter().filter(|c| several || c.2 != "jain").collect();
    let mut header = vec![("run", "")];
    header.extend(columns.iter().map(|c| (c.0, c.1)));
    let row = |run: &RunResult| {
        let mut row = vec![format!("{}{}", place(&run.at, name), mark(run))];
        row.extend(columns.iter().map(|c| cell(&run.metrics, c.2, c.3)));
        row
    };
    Table { header, rows: runs.iter().map(row).collect() }
}

const FLOW_COLUMNS: [(&str, &str, &str, Scale); 18] = [
    ("goodput", "Mbit/s", "goodput_mbps", Scale::Plain),
    ("share", "%", "share", Scale::Percent),
    ("queue ms", "p50", "queue_ms.p50", Scale::Plain),
    ("", "p95", "queue_ms.p95", Scale::Plain),
    ("rtt ms", "p50", "rtt_ms.p50", Scale::Plain),
    ("", "p95", "rtt_ms.p95", Scale::Plain),
    ("latency ms", "p50", "latency_ms.p50", Scale::Plain),
    ("", "p95", "latency_ms.p95", Scale::Plain),
    ("completion ms", "p50", "completion_ms.p50", Scale::Plain),
    ("", "p95", "completion_ms.p95", Scale::Plain),
    ("frames", "Mbit/s", "bitrate_mbps", Scale::Plain),
    ("", "dropped", "dropped_frames", Scale::Plain),
    ("stalls", "", "stalls", Scale::Plain),
    ("", "ms", "stalled_ms", Scale::Plain),
    ("loss", "%", "loss_rate", Scale::Percent),
    ("retr", "%", "retransmit_rate", Scale::Percent),
    ("burst", "p95", "burst_packets.p95", Scale::Plain),
    ("time", "s", "elapsed_s", Scale::Plain),
];

/// A row for each flow of a run.
pub fn flows(run: &RunResult) -> Table {
    let has = |c: &&(&str, &str, &str, Scale)| {
        run.flows.iter().any(|f| f.metrics.get(c.2).copied().flatten().is_some())
    };
    let columns: Vec<_> = FLOW_COLUMNS.iter().filter(has).collect();
    let mut header = vec![("flow", "")];
    header.extend(columns.iter().map(|c| (c.0, c.1)));
    let rows = run.flows.iter().map(|flow| {
        let name = match flow.name == flow.cc {
            true => flow.name.clone(),
            false => format!("{} ({})", flow.name, flow.cc),
        };
        let mut row = vec![name];
        row.extend(columns.iter().map(|c| cell(&flow.metrics, c.2, c.3)));
        row
    });
    Table { header, rows: rows.collect() }
}

fn cell(figures: &Figures, metric: &str, scale: Scale) -> String {
    let value = figures.get(metric).copied().flatten();
    match (value, scale) {
        (None, _) => "-".to_owned(),
        (Some(x), Scale::Plain) => number(x),
        (Some(x), Scale::Percent) => number(100.0 * x),
    }
}

/// Mark for the figures of a stopped or untrusted run.
fn mark(run: &RunResult) -> &'static str {
    let is_trusted = |emulator: &EmulatorRecord| emulator.trusted;
    match (run.interrupted, run.emulator.as_ref().is_none_or(is_trusted)) {
        (true, _) => " (stopped)",
        (_, false) => " (!)",
        _ => "",
    }
}

/// A number with as many digits as say something: four.
pub fn number(x: f64) -> String {
    let digits = match x.abs() {
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        x if x >= 1.0 => 3,
        _ => 4,
    };
    format!("{x:.digits$}")
}

/// Place of a run in the grid: `otherwise` without a grid.
pub fn place(at: &[(String, String)], otherwise: &str) -> String {
    match at {
        [] => otherwise.to_owned(),
        [(_, value)] => value.clone(),
        // A variant's name speaks for itself.
        many => {
            let each = many.iter().map(|(axis, value)| match axis.as_str() {
                "variant" | "cc" => value.clone(),
                _ => format!("{axis}={value}"),
            });
            each.collect::<Vec<_>>().join(" ")
        }
    }
}

/// The verdict on an expectation, and by how much it was met.
pub fn verdict(verdict: &Verdict) -> String {
    let (word, detail) = (verdict_word(verdict), verdict_detail(verdict));
    format!("{word:<7} {}: {detail}\n", verdict.expect)
}

/// The verdict on an expectation alone.
pub(crate) fn verdict_word(verdict: &Verdict) -> &'static str {
    match (verdict.met, &verdict.known_failure) {
        (true, None) => "met",
        (false, None) => "NOT MET",
        (false, Some(_)) => "known",
        (true, Some(_)) => "NOW MET",
    }
}

/// The figures behind a verdict: by how much, and where.
pub(crate) fn verdict_detail(verdict: &Verdict) -> String {
    let figures = match (verdict.value, verdict.bound, verdict.margin) {
        (Some(value), Some(bound), Some(margin)) => {
            let by = if margin < 0.0 { "missed by" } else { "by" };
            format!("{} against {}, {by} {}", number(value), number(bound), number(margin.abs()))
        }
        _ => "there is no value".to_owned(),
    };
    let place = match place(&verdict.at, "") {
        none if none.is_empty() => none,
        place => format!(" in {place}"),
    };
    let cases = match (verdict.unmet, verdict.cases) {
        (_, 1) => String::new(),
        (0, n) => format!(", the closest of {n}"),
        (unmet, n) => format!(", {unmet} of {n} not met"),
    };
    let known = match (verdict.met, &verdict.known_failure) {
        (_, None) => String::new(),
        (false, Some(reason)) => format!(". Known: {reason}"),
        (true, Some(_)) => "; remove its known_failure".to_owned(),
    };
    format!("{figures}{place}{cases}{known}")
}

/// A metric that left the interval of the baseline.
pub fn change(change: &Change) -> String {
    let place = match place(&change.at, "") {
        none if none.is_empty() => none,
        place => format!(" in {place}"),
    };
    let now = change.now.map_or("none".to_owned(), number);
    let (before, reach) = (number(change.before), number(change.reach));
    format!("CHANGED {}{place}: {now} against {before} ± {reach} of the baseline\n", change.metric)
}

/// Characters of a line on a terminal.
const LINE: usize = 80;

impl Table {
    /// The table in aligned columns, each line ending in a newline. The first column is text
    /// and starts at the left; numbers end at the right, under their unit.
    pub fn to_text(&self) -> String {
        self.to_text_within(LINE)
    }

    /// The same on lines of up to so many characters.
    pub fn to_text_within(&self, line: usize) -> String {
        let width = |c: usize| {
            let (_, unit) = self.header[c];
            let cells = self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count());
            let name = self.header[c].0.chars().count();
            // A name that the next columns continue may spread over them.
            let continued = self.header.get(c + 1).is_some_and(|next| next.0.is_empty());
            let name = if continued { 0 } else { name };
            cells.chain([unit.len(), name]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let numbers: usize = widths.iter().skip(1).map(|w| w + 2).sum();
        let room = line.saturating_sub(numbers);
        if let Some(first) = widths.first_mut().filter(|first| **first > room) {
            let cells = self.rows.iter().filter_map(|r| r.first()).map(|s| s.chars().count());
            let name = self.header[0].0.len();
            *first = cells.filter(|n| *n <= room).chain([name]).max().unwrap_or(0);
        }
        let line = |cells: &[&str]| {
            let mut out = String::new();
            for (c, (cell, w)) in cells.iter().zip(&widths).enumerate() {
                let pad = w.saturating_sub(cell.chars().count());
                let gap = if c == 0 { 0 } else { 2 };
                let (before, after) = if c < 1 { (gap, pad) } else { (gap + pad, 0) };
                out.push_str(&" ".repeat(before));
                out.push_str(cell);
                out.push_str(&" ".repeat(after));
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
            out
        };
        let mut out = self.names(&widths);
        out.push_str(&line(&self.header.iter().map(|h| h.1).collect::<Vec<_>>()));
        for row in &self.rows {
            let mut cells: Vec<&str> = row.iter().map(String::as_str).collect();
            // A long name has a line for itself.
            if let Some(name) = cells.first_mut().filter(|name| name.chars().count() > widths[0]) {
                out.push_str(name);
                out.push('\n');
                *name = "";
            }
            out.push_str(&line(&cells));
        }
        out
    }

    /// The same within a terminal of so many characters: columns that do not fit are left out from
    /// the right, and named below.
    pub fn to_text_that_fits(&self, line: usize) -> String {
        let is_continued = |c: usize| self.header.get(c).is_some_and(|h| h.0.is_empty());
        for columns in (2..=self.header.len()).rev().filter(|c| !is_continued(*c)) {
            let header = self.header[..columns].to_vec();
            let rows = self.rows.iter().map(|r| r.iter().take(columns).cloned().collect());
            let mut text = Self { header, rows: rows.collect() }.to_text_within(line);
            // A name that is longer than the terminal wraps there, however few columns there are.
            let is_name =
                |text: &str| self.rows.iter().any(|r| r.first().is_some_and(|n| n == text));
            let fits = |l: &str| l.chars().count() <= line || is_name(l);
            if columns > 2 && !text.lines().all(fits) {
                continue;
            }
            let left = self.header[columns..].iter().map(|h| h.0).filter(|name| !name.is_empty());
            let left: Vec<&str> = left.collect();
            if !left.is_empty() {
                text.push_str(&format!("not shown: {}\n", left.join(", ")));
            }
            return text;
        }
        self.to_text_within(line)
    }

    /// The line of names: one that covers several columns ends above the last of them.
    fn names(&self, widths: &[usize]) -> String {
        let mut out = String::new();
        let mut c = 0;
        while c < self.header.len() {
            let name = self.header[c].0;
            let mut end = c + 1;
            while end < self.header.len() && c >= 1 && self.header[end].0.is_empty() {
                end += 1;
            }
            let span: usize = widths[c..end].iter().sum::<usize>() + 2 * (end - c - 1);
            let gap = if c == 0 { "" } else { "  " };
            // The formatter pads to 65,535 characters at most.
            let pad = " ".repeat(span.saturating_sub(name.chars().count()));
            out.push_str(gap);
            out.push_str(&if c < 1 { format!("{name}{pad}") } else { format!("{pad}{name}") });
            c = end;
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned() {
        let cells = |row: [&str; 4]| row.map(str::to_owned).to_vec();
        let rows =
            vec![cells(["deep bbr3", "95.40", "2.000", "11.25"]), cells(["x", "9", "-", "123.5"])];
        let header = vec![("run", ""), ("goodput", "Mbit/s"), ("queue ms", "p50"), ("", "p95")];
        let text = Table { header, rows }.to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "run        goodput      queue ms",
                "            Mbit/s    p50    p95",
                "deep bbr3    95.40  2.000  11.25",
                "x                9      -  123.5"
            ]
        );
    }

    #[test]
    fn a_long_name_has_a_line_for_itself_so_that_the_numbers_fit() {
        let long = "a name that leaves no room for the numbers behind it".to_owned();
        let row = |name: &str| [vec![name.to_owned()], vec!["1234.5".to_owned(); 8]].concat();
        let header = [vec![("run", "")], vec![("column", "ms"); 8]].concat();
        let text = Table { header, rows: vec![row(&long), row("short")] }.to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[2]), (5, long.as_str()));
        assert_eq!(lines[3].replace(' ', ""), "1234.5".repeat(8));
        assert!(lines.iter().all(|l| l.chars().count() <= LINE), "{text}");
        assert_eq!(lines[3].len(), lines[4].len());
    }

    #[test]
    fn a_wide_terminal_has_a_line_for_each_run_and_a_narrow_one_fewer_columns() {
        let long = "rate=10mbit bbr3 seed=3 loss=1%";
        let row = |name: &str| [vec![name.to_owned()], vec!["1234.5".to_owned(); 8]].concat();
        let columns = [("goodput", "Mbit/s"), ("util", "%"), ("queue ms", "p50"), ("", "p95")];
        let more = [("rtt ms", "p50"), ("", "p95"), ("loss", "%"), ("retr", "%")];
        let header = [&[("run", "")], &columns[..], &more[..]].concat();
        let table = Table { header, rows: vec![row(long), row("short")] };
        let text = table.to_text_that_fits(100);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert_eq!(table.to_text_that_fits(80), table.to_text());
        let text = table.to_text_that_fits(60);
        assert!(text.lines().all(|l| l.chars().count() <= 60), "{text}");
        assert!(text.ends_with("not shown: retr\n") && !text.contains("retr  "), "{text}");
        // Two columns of one name stay together.
        let text = table.to_text_that_fits(32);
        assert!(text.ends_with("not shown: queue ms, rtt ms, loss, retr\n"), "{text}");
        assert!(table.to_text_that_fits(1).contains("goodput"));
    }

    #[test]
    fn numbers_have_four_digits_that_say_something() {
        assert_eq!(
            [123.45, 12.345, 1.2345, 0.012_345].map(number),
            ["123.5", "12.35", "1.234", "0.0123"]
        );
    }
}
