//! Observations of a run by a backend: samples of flows and links, counters, and progress.

mod emulator;
mod mark;
mod progress;
mod recorder;
mod sample;
mod series;

pub use emulator::{EmulatorRecord, Lateness};
pub use mark::histogram;
pub use progress::Progress;
pub use series::SeriesRow;

pub(crate) use mark::{ByFlow, FlowOnLink, FlowTimes, MAX_OWN_DISTRIBUTIONS, Mark, Observations};
pub(crate) use progress::{Extent, Pace, PathNow, STALL};
pub(crate) use recorder::{Recorder, Sampling, rows_within};
pub(crate) use sample::FlowSample;
