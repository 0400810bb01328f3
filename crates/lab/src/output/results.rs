//! What a run found, as rows for people and scripts. Field names carry their units; serialised
//! with serde this is the JSON of `compare --json`.
//!
//! [`DEFINITIONS`] says in words how every figure is computed; [`crate::metrics`] computes them.

use serde::{Deserialize, Serialize};

/// One scenario and what each algorithm made of it: the one object of `compare --json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ScenarioResults {
    /// What was asked for.
    pub scenario: ScenarioRecord,
    /// One entry for each algorithm, in the order in which they ran.
    pub results: Vec<AlgorithmResult>,
    /// Whether the run was stopped before every algorithm had its time.
    pub interrupted: bool,
}

/// Several scenarios in one object: `compare --json` without a path of its own prints this.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ComparisonResults {
    /// The scenarios in the order in which they ran.
    pub scenarios: Vec<ScenarioResults>,
    /// Whether the run was stopped before every algorithm had its time on every path.
    pub interrupted: bool,
}

/// A scenario in plain numbers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ScenarioRecord {
    /// `quic` (real packets on an emulated link), `tcp` (the kernel's, between two namespaces) or
    /// `sim` (the virtual clock).
    pub over: String,
    /// `udp` (inside the process), `tun` or `netem` (between two network namespaces); null over `sim`.
    #[serde(default)]
    pub link: Option<String>,
    /// The algorithms compared.
    pub cc: Vec<String>,
    /// Rate of the bottleneck in bits per second, IP headers included.
    pub rate_bps: u64,
    /// Round-trip propagation delay in milliseconds.
    pub rtt_ms: f64,
    /// The buffer as it was written, e.g. `1bdp`.
    pub buffer: String,
    /// The buffer in bytes; null when it is counted in packets.
    pub buffer_bytes: Option<u64>,
    /// The buffer in packets; null when it is counted in bytes.
    pub buffer_packets: Option<u64>,
    /// Probability from 0 to 1 that the path loses a packet for no reason.
    pub loss: f64,
    /// How many flows share the path.
    pub flows: u32,
    /// Time between the starts of two flows, in seconds.
    pub stagger_s: f64,
    /// How long it was to run, in seconds; null when it was to move `bytes`.
    pub duration_s: Option<f64>,
    /// How much each flow was to move, in bytes; null when it was to run for `duration_s`.
    pub bytes: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
}

/// What one algorithm made of the scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AlgorithmResult {
    /// The algorithm's name; those of other stacks are `stack:name`.
    pub cc: String,
    /// Application bits per second that the receivers got, summed over the flows.
    pub goodput_bps: u64,
    /// Bytes that the link carried over what it could carry in that time, from 0 to 1.
    pub utilization: f64,
    /// Application bytes that the receivers got.
    pub completed_bytes: u64,
    /// Time from the first request to the end, in seconds.
    pub elapsed_s: f64,
    /// Time in the bottleneck's queue of every packet that passed it, in milliseconds. Over netem, which
    /// does not tell it, what the queue held over time, the packet on the wire included, in milliseconds at its rate.
    pub queue_ms: QueueDelay,
    /// Round-trip times as the senders measured them, in milliseconds; null without a sample. Over
    /// quic and tcp the smoothed one, looked at for every row of the series; over sim every sample.
    pub rtt_ms: Option<RoundTrip>,
    /// Packets that the path dropped over packets that arrived at it, from 0 to 1.
    pub loss_rate: f64,
    /// Bytes that the senders declared lost over bytes that they sent, from 0 to 1. Over tcp bytes
    /// that they sent again over bytes that they sent.
    pub retransmit_rate: f64,
    /// Jain's index of the flows' goodputs: 1 when all are equal, 1/n when one has everything.
    pub jain: f64,
    /// Each flow, in the order of their starts.
    pub flows: Vec<FlowResult>,
    /// How well the emulator kept its own time; null over the simulator, whose clock is exact, and over
    /// netem, which does not say.
    pub emulator: Option<EmulatorRecord>,
    /// How old the application's data was when the other end read it; null but over tcp.
    #[serde(default)]
    pub app_latency_ms: Option<AppLatency>,
    /// Whether this was stopped before its time.
    pub interrupted: bool,
    /// The course of the run.
    pub series: Series,
}

/// Percentiles of the queueing delay in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct QueueDelay {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// Percentiles of a round-trip time, or of another time, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RoundTrip {
    pub min: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Time from an application's write to the other application's read, in milliseconds: the path's
/// round trip is no part of it, what waits in the sender's own buffer is.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AppLatency {
    /// The most unsent bytes that a sender kept in the first half of the run (TCP_NOTSENT_LOWAT).
    pub unsent_bound_bytes: u32,
    /// With that bound, in the first half of the run; null when nothing was read.
    pub bounded: Option<RoundTrip>,
    /// Without a bound but the kernel's buffer, in the second half.
    pub unbounded: Option<RoundTrip>,
}

/// One flow of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowResult {
    /// Application bits per second, from this flow's first request to its end.
    pub goodput_bps: u64,
    /// Application bytes received.
    pub completed_bytes: u64,
    /// First request, in seconds after the first flow's.
    pub start_s: f64,
    /// Last byte, or the end of the run, in seconds after the first flow's first request.
    pub end_s: f64,
    /// Goodput over time, at the times of [`Series::t_s`]. Only with several flows, and empty when
    /// they are too many to draw.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub series_goodput_bps: Vec<u64>,
}

/// How well the emulator kept its own time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmulatorRecord {
    /// How late packets left the link, after the time that the path gave them, in microseconds.
    pub lateness_us: Lateness,
    /// Whether the machine was quiet enough for the result to be trusted.
    pub trusted: bool,
    /// Why not, in one sentence; null when it is trusted.
    pub warning: Option<String>,
}

/// Percentiles of the emulator's lateness in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Lateness {
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

/// The course of a run: column `i` of every list was taken at `t_s[i]`. With several flows,
/// volumes and rates are sums over them, `rtt_ms` is their mean, and `state` is the first flow's.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// Seconds after the first request.
    pub t_s: Vec<f64>,
    /// Application bits per second received since the time before.
    pub goodput_bps: Vec<u64>,
    /// What the bottleneck held at this time, in milliseconds at its rate.
    pub queue_ms: Vec<f64>,
    /// Round-trip time of the sender, over quic and tcp the smoothed one; null before the first sample.
    pub rtt_ms: Vec<Option<f64>>,
    /// Congestion window of the sender.
    pub cwnd_bytes: Vec<u64>,
    /// What the sender has in flight; null when it does not say.
    pub inflight_bytes: Vec<Option<u64>>,
    /// Pacing rate; null when the algorithm leaves pacing to the transport.
    pub pacing_bps: Vec<Option<u64>>,
    /// State of the algorithm, in the draft's spelling; null when it does not say.
    pub state: Vec<Option<String>>,
    /// Delivery rate that the kernel measured, null before the first connection; over tcp only.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub delivery_bps: Vec<Option<u64>>,
    /// Bytes that the kernel has sent again so far; over tcp only.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub retransmitted_bytes: Vec<Option<u64>>,
}

/// Every figure's name and how it is computed, in words that stand in the report.
pub const DEFINITIONS: [(&str, &str); 10] = [
    (
        "goodput",
        "application bytes that the receiver got × 8 ÷ time from the flow's first request to its \
         end. Several flows: all their bytes ÷ time from the first request to the end of the last.",
    ),
    (
        "utilization",
        "bytes that the bottleneck carried, IP and UDP headers included ÷ (rate × time from the \
         first request to the end).",
    ),
    (
        "queue",
        "time that a packet waited in the bottleneck's buffer before its transmission began; \
         percentiles over every packet that passed. The plot shows bytes in the buffer ÷ rate. Over \
         netem, which knows no packet's time: percentiles over time of what was in the buffer, the \
         packet in transmission included, looked at every 10 ms, and less often in runs of over 20 s.",
    ),
    (
        "rtt",
        "round-trip times that the senders measured: propagation, queue, and the work of both end \
         points. Over quic and tcp: the smoothed round-trip time (RFC 9002, RFC 6298), looked at \
         for every row of the plots. Over sim: every sample.",
    ),
    (
        "loss",
        "packets dropped on the path, by the full buffer or by chance ÷ packets that arrived.",
    ),
    (
        "retransmit",
        "bytes that the sender declared lost (over tcp: sent again) ÷ bytes that it sent.",
    ),
    (
        "app",
        "over tcp: time from a write to the read of its last byte at the other end, over every \
         write. In the first half of the run the sender keeps its unsent data short \
         (TCP_NOTSENT_LOWAT), in the second half it writes what the kernel takes.",
    ),
    (
        "jain",
        "(Σ goodput)² ÷ (n × Σ goodput²) over the n flows: 1 when all are equal, 1/n when one has \
         everything.",
    ),
    ("cwnd, inflight, pacing", "what the sender itself says, at the time of the sample."),
    (
        "lateness",
        "how long after its due time a packet left the emulated link. A busy machine makes it \
         late, and a late link is another path than the one that was asked for.",
    ),
];
