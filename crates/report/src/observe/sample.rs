//! One flow at one moment.

use fullpipe_cc::{Duration, Rate, Snapshot};
use fullpipe_path::Queue;
use fullpipe_traffic::{SenderStats, SentPacket};

/// Sample of a flow and its path at one moment. A value that a stack does not report is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowSample {
    /// Application bytes that the receiver has read.
    pub(crate) received: u64,
    /// The newest round trip.
    pub(crate) rtt: Option<Duration>,
    /// The smoothed round trip.
    pub(crate) srtt: Option<Duration>,
    /// Congestion window in bytes.
    pub(crate) cwnd: u64,
    pub(crate) inflight: Option<u64>,
    /// Nothing when the algorithm leaves pacing to the transport.
    pub(crate) pacing: Option<Rate>,
    /// The algorithm's state, in the draft's spelling.
    pub(crate) state: Option<&'static str>,
    /// Model of one of our algorithms.
    pub(crate) model: Option<Snapshot>,
    /// The newest delivery rate that a kernel measured.
    pub(crate) delivery: Option<Rate>,
    pub(crate) sender: SenderStats,
    #[cfg_attr(not(feature = "qlog"), allow(dead_code, reason = "a qlog alone tells of it"))]
    pub(crate) newest_packet: Option<SentPacket>,
    /// The queue of the first link that the flow passes.
    pub(crate) queue: Queue,
}

impl FlowSample {
    /// A sample of an algorithm of ours, without what only its transport knows.
    pub(crate) fn of_model(model: Snapshot) -> Self {
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
