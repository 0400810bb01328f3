//! What a backend sees of a run while it goes on: samples of flows and links, counters, and how far it is.

mod emulator;
mod mark;
mod progress;
mod recorder;
mod sample;
mod series;

pub use emulator::{EmulatorRecord, Lateness};
pub use progress::Progress;
pub use series::SeriesRow;

pub(crate) use mark::{FlowTimes, Mark, Observations, histogram};
pub(crate) use progress::{Extent, Pace, STALL};
pub(crate) use recorder::{Recorder, Sampling};
pub(crate) use sample::FlowSample;
