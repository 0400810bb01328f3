//! The lab: an experiment goes through it once, from left to right.
//!
//! scenario (a file, or options) -> plan (grid, expectations) -> backend -> observations -> metrics ->
//! expectations -> output (table, JSON, Parquet, qlog, HTML, SVG). `figures` and `explain` stand on that.
#![forbid(unsafe_code)]

pub mod backend;
pub mod expect;
pub mod explain;
pub mod figures;
mod formulas;
pub mod interop;
#[cfg(test)]
mod invariants;
pub mod metrics;
pub mod observe;
pub mod output;
pub mod peers;
pub mod plan;
mod process;
pub mod program;
pub mod run;
pub mod scenario;
pub mod suggest;
pub mod units;

#[cfg(target_os = "linux")]
pub use backend::retransmitted_segments;
pub use backend::{BackendChoice, Cleaned, RunError, clean};
pub use fullpipe_emu::EmuError;
pub use observe::Progress;
pub use plan::{Options, Plan};
pub use run::{RunOptions, check_machine, run_point};
pub use scenario::{Cc, Edition, KernelCc, LinkKind, UnknownCc};
