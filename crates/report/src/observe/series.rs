//! Samples of a run over time, flow by flow.

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
    /// Round trips as BBR counts them; null for others, as the rest of BBR's.
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
    /// BBR's short-term bound on the bandwidth; null while there is none, as the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bw_shortterm_mbps: Option<f64>,
    /// BBR's short-term bound on the data in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inflight_shortterm_bytes: Option<u64>,
    /// BBR's long-term bound on the data in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inflight_longterm_bytes: Option<u64>,
    /// BBR's estimate of aggregation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_acked_bytes: Option<u64>,
    /// Rounds without growth of the bandwidth, as BBR counts them for the full pipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_bw_count: Option<u32>,
    /// 1 while the sender says of itself that its application limits it, or else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_app_limited: Option<u8>,
    /// The newest delivery rate that the kernel measured; over tcp alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_mbps: Option<f64>,
}

/// The most rows of all flows together where the scenario does not say how often.
const MOST_ROWS: u64 = 50_000;

/// Number of rows per flow: `asked`, or fewer, so that all flows together have at most 50,000.
pub fn rows_within(asked: u64, flows: usize) -> u64 {
    asked.min((MOST_ROWS / flows.max(1) as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand flows of a run would be half a million rows, and 70 MB of JSON.
    #[test]
    fn all_flows_together_have_no_more_rows_than_a_page_can_show() {
        let rows = [1, 100, 1000, 100_000].map(|flows| rows_within(500, flows));
        assert_eq!(rows, [500, 500, 50, 1]);
    }
}
