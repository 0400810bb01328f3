//! Drawings as SVG: in black on white for a paper, without a background and in several widths for a
//! page.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

use super::axis::PlotAxis;
use super::{Band, Drawing, Kind, Line, Panel, PlotError, STATES, colour};

/// The format of a picture. Lengths are in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    width: u32,
    /// Of a panel of height 1.
    panel: f64,
    /// White behind everything.
    paper: bool,
    legend: bool,
    /// About so many marks on the horizontal axis.
    marks: usize,
    /// The most points of a line: a screen shows no more.
    points: usize,
}

impl Format {
    /// A file for a paper: a page's width at 12 pixels a line.
    pub(crate) const PAPER: Self =
        Self { width: 760, panel: 130.0, paper: true, legend: true, marks: 8, points: 1600 };
    /// A page in a wide window.
    pub(crate) const WIDE: Self =
        Self { width: 1000, panel: 150.0, paper: false, legend: true, marks: 10, points: 1000 };
    /// A page on a telephone.
    pub(crate) const NARROW: Self =
        Self { width: 372, panel: 130.0, paper: false, legend: true, marks: 4, points: 400 };
    /// One of many beside each other.
    pub(crate) const SMALL: Self =
        Self { width: 300, panel: 120.0, paper: false, legend: false, marks: 4, points: 300 };
}

/// Of a panel's title, and of the words below the last.
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

/// A picture, and where its panels are.
pub(crate) struct Picture {
    pub(crate) svg: String,
    /// One for each panel.
    pub(crate) places: Vec<PanelArea>,
}

/// A panel's coordinate system inside a picture.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct PanelArea {
    /// Left, top, right and bottom in pixels.
    pixels: [i32; 4],
    /// From where to where the axes go; of a logarithmic one, powers of ten.
    x: [f64; 2],
    y: [f64; 2],
}

/// Draws all panels of a drawing, one below the other.
///
/// # Errors
/// The plotting library refuses something, which is a bug.
pub(crate) fn render(drawing: &Drawing, format: Format) -> Result<Picture, PlotError> {
    let mut svg = String::new();
    let places = draw(drawing, format, &mut svg).map_err(|e| PlotError(e.to_string()))?;
    Ok(Picture { svg, places })
}

fn draw(drawing: &Drawing, format: Format, text: &mut String) -> Result<Vec<PanelArea>, DrawError> {
    let entries = if format.legend { entries(drawing, format.width) } else { Vec::new() };
    let legend_rows = entries.last().map_or(0, |e| e.row + 1);
    let single = if drawing.panels.len() == 1 && format.legend { 2.0 } else { 1.0 };
    let heights: Vec<u32> = drawing
        .panels
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let below = if names_its_axis(drawing, i) { BELOW } else { 10 };
            (format.panel * single * p.relative_height()) as u32 + TITLE + below
        })
        .collect();
    let whole = EDGE + legend_rows * ROW + heights.iter().sum::<u32>() + EDGE;
    let root = SVGBackend::with_string(text, (format.width, whole)).into_drawing_area();
    if format.paper {
        root.fill(&WHITE)?;
    }
    let (_, root) = root.split_vertically(EDGE);
    let (head, mut rest) = root.split_vertically(legend_rows * ROW);
    legend(&head, &entries)?;
    let mut places = Vec::with_capacity(drawing.panels.len());
    for (i, (panel, high)) in drawing.panels.iter().zip(heights).enumerate() {
        let (here, below) = rest.split_vertically(high);
        rest = below;
        places.push(draw_panel(&here, drawing, panel, names_its_axis(drawing, i), format)?);
    }
    root.present()?;
    Ok(places)
}

/// Of panels over one axis only the last says what it is.
fn names_its_axis(drawing: &Drawing, i: usize) -> bool {
    let x = &drawing.panels[i].x;
    drawing.panels.iter().rposition(|p| p.x == *x) == Some(i)
}

/// A name in the legend, and its place.
struct LegendEntry {
    name: String,
    colour: RGBColor,
    kind: Kind,
    row: u32,
    x: f64,
}

/// Every line once, and every state behind them.
fn entries(drawing: &Drawing, width: u32) -> Vec<LegendEntry> {
    let mut entries: Vec<LegendEntry> = Vec::new();
    let mut add = |name: &str, colour: &str, kind: Kind| {
        if entries.iter().any(|e| e.name == name) {
            return;
        }
        let wide = |name: &str| name.chars().count() as f64 * CHARACTER + 46.0;
        let (mut row, mut x) =
            entries.last().map_or((0, f64::from(LEFT)), |e| (e.row, e.x + wide(&e.name)));
        if x + wide(name) > f64::from(width) && x > f64::from(LEFT) {
            (row, x) = (row + 1, f64::from(LEFT));
        }
        entries.push(LegendEntry { name: name.to_owned(), colour: rgb(colour), kind, row, x });
    };
    for line in drawing.panels.iter().flat_map(|p| &p.lines) {
        add(&line.name, colour(&line.colour), line.kind);
    }
    let labels = || drawing.panels.iter().flat_map(|p| &p.bands).map(|b| b.label.as_str());
    for (name, colour) in STATES.iter().filter(|(name, _)| labels().any(|l| l == *name)) {
        add(name, colour, Kind::Bars);
    }
    entries
}

fn legend(area: &Area<'_>, entries: &[LegendEntry]) -> Result<(), DrawError> {
    for e in entries {
        let (x, y) = (e.x as i32, (e.row * ROW + ROW / 2) as i32);
        match e.kind {
            Kind::Bars | Kind::Area => {
                let corners = [(x, y - 5), (x + 24, y + 5)];
                area.draw(&Rectangle::new(corners, e.colour.mix(0.5).filled()))?;
            }
            Kind::Dashed => {
                for dash in 0..3 {
                    let ends = [(x + dash * 9, y), (x + dash * 9 + 6, y)];
                    area.draw(&PathElement::new(ends, e.colour.stroke_width(2)))?;
                }
            }
            Kind::Dots => area.draw(&Circle::new((x + 12, y), 3, e.colour.filled()))?,
            Kind::Line | Kind::Marked | Kind::Steps => {
                area.draw(&PathElement::new([(x, y), (x + 24, y)], e.colour.stroke_width(2)))?;
            }
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
    format: Format,
) -> Result<PanelArea, DrawError> {
    let x = horizontal(drawing, panel, format.marks);
    let values = panel.lines.iter().flat_map(|l| l.y.iter().copied());
    let y = match panel.most {
        Some(most) => PlotAxis::until(most, 4),
        None => PlotAxis::of(panel.scales.1, values, true, 4),
    };
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
            chart.draw_series(rectangles.map(|r| Rectangle::new(r, paint.filled())))?;
            bar += 1;
            continue;
        }
        if line.kind == Kind::Dots {
            let places = line.x.iter().zip(&line.y).map(|(a, b)| (x.place(*a), y.place(*b)));
            let real = places.filter(|(a, b)| a.is_finite() && b.is_finite());
            chart.draw_series(real.map(|place| Circle::new(place, 2, paint.filled())))?;
            continue;
        }
        for piece in pieces(line, &x, &y, format.points) {
            match line.kind {
                Kind::Area => {
                    let ends = piece.first().into_iter().chain(piece.last());
                    let [first, last] = [0, 1].map(|i| ends.clone().nth(i).map_or(0.0, |p| p.0));
                    // An axis may end below the values.
                    let top = piece.into_iter().map(|(a, b)| (a, b.min(y.to)));
                    let all: Vec<_> = top.chain([(last, y.from), (first, y.from)]).collect();
                    chart.draw_series([Polygon::new(all, paint.mix(0.25))])?;
                }
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
        let wide = (band.to - band.from) / (x.to - x.from) * f64::from(format.width - LEFT);
        if wide > band.label.chars().count() as f64 * CHARACTER {
            let place = (band.from, y.from + 0.96 * (y.to - y.from));
            chart.draw_series([Text::new(band.label.clone(), place, (FONT, TEXT - 2.0))])?;
        }
    }
    let (across, down) = chart.plotting_area().get_pixel_range();
    Ok(PanelArea {
        pixels: [across.start, down.start, across.end, down.end],
        x: [x.from, x.to],
        y: [y.from, y.to],
    })
}

/// The axis of all panels that share it.
fn horizontal(drawing: &Drawing, panel: &Panel, marks: usize) -> PlotAxis {
    if !panel.names.is_empty() {
        return PlotAxis::of_names(panel.names.clone());
    }
    let alike = drawing.panels.iter().filter(|p| p.x == panel.x && p.names.is_empty());
    let values = alike.flat_map(|p| &p.lines).flat_map(|l| l.x.iter().copied());
    PlotAxis::of(panel.scales.0, values, false, marks)
}

impl Ranged for PlotAxis {
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

impl ValueFormatter<f64> for PlotAxis {
    fn format_ext(&self, mark: &f64) -> String {
        self.label(*mark)
    }
}

fn is_state(band: &Band) -> bool {
    STATES.iter().any(|(name, _)| *name == band.label)
}

/// States over the whole height, other bands as a row at the top.
fn band_areas(band: &Band, k: usize, x: &PlotAxis, y: &PlotAxis) -> Vec<Rectangle<(f64, f64)>> {
    let state = STATES.iter().find(|(name, _)| *name == band.label);
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
    x: &'a PlotAxis,
    y: &'a PlotAxis,
) -> impl Iterator<Item = [(f64, f64); 2]> + 'a {
    let width = 0.8 / of.max(1) as f64;
    let left = -0.4 + which as f64 * width;
    let points = line.x.iter().zip(&line.y).map(|(a, b)| (x.place(*a), y.place(*b)));
    let real = points.filter(|(a, b)| a.is_finite() && b.is_finite());
    real.map(move |(a, b)| [(a + left, y.from), (a + left + 0.94 * width, b)])
}

/// Connected pieces of a line, from one gap to the next.
fn pieces(line: &Line, x: &PlotAxis, y: &PlotAxis, most: usize) -> Vec<Vec<(f64, f64)>> {
    let (xs, ys) = thin(&line.x, &line.y, most);
    let mut pieces = vec![Vec::new()];
    for (a, b) in xs.into_iter().zip(ys) {
        let (a, b) = (x.place(a), y.place(b));
        if !a.is_finite() || !b.is_finite() {
            pieces.push(Vec::new());
            continue;
        }
        if let Some(piece) = pieces.last_mut() {
            if matches!(line.kind, Kind::Steps | Kind::Area)
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

/// At most so many points, with the lowest and the highest of those left out.
pub(crate) fn thin(x: &[f64], y: &[f64], most: usize) -> (Vec<f64>, Vec<f64>) {
    if x.len() <= most {
        return (x.to_vec(), y.to_vec());
    }
    let bucket = x.len().div_ceil((most / 2).max(1));
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
