//! Results for other programs: comma-separated values, and JUnit's test cases.

use std::fmt::Write;
use std::io;

use super::json::ScenarioReport;
use super::page::escape;
use super::{series_columns, table};
use crate::metrics::{FlowResult, Level, Metric, RunResult};

/// A line of names, then a line for each run of all scenarios: the scenario, its place in the grid,
/// and every metric of the whole run. What a scenario has no axis for is empty. RFC 4180.
pub fn csv(reports: &[ScenarioReport]) -> String {
    let metrics: Vec<String> = Metric::of(Level::Run).iter().map(ToString::to_string).collect();
    let places = Places::of(reports);
    let mut text = line(&[places.header(), metrics.clone()].concat());
    for run in reports.iter().flat_map(|report| &report.runs) {
        let value = |name: &String| {
            run.metrics.get(name).copied().flatten().map_or(String::new(), |x| x.to_string())
        };
        let values: Vec<String> = metrics.iter().map(value).collect();
        text.push_str(&line(&[places.cells(run), values].concat()));
    }
    text
}

/// Writes a line of names, then a line for each row of the series of all runs: the run's place as
/// in [`csv`], the flow with its name and algorithm, and the columns of `series.parquet`. RFC 4180.
///
/// # Errors
/// `out` cannot be written to.
pub fn write_series_csv(reports: &[ScenarioReport], mut out: impl io::Write) -> io::Result<()> {
    let places = Places::of(reports);
    let is_of_row = |name: &str| !["run", "repetition", "flow"].contains(&name);
    let names = series_columns(&[]).into_iter().map(|(name, _)| name);
    let of_flow = ["flow", "name", "cc"].map(str::to_owned).to_vec();
    let header = [of_flow, names.filter(|name| is_of_row(name)).collect()].concat();
    // The axis of algorithms, or another of a flow's names, is the place's column.
    let mut place = places.header();
    place.iter_mut().filter(|name| header.contains(name)).for_each(|name| name.push_str("_axis"));
    out.write_all(line(&[place, header].concat()).as_bytes())?;
    for run in reports.iter().flat_map(|report| &report.runs) {
        let place = places.cells(run);
        let mut columns = series_columns(std::slice::from_ref(run));
        columns.retain(|(name, _)| is_of_row(name));
        for (i, row) in run.series.iter().enumerate() {
            let flow = run.flows.get(row.flow);
            let name =
                |of: fn(&FlowResult) -> &String| flow.map_or(String::new(), |f| of(f).clone());
            let of_flow = vec![row.flow.to_string(), name(|f| &f.name), name(|f| &f.cc)];
            let values = columns.iter().map(|(_, cells)| cells.text_of(i)).collect();
            out.write_all(line(&[place.clone(), of_flow, values].concat()).as_bytes())?;
        }
    }
    out.flush()
}

/// Columns that say which run a line is of.
struct Places<'a> {
    axes: Vec<&'a String>,
    repeats: bool,
}

impl<'a> Places<'a> {
    fn of(reports: &'a [ScenarioReport]) -> Self {
        let mut axes: Vec<&String> = Vec::new();
        for axis in reports.iter().flat_map(|report| &report.axes) {
            if axis != "seed" && !axes.contains(&axis) {
                axes.push(axis);
            }
        }
        let mut runs = reports.iter().flat_map(|report| &report.runs);
        Self { axes, repeats: runs.any(|run| run.repetition > 0) }
    }

    fn header(&self) -> Vec<String> {
        let axes = self.axes.iter().map(|axis| (*axis).clone());
        let head =
            ["scenario", "stack", "clock", "seed"].map(str::to_owned).into_iter().chain(axes);
        head.chain(self.repeats.then(|| "repetition".to_owned())).collect()
    }

    fn cells(&self, run: &RunResult) -> Vec<String> {
        let at = |axis: &&String| {
            run.at.iter().find(|(name, _)| name == *axis).map_or(String::new(), |(_, v)| v.clone())
        };
        let (stack, clock) = (run.stack.to_string(), run.clock.to_string());
        let head = [run.scenario.clone(), stack, clock, run.seed.to_string()].into_iter();
        let repetition = self.repeats.then(|| run.repetition.to_string());
        head.chain(self.axes.iter().map(at)).chain(repetition).collect()
    }
}

/// A table as lines of values: a line of names, each with its unit, then the rows. RFC 4180.
pub fn csv_of(table: &table::Table) -> String {
    let mut name = "";
    let header: Vec<String> = table
        .header
        .iter()
        .map(|(own, unit)| {
            // One without a name has that of the columns to its left.
            name = if own.is_empty() { name } else { own };
            format!("{name} {unit}").trim_end().to_owned()
        })
        .collect();
    line(&header) + &table.rows.iter().map(|row| line(row)).collect::<String>()
}

fn line(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// A test suite for each scenario, a test case for each of its expectations. Known failures are
/// skipped.
pub fn junit(reports: &[ScenarioReport]) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
    for report in reports {
        let name = escape(&report.scenario);
        let (all, unmet) = (
            report.expectations.len(),
            report.expectations.iter().filter(|v| !v.is_as_known()).count(),
        );
        let known = report.expectations.iter().filter(|v| !v.met && v.is_as_known()).count();
        // Text is written to text without fail.
        let _ = writeln!(
            text,
            "<testsuite name=\"{name}\" tests=\"{all}\" failures=\"{unmet}\" skipped=\"{known}\">"
        );
        for verdict in &report.expectations {
            let words = escape(table::verdict(verdict).trim_end());
            let case = escape(&verdict.expect);
            let inside = match (verdict.met, verdict.is_as_known()) {
                (true, true) => String::new(),
                (false, true) => format!("<skipped message=\"{words}\"/>"),
                (_, false) => format!("<failure message=\"{words}\"/>"),
            };
            let _ = writeln!(
                text,
                "<testcase classname=\"{name}\" name=\"{case}\">{inside}</testcase>"
            );
        }
        text.push_str("</testsuite>\n");
    }
    text + "</testsuites>\n"
}
