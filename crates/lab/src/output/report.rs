//! A report that is one HTML file: it needs no network, and nothing beside it.

mod plots;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use plotly::Plot;

use crate::output::results::{DEFINITIONS, ScenarioResults};
use crate::output::summary;

/// A report that cannot be written: one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ReportError {
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
pub fn check_writable(path: &Path) -> Result<(), ReportError> {
    let io = |source| ReportError::Io { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(ReportError::NotAFile { path: path.to_owned() });
        }
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e)),
        _ => {}
    }
    if path.file_name().is_none() {
        return Err(ReportError::NotAFile { path: path.to_owned() });
    }
    // The same that `write` does, without the renaming.
    tempfile::NamedTempFile::new_in(directory_of(path)).map(drop).map_err(io)
}

/// Writes the report in one step: whoever opens the path finds the old file or the whole new one.
///
/// # Errors
/// The file cannot be written; nothing is left of it then.
pub fn write(path: &Path, scenarios: &[ScenarioResults]) -> Result<(), ReportError> {
    write_text(path, &render(scenarios)?)
}

/// Writes a file in one step.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), ReportError> {
    let io = |source| ReportError::Io { path: path.to_owned(), source };
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
/// [`ReportError::NoScript`] when the plotting library no longer holds its script.
pub fn render(scenarios: &[ScenarioResults]) -> Result<String, ReportError> {
    let script = plotly_script().ok_or(ReportError::NoScript)?;
    let mut page = String::with_capacity(script.len() + (1 << 20));
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>fullpipe: {}</title>\n<style>{STYLE}</style>\n{script}\n</head>\n<body>\n",
        escape(&title(scenarios))
    );
    let _ = write!(page, "<h1>{}</h1>\n{}", escape(&title(scenarios)), table(scenarios));
    for warning in summary::warnings(scenarios) {
        let _ = writeln!(page, "<p class=\"warning\">Not to be trusted: {}</p>", escape(&warning));
    }
    for (i, s) in scenarios.iter().enumerate() {
        section(&mut page, i, s);
    }
    definitions(&mut page);
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(
        page,
        "<footer>fullpipe {version}. Drag to zoom all five plots in time, double-click to return; \
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

fn title(scenarios: &[ScenarioResults]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in scenarios.iter().flat_map(|s| &s.scenario.cc) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    match names.as_slice() {
        [] => "nothing ran".to_owned(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn table(scenarios: &[ScenarioResults]) -> String {
    let table = summary::table(scenarios);
    let mut out = String::from("<table class=\"summary\">\n<thead>\n<tr>");
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
    let ccs = scenarios.iter().flat_map(|s| s.results.iter().map(|r| r.cc.as_str()));
    for (row, cc) in table.rows.iter().zip(ccs) {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match i {
                1 => write!(
                    out,
                    "<td><span class=\"key\" style=\"background:{}\"></span>{cell}</td>",
                    plots::colour(cc)
                ),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
    out
}

fn section(page: &mut String, i: usize, s: &ScenarioResults) {
    let _ = write!(
        page,
        "<section>\n<h2>{}</h2>\n<p>{}</p>\n",
        escape(&summary::short_name(&s.scenario)),
        escape(&summary::in_words(&s.scenario))
    );
    if s.interrupted {
        page.push_str("<p class=\"warning\">Stopped before its time: the results so far.</p>\n");
    }
    let id = format!("plot-{i}");
    let _ = writeln!(page, "{}", plots::plot(s).to_inline_html(Some(&id)));
    lateness(page, s);
    let _ = write!(
        page,
        "<p>Again: <code>{}</code></p>\n</section>\n",
        escape(&summary::command(&s.scenario))
    );
}

/// How far the emulator can be believed, for each algorithm.
fn lateness(page: &mut String, s: &ScenarioResults) {
    let each = s.results.iter().filter_map(|r| {
        let e = r.emulator.as_ref()?;
        let verdict = if e.trusted { "trusted" } else { "not trusted" };
        Some(format!(
            "{} {:.0} µs at p50, {:.0} µs at p99, {:.0} µs at p99.9, {verdict}",
            escape(&r.cc),
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

fn definitions(page: &mut String) {
    page.push_str("<section>\n<h2>What the figures mean</h2>\n<dl>\n");
    for (name, words) in DEFINITIONS {
        let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(words));
    }
    page.push_str("</dl>\n</section>\n");
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

const STYLE: &str = include_str!("report/style.css");
const THEME: &str = include_str!("report/theme.js");

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
