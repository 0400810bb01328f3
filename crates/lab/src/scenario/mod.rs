//! Scenarios: a path, flows and expectations, as a TOML file says them; docs/scenarios.md describes it.

mod build;
mod cc;
mod elements;
mod error;
mod feature;
mod grid;
mod link;
mod quantity;
mod schema;
mod tree;

pub use cc::{Cc, KernelCc, UnknownCc};
pub use error::FileError;
pub use grid::{Edition, Grid, Run, ScenarioFile};
pub use link::{LinkKind, UnknownLink};

pub(crate) use build::{Flow, Scenario};
pub(crate) use error::Wrong;
pub(crate) use feature::{Feature, Need, Protocol};
pub(crate) use grid::{backends_with_tables, locate};

/// The most runs of one file.
pub const MAX_RUNS: usize = 100_000;

/// The most flows of one run.
pub const MAX_FLOWS: u64 = 10_000;

/// The most rows of the series of one run.
pub const MAX_ROWS: u64 = 10_000_000;
