//! Carries out plans: one run, or all points of a grid.

mod journal;
mod point;
mod pool;
mod sweep;

pub use journal::JournalError;
pub use point::{ROWS, RunOptions, check_machine, run_point, run_points};
pub use sweep::{SweepError, SweepProgress, sweep};

#[cfg(feature = "transports")]
pub(crate) use point::arrivals;
pub(crate) use point::observe;
pub(crate) use pool::each;

#[cfg(test)]
mod tests;
