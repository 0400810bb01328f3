//! What is seen of a run while it goes on.

mod progress;
mod series;

pub use progress::Tick;
pub use series::SeriesRow;

pub(crate) use progress::{Extent, STALL};
