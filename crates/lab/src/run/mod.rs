//! Carries out plans: one run, or all points of a grid.

mod journal;
mod sweep;

pub use journal::JournalError;
pub use sweep::{Progress, SweepError, sweep};

#[cfg(test)]
mod tests;
