//! Content of a drawing, independent of its rendering: panels with lines, bars and bands, and
//! tables. `svg` draws it, for the page as for a file.

mod axis;
mod palette;
pub(crate) mod svg;

pub(crate) use palette::{STATES, colour, colour_of_flow, on_page, picture_on_page, style};

/// A drawing that the plotting library refuses, which is a bug.
#[derive(Debug, thiserror::Error)]
#[error("a figure cannot be drawn, which is a bug: {0}")]
pub struct PlotError(String);

/// The way in which an axis counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By powers of ten.
    Log,
}

/// The way in which the points of a line are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Joined.
    #[default]
    Line,
    /// Joined, each with a mark.
    Marked,
    /// As steps: a value holds until the next.
    Steps,
    /// A limit or a truth, dashed.
    Dashed,
    /// The area below steps.
    Area,
    /// One bar a point.
    Bars,
    /// Not joined: a mark for each.
    Dots,
}

/// Values over an axis.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Whose colour it has: an algorithm, or `flow 0` and so on.
    pub colour: String,
    /// Places on the horizontal axis.
    pub x: Vec<f64>,
    /// Values; not a number leaves a gap.
    pub y: Vec<f64>,
    /// The way in which it is drawn.
    pub kind: Kind,
}

/// A time in one state, behind the lines.
#[derive(Clone, PartialEq, Debug)]
pub struct Band {
    /// From here.
    pub from: f64,
    /// To there.
    pub to: f64,
    /// The state, or what else is written into it.
    pub label: String,
}

/// One coordinate system.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// The horizontal axis, with its unit. Panels whose words are the same are zoomed together.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// Scales of the two axes.
    pub scales: (Scale, Scale),
    /// The lines.
    pub lines: Vec<Line>,
    /// The bands in the background.
    pub bands: Vec<Band>,
    /// Names in the places 0, 1, 2 of the horizontal axis, for bars.
    pub names: Vec<String>,
    /// Relative height; 0 means 1.
    pub height: f64,
    /// The vertical axis ends here, and what is above is drawn on its end; the title has to say so.
    pub most: Option<f64>,
}

/// Cells of text, the first row as header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CellTable {
    /// The header and the rows.
    pub rows: Vec<Vec<String>>,
}

/// All panels of a figure, from top to bottom, and its tables.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Drawing {
    /// The panels.
    pub panels: Vec<Panel>,
    /// The tables below them.
    pub tables: Vec<CellTable>,
}

impl Line {
    /// A line of this name, with the colour of that name.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let (x, y) = points.into_iter().unzip();
        let name = name.into();
        Self { colour: name.clone(), name, x, y, kind: Kind::Line }
    }

    /// The same, drawn in this way.
    pub fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same in the colour of this name.
    pub fn colour(self, colour: &str) -> Self {
        Self { colour: colour.to_owned(), ..self }
    }
}

impl Panel {
    pub(crate) fn relative_height(&self) -> f64 {
        if self.height > 0.0 { self.height } else { 1.0 }
    }

    /// A panel without lines: its title, and the words of its axes.
    pub fn new(title: &str, x: &str, y: &str) -> Self {
        Self { title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), ..Self::default() }
    }

    /// The same with one more line.
    pub fn with(mut self, line: Line) -> Self {
        self.lines.push(line);
        self
    }

    /// The same with these scales.
    pub fn scales(self, x: Scale, y: Scale) -> Self {
        Self { scales: (x, y), ..self }
    }

    /// The same with these times behind its lines.
    pub fn bands(self, bands: Vec<Band>) -> Self {
        Self { bands, ..self }
    }
}

impl CellTable {
    /// A table with this header.
    pub fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|h| (*h).to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl Drawing {
    /// An SVG file of a page's width.
    ///
    /// # Errors
    /// The plotting library refuses the drawing, which is a bug.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        svg::render(self, svg::Format::PAPER).map(|picture| picture.svg)
    }

    /// Panels without tables.
    pub fn of(panels: Vec<Panel>) -> Self {
        Self { panels, tables: Vec::new() }
    }

    /// The same with a table more.
    pub fn table(mut self, table: CellTable) -> Self {
        self.tables.push(table);
        self
    }
}
