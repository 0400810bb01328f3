//! Results for other programs: comma-separated values, and JUnit's test cases.

use std::fmt::Write;

use super::json::ScenarioReport;
use super::page::escape;
use super::table;
use crate::metrics::{Level, Metric};

/// A line of names, then a line for each run of all scenarios: the scenario, its place in the grid,
/// and every metric of the whole run. What a scenario has no axis for is empty. RFC 4180.
pub fn csv(reports: &[ScenarioReport]) -> String {
    let metrics: Vec<String> = Metric::of(Level::Run).iter().map(ToString::to_string).collect();
    let runs = || reports.iter().flat_map(|report| &report.runs);
    let repeats = runs().any(|run| run.repetition > 0);
    let mut axes: Vec<&String> = Vec::new();
    for axis in reports.iter().flat_map(|report| &report.axes) {
        if axis != "seed" && !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    let header: Vec<String> = ["scenario", "backend", "seed"]
        .map(str::to_owned)
        .into_iter()
        .chain(axes.iter().map(|axis| (*axis).clone()))
        .chain(repeats.then(|| "repetition".to_owned()))
        .chain(metrics.clone())
        .collect();
    let mut text = line(&header);
    for run in runs() {
        let at = |axis: &&String| {
            run.at.iter().find(|(name, _)| name == *axis).map_or(String::new(), |(_, v)| v.clone())
        };
        let value = |name: &String| {
            run.metrics.get(name).copied().flatten().map_or(String::new(), |x| x.to_string())
        };
        let head = [run.scenario.clone(), run.backend.clone(), run.seed.to_string()].into_iter();
        let cells: Vec<String> = head
            .chain(axes.iter().map(at))
            .chain(repeats.then(|| run.repetition.to_string()))
            .chain(metrics.iter().map(value))
            .collect();
        text.push_str(&line(&cells));
    }
    text
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
