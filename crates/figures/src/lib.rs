//! The figures of the papers, each as something that can be run: what must be seen is checked, what
//! was seen is drawn.
//!
//! A figure runs real controllers in the simulator, on the path that its paper describes. It is the
//! same on every machine. What a paper leaves open (often the buffer) stands beside the figure.
#![forbid(unsafe_code)]

mod access;
mod adaptive;
mod aggregation;
mod amendments;
mod asymptotes;
mod catalogue;
mod checks;
mod fairness;
mod interop;
#[cfg(all(feature = "transports", target_os = "linux"))]
pub mod kernel;
mod l4s;
mod loss;
mod media;
mod nsperf;
pub mod page;
mod resume;
mod rfc9743;
mod run;
mod runs;
mod smoltcp;
mod startup;
mod swift;
mod wan;

use serde::Serialize;

pub use catalogue::FIGURES;
pub use checks::Check;
use checks::Checks;
pub use run::{News, run_all};
use runs::FileRuns;

use fullpipe_report::output::plot::Drawing;

/// A figure that can be run.
#[derive(Debug)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Scenario files to run, with the expectations to meet.
    files: &'static [File],
    /// Draws it, and looks for what a file cannot say.
    draw: fn(&mut Checks, &[FileRuns]),
}

/// A scenario file that is in the program.
#[derive(Debug)]
struct File {
    /// Its path in the sources.
    name: &'static str,
    text: &'static str,
}

/// Result of a figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FigureResult {
    /// The figure's name.
    pub name: &'static str,
    /// True if everything that must be seen was seen.
    pub seen: bool,
    /// True if each of its claims is met, or known not to be. A known failure that is met is a
    /// change.
    pub as_known: bool,
    /// Result of each claim.
    pub checks: Vec<Check>,
    /// Measured values, in the order of `target`.
    pub figure: String,
    /// Required values.
    pub target: String,
    /// Everything else that was measured, and what the paper left open.
    pub detail: String,
    /// Runs that are shorter than published, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortened: Option<String>,
    /// The drawing.
    #[serde(skip)]
    pub drawing: Drawing,
}

#[cfg(test)]
mod tests;
