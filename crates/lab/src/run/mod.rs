//! Carries out plans: one run, or all points of a grid.

mod journal;
mod point;
mod pool;
mod sweep;

pub use journal::{Journal, JournalError, JournalOf};
pub use point::{
    ROWS, RunOptions, arrivals, check_machine, run_point, run_points, run_points_with,
};
pub use pool::{each, each_together};
pub use sweep::{SweepError, SweepProgress, sweep, sweep_with};

pub(crate) use point::observe;

#[cfg(test)]
mod series_tests;
#[cfg(test)]
mod tests;
