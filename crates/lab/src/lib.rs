//! The lab: an experiment goes through it once, from left to right.
//!
//! scenario (a file, or flags) -> plan (grid, expectations) -> backend -> observations -> metrics ->
//! expectations -> output (table, JSON, Parquet, qlog, HTML, SVG). `figures` and `explain` stand on that.
#![forbid(unsafe_code)]

pub mod backend;
pub mod expect;
pub mod explain;
pub mod figures;
#[cfg(test)]
mod invariants;
pub mod metrics;
pub mod observe;
pub mod output;
pub mod plan;
pub mod run;
pub mod scenario;
pub mod units;

pub use backend::{RunError, check, clean, run};
pub use observe::Tick;
pub use plan::Plan;
pub use scenario::{
    Amount, Cc, Edition, KernelCc, LinkKind, Over, Scenario, ScenarioError, UnknownCc,
};
