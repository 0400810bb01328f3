//! The page of results: one HTML file that needs no network, and nothing beside it.

mod time_series;

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use fullpipe_scenario::Over;
use serde_json::json;

use super::atomic_file::Temporary;
use super::json::ScenarioReport;
use super::plot::{self, Drawing, Kind, PlotError, Scale, colour, svg};
use super::table;

/// A report that cannot be written: one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PageError {
    #[error("cannot write the report {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write the report {}: it is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot write the report {}: the file there is no report of fullpipe; name another with --report", path.display())]
    NotOurs { path: PathBuf },
    #[error(transparent)]
    Plot(#[from] PlotError),
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
    Temporary::beside(path).map(drop).map_err(io)
}

/// Writes the report in one step: whoever opens the path finds the old file or the whole new one.
///
/// # Errors
/// The file cannot be written; nothing is left of it then.
pub fn write(path: &Path, scenarios: &[ScenarioReport]) -> Result<(), PageError> {
    check_replaceable(path)?;
    write_text(path, &render(scenarios)?)
}

/// Writes a file in one step.
///
/// # Errors
/// The file cannot be written; nothing is left of it then.
pub fn write_text(path: &Path, text: &str) -> Result<(), PageError> {
    let io = |source| PageError::Io { path: path.to_owned(), source };
    let mut temporary = Temporary::beside(path).map_err(io)?;
    temporary.file.write_all(text.as_bytes()).map_err(io)?;
    temporary.persist(path).map_err(io)
}

/// By this a page is known as one that this program wrote.
const GENERATOR: &str = "<meta name=\"generator\" content=\"fullpipe ";

/// Checks that a page can be written here: not in place of a file that this program did not write.
///
/// # Errors
/// Those of [`check_writable`], and [`PageError::NotOurs`].
pub fn check_replaceable(path: &Path) -> Result<(), PageError> {
    check_writable(path)?;
    let io = |source| PageError::Io { path: path.to_owned(), source };
    let mut start = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => file.take(1024).read_to_end(&mut start).map_err(io)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io(e)),
    };
    match start.is_empty() || String::from_utf8_lossy(&start).contains(GENERATOR) {
        true => Ok(()),
        false => Err(PageError::NotOurs { path: path.to_owned() }),
    }
}

/// Everything up to the first heading.
pub fn head(title: &str) -> String {
    let mut page = String::with_capacity(1 << 20);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         {GENERATOR}{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{STYLE}{}</style>\n</head>\n<body>\n<main>\n",
        env!("CARGO_PKG_VERSION"),
        escape(title),
        plot::style()
    );
    page
}

/// Everything after the last section; `words` follow the program's name and version.
pub fn foot(words: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "</main>\n<footer>fullpipe {version}{words}</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// Points of a line that can be read by pointing at it.
const READ_POINTS: usize = 300;

/// A drawing in two widths, of which the window shows one, and the values for those who point at
/// it.
///
/// # Errors
/// The plotting library refuses something, which is a bug.
pub fn plot(page: &mut String, id: &str, drawing: &Drawing) -> Result<(), PlotError> {
    let wide = svg::render(drawing, svg::Format::WIDE)?;
    let narrow = svg::render(drawing, svg::Format::NARROW)?;
    let lines: usize = drawing.panels.iter().map(|p| p.lines.len()).sum();
    let _ = writeln!(page, "<div class=\"plot\" id=\"{id}\" data-lines=\"{lines}\">");
    for (class, picture) in [("wide", &wide), ("narrow", &narrow)] {
        let _ = writeln!(page, "<div class=\"{class}\">{}</div>", image(drawing, &picture.svg));
    }
    let values = values(drawing, &[("wide", &wide.places), ("narrow", &narrow.places)]);
    let _ = writeln!(page, "{values}</div>");
    Ok(())
}

/// Drawings of one panel each, as many beside each other as there is room for.
fn multiples(page: &mut String, id: &str, drawings: &[Drawing]) -> Result<(), PlotError> {
    page.push_str("<div class=\"multiples\">\n");
    for (i, drawing) in drawings.iter().enumerate() {
        let small = svg::render(drawing, svg::Format::SMALL)?;
        let lines: usize = drawing.panels.iter().map(|p| p.lines.len()).sum();
        let _ = writeln!(
            page,
            "<div class=\"plot\" id=\"{id}-{i}\" data-lines=\"{lines}\"><div class=\"small\">{}</div>{}</div>",
            image(drawing, &small.svg),
            values(drawing, &[("small", &small.places)])
        );
    }
    page.push_str("</div>\n");
    Ok(())
}

/// A picture that a screen reader reads out as one image, by the names of its panels and lines.
fn image(drawing: &Drawing, svg: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in drawing.panels.iter().flat_map(|panel| &panel.lines) {
        if !line.name.is_empty() && !lines.contains(&line.name.as_str()) {
            lines.push(&line.name);
        }
    }
    let panels = drawing.panels.iter().map(|panel| match panel.y.as_str() {
        "" => panel.title.clone(),
        unit => format!("{} in {unit}", panel.title),
    });
    let mut label = format!("Plot: {}", panels.collect::<Vec<_>>().join("; "));
    if let Some(panel) = drawing.panels.last() {
        let _ = write!(label, "; over {}", panel.x);
    }
    if !lines.is_empty() {
        let _ = write!(label, "; of {}", lines.join(", "));
    }
    plot::picture_on_page(svg).replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{}\" ", escape(&label)),
        1,
    )
}

/// Data from which the page's script shows the values under the pointer.
fn values(drawing: &Drawing, places: &[(&str, &Vec<svg::PanelArea>)]) -> String {
    let panels = drawing.panels.iter().map(|panel| {
        let lines = panel.lines.iter().map(|line| {
            let (x, y) = svg::thin(&line.x, &line.y, READ_POINTS);
            json!({
                "name": line.name, "colour": plot::on_page(colour(&line.colour)), "x": numbers(&x), "y": numbers(&y),
                "steps": matches!(line.kind, Kind::Steps | Kind::Area),
            })
        });
        json!({
            "x": panel.x, "y": panel.y, "names": panel.names, "log": panel.scales.0 == Scale::Log,
            "lines": lines.collect::<Vec<_>>(),
        })
    });
    let places: serde_json::Map<_, _> =
        places.iter().map(|(class, places)| ((*class).to_owned(), json!(places))).collect();
    let values = json!({ "panels": panels.collect::<Vec<_>>(), "places": places });
    // Nothing in it can end the script element or begin another.
    let values = values.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\">{values}</script>")
}

/// With four digits; what is not a number is a gap.
fn numbers(values: &[f64]) -> Vec<serde_json::Value> {
    let short = |v: &f64| match v.is_finite() {
        true => format!("{v:.3e}").parse::<f64>().map_or(serde_json::Value::Null, Into::into),
        false => serde_json::Value::Null,
    };
    values.iter().map(short).collect()
}

/// The drawings of a scenario's runs, each with a title that may be empty.
pub fn drawings(report: &ScenarioReport) -> Vec<(String, Drawing)> {
    time_series::groups(report).into_iter().map(|group| (group.title, group.drawing)).collect()
}

/// The whole page.
///
/// # Errors
/// [`PageError::Plot`] when the plotting library refuses something, which is a bug.
pub fn render(scenarios: &[ScenarioReport]) -> Result<String, PageError> {
    let mut page = head(&format!("fullpipe: {}", title(scenarios)));
    let _ = writeln!(page, "<h1>{}</h1>", escape(&title(scenarios)));
    for (i, scenario) in scenarios.iter().enumerate() {
        section(&mut page, i, scenario)?;
    }
    page.push_str(&foot(
        ". Metrics are defined in docs/results.md. Point at a plot to read its values.",
    ));
    Ok(page)
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

fn section(page: &mut String, number: usize, report: &ScenarioReport) -> Result<(), PageError> {
    let name = escape(&report.scenario);
    let _ = write!(page, "<section tabindex=\"-1\">\n<h2>{name}</h2>\n");
    if report.runs.iter().any(|run| run.interrupted) {
        page.push_str("<p class=\"warning\">Stopped before its time: the results so far.</p>\n");
    }
    let caption = format!("Results of {}", report.scenario);
    html_table(page, &caption, &table::runs(&report.scenario, &report.rows()));
    for warning in report.warnings() {
        let _ = writeln!(page, "<p class=\"warning\">Not to be trusted: {}</p>", escape(&warning));
    }
    for note in report.notes() {
        let _ = writeln!(page, "<p>{}</p>", escape(&note));
    }
    if !report.expectations.is_empty() {
        expectations(page, report);
    }
    for run in report.runs.iter().filter(|run| run.flows.len() > 1 && run.repetition == 0) {
        let place = table::place(&run.at, &report.scenario);
        let caption = format!("Flows of {place}");
        let _ = writeln!(page, "<h3>{}</h3>", escape(&caption));
        html_table(page, &caption, &table::flows(run));
    }
    for (i, group) in time_series::groups(report).iter().enumerate() {
        if !group.title.is_empty() {
            let _ = writeln!(page, "<h3>{}</h3>", escape(&group.title));
        }
        if let Some(note) = &group.note {
            let _ = writeln!(page, "<p class=\"detail\">{}</p>", escape(note));
        }
        let id = format!("plot-{number}-{i}");
        plot(page, &id, &group.drawing)?;
        if !group.flows.is_empty() {
            multiples(page, &format!("{id}-flow"), &group.flows)?;
        }
    }
    lateness(page, report);
    let _ = write!(
        page,
        "<details>\n<summary>The scenario: save it as a file, and <code>fullpipe run {} FILE.toml</code> \
         runs it again</summary>\n<pre>{}</pre>\n</details>\n</section>\n",
        escape(&over(report).options()),
        escape(&report.toml)
    );
    Ok(())
}

/// Stack and clock of the runs.
fn over(report: &ScenarioReport) -> Over {
    report.runs.first().map_or_else(Over::default, |run| Over {
        stack: Some(run.stack),
        clock: (run.clock != run.stack.usual_clock()).then_some(run.clock),
        link: None,
    })
}

/// The verdict on each expectation, which the row is named by.
fn expectations(page: &mut String, report: &ScenarioReport) {
    open_table(page, "checks", "", &format!("Expectations of {}", report.scenario));
    page.push_str("<thead><tr>");
    for column in ["expectation", "verdict", "measured"] {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for verdict in &report.expectations {
        let class = match (verdict.met, verdict.is_as_known()) {
            (true, true) => "seen",
            (false, true) => "known",
            (_, false) => "missed",
        };
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\"><code>{}</code></th><td class=\"{class}\">{}</td><td>{}</td></tr>",
            escape(&verdict.expect),
            table::verdict_word(verdict),
            escape(&table::verdict_detail(verdict))
        );
    }
    page.push_str("</tbody></table></div>\n");
}

/// The start of a table, up to its rows. Where it is wider than the window it scrolls, by keyboard
/// too. The caption is for those who do not see where the table stands.
pub fn open_table(out: &mut String, class: &str, id: &str, caption: &str) {
    let id = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
    let caption = escape(caption);
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{caption}\">\
         <table class=\"{class}\"{id}>\n<caption>{caption}</caption>"
    );
}

/// A table with its caption, as [`table::Table::to_text`] has it on a terminal.
pub fn html_table(out: &mut String, caption: &str, table: &table::Table) {
    open_table(out, "summary", "", caption);
    out.push_str("<thead>\n<tr>");
    let (mut c, mut second) = (0, String::new());
    while c < table.header.len() {
        let (name, unit) = table.header[c];
        let span = 1 + table.header[c + 1..].iter().take_while(|h| h.0.is_empty()).count();
        let unit =
            if span == 1 && !unit.is_empty() { format!("<br>{unit}") } else { String::new() };
        let (rows, scope) = if span == 1 { (2, "col") } else { (1, "colgroup") };
        let size = format!("colspan=\"{span}\" rowspan=\"{rows}\"");
        // An empty header is none to a screen reader.
        let _ = match format!("{name}{unit}") {
            text if text.is_empty() => write!(out, "<td {size}></td>"),
            text => write!(out, "<th scope=\"{scope}\" {size}>{text}</th>"),
        };
        for (_, unit) in table.header.iter().skip(c).take(span).filter(|_| span > 1) {
            let _ = match *unit {
                "" => write!(second, "<td></td>"),
                unit => write!(second, "<th scope=\"col\">{unit}</th>"),
            };
        }
        c += span;
    }
    let _ = write!(out, "</tr>\n<tr>{second}</tr>\n</thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match i {
                0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// Timing accuracy of the emulated link, for each run.
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

/// Text that is none of HTML's own.
pub fn escape(text: &str) -> String {
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
const SCRIPT: &str = include_str!("page/script.js");
