//! What the server's connections say about themselves.

use std::sync::PoisonError;

use fullpipe_cc::{Duration, Rate};
use fullpipe_quic::NoqController;
use fullpipe_quic::noq::{Connection, PathId};
use hdrhistogram::Histogram;

use super::bench::Connections;
use crate::series::Row;

/// The senders of a run.
pub(super) struct Senders {
    connections: Connections,
    /// Every round-trip time that was seen, in nanoseconds.
    pub(super) rtts: Histogram<u64>,
    pub(super) sent_bytes: u64,
    pub(super) lost_bytes: u64,
}

/// One sender at one moment.
struct Look {
    rtt: Duration,
    cwnd: u64,
    inflight: Option<u64>,
    pacing: Option<Rate>,
    state: Option<&'static str>,
}

impl Senders {
    pub(super) fn new(connections: Connections) -> Self {
        // A microsecond to a minute in three digits is within what the histogram takes.
        let rtts = Histogram::new_with_bounds(1_000, 60_000_000_000, 3);
        #[expect(clippy::expect_used, reason = "constants, covered by every run")]
        let rtts = rtts.expect("1 us to 60 s in 3 digits");
        Self { connections, rtts, sent_bytes: 0, lost_bytes: 0 }
    }

    fn snapshot(&self) -> Vec<Connection> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The senders now, as a row without time, queue and bytes received.
    pub(super) fn look(&mut self) -> Row {
        let looks: Vec<Look> = self.snapshot().iter().filter(open).filter_map(look).collect();
        for l in &looks {
            self.rtts.saturating_record(l.rtt.as_nanos());
        }
        let n = looks.len() as u64;
        let rtt_sum: u64 = looks.iter().map(|l| l.rtt.as_nanos()).sum();
        let rates = looks.iter().map(|l| l.pacing.map(Rate::as_bytes_per_sec));
        Row {
            rtt: rtt_sum.checked_div(n).map(Duration::from_nanos),
            cwnd: looks.iter().map(|l| l.cwnd).sum(),
            inflight: sum(looks.iter().map(|l| l.inflight)),
            pacing: sum(rates).map(Rate::from_bytes_per_sec),
            state: looks.first().and_then(|l| l.state),
            ..Row::default()
        }
    }

    /// Takes the senders' counters; the last thing before their end.
    pub(super) fn count(&mut self) {
        for connection in self.snapshot() {
            if let Some(stats) = connection.path_stats(PathId::ZERO) {
                self.sent_bytes += stats.sent_bytes;
                self.lost_bytes += stats.lost_bytes;
            }
        }
    }
}

/// The sum, if everybody says something.
fn sum(mut each: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let first = each.next()??;
    each.try_fold(first, |sum, x| Some(sum.saturating_add(x?)))
}

fn open(connection: &&Connection) -> bool {
    connection.close_reason().is_none()
}

fn look(connection: &Connection) -> Option<Look> {
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
    })
}
