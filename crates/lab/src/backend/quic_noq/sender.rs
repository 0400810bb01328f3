//! What the server's connections say about themselves.

use fullpipe_cc::{Duration, Rate, Snapshot};
use fullpipe_quic::NoqController;
use fullpipe_quic::noq::crypto::rustls::HandshakeData;
use fullpipe_quic::noq::{Connection, PathId};

use crate::backend::realtime::Look;

/// A sender with an algorithm of ours at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// The smoothed round-trip time.
    pub(crate) srtt: Duration,
    /// Bytes of datagrams so far.
    pub(crate) sent_bytes: u64,
    /// Of these declared lost.
    pub(crate) lost_bytes: u64,
    /// What its algorithm believes.
    pub(crate) snapshot: Snapshot,
}

impl Sender {
    /// Also of a connection that is closed, whose figures stay what they were.
    pub(super) fn of(connection: &Connection) -> Option<Self> {
        let stats = connection.path_stats(PathId::ZERO)?;
        let controller = connection.congestion_state(PathId::ZERO)?;
        let ours = controller.into_any().downcast::<NoqController>().ok()?;
        Some(Self {
            srtt: stats.rtt.into(),
            sent_bytes: stats.sent_bytes,
            lost_bytes: stats.lost_bytes,
            snapshot: ours.snapshot(),
        })
    }
}

/// The name by which its client calls the server.
pub(super) fn called(connection: &Connection) -> Option<String> {
    connection.handshake_data()?.downcast::<HandshakeData>().ok()?.server_name
}

/// The open connections now.
pub(super) fn look(connections: &[Option<Connection>]) -> Vec<Look> {
    connections.iter().flatten().filter(open).filter_map(look_at).collect()
}

/// Bytes that the connections sent, and bytes that they declared lost.
pub(super) fn volumes(connections: &[Option<Connection>]) -> (u64, u64) {
    let stats = connections.iter().flatten().filter_map(|c| c.path_stats(PathId::ZERO));
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
