//! The metrics: their names, what can be asked of a run, and how each is computed. docs/results.md
//! has the formulas in words.

mod distribution;
mod measure;
mod metric;
mod paired;
mod probe;
mod repeat;
mod result;
mod sampled;
mod series_values;

pub use measure::{Measurement, RunContext, moments};
pub use metric::{Level, Metric, Stat};
pub use paired::{Paired, paired};
pub use probe::{Comparison, Probe, Scope, Which, Window};
pub use repeat::{
    COMPARED, Change, Interval, Repeated, changes, mean_probes, mean_rows, over_seeds, repeated,
};
pub use result::{Figures, FlowResult, RunResult};

pub(crate) use sampled::{Column, Condition, Count};
pub(crate) use series_values::SeriesValues;
