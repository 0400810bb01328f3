//! The result of a case.

use std::fmt::{self, Display};

use fullpipe_lab::RunError;
use fullpipe_lab::backend::Gap;
use fullpipe_path::ConfigError;
use fullpipe_sim::SimError;

use super::model::in_words;

/// The reason for which a case does not pass.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// A step of the text did not happen.
    #[error("step {step} at {corner}: expected {expected}, saw {seen}")]
    Step {
        /// Its number in the text.
        step: u32,
        /// The path.
        corner: String,
        /// The behaviour that the text requires.
        expected: String,
        /// The behaviour seen.
        seen: String,
    },
    /// The case describes an invalid path.
    #[error(transparent)]
    Path(#[from] ConfigError),
    /// The case describes an invalid simulation.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The stack does not begin.
    #[error(transparent)]
    Stack(#[from] RunError),
    /// A step of the text needs variables that the controller does not show.
    #[error("{}", in_words(&.gaps.iter().map(|gap| (*.step, *gap)).collect::<Vec<_>>()))]
    Unseen {
        /// Its number in the text.
        step: u32,
        /// The variables.
        gaps: Vec<Gap>,
    },
    /// The stack can run none of the case's paths.
    #[error("none of its paths is one for this stack")]
    NoPath,
    /// The run was stopped early.
    #[error("stopped early")]
    Stopped,
}

/// The result of a case: the figures seen.
pub(super) type Outcome = Result<String, Broken>;
/// The result of a step.
pub(super) type Step = Result<(), Broken>;

/// From the lowest to the highest of the figures seen.
#[derive(Clone, Copy, Default)]
pub(super) struct Span(Option<(f64, f64)>);

impl Span {
    pub(super) fn add(&mut self, value: f64) {
        let (low, high) = self.0.unwrap_or((value, value));
        self.0 = Some((low.min(value), high.max(value)));
    }

    /// Takes in another one.
    pub(super) fn join(&mut self, other: Self) {
        for value in other.0.into_iter().flat_map(|(low, high)| [low, high]) {
            self.add(value);
        }
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(0);
        let Some((low, high)) = self.0 else { return f.write_str("nothing") };
        let (low, high) = (format!("{low:.digits$}"), format!("{high:.digits$}"));
        if low == high { f.write_str(&low) } else { write!(f, "{low}-{high}") }
    }
}
