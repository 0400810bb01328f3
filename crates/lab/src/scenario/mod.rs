//! Scenarios: a path, flows and expectations, as a TOML file says them; docs/scenarios.md describes it.

mod build;
mod cc;
mod comparison;
mod elements;
mod error;
mod grid;
mod quantity;
mod quic;
mod schema;
mod tree;

pub use cc::{Cc, KernelCc, UnknownCc};
pub use comparison::{
    Amount, LinkKind, MAX_FLOWS as MAX_COMPARED_FLOWS, Over, Scenario, ScenarioError,
};
pub use error::FileError;
pub use grid::{Edition, Grid, Run, ScenarioFile};

pub(crate) use build::Setup;
pub(crate) use error::Wrong;
pub(crate) use grid::locate;

/// The most runs of one file.
pub const MAX_RUNS: usize = 100_000;

/// The most flows of one run.
pub const MAX_FLOWS: u64 = 10_000;

/// The most rows of the series of one run.
pub const MAX_ROWS: u64 = 10_000_000;
