//! Property-based testing of congestion control: random paths are drawn from a seed, algorithms run
//! on each, and the paths on which one of them falls below another are found.
//!
//! [`draw`](draw::draw) (seed -> [`Case`]) -> [`text`] (a scenario file) -> [`run`] (the lab's
//! plan) -> [`results`] -> [`judge`](mod@judge) -> [`worst`](mod@worst) -> [`report`].
//! docs/survey.md has the distribution in words.
#![forbid(unsafe_code)]

pub mod baseline;
pub mod case;
mod chance;
pub mod draw;
mod error;
pub mod judge;
pub mod measure;
mod ranges;
pub mod report;
pub mod results;
pub mod run;
pub mod shrink;
pub mod text;
pub mod worst;

pub use case::{Case, Disturbance, Kind};
pub use error::SurveyError;
pub use measure::{Measure, Values};
