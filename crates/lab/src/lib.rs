//! The lab: an experiment goes through it once, from left to right.
//!
//! scenario (a file, or options) -> plan (grid, expectations) -> backend -> observations -> metrics
//! -> expectations -> output (table, JSON, Parquet, qlog, HTML, SVG). The scenario is in the crate
//! `fullpipe-scenario`; plan, observations, metrics, expectations and output are in
//! `fullpipe-report`; here are the backends, and what carries out plans. `explain` stands on that,
//! and so do the crates `fullpipe-figures`, `fullpipe-survey`, `fullpipe-judge` and
//! `fullpipe-interop`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "transports"),
    allow(dead_code, reason = "the simulator alone needs less than all backends do")
)]

pub mod backend;
pub mod explain;
#[cfg(test)]
mod invariants;
pub mod kept;
mod observe;
#[cfg(feature = "transports")]
pub mod process;
pub mod run;

#[cfg(all(feature = "transports", target_os = "linux"))]
pub use backend::retransmitted_segments;
pub use backend::{BackendChoice, RunError};
#[cfg(feature = "transports")]
pub use backend::{Cleaned, clean, emulator_record};
#[cfg(feature = "transports")]
pub use fullpipe_emu::EmuError;
pub use observe::Progress;
pub use run::{RunOptions, check_machine, run_point};
