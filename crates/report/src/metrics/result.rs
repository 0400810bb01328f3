//! The result of one run.

use std::collections::BTreeMap;

use fullpipe_scenario::{Clock, Stack};
use serde::{Deserialize, Serialize};

use crate::observe::{EmulatorRecord, SeriesRow};

/// Result of one run: a line of JSON, and the rows of the tables.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Its number among the points of the grid, from 0.
    pub run: usize,
    /// Number of the repetition among the runs of the same point, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repetition: usize,
    /// The scenario's name.
    pub scenario: String,
    /// Stack that carried its flows.
    pub stack: Stack,
    /// Clock by which they moved.
    pub clock: Clock,
    /// Link between the ends in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Its place in the grid: axis and value.
    pub at: Vec<(String, String)>,
    /// Seed of everything random.
    pub seed: u64,
    /// Rate of the first link; null where it has none or changes.
    pub rate_mbps: Option<f64>,
    /// Round trip of a full packet on the empty path.
    pub empty_rtt_ms: f64,
    /// The figures of all flows and of the first link, by name, in the order of the columns.
    pub metrics: Figures,
    /// The flows, in the order of the file.
    pub flows: Vec<FlowResult>,
    /// The links, in the order in which packets pass them.
    pub links: Vec<Figures>,
    /// Its samples over time; empty when none were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<SeriesRow>,
    /// Values for the expectations, in the order of the plan's probes.
    pub probes: Vec<Option<f64>>,
    /// Timing accuracy of the emulated link; null over the simulator, whose clock is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<EmulatorRecord>,
    /// True if it was stopped before its time: then the figures are those so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Starts before this one that came too late, on a busy machine: the run was made again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_starts: usize,
}

impl RunResult {
    /// A sentence about starts that came too late, where there were some.
    pub fn note(&self) -> Option<String> {
        let starts = match self.late_starts {
            0 => return None,
            1 => "a start was".to_owned(),
            n => format!("{n} starts were"),
        };
        Some(format!("{starts} too late for the times of the path; the run was begun anew"))
    }
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Figures by name; null where there is none, like a percentile of no packets.
pub type Figures = BTreeMap<String, Option<f64>>;

/// Result of one flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// Its algorithm.
    pub cc: String,
    /// Start time, in seconds.
    pub start_s: f64,
    /// Its last byte, its stop, or the end of the run, in seconds.
    pub end_s: f64,
    /// Its figures.
    pub metrics: Figures,
}
