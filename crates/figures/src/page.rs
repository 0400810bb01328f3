//! All figures on one page: an HTML file that needs no network and nothing beside it, each figure
//! laid out as in its paper.

use std::fmt::Write as _;
use std::path::Path;

use super::{Check, FIGURES, FigureResult};
use fullpipe_lab::backend::BackendChoice;
use fullpipe_report::output::page::{self, PageError, escape};
use fullpipe_report::output::plot::CellTable;

/// The page's name in its directory.
pub const FILE: &str = "figures.html";

/// Writes the page into a directory, in one step.
///
/// # Errors
/// The file cannot be written; nothing is left of it then.
pub fn write(
    dir: &Path,
    results: &[FigureResult],
    backend: BackendChoice,
) -> Result<(), PageError> {
    page::write_text(&dir.join(FILE), &render(results, backend)?)
}

/// Writes `NAME.svg` into a directory for each figure that has something drawn. The names of the
/// files.
///
/// # Errors
/// A file cannot be written.
pub fn write_pictures(dir: &Path, results: &[FigureResult]) -> Result<Vec<String>, PageError> {
    let mut names = Vec::new();
    for result in results.iter().filter(|r| !r.drawing.panels.is_empty()) {
        let name = format!("{}.svg", result.name);
        page::write_text(&dir.join(&name), &result.drawing.to_svg()?)?;
        names.push(name);
    }
    Ok(names)
}

/// The whole page.
///
/// # Errors
/// [`PageError::Plot`] when the plotting library refuses something, which is a bug.
pub fn render(results: &[FigureResult], backend: BackendChoice) -> Result<String, PageError> {
    let seen = results.iter().filter(|r| r.seen).count();
    let known = results.iter().filter(|r| !r.seen && r.as_known).count();
    let mut page = page::head("fullpipe: the figures");
    let _ = write!(
        page,
        "<h1>{seen} of {} figures seen, {known} known not to be</h1>\n<nav>\n",
        results.len()
    );
    for r in results {
        let (_, class, mark) = verdict(r.seen, r.as_known);
        let _ = writeln!(page, "<a class=\"{class}\" href=\"#{}\">{mark} {}</a>", r.name, r.name);
    }
    page.push_str("</nav>\n");
    for r in results {
        section(&mut page, r, backend)?;
    }
    let how = if backend.is_realtime() { "real packets" } else { "simulated" };
    page.push_str(&page::foot(&format!(
        ", {how}. Point at a plot to read its values. Keys: j and k go to the next figure and back."
    )));
    Ok(page)
}

/// In words, as a class of the page's style, and as a sign.
fn verdict(is_met: bool, as_known: bool) -> (&'static str, &'static str, &'static str) {
    match (is_met, as_known) {
        (true, true) => ("seen", "seen", "\u{2713}"),
        (true, false) => ("seen, against what is known", "missed", "!"),
        (false, true) => ("known not to be seen", "known", "\u{2013}"),
        (false, false) => ("not seen", "missed", "\u{2717}"),
    }
}

fn section(page: &mut String, r: &FigureResult, backend: BackendChoice) -> Result<(), PageError> {
    let figure = FIGURES.iter().find(|f| f.name == r.name);
    let (title, source) = figure.map_or(("", ""), |f| (f.title, f.source));
    let (words, class, _) = verdict(r.seen, r.as_known);
    let _ = write!(
        page,
        "<section id=\"{}\" tabindex=\"-1\">\n<h2>{}: {} <span class=\"{class}\">{words}</span></h2>\n\
         <p class=\"source\">{}</p>\n",
        r.name,
        r.name,
        escape(title),
        escape(source)
    );
    checks(page, r.name, &r.checks);
    if !r.drawing.panels.is_empty() {
        page::plot(page, &format!("plot-{}", r.name), &r.drawing)?;
    }
    for table in &r.drawing.tables {
        rows(page, r.name, table);
    }
    let again = match backend == BackendChoice::SIM {
        true => String::new(),
        false => format!(" {}", backend.options()),
    };
    let shorter = r.shortened.as_ref().map_or_else(String::new, |s| format!(" Shortened: {s}."));
    let _ = write!(
        page,
        "<p class=\"detail\">{}.{}</p>\n<p>Again: <code>fullpipe figures {}{again}</code></p>\n</section>\n",
        escape(&r.detail),
        escape(&shorter),
        r.name
    );
    Ok(())
}

/// Table of claims and measured values.
fn checks(page: &mut String, name: &str, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    page::open_table(page, "checks", "", &format!("Claims of {name}"));
    page.push_str("<thead><tr>");
    for column in ["claim", "measured", "target", "met"] {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for check in checks {
        let (_, class, _) = verdict(check.met, check.as_known);
        let met = match (check.met, &check.known_failure) {
            (true, None) => "yes".to_owned(),
            (false, None) => "no".to_owned(),
            (false, Some(reason)) => format!("no, which is known: {reason}"),
            (true, Some(_)) => "yes, which is new".to_owned(),
        };
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>",
            escape(check.claim.trim_end_matches(':')),
            escape(&check.measured),
            escape(&check.target),
            escape(&met)
        );
    }
    page.push_str("</tbody></table></div>\n");
}

fn rows(page: &mut String, name: &str, table: &CellTable) {
    let Some((header, rows)) = table.rows.split_first() else { return };
    page::open_table(page, "rows", "", &format!("Values of {name}"));
    page.push_str("<thead><tr>");
    for cell in header {
        // A header without text is no header.
        let _ = match cell.as_str() {
            "" => write!(page, "<td></td>"),
            cell => write!(page, "<th scope=\"col\">{}</th>", escape(cell)),
        };
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for (i, cell) in row.iter().map(|cell| escape(cell)).enumerate() {
            let _ = match i {
                0 => write!(page, "<th scope=\"row\">{cell}</th>"),
                _ => write!(page, "<td>{cell}</td>"),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}
