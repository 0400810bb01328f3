//! The figures of the papers, each as something that can be run: what must be seen is checked, what was
//! seen is drawn.
//!
//! A figure runs real controllers in the simulator, on the path that its paper describes. It is the
//! same on every machine. What a paper leaves open (often the buffer) stands beside the figure.

mod access;
mod adaptive;
mod aggregation;
mod asymptotes;
mod catalogue;
mod checks;
mod drawing;
mod fairness;
mod interop;
#[cfg(target_os = "linux")]
pub mod kernel;
mod loss;
mod nsperf;
pub mod page;
mod quiche;
mod rfc9743;
mod run;
mod runs;
mod smoltcp;
mod startup;
pub mod svg;
mod ticks;
mod wan;

use serde::Serialize;

pub use catalogue::FIGURES;
use checks::Checks;
pub use drawing::{Drawing, Kind, Line, Panel, Scale, Table};
pub use run::{News, run_all};
use runs::FileRuns;

/// A figure that can be run.
#[derive(Debug)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What runs, and what must be seen of it.
    files: &'static [File],
    /// Draws it, and looks for what a file cannot say.
    draw: fn(&mut Checks, &[FileRuns]),
}

/// A scenario file that is in the program.
#[derive(Debug)]
struct File {
    /// Where it is in the sources.
    name: &'static str,
    text: &'static str,
}

/// What came of a figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FigureResult {
    /// The figure's name.
    pub name: &'static str,
    /// Whether everything that must be seen was seen.
    pub seen: bool,
    /// What was measured, in the order of `target`.
    pub figure: String,
    /// What must be seen.
    pub target: String,
    /// Everything else that was measured, and what the paper left open.
    pub detail: String,
    /// What was made shorter in time than published, if anything was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortened: Option<String>,
    /// What is drawn.
    #[serde(skip)]
    pub drawing: Drawing,
}

#[cfg(test)]
mod tests;
