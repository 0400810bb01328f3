//! The lab: a scenario goes in, it runs on a backend, results come out, and a report is made of
//! them.
#![forbid(unsafe_code)]

mod cc;
pub mod conformance;
pub mod expect;
pub mod experiment;
pub mod explain;
pub mod figures;
pub mod file;
#[cfg(target_os = "linux")]
pub mod kernel_figures;
pub mod metrics;
mod over_quic;
mod over_sim;
#[cfg(target_os = "linux")]
mod over_tcp;
mod real_time;
pub mod report;
pub mod results;
mod run;
#[cfg(test)]
mod sample;
mod scenario;
mod series;
pub mod summary;
pub mod units;

pub use cc::{Cc, KernelCc, UnknownCc};
pub use run::{RunError, Tick, check, clean, run};
pub use scenario::{Amount, LinkKind, MAX_FLOWS, Over, Scenario, ScenarioError};
