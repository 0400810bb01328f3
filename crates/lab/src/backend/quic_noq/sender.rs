//! What the server's connections say about themselves.

use fullpipe_cc::Rate;
use fullpipe_quic::NoqController;
use fullpipe_quic::noq::crypto::rustls::HandshakeData;
use fullpipe_quic::noq::{Connection, PathId};
use fullpipe_sim::SenderStats;

use crate::observe::FlowSample;

/// The name by which its client calls the server.
pub(super) fn called(connection: &Connection) -> Option<String> {
    connection.handshake_data()?.downcast::<HandshakeData>().ok()?.server_name
}

/// A sender now. The counters of a connection that is closed stay what they were; its round trips are no
/// samples any more.
pub(super) fn sample(connection: &Connection) -> Option<FlowSample> {
    let stats = connection.path_stats(PathId::ZERO)?;
    let controller = connection.congestion_state(PathId::ZERO)?;
    let pacing = controller.metrics().pacing_rate.map(Rate::from_bytes_per_sec);
    let ours = controller.into_any().downcast::<NoqController>().ok();
    let mut sample = match ours {
        Some(ours) => FlowSample::of_model(ours.snapshot()),
        None => FlowSample { pacing, ..FlowSample::default() },
    };
    sample.cwnd = stats.cwnd;
    sample.srtt = Some(stats.rtt.into());
    sample.sender = SenderStats {
        sent_bytes: stats.sent_bytes,
        lost_bytes: stats.lost_bytes,
        ..SenderStats::default()
    };
    if connection.close_reason().is_some() {
        (sample.rtt, sample.srtt) = (None, None);
    }
    Some(sample)
}
