//! The table of senders and paths: for the terminal, and as a page.

use std::fmt::Write as _;

use super::outcome::{PeerPath, PeerRun, PeersReport, SenderRuns};
use fullpipe_report::output::page::{escape, foot, head, html_table, open_table};
use fullpipe_report::output::table::{Table, number};

/// Name, unit, metric and factor of the figures of a path.
const COLUMNS: [(&str, &str, &str, f64); 6] = [
    ("goodput", "Mbit/s", "goodput_mbps", 1.0),
    ("queue ms", "p50", "queue_ms.p50", 1.0),
    ("", "p95", "queue_ms.p95", 1.0),
    ("loss", "%", "loss_rate", 100.0),
    ("retr", "%", "retransmit_rate", 100.0),
    ("burst", "p95", "burst_packets.p95", 1.0),
];

/// A table for each path, with its name. That of the first has the fairness of two copies. The last
/// one has the verdicts, if there are some.
pub fn tables(report: &PeersReport) -> Vec<(String, Table)> {
    let paths = report.paths.iter().enumerate();
    let titled = |path: &PeerPath| format!("{}: {}", path.name, path.path);
    let verdicts = verdict_table(report).map(|table| ("verdicts".to_owned(), table));
    paths.map(|(i, path)| (titled(path), table(report, path, i == 0))).chain(verdicts).collect()
}

fn table(report: &PeersReport, path: &PeerPath, has_fairness: bool) -> Table {
    let mut header = vec![("sender", "")];
    header.extend(COLUMNS.iter().map(|c| (c.0, c.1)));
    if has_fairness {
        header.push(("two copies", "jain"));
    }
    let row = |sender: &SenderRuns| {
        let run = sender.alone_on(&path.name);
        let mut row = vec![format!("{}{}", sender.name, mark(run))];
        row.extend(COLUMNS.iter().map(|(_, _, metric, factor)| {
            let value = run.and_then(|run| run.figure(metric));
            value.map_or("-".to_owned(), |value| number(value * factor))
        }));
        if has_fairness {
            row.push(sender.jain().map_or("-".to_owned(), number));
        }
        row
    };
    Table { header, rows: report.senders.iter().map(row).collect() }
}

/// Behind a run whose link was late.
fn mark(run: Option<&PeerRun>) -> &'static str {
    let emulator = run.and_then(|run| run.result.as_ref()?.emulator.as_ref());
    if emulator.is_some_and(|emulator| !emulator.trusted) { " (!)" } else { "" }
}

/// The page.
pub fn render(report: &PeersReport) -> String {
    let mut page = head("fullpipe: stacks and paths");
    let _ = write!(
        page,
        "<h1>Stacks and paths</h1>\n<p class=\"detail\">{}, runs of {} s each. Every sender ran as a program between two \
         network namespaces; all figures are of the link between them.</p>\n",
        escape(&report.date),
        number(report.duration_s)
    );
    page.push_str(STYLE);
    if report.interrupted {
        page.push_str("<p class=\"warning\">Stopped before its time: the results so far.</p>\n");
    }
    overview(&mut page, report);
    verdicts(&mut page, report);
    for (title, table) in tables(report).iter().take(report.paths.len()) {
        let _ = write!(page, "<section>\n<h2>{}</h2>\n", escape(title));
        html_table(&mut page, title, table);
        page.push_str("</section>\n");
    }
    stacks(&mut page, report);
    failures(&mut page, report);
    page.push_str(&foot(
        ". Goodput is what arrived behind the headers of TCP, each byte once, or of UDP, with QUIC's own headers. Retr is, of \
         TCP, what was sent again, and of QUIC what the link dropped. Metrics are defined in docs/results.md.",
    ));
    page
}

/// A row for each sender and three figures for each path, with bars behind the goodput.
fn overview(page: &mut String, report: &PeersReport) {
    page.push_str("<section>\n<h2>All paths</h2>\n");
    open_table(page, "summary", "all", "All paths");
    page.push_str("<thead>\n<tr><th scope=\"col\" rowspan=\"2\">sender</th>");
    for path in &report.paths {
        let _ = write!(page, "<th scope=\"colgroup\" colspan=\"3\">{}</th>", escape(&path.name));
    }
    page.push_str("<th scope=\"col\" rowspan=\"2\">two copies<br>jain</th></tr>\n<tr>");
    for _ in &report.paths {
        for column in ["Mbit/s", "queue p95<br>ms", "loss<br>%"] {
            let _ = write!(page, "<th scope=\"col\">{column}</th>");
        }
    }
    page.push_str("</tr>\n</thead>\n<tbody>\n");
    let goodput = |sender: &SenderRuns, path: &PeerPath| {
        sender.alone_on(&path.name).and_then(|run| run.figure("goodput_mbps"))
    };
    let all = report.senders.iter().flat_map(|s| report.paths.iter().map(move |p| (s, p)));
    let most = all.filter_map(|(s, p)| goodput(s, p)).fold(0.0, f64::max);
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
    for sender in &report.senders {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", escape(&sender.name));
        for path in &report.paths {
            let run = sender.alone_on(&path.name);
            let figure = |metric: &str| run.and_then(|run| run.figure(metric));
            let mbps = goodput(sender, path);
            let share = mbps.filter(|_| most > 0.0).map_or(0.0, |mbps| 100.0 * mbps / most);
            let _ = write!(
                page,
                "<td class=\"bar\" style=\"--share:{share:.0}%\">{}{}</td><td>{}</td><td>{}</td>",
                shown(mbps),
                mark(run),
                shown(figure("queue_ms.p95")),
                shown(figure("loss_rate").map(|rate| 100.0 * rate))
            );
        }
        let _ = writeln!(page, "<td>{}</td></tr>", shown(sender.jain()));
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}

/// The verdicts of `fullpipe judge` on the senders, where that was asked for.
fn verdicts(page: &mut String, report: &PeersReport) {
    if let Some(table) = verdict_table(report) {
        page.push_str("<section>\n<h2>Verdicts</h2>\n");
        html_table(page, "Verdicts", &table);
        page.push_str("</section>\n");
    }
}

fn verdict_table(report: &PeersReport) -> Option<Table> {
    let judged = report.senders.iter().filter_map(|s| Some((s, s.verdict.as_ref()?)));
    let rows: Vec<Vec<String>> = judged
        .map(|(s, judged)| vec![s.name.clone(), judged.looks_like.clone(), s.verdict_in_short()])
        .collect();
    let header = vec![("sender", ""), ("looks like", ""), ("checks and defects", "")];
    (!rows.is_empty()).then_some(Table { header, rows })
}

/// A bar behind a number; it is seen on dark paper as well.
const STYLE: &str = "<style>td.bar { background: linear-gradient(90deg, rgba(70, 130, 220, 0.3) var(--share), transparent \
                     var(--share)); }</style>\n";

/// The stacks that ran, and those that are not there.
fn stacks(page: &mut String, report: &PeersReport) {
    let mut seen: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for sender in &report.senders {
        let stack = &sender.stack;
        if !seen.contains(&stack.name.as_str()) {
            seen.push(&stack.name);
            let version = stack.version.clone().unwrap_or_default();
            let date = stack.date.clone().unwrap_or_default();
            rows.push(vec![stack.name.clone(), version, stack.says.clone(), date]);
        }
    }
    page.push_str("<section>\n<h2>Versions</h2>\n");
    let header = vec![("stack", ""), ("recipe", ""), ("says of itself", ""), ("installed", "")];
    html_table(page, "Versions", &Table { header, rows });
    if !report.missing.is_empty() {
        page.push_str("<h3>Not there</h3>\n<ul>\n");
        for missing in &report.missing {
            let _ =
                writeln!(page, "<li>{} {}</li>", escape(&missing.name), escape(&missing.reason));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</section>\n");
}

/// Runs without a result, and those that are not to be trusted.
fn failures(page: &mut String, report: &PeersReport) {
    let mut lines = Vec::new();
    for sender in &report.senders {
        for run in &sender.runs {
            let warning = run.result.as_ref().and_then(|r| r.emulator.as_ref()?.warning.as_ref());
            let place = format!("{} on {}", sender.name, run.path);
            if let (Some(before), None) = (&run.before, &run.error) {
                lines.push(format!("{place} failed, and ran when it was tried again: {before}"));
            }
            if let Some(error) = &run.error {
                lines.push(format!("{place} failed: {error}"));
            } else if let Some(warning) = warning {
                lines.push(format!("{place} is not to be trusted: {warning}"));
            }
        }
    }
    if lines.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Failures and warnings</h2>\n<ul>\n");
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", escape(&line));
    }
    page.push_str("</ul>\n</section>\n");
}
