//! The metrics: their names, what can be asked of a run, and how each is computed. docs/results.md has
//! the formulas in words.

mod course;
mod formulas;
mod measure;
mod metric;
mod outcome;
mod probe;
mod sampled;

pub use formulas::*;
pub use metric::{Level, Metric, Stat};
pub use outcome::{Figures, FlowOutcome, Outcome};
pub use probe::Comparison;

pub(crate) use course::Course;
pub(crate) use measure::{Life, Mark, Measured, moments};
pub(crate) use probe::{Probe, Scope, Which, Window};
pub(crate) use sampled::{Column, Condition, Count};

/// Whether a run over quic brings this figure: what only the two applications could tell it does not.
pub(crate) fn is_measured_over_quic(probe: &Probe) -> bool {
    !matches!(
        probe.metric,
        Metric::Latency(_) | Metric::Completion(_) | Metric::Completions | Metric::Censored
    )
}
