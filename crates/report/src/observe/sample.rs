//! One flow at one moment.

use fullpipe_cc::{Duration, Rate, Snapshot};
use fullpipe_path::Queue;
use fullpipe_traffic::{SenderStats, SentPacket};

/// Sample of a flow and its path at one moment. A value that a stack does not report is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowSample {
    /// Application bytes that the receiver has read.
    pub received: u64,
    /// The newest round trip.
    pub rtt: Option<Duration>,
    /// The smoothed round trip.
    pub srtt: Option<Duration>,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub inflight: Option<u64>,
    /// Pacing rate; nothing when the algorithm leaves pacing to the transport.
    pub pacing: Option<Rate>,
    /// The algorithm's state, in the draft's spelling.
    pub state: Option<&'static str>,
    /// Model of one of our algorithms.
    pub model: Option<Snapshot>,
    /// The newest delivery rate that a kernel measured.
    pub delivery: Option<Rate>,
    /// Counters of the sender.
    pub sender: SenderStats,
    /// The newest packet that it sent.
    pub newest_packet: Option<SentPacket>,
    /// The queue of the first link that the flow passes.
    pub queue: Queue,
}

impl FlowSample {
    /// A sample of an algorithm of ours, without what only its transport knows.
    pub fn of_model(model: Snapshot) -> Self {
        Self {
            rtt: model.latest_rtt,
            srtt: model.srtt,
            cwnd: model.cwnd,
            inflight: Some(model.inflight),
            pacing: model.pacing_rate,
            state: Some(model.state.name()),
            model: Some(model),
            ..Self::default()
        }
    }
}
