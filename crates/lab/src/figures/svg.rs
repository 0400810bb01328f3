//! A figure as a picture for a paper: what the page shows, in black on white, as SVG.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

use super::FigureResult;
use super::drawing::{Band, Drawing, Kind, Line, Panel};
use super::page::{BANDS, colour, height, thin};
use super::ticks::Axis;
use crate::output::page::{self, PageError};

/// Pixels of a picture: a page's width at 12 pixels a line.
const WIDTH: u32 = 760;
/// Of a panel of height 1, of its title, and of the words below the last.
const PANEL: f64 = 130.0;
const TITLE: u32 = 20;
const BELOW: u32 = 36;
/// Above the legend, and below the last words.
const EDGE: u32 = 8;
/// Of a line of the legend.
const ROW: u32 = 18;
/// To the left of the panels: the vertical axis and its words.
const LEFT: u32 = 56;
const RIGHT: u32 = 12;

const FONT: &str = "sans-serif";
const TEXT: f64 = 12.0;
/// About what a character of the text takes.
const CHARACTER: f64 = 6.6;
const GREY: RGBColor = RGBColor(110, 110, 110);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// Writes `NAME.svg` into a directory for each figure that has something drawn. The names of the files.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path, results: &[FigureResult]) -> Result<Vec<String>, PageError> {
    let mut names = Vec::new();
    for result in results.iter().filter(|r| !r.drawing.panels.is_empty()) {
        let name = format!("{}.svg", result.name);
        page::write_text(&dir.join(&name), &render(&result.drawing)?)?;
        names.push(name);
    }
    Ok(names)
}

/// The picture as text.
///
/// # Errors
/// [`PageError::Svg`] when the plotting library refuses something, which is a bug.
pub fn render(drawing: &Drawing) -> Result<String, PageError> {
    let mut text = String::new();
    draw(drawing, &mut text).map_err(|e| PageError::Svg(e.to_string()))?;
    Ok(text)
}

fn draw(drawing: &Drawing, text: &mut String) -> Result<(), DrawError> {
    let entries = entries(drawing);
    let legend_rows = entries.last().map_or(0, |e| e.row + 1);
    let single = if drawing.panels.len() == 1 { 2.0 } else { 1.0 };
    let heights: Vec<u32> = drawing
        .panels
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let below = if names_its_axis(drawing, i) { BELOW } else { 10 };
            (PANEL * single * height(p)) as u32 + TITLE + below
        })
        .collect();
    let whole = EDGE + legend_rows * ROW + heights.iter().sum::<u32>() + EDGE;
    let root = SVGBackend::with_string(text, (WIDTH, whole)).into_drawing_area();
    root.fill(&WHITE)?;
    let (_, root) = root.split_vertically(EDGE);
    let (head, mut rest) = root.split_vertically(legend_rows * ROW);
    legend(&head, &entries)?;
    for (i, (panel, high)) in drawing.panels.iter().zip(heights).enumerate() {
        let (here, below) = rest.split_vertically(high);
        rest = below;
        draw_panel(&here, drawing, panel, names_its_axis(drawing, i))?;
    }
    root.present()
}

/// Of panels over one axis only the last says what it is.
fn names_its_axis(drawing: &Drawing, i: usize) -> bool {
    let x = &drawing.panels[i].x;
    drawing.panels.iter().rposition(|p| p.x == *x) == Some(i)
}

/// A name in the legend, and its place.
struct Entry {
    name: String,
    colour: RGBColor,
    dashed: bool,
    area: bool,
    row: u32,
    x: f64,
}

/// Every line once, and every state behind them.
fn entries(drawing: &Drawing) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut add = |name: &str, colour: &str, dashed: bool, area: bool| {
        if entries.iter().any(|e| e.name == name) {
            return;
        }
        let wide = |name: &str| name.chars().count() as f64 * CHARACTER + 46.0;
        let (mut row, mut x) =
            entries.last().map_or((0, f64::from(LEFT)), |e| (e.row, e.x + wide(&e.name)));
        if x + wide(name) > f64::from(WIDTH) {
            (row, x) = (row + 1, f64::from(LEFT));
        }
        entries.push(Entry { name: name.to_owned(), colour: rgb(colour), dashed, area, row, x });
    };
    for line in drawing.panels.iter().flat_map(|p| &p.lines) {
        add(&line.name, colour(&line.colour), line.kind == Kind::Dashed, line.kind == Kind::Bars);
    }
    let labels = || drawing.panels.iter().flat_map(|p| &p.bands).map(|b| b.label.as_str());
    for (name, colour) in BANDS.iter().filter(|(name, _)| labels().any(|l| l == *name)) {
        add(name, colour, false, true);
    }
    entries
}

fn legend(area: &Area<'_>, entries: &[Entry]) -> Result<(), DrawError> {
    for e in entries {
        let (x, y) = (e.x as i32, (e.row * ROW + ROW / 2) as i32);
        if e.area {
            let corners = [(x, y - 5), (x + 24, y + 5)];
            area.draw(&Rectangle::new(corners, e.colour.mix(0.5).filled()))?;
        } else if e.dashed {
            for dash in 0..3 {
                let from = x + dash * 9;
                area.draw(&PathElement::new([(from, y), (from + 6, y)], e.colour.stroke_width(2)))?;
            }
        } else {
            area.draw(&PathElement::new([(x, y), (x + 24, y)], e.colour.stroke_width(2)))?;
        }
        area.draw(&Text::new(e.name.clone(), (x + 30, y - 6), (FONT, TEXT)))?;
    }
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    drawing: &Drawing,
    panel: &Panel,
    names_axis: bool,
) -> Result<(), DrawError> {
    let x = horizontal(drawing, panel);
    let values = panel.lines.iter().flat_map(|l| l.y.iter().copied());
    let y = Axis::of(panel.scales.1, values, true, 4);
    let title = (panel.title.as_str(), (FONT, TEXT + 1.0));
    let mut chart = ChartBuilder::on(area)
        .caption(title.0, title.1)
        .margin_left(6)
        .margin_right(RIGHT)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, if names_axis { BELOW } else { 6 })
        .build_cartesian_2d(x.clone(), y.clone())?;
    for (k, band) in panel.bands.iter().enumerate() {
        chart.draw_series(band_areas(band, k, &x, &y))?;
    }
    let horizontal_label = |mark: &f64| if names_axis { x.label(*mark) } else { String::new() };
    let vertical_label = |mark: &f64| y.label(*mark);
    let mut mesh = chart.configure_mesh();
    mesh.disable_mesh()
        .x_labels(x.marks.len().max(1))
        .y_labels(y.marks.len().max(1))
        .x_label_formatter(&horizontal_label)
        .y_label_formatter(&vertical_label)
        .axis_style(GREY)
        .label_style((FONT, TEXT - 1.0))
        .axis_desc_style((FONT, TEXT))
        .y_desc(panel.y.as_str());
    if names_axis {
        mesh.x_desc(panel.x.as_str());
    }
    mesh.draw()?;
    let bars = panel.lines.iter().filter(|l| l.kind == Kind::Bars).count();
    let mut bar = 0;
    for line in &panel.lines {
        let paint = rgb(colour(&line.colour));
        if line.kind == Kind::Bars {
            let rectangles = bar_areas(line, (bar, bars), &x, &y);
            chart.draw_series(rectangles.map(|r| Rectangle::new(r, paint.mix(0.8).filled())))?;
            bar += 1;
            continue;
        }
        for piece in pieces(line, &x, &y) {
            match line.kind {
                Kind::Dashed => {
                    let points = piece.into_iter();
                    chart.draw_series(DashedLineSeries::new(
                        points,
                        6,
                        4,
                        paint.stroke_width(1),
                    ))?;
                }
                _ => {
                    if line.kind == Kind::Marked {
                        let dots = piece.iter().map(|p| Circle::new(*p, 2, paint.filled()));
                        chart.draw_series(dots)?;
                    }
                    chart.draw_series(LineSeries::new(piece, paint.stroke_width(1)))?;
                }
            }
        }
    }
    for band in panel.bands.iter().filter(|b| !is_state(b)) {
        let wide = (band.to - band.from) / (x.to - x.from) * f64::from(WIDTH - LEFT);
        if wide > band.label.chars().count() as f64 * CHARACTER {
            let place = (band.from, y.from + 0.96 * (y.to - y.from));
            chart.draw_series([Text::new(band.label.clone(), place, (FONT, TEXT - 2.0))])?;
        }
    }
    Ok(())
}

/// The axis of all panels that share it.
fn horizontal(drawing: &Drawing, panel: &Panel) -> Axis {
    if !panel.names.is_empty() {
        return Axis::of_names(panel.names.clone());
    }
    let alike = drawing.panels.iter().filter(|p| p.x == panel.x && p.names.is_empty());
    let values = alike.flat_map(|p| &p.lines).flat_map(|l| l.x.iter().copied());
    Axis::of(panel.scales.0, values, false, 8)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value - self.from) / (self.to - self.from);
        low + (f64::from(high - low) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, mark: &f64) -> String {
        self.label(*mark)
    }
}

fn is_state(band: &Band) -> bool {
    BANDS.iter().any(|(name, _)| *name == band.label)
}

/// States over the whole height, other bands as a row at the top.
fn band_areas(band: &Band, k: usize, x: &Axis, y: &Axis) -> Vec<Rectangle<(f64, f64)>> {
    let state = BANDS.iter().find(|(name, _)| *name == band.label);
    let (low, fill) = match state {
        Some((_, colour)) => (y.from, rgb(colour).mix(0.18)),
        None => (
            y.from + 0.84 * (y.to - y.from),
            GREY.mix(if k.is_multiple_of(2) { 0.25 } else { 0.1 }),
        ),
    };
    let (from, to) = (x.place(band.from).max(x.from), x.place(band.to).min(x.to));
    if from < to {
        vec![Rectangle::new([(from, low), (to, y.to)], fill.filled())]
    } else {
        Vec::new()
    }
}

/// The bars of a line that is one of several side by side.
fn bar_areas<'a>(
    line: &'a Line,
    (which, of): (usize, usize),
    x: &'a Axis,
    y: &'a Axis,
) -> impl Iterator<Item = [(f64, f64); 2]> + 'a {
    let width = 0.8 / of.max(1) as f64;
    let left = -0.4 + which as f64 * width;
    let points = line.x.iter().zip(&line.y).map(|(a, b)| (x.place(*a), y.place(*b)));
    let real = points.filter(|(a, b)| a.is_finite() && b.is_finite());
    real.map(move |(a, b)| [(a + left, y.from), (a + left + 0.94 * width, b)])
}

/// What a line draws in one go: from one gap to the next.
fn pieces(line: &Line, x: &Axis, y: &Axis) -> Vec<Vec<(f64, f64)>> {
    let (xs, ys) = thin(&line.x, &line.y);
    let mut pieces = vec![Vec::new()];
    for (a, b) in xs.into_iter().zip(ys) {
        let (a, b) = (x.place(a), y.place(b));
        if !a.is_finite() || !b.is_finite() {
            pieces.push(Vec::new());
            continue;
        }
        if let Some(piece) = pieces.last_mut() {
            if line.kind == Kind::Steps
                && let Some(&(_, before)) = piece.last()
            {
                piece.push((a, before));
            }
            piece.push((a, b));
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Of `#rrggbb`; grey of anything else.
fn rgb(colour: &str) -> RGBColor {
    let number = colour.strip_prefix('#').and_then(|hex| u32::from_str_radix(hex, 16).ok());
    number.map_or(GREY, |n| {
        let [_, r, g, b] = n.to_be_bytes();
        RGBColor(r, g, b)
    })
}

#[cfg(test)]
mod tests;
