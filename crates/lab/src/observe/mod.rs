//! Progress of a run, and its series as it is made.

mod progress;
mod recorder;

pub use progress::Progress;

pub(crate) use progress::{PathNow, ProgressTicker, RunLimits, STALL};
pub(crate) use recorder::{Recorder, Sampling};
