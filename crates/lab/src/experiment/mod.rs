//! Runs the points of a plan in the simulator, and says what each of them came to.

mod course;
mod journal;
mod measure;
mod over_quic;
mod parquet;
mod qlog;
mod runner;
mod sweep;
mod tables;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::EmulatorRecord;

pub use journal::JournalError;
pub use over_quic::run_over_quic;
pub use parquet::{StoreError, create_dir};
pub use qlog::{QlogDir, file_name_of};
pub use runner::{Series, run, run_watched};

pub(crate) use course::Course;
pub(crate) use over_quic::{is_measured, sights};
pub use sweep::{Progress, SweepError, sweep};
pub use tables::write;

/// What one run came to: a line of JSON, and the rows of the tables.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Its number among the points of the grid, from 0.
    pub run: usize,
    /// The scenario's name.
    pub scenario: String,
    /// Its place in the grid: axis and value.
    pub at: Vec<(String, String)>,
    /// Seed of everything random.
    pub seed: u64,
    /// The figures of all flows and of the first link, by name, in the order of the columns.
    pub metrics: Figures,
    /// The flows, in the order of the file.
    pub flows: Vec<FlowOutcome>,
    /// The links, in the order in which packets pass them.
    pub links: Vec<Figures>,
    /// The course of it; empty when none was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<SeriesRow>,
    /// What the expectations ask for, in the order of the plan's probes.
    pub probes: Vec<Option<f64>>,
    /// How well the emulated link kept its own time; null over the simulator, whose clock is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<EmulatorRecord>,
    /// Whether it was stopped before its time: then the figures are those so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// Figures by name; null where there is none, like a percentile of no packets.
pub type Figures = BTreeMap<String, Option<f64>>;

/// What one flow came to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// What it is called.
    pub name: String,
    /// Its algorithm.
    pub cc: String,
    /// When it started, in seconds.
    pub start_s: f64,
    /// Its last byte, its stop, or the end of the run, in seconds.
    pub end_s: f64,
    /// Its figures.
    pub metrics: Figures,
}

/// A flow at one moment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SeriesRow {
    /// Seconds from the start of the run.
    pub t_s: f64,
    /// The flow's number.
    pub flow: usize,
    /// Application bits per second received since the row before.
    pub goodput_mbps: f64,
    /// The newest round-trip sample.
    pub rtt_ms: Option<f64>,
    /// The smoothed round trip.
    #[serde(default)]
    pub srtt_ms: Option<f64>,
    /// Queue of the first link that the flow passes: how long a packet arriving now would wait.
    pub queue_ms: f64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// In flight.
    pub inflight_bytes: u64,
    /// Pacing rate; null when the algorithm leaves pacing to the transport.
    pub pacing_mbps: Option<f64>,
    /// State of the algorithm, in the draft's spelling.
    pub state: Cow<'static, str>,
    /// Round trips as BBR counts them; null for others, as the next four.
    #[serde(default)]
    pub rounds: Option<u64>,
    /// BBR's estimate of the bandwidth.
    pub max_bw_mbps: Option<f64>,
    /// BBR's estimate of the path's delay.
    pub min_rtt_ms: Option<f64>,
    /// BBR's gains.
    pub pacing_gain: Option<f64>,
    /// BBR's gain on the window.
    pub cwnd_gain: Option<f64>,
}

/// A run that gave no outcome: one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ExperimentError {
    #[error("{0}")]
    Setup(String),
    #[error("no such simulation: {0}")]
    Sim(#[from] fullpipe_sim::SimError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("interrupted")]
    Interrupted,
}

#[cfg(test)]
mod tests;
