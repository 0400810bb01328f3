//! The lab: an experiment goes through it once, from left to right.
//!
//! scenario (`fullpipe-scenario`: a file, or options) -> plan (grid, expectations) -> backend -> observations -> metrics
//! -> expectations -> output (table, JSON, Parquet, qlog, HTML, SVG). `explain` stands on that, and
//! so do the crates `fullpipe-figures`, `fullpipe-survey`, `fullpipe-judge` and `fullpipe-interop`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "transports"),
    allow(dead_code, reason = "the simulator alone needs less than all backends do")
)]

pub mod backend;
pub mod expect;
pub mod explain;
#[cfg(test)]
mod invariants;
pub mod metrics;
pub mod observe;
pub mod output;
mod parts;
pub mod plan;
#[cfg(feature = "transports")]
pub mod process;
pub mod run;

#[cfg(all(feature = "transports", target_os = "linux"))]
pub use backend::retransmitted_segments;
pub use backend::{BackendChoice, RunError};
#[cfg(feature = "transports")]
pub use backend::{Cleaned, clean};
#[cfg(feature = "transports")]
pub use fullpipe_emu::EmuError;
pub use observe::Progress;
pub use parts::{NotBuilt, Part};
pub use plan::{Options, Plan};
pub use run::{RunOptions, check_machine, run_point};
