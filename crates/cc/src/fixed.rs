//! A fixed rate and a window that never limits: for measuring pacers and paths.

use crate::algo::{CongestionControl, NotNow};
use crate::conn::{Conn, INFINITE, MAX_QUANTUM};
use crate::snapshot::{Snapshot, State};
use crate::units::{Duration, Instant, Rate};

#[derive(Clone, Debug)]
pub(crate) struct Fixed;

impl Fixed {
    pub(crate) fn new(conn: &mut Conn, rate: Rate) -> Self {
        conn.cwnd = INFINITE / 2;
        conn.set_pacing_rate(rate);
        let quantum = conn.pacing_rate.bytes_in(Duration::from_millis(1));
        conn.send_quantum = quantum.min(MAX_QUANTUM).max(2 * conn.smss);
        Self
    }
}

impl CongestionControl for Fixed {
    fn wants_ecn(&self) -> bool {
        false
    }

    fn request_probe(&mut self, _: &Conn, _: Instant) -> Result<(), NotNow> {
        Err(NotNow::Limit)
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "fixed", State::Fixed)
    }
}
