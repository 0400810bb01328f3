//! fullpipe-cc
#![no_std]
#![forbid(unsafe_code)]

mod config;
mod snapshot;
pub mod units;
pub use config::{Algorithm, Config, Transport, UnknownAlgorithm};
pub use snapshot::{BbrSnapshot, Snapshot, State};
pub use units::{Duration, Gain, Instant, Rate};
