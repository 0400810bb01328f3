//! What the server's connections say about themselves.

use fullpipe_cc::Rate;
use fullpipe_quic::NoqController;
use fullpipe_quic::noq::{Connection, PathId};

use crate::real_time::Look;

/// The open connections now.
pub(super) fn look(connections: &[Connection]) -> Vec<Look> {
    connections.iter().filter(open).filter_map(look_at).collect()
}

/// Bytes that the connections sent, and bytes that they declared lost.
pub(super) fn volumes(connections: &[Connection]) -> (u64, u64) {
    let stats = connections.iter().filter_map(|c| c.path_stats(PathId::ZERO));
    stats.fold((0, 0), |(sent, lost), s| (sent + s.sent_bytes, lost + s.lost_bytes))
}

fn open(connection: &&Connection) -> bool {
    connection.close_reason().is_none()
}

fn look_at(connection: &Connection) -> Option<Look> {
    let stats = connection.path_stats(PathId::ZERO)?;
    let controller = connection.congestion_state(PathId::ZERO)?;
    let pacing = controller.metrics().pacing_rate.map(Rate::from_bytes_per_sec);
    let ours = controller.into_any().downcast::<NoqController>().ok().map(|c| c.snapshot());
    Some(Look {
        rtt: stats.rtt.into(),
        cwnd: stats.cwnd,
        inflight: ours.map(|s| s.inflight),
        pacing: ours.map_or(pacing, |s| s.pacing_rate),
        state: ours.map(|s| s.state.name()),
        kernel: None,
    })
}
