//! A fixed rate and a window that never limits: for measuring pacers and paths.

use crate::algo::CongestionControl;
use crate::conn::{Conn, INFINITE, MAX_QUANTUM};
use crate::snapshot::{Snapshot, State};
use crate::units::{Duration, Rate};

#[derive(Clone, Debug)]
pub(crate) struct Fixed;

impl Fixed {
    pub(crate) fn new(conn: &mut Conn, rate: Rate) -> Self {
        conn.cwnd = INFINITE / 2;
        // A rate of zero would never end.
        let rate = rate.max(Rate::from_bytes_per_sec(1));
        conn.pacing_rate = rate;
        let quantum = rate.bytes_in(Duration::from_millis(1));
        conn.send_quantum = quantum.min(MAX_QUANTUM).max(2 * conn.smss);
        Self
    }
}

impl CongestionControl for Fixed {
    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "fixed", State::Fixed)
    }
}
