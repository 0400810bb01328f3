//! Samples from the server's connections.

use fullpipe_cc::Rate;
use fullpipe_quic::noq::{Connection, PathId};
use fullpipe_quic::{Handshake, NoqController};
use fullpipe_sim::SenderStats;

use crate::observe::FlowSample;

/// The name by which its client calls the server.
pub(super) fn called(connection: &Connection) -> Option<String> {
    Handshake::of(connection)?.server_name
}

/// The connections that the server accepted for one flow.
#[derive(Clone, Default)]
pub(super) struct Accepted {
    /// Those that may still send, the newest last. Only a flow of short connections has several.
    open: Vec<Connection>,
    /// Counters of those that are closed.
    over: SenderStats,
}

impl Accepted {
    pub(super) fn add(&mut self, connection: Connection) {
        self.open.push(connection);
    }

    /// The newest connection, with the counters of all.
    pub(super) fn sample(&mut self) -> Option<FlowSample> {
        let last = self.open.len().checked_sub(1)?;
        let newest = sample(&self.open[last]);
        let mut others = SenderStats::default();
        let over = &mut self.over;
        let mut place = 0;
        self.open.retain(|connection| {
            place += 1;
            if place > last {
                return true;
            }
            let stats = sample(connection).map_or(SenderStats::default(), |s| s.sender);
            let is_open = connection.close_reason().is_none();
            if is_open {
                others.add(stats)
            } else {
                over.add(stats)
            }
            is_open
        });
        others.add(self.over);
        let mut sample = newest?;
        sample.sender.add(others);
        Some(sample)
    }
}

/// A sender now. The counters of a connection that is closed stay what they were; its round trips are no
/// samples any more.
fn sample(connection: &Connection) -> Option<FlowSample> {
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
        sent_packets: stats.sent_packets,
        sent_bytes: stats.sent_bytes,
        lost_packets: stats.lost_packets,
        lost_bytes: stats.lost_bytes,
    };
    if connection.close_reason().is_some() {
        (sample.rtt, sample.srtt) = (None, None);
    }
    Some(sample)
}
