//! Results of runs: the plan of a scenario and its expectations, the observations of a run, the
//! metrics that are computed of them, and their output as tables, JSON, Parquet, qlog and pages.
#![forbid(unsafe_code)]

pub mod expect;
pub mod metrics;
pub mod observe;
pub mod output;
mod parts;
pub mod plan;

pub use parts::{NotBuilt, Part};
