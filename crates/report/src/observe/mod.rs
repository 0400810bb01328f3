//! Observations of a run by a backend: samples of flows and links, and counters.

mod checkpoint;
mod emulator;
mod sample;
mod series;

pub use checkpoint::{
    ByFlow, Checkpoint, FlowOnLink, FlowTimes, MAX_OWN_DISTRIBUTIONS, Observations, histogram,
};
pub use emulator::{EmulatorRecord, Lateness};
pub use sample::FlowSample;
pub use series::{SeriesRow, rows_within};
