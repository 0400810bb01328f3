//! All figures on one page: an HTML file that needs no network and nothing beside it, each figure laid
//! out as in its paper.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::drawing::{Band, Drawing, Kind, Line, Panel, Scale, Table};
use super::{FIGURES, FigureResult};
use crate::backend::BackendChoice;
use crate::output::page::{self, PageError, escape, plotly_script};

/// The page's name in its directory.
pub const FILE: &str = "figures.html";

/// The most points of a line: a screen shows no more.
const MAX_POINTS: usize = 1600;

/// Pixels of a panel of height 1, and of the gap above it, which holds its title.
const PANEL_PX: f64 = 190.0;
const GAP_PX: f64 = 62.0;

/// Colours that people with any common colour blindness can tell apart (Okabe and Ito).
const COLOURS: [(&str, &str); 18] = [
    ("bbr3", "#0072b2"),
    ("bbr1", "#009e73"),
    ("cubic", "#d55e00"),
    ("bbr3-linux", "#56b4e9"),
    ("bbr3-linux with ECN", "#009e73"),
    ("cubic with ECN", "#d55e00"),
    ("reno", "#cc79a7"),
    ("measured", "#0072b2"),
    ("published", "#999999"),
    ("retransmitted", "#0072b2"),
    ("RTT", "#0072b2"),
    ("inflight", "#009e73"),
    ("delivery rate", "#d55e00"),
    ("flow 0", "#0072b2"),
    ("flow 1", "#d55e00"),
    ("flow 2", "#009e73"),
    ("flow 3", "#cc79a7"),
    ("flow 4", "#e69f00"),
];

/// Colours of the bands behind the lines, and their letters in the legend.
pub(super) const BANDS: [(&str, &str); 8] = [
    ("Startup", "#e69f00"),
    ("Drain", "#cc79a7"),
    ("ProbeBW_DOWN", "#56b4e9"),
    ("ProbeBW_CRUISE", "#999999"),
    ("ProbeBW_REFILL", "#f0e442"),
    ("ProbeBW_UP", "#d55e00"),
    ("ProbeBW", "#999999"),
    ("ProbeRTT", "#009e73"),
];

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

/// The whole page.
///
/// # Errors
/// [`PageError::NoScript`] when the plotting library no longer holds its script.
pub fn render(results: &[FigureResult], backend: BackendChoice) -> Result<String, PageError> {
    let script = plotly_script().ok_or(PageError::NoScript)?;
    let mut page = String::with_capacity(script.len() + (4 << 20));
    let seen = results.iter().filter(|r| r.seen).count();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>fullpipe: the figures</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{seen} of {} figures seen</h1>\n<nav>\n",
        results.len()
    );
    for r in results {
        let (mark, class) = if r.seen { ("✓", "seen") } else { ("✗", "missed") };
        let _ = writeln!(page, "<a class=\"{class}\" href=\"#{}\">{mark} {}</a>", r.name, r.name);
    }
    page.push_str("</nav>\n");
    for r in results {
        section(&mut page, r, backend);
    }
    let version = env!("CARGO_PKG_VERSION");
    let how = if backend.is_realtime() { "real packets" } else { "simulated" };
    let _ = write!(
        page,
        "<footer>fullpipe {version}, {how}. Drag to zoom, double-click to return; panels of one time \
         zoom together. Keys: j and k go to the next figure and back.</footer>\n{script}\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    Ok(page)
}

fn section(page: &mut String, r: &FigureResult, backend: BackendChoice) {
    let figure = FIGURES.iter().find(|f| f.name == r.name);
    let (title, source) = figure.map_or(("", ""), |f| (f.title, f.source));
    let (verdict, class) = if r.seen { ("seen", "seen") } else { ("not seen", "missed") };
    let _ = write!(
        page,
        "<section id=\"{}\" tabindex=\"-1\">\n<h2>{}: {} <span class=\"{class}\">{verdict}</span></h2>\n\
         <p class=\"source\">{}</p>\n",
        r.name,
        r.name,
        escape(title),
        escape(source)
    );
    checks(page, r);
    if !r.drawing.panels.is_empty() {
        let height = height_of(&r.drawing);
        let plot = json!({ "data": data(&r.drawing), "layout": layout(&r.drawing) });
        // In a script element only "</" could end it.
        let plot = plot.to_string().replace("</", "<\\/");
        let _ = write!(
            page,
            "<div class=\"plot\" id=\"plot-{}\" style=\"height:{height:.0}px\"></div>\n\
             <script type=\"application/json\" class=\"figure\" data-plot=\"plot-{}\">{plot}</script>\n",
            r.name, r.name
        );
        legend(page, &r.drawing);
    }
    for table in &r.drawing.tables {
        rows(page, table);
    }
    let again = match backend.is_realtime() {
        true => format!(" --backend {backend}"),
        false => String::new(),
    };
    let shorter = r.shortened.as_ref().map_or_else(String::new, |s| format!(" Shortened: {s}."));
    let _ = write!(
        page,
        "<p class=\"detail\">{}.{}</p>\n<p>Again: <code>fullpipe figures {}{again}</code></p>\n</section>\n",
        escape(&r.detail),
        escape(&shorter),
        r.name
    );
}

/// What had to be seen, and was.
fn checks(page: &mut String, r: &FigureResult) {
    page.push_str("<table class=\"checks\"><tbody>\n");
    for (figure, target) in r.figure.split("; ").zip(r.target.split("; ")) {
        let _ = writeln!(page, "<tr><td>{}</td><td>{}</td></tr>", escape(figure), escape(target));
    }
    page.push_str("</tbody></table>\n");
}

fn rows(page: &mut String, table: &Table) {
    let Some((header, rows)) = table.rows.split_first() else { return };
    page.push_str("<table class=\"rows\"><thead><tr>");
    for cell in header {
        let _ = write!(page, "<th>{}</th>", escape(cell));
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table>\n");
}

/// The colours of the bands, where states stand behind the lines.
fn legend(page: &mut String, drawing: &Drawing) {
    let labels = || drawing.panels.iter().flat_map(|p| &p.bands).map(|b| b.label.as_str());
    let known: Vec<_> = BANDS.iter().filter(|(name, _)| labels().any(|l| l == *name)).collect();
    if known.is_empty() {
        return;
    }
    page.push_str("<p class=\"bands\">Behind the lines bbr3's state:");
    for (name, colour) in known {
        let _ = write!(page, " <span class=\"key\" style=\"background:{colour}\"></span>{name}");
    }
    page.push_str("</p>\n");
}

pub(super) fn height(panel: &Panel) -> f64 {
    if panel.height > 0.0 { panel.height } else { 1.0 }
}

fn height_of(drawing: &Drawing) -> f64 {
    let single = if drawing.panels.len() == 1 { 1.8 } else { 1.0 };
    drawing.panels.iter().map(|p| PANEL_PX * height(p) * single + GAP_PX).sum::<f64>() + 50.0
}

/// Where each panel lies, from the bottom at 0 to the top at 1.
fn domains(drawing: &Drawing) -> Vec<[f64; 2]> {
    let total: f64 = drawing.panels.iter().map(|p| PANEL_PX * height(p) + GAP_PX).sum();
    let mut top = 1.0;
    let mut domains = Vec::new();
    for panel in &drawing.panels {
        let high = top - 0.5 * GAP_PX / total;
        let low = high - PANEL_PX * height(panel) / total;
        domains.push([low.max(0.0), high]);
        top = low - 0.5 * GAP_PX / total;
    }
    domains
}

/// `x`, `x2`, `x3`: the name of the i-th axis in a trace; in the layout it has `axis` in it.
fn axis(letter: &str, i: usize) -> String {
    if i == 0 { letter.to_owned() } else { format!("{letter}{}", i + 1) }
}

pub(super) fn colour(name: &str) -> &'static str {
    COLOURS.iter().find(|(n, _)| *n == name).map_or("#888888", |(_, c)| c)
}

fn data(drawing: &Drawing) -> Vec<Value> {
    let mut traces = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for (i, panel) in drawing.panels.iter().enumerate() {
        for line in &panel.lines {
            let first = !named.contains(&line.name.as_str());
            named.push(&line.name);
            traces.push(trace(panel, line, i, first));
        }
    }
    traces
}

fn trace(panel: &Panel, line: &Line, i: usize, in_legend: bool) -> Value {
    let (x, y) = thin(&line.x, &line.y);
    let colour = colour(&line.colour);
    let mut trace = json!({
        "name": line.name, "legendgroup": line.name, "showlegend": in_legend,
        "x": numbers(&x), "y": numbers(&y), "xaxis": axis("x", i), "yaxis": axis("y", i),
    });
    if line.kind == Kind::Bars {
        trace["type"] = "bar".into();
        trace["marker"] = json!({ "color": colour });
        trace["x"] =
            x.iter().map(|&x| panel.names.get(x as usize).cloned().unwrap_or_default()).collect();
        return trace;
    }
    let dashed = line.kind == Kind::Dashed;
    trace["type"] = "scatter".into();
    trace["mode"] = if line.kind == Kind::Marked { "lines+markers" } else { "lines" }.into();
    let shape = if line.kind == Kind::Steps { "hv" } else { "linear" };
    let (dash, width) = if dashed { ("dash", 1.2) } else { ("solid", 1.6) };
    trace["line"] = json!({ "color": colour, "width": width, "dash": dash, "shape": shape });
    trace
}

/// Few enough points, with the lowest and the highest of those left out.
pub(super) fn thin(x: &[f64], y: &[f64]) -> (Vec<f64>, Vec<f64>) {
    if x.len() <= MAX_POINTS {
        return (x.to_vec(), y.to_vec());
    }
    let bucket = x.len().div_ceil(MAX_POINTS / 2);
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    for start in (0..x.len()).step_by(bucket) {
        let end = (start + bucket).min(x.len());
        let by_value = |a: &usize, b: &usize| y[*a].total_cmp(&y[*b]);
        let valid = || (start..end).filter(|i| !y[*i].is_nan());
        let (Some(low), Some(high)) = (valid().min_by(by_value), valid().max_by(by_value)) else {
            xs.push(x[start]);
            ys.push(f64::NAN);
            continue;
        };
        for i in [low.min(high), low.max(high)] {
            xs.push(x[i]);
            ys.push(y[i]);
        }
    }
    (xs, ys)
}

/// With as many digits as a screen has pixels; what is not a number is a gap.
fn numbers(values: &[f64]) -> Vec<Value> {
    let short = |v: &f64| {
        if !v.is_finite() {
            return Value::Null;
        }
        let text = format!("{v:.4e}");
        text.parse::<f64>().map_or(Value::Null, Value::from)
    };
    values.iter().map(short).collect()
}

fn layout(drawing: &Drawing) -> Value {
    let mut layout = json!({
        "margin": { "l": 60, "r": 16, "t": 30, "b": 44 },
        "font": { "family": "system-ui, sans-serif", "size": 12 },
        "hovermode": "x unified",
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": { "orientation": "h", "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom" },
        "barmode": "group",
    });
    let (mut shapes, mut notes) = (Vec::new(), Vec::new());
    let domains = domains(drawing);
    for (i, (panel, domain)) in drawing.panels.iter().zip(&domains).enumerate() {
        // Panels over one and the same axis move together, and only the last has its words.
        let first = drawing.panels.iter().position(|p| p.x == panel.x).unwrap_or(i);
        let is_last = drawing.panels.iter().rposition(|p| p.x == panel.x) == Some(i);
        let mut x = json!({ "anchor": axis("y", i), "zeroline": false });
        if is_last {
            x["title"] = json!({ "text": panel.x, "standoff": 4 });
        }
        if panel.names.is_empty() && first < i {
            x["matches"] = axis("x", first).into();
        }
        let mut y = json!({ "anchor": axis("x", i), "domain": domain, "zeroline": false, "title": { "text": panel.y } });
        y["rangemode"] = "tozero".into();
        for (axis, scale) in [(&mut x, panel.scales.0), (&mut y, panel.scales.1)] {
            if scale == Scale::Log {
                axis["type"] = "log".into();
                axis["dtick"] = 1.into();
            }
        }
        layout[axis("xaxis", i)] = x;
        layout[axis("yaxis", i)] = y;
        notes.push(json!({
            "text": format!("<b>{}</b>", escape(&panel.title)), "showarrow": false,
            "xref": "paper", "x": 0, "xanchor": "left", "yref": "paper",
            "y": domain[1] + 3.0 / height_of(drawing), "yanchor": "bottom",
        }));
        bands(&panel.bands, i, &mut shapes, &mut notes);
    }
    layout["shapes"] = shapes.into();
    layout["annotations"] = notes.into();
    layout
}

/// States as areas behind the lines; other bands as a row of words above them.
fn bands(bands: &[Band], i: usize, shapes: &mut Vec<Value>, notes: &mut Vec<Value>) {
    let (xref, yref) = (axis("x", i), format!("{} domain", axis("y", i)));
    let whole = bands.last().map_or(0.0, |b| b.to) - bands.first().map_or(0.0, |b| b.from);
    for (k, band) in bands.iter().enumerate() {
        let state = BANDS.iter().find(|(name, _)| *name == band.label);
        let (fill, opacity) =
            state.map_or(("#888888", if k % 2 == 0 { 0.18 } else { 0.06 }), |s| (s.1, 0.16));
        let y0 = if state.is_some() { 0.0 } else { 0.82 };
        shapes.push(json!({
            "type": "rect", "layer": "below", "xref": xref, "yref": yref, "x0": band.from, "x1": band.to,
            "y0": y0, "y1": 1, "fillcolor": fill, "opacity": opacity, "line": { "width": 0 },
        }));
        if state.is_none() && band.to - band.from > 0.02 * whole {
            notes.push(json!({
                "text": escape(&band.label), "showarrow": false, "font": { "size": 10 },
                "xref": xref, "x": (band.from + band.to) / 2.0, "yref": yref, "y": 0.91, "yanchor": "middle",
            }));
        }
    }
}

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/draw.js");
