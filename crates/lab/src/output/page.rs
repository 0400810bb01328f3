//! The page of results: one HTML file that needs no network, and nothing beside it.

mod plots;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use plotly::Plot;

use super::json::ScenarioReport;
use super::table;

/// A report that cannot be written: one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PageError {
    #[error("cannot write the report {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write the report {}: it is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("plotly's embedded script is not where it was in plotly 0.14")]
    NoScript,
    #[error("a figure cannot be drawn, which is a bug: {0}")]
    Svg(String),
}

/// Finds out whether [`write()`] will succeed, before the work is done that it is to report.
///
/// # Errors
/// The path is a directory or a device, or its directory cannot be written.
pub fn check_writable(path: &Path) -> Result<(), PageError> {
    let io = |source| PageError::Io { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(PageError::NotAFile { path: path.to_owned() });
        }
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e)),
        _ => {}
    }
    if path.file_name().is_none() {
        return Err(PageError::NotAFile { path: path.to_owned() });
    }
    // The same that `write` does, without the renaming.
    tempfile::NamedTempFile::new_in(directory_of(path)).map(drop).map_err(io)
}

/// Writes the report in one step: whoever opens the path finds the old file or the whole new one.
///
/// # Errors
/// The file cannot be written; nothing is left of it then.
pub fn write(path: &Path, scenarios: &[ScenarioReport]) -> Result<(), PageError> {
    write_text(path, &render(scenarios)?)
}

/// Writes a file in one step.
///
/// # Errors
/// The file cannot be written; nothing is left of it then.
pub fn write_text(path: &Path, text: &str) -> Result<(), PageError> {
    let io = |source| PageError::Io { path: path.to_owned(), source };
    let mut file = temporary_beside(path).map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)?;
    file.persist(path).map_err(|e| io(e.error))?;
    Ok(())
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn temporary_beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fullpipe-report-");
    // A temporary file is for its owner alone; a report is an ordinary file, as the umask has it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(directory_of(path))
}

/// The whole page.
///
/// # Errors
/// [`PageError::NoScript`] when the plotting library no longer holds its script.
pub fn render(scenarios: &[ScenarioReport]) -> Result<String, PageError> {
    let script = plotly_script().ok_or(PageError::NoScript)?;
    let mut page = String::with_capacity(script.len() + (1 << 20));
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>fullpipe: {}</title>\n<style>{STYLE}</style>\n{script}\n</head>\n<body>\n",
        escape(&title(scenarios))
    );
    let _ = writeln!(page, "<h1>{}</h1>", escape(&title(scenarios)));
    for (i, scenario) in scenarios.iter().enumerate() {
        section(&mut page, i, scenario);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(
        page,
        "<footer>fullpipe {version}. Metrics are defined in docs/results.md. Drag to zoom all five plots in time, double-click to return; \
         click on a name to hide it.</footer>\n<script>{THEME}</script>\n</body>\n</html>\n"
    );
    Ok(page)
}

/// plotly.js alone: what the library offers as one text also holds a typesetter of formulas, two
/// megabytes that nothing here uses.
pub(crate) fn plotly_script() -> Option<String> {
    const END: &str = "</script>";
    let all = Plot::offline_js_sources();
    let end = all.find(END)? + END.len();
    all[..end].contains("plotly.js v").then(|| all[..end].to_owned())
}

fn title(scenarios: &[ScenarioReport]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for flow in scenarios.iter().flat_map(|s| &s.runs).flat_map(|run| &run.flows) {
        if !names.contains(&flow.cc.as_str()) {
            names.push(&flow.cc);
        }
    }
    match names.as_slice() {
        [] => "nothing ran".to_owned(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn section(page: &mut String, number: usize, report: &ScenarioReport) {
    let _ = write!(page, "<section>\n<h2>{}</h2>\n", escape(&report.scenario));
    if report.runs.iter().any(|run| run.interrupted) {
        page.push_str("<p class=\"warning\">Stopped before its time: the results so far.</p>\n");
    }
    html_table(page, &table::runs(&report.scenario, &report.runs));
    for warning in report.warnings() {
        let _ = writeln!(page, "<p class=\"warning\">Not to be trusted: {}</p>", escape(&warning));
    }
    if !report.expectations.is_empty() {
        let all: String = report.expectations.iter().map(table::verdict).collect();
        let _ = writeln!(page, "<pre>{}</pre>", escape(&all));
    }
    for run in report.runs.iter().filter(|run| run.flows.len() > 1) {
        let place = table::place(&run.at, &report.scenario);
        let _ = writeln!(page, "<h3>Flows of {}</h3>", escape(&place));
        html_table(page, &table::flows(run));
    }
    for (i, panel) in plots::sections(report).into_iter().enumerate() {
        if !panel.title.is_empty() {
            let _ = writeln!(page, "<h3>{}</h3>", escape(&panel.title));
        }
        let id = format!("plot-{number}-{i}");
        let _ = writeln!(page, "{}", panel.plot.to_inline_html(Some(&id)));
    }
    lateness(page, report);
    let _ = write!(
        page,
        "<details>\n<summary>The scenario: save it as a file, and <code>fullpipe run --backend {} FILE.toml</code> \
         runs it again</summary>\n<pre>{}</pre>\n</details>\n</section>\n",
        escape(report.runs.first().map_or("sim", |run| &run.backend)),
        escape(&report.toml)
    );
}

fn html_table(out: &mut String, table: &table::Table) {
    out.push_str("<div class=\"wide\"><table class=\"summary\">\n<thead>\n<tr>");
    let mut c = 0;
    while c < table.header.len() {
        let (name, unit) = table.header[c];
        let span = 1 + table.header[c + 1..].iter().take_while(|h| h.0.is_empty()).count();
        let unit =
            if span == 1 && !unit.is_empty() { format!("<br>{unit}") } else { String::new() };
        let rows = if span == 1 { 2 } else { 1 };
        let _ = write!(out, "<th colspan=\"{span}\" rowspan=\"{rows}\">{name}{unit}</th>");
        c += span;
    }
    out.push_str("</tr>\n<tr>");
    for (i, (name, unit)) in table.header.iter().enumerate() {
        let spanned = name.is_empty() || table.header.get(i + 1).is_some_and(|h| h.0.is_empty());
        if spanned {
            let _ = write!(out, "<th>{unit}</th>");
        }
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        row.iter().for_each(|cell| {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        });
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// How far the emulated link can be believed, for each run.
fn lateness(page: &mut String, report: &ScenarioReport) {
    let each = report.runs.iter().filter_map(|run| {
        let e = run.emulator.as_ref()?;
        let verdict = if e.trusted { "trusted" } else { "not trusted" };
        Some(format!(
            "{} {:.0} µs at p50, {:.0} µs at p99, {:.0} µs at p99.9, {verdict}",
            escape(&table::place(&run.at, &report.scenario)),
            e.lateness_us.p50,
            e.lateness_us.p99,
            e.lateness_us.p999
        ))
    });
    let each: Vec<String> = each.collect();
    if !each.is_empty() {
        let _ = writeln!(page, "<p>Lateness of the emulated link: {}.</p>", each.join("; "));
    }
}

pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

const STYLE: &str = include_str!("page/style.css");
const THEME: &str = include_str!("page/theme.js");

#[cfg(test)]
mod tests;
