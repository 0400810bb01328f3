//! Observations of a run by a backend: samples of flows and links, counters, and progress.

mod checkpoint;
mod emulator;
mod progress;
mod recorder;
mod sample;
mod series;

pub use checkpoint::histogram;
pub use emulator::{EmulatorRecord, Lateness};
pub use progress::Progress;
pub use series::SeriesRow;

pub(crate) use checkpoint::{
    ByFlow, Checkpoint, FlowOnLink, FlowTimes, MAX_OWN_DISTRIBUTIONS, Observations,
};
pub(crate) use progress::{PathNow, ProgressTicker, RunLimits, STALL};
pub(crate) use recorder::{Recorder, Sampling, rows_within};
pub(crate) use sample::FlowSample;
