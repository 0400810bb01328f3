//! The course of a run, flow by flow.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

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
    /// Rate of the first link that the flow passes since the row before: what it could carry. Null
    /// where nothing limits it, and in results of before.
    #[serde(default)]
    pub capacity_mbps: Option<f64>,
    /// Queue of the first link that the flow passes: how long a packet arriving now would wait.
    pub queue_ms: f64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// In flight; null when the sender does not say.
    pub inflight_bytes: Option<u64>,
    /// Pacing rate; null when the algorithm leaves pacing to the transport.
    pub pacing_mbps: Option<f64>,
    /// State of the algorithm, in the draft's spelling; null when it does not say.
    pub state: Option<Cow<'static, str>>,
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
    /// The newest delivery rate that the kernel measured; over tcp alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_mbps: Option<f64>,
}
