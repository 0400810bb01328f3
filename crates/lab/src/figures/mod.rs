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
mod drawing;
mod fairness;
mod loss;
mod nsperf;
mod outcome;
pub mod page;
mod quiche;
mod smoltcp;
mod stage;
mod startup;
mod wan;

use std::sync::atomic::AtomicBool;

use serde::Serialize;

pub use catalogue::FIGURES;
pub use drawing::{Drawing, Kind, Line, Panel, Scale, Table};
use outcome::Outcome;
use stage::{Broken, Stage};

/// A figure that can be run.
#[derive(Debug)]
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    run: fn(&Stage<'_>) -> Result<Outcome, Broken>,
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

impl Figure {
    /// Runs it, at its published length with `full`; `None` when `stop` was set before it was through.
    ///
    /// # Errors
    /// A path or a flow of it makes no sense, which is a bug.
    pub fn run(&self, full: bool, stop: &AtomicBool) -> Option<FigureResult> {
        let stage = Stage::new(full, stop);
        match (self.run)(&stage) {
            Ok(outcome) => Some(outcome.result(self.name, stage.shortened())),
            Err(Broken::Stopped) => None,
            Err(Broken::Sim(error)) => Some(FigureResult {
                name: self.name,
                seen: false,
                figure: "nothing".to_owned(),
                target: self.title.to_owned(),
                detail: error.to_string(),
                shortened: None,
                drawing: Drawing::default(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
