//! Scenarios: a path, flows and expectations, as a TOML file says them; docs/scenarios.md describes
//! it.

mod build;
mod build_flow;
mod build_net;
mod cc;
mod elements;
mod error;
mod feature;
mod grid;
mod input;
mod jitter;
mod link;
mod needs;
mod nodes;
mod program;
mod quantity;
mod repeated;
mod routes;
mod schema;
mod trace_field;
mod traces;
mod tree;
mod unused;

pub use cc::{Cc, KernelCc, StackAlgorithm, UnknownCc};
pub use error::{FileError, shortened};
pub use grid::{Edition, Expected, Grid, Run, ScenarioFile};
pub use input::{MAX_FILE_BYTES, read_text};
pub use link::{LinkKind, UnknownLink};
pub use trace_field::TracedColumns;

pub(crate) use build::{Flow, Scenario};
pub(crate) use error::Wrong;
pub(crate) use feature::{Feature, Need, Protocol, Receiver};
pub use grid::backends_with_tables;
pub(crate) use grid::{hex, locate};
#[cfg(all(feature = "transports", target_os = "linux"))]
pub(crate) use program::{Sends, Values};
pub(crate) use trace_field::{Described, describe_trace, quoted, read_trace};

/// The most characters of a name, and of a value in a list.
const MAX_NAME: usize = 300;

/// The most runs of one file.
pub const MAX_RUNS: usize = 100_000;

/// The most flows of one run.
pub const MAX_FLOWS: u64 = 10_000;

/// The most rows of the series of one run.
pub const MAX_ROWS: u64 = 10_000_000;
