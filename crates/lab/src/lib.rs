//! The lab: a scenario goes in, it runs on a backend, results come out, and a report is made of
//! them.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod expect;
pub mod experiment;
pub mod explain;
pub mod figures;
pub mod file;
pub mod metrics;
mod over_quic;
mod over_sim;
pub mod report;
pub mod results;
mod run;
#[cfg(test)]
mod sample;
mod scenario;
mod series;
pub mod summary;
pub mod units;

pub use run::{RunError, Tick, run};
pub use scenario::{Amount, MAX_FLOWS, Over, Scenario, ScenarioError};
