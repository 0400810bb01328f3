//! Results for other programs: comma-separated values, and JUnit's test cases.

use std::fmt::Write;

use super::json::ScenarioReport;
use super::page::escape;
use super::table;
use crate::metrics::{Level, Metric};

/// A line of names, then a line for each run: the scenario, its place in the grid, and every metric of the
/// whole run. RFC 4180.
pub fn csv(report: &ScenarioReport) -> String {
    let metrics: Vec<String> = Metric::of(Level::Run).iter().map(ToString::to_string).collect();
    let names = ["scenario", "backend", "seed"].map(str::to_owned).into_iter();
    let axes = report.axes.iter().filter(|axis| *axis != "seed");
    let header: Vec<String> = names.chain(axes.clone().cloned()).chain(metrics.clone()).collect();
    let mut text = line(&header);
    for run in &report.runs {
        let at = |axis: &String| {
            run.at.iter().find(|(name, _)| name == axis).map_or(String::new(), |(_, v)| v.clone())
        };
        let value = |name: &String| {
            run.metrics.get(name).copied().flatten().map_or(String::new(), |x| x.to_string())
        };
        let head = [run.scenario.clone(), run.backend.clone(), run.seed.to_string()].into_iter();
        let cells: Vec<String> =
            head.chain(axes.clone().map(at)).chain(metrics.iter().map(value)).collect();
        text.push_str(&line(&cells));
    }
    text
}

fn line(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// A test suite for each scenario, a test case for each of its expectations.
pub fn junit(reports: &[ScenarioReport]) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
    for report in reports {
        let name = escape(&report.scenario);
        let (all, unmet) =
            (report.expectations.len(), report.expectations.iter().filter(|v| !v.met).count());
        // Text is written to text without fail.
        let _ = writeln!(text, "<testsuite name=\"{name}\" tests=\"{all}\" failures=\"{unmet}\">");
        for verdict in &report.expectations {
            let words = escape(table::verdict(verdict).trim_end());
            let case = escape(&verdict.expect);
            let _ = match verdict.met {
                true => writeln!(text, "<testcase classname=\"{name}\" name=\"{case}\"/>"),
                false => writeln!(
                    text,
                    "<testcase classname=\"{name}\" name=\"{case}\"><failure message=\"{words}\"/></testcase>"
                ),
            };
        }
        text.push_str("</testsuite>\n");
    }
    text + "</testsuites>\n"
}
