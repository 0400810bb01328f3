//! NewReno as QUIC has it: RFC 9002 section 7.

use crate::algo::{Congestion, CongestionControl};
use crate::conn::{Conn, INFINITE};
use crate::sampler::RateSample;
use crate::snapshot::{Snapshot, State};
use crate::units::Gain;

/// kLossReductionFactor, RFC 9002 appendix B.1.
const LOSS_REDUCTION: Gain = Gain::percent(50);
/// Pacing in slow start: the window doubles within a round trip, and the pacer must let it.
pub(crate) const SLOW_START_PACING: Gain = Gain::percent(200);
/// Pacing in congestion avoidance, the value of RFC 9002 section 7.7.
pub(crate) const AVOIDANCE_PACING: Gain = Gain::percent(125);

#[derive(Clone, Debug)]
pub(crate) struct Reno {
    ssthresh: u64,
    /// Bytes acknowledged towards the next SMSS of window, times SMSS.
    acked: u64,
    undo: Option<Undo>,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
}

impl Reno {
    pub(crate) fn new(_: &mut Conn) -> Self {
        Self { ssthresh: INFINITE, acked: 0, undo: None }
    }

    fn in_slow_start(&self, conn: &Conn) -> bool {
        conn.cwnd < self.ssthresh
    }

    fn pace(&self, conn: &mut Conn) {
        let slow_start = self.in_slow_start(conn);
        conn.pace_by_window(if slow_start { SLOW_START_PACING } else { AVOIDANCE_PACING });
    }
}

impl CongestionControl for Reno {
    /// RFC 9002 sections 7.3.1 and 7.3.3.
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let acked = rs.newly_acked_after_recovery;
        if conn.may_grow(rs) {
            if self.in_slow_start(conn) {
                conn.cwnd = conn.cwnd.saturating_add(acked);
            } else {
                self.acked = self.acked.saturating_add(acked.saturating_mul(conn.smss));
                conn.cwnd = conn.cwnd.saturating_add(self.acked / conn.cwnd);
                self.acked %= conn.cwnd;
            }
        }
        self.pace(conn);
    }

    /// OnCongestionEvent(), RFC 9002 section 7.3.2: once an episode.
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if !congestion.new_episode {
            return;
        }
        self.undo = Some(Undo { cwnd: conn.cwnd, ssthresh: self.ssthresh });
        self.ssthresh = LOSS_REDUCTION.of(conn.cwnd).max(conn.min_window());
        conn.cwnd = self.ssthresh;
        self.acked = 0;
        self.pace(conn);
    }

    /// Persistent congestion, RFC 9002 section 7.6.2.
    fn on_rto(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.min_window();
        self.acked = 0;
        self.pace(conn);
    }

    /// The window before the episode (RFC 9002 leaves it open; as RFC 9438 section 4.9.2).
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if let Some(undo) = self.undo.take().filter(|undo| conn.cwnd < undo.cwnd) {
            conn.cwnd = undo.cwnd;
            self.ssthresh = undo.ssthresh;
            self.pace(conn);
        }
    }

    fn on_mtu_update(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(conn.min_window());
        // The rate of a smaller window would hold this one back.
        self.pace(conn);
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        let ssthresh = (self.ssthresh != INFINITE).then_some(self.ssthresh);
        Snapshot { ssthresh, ..Snapshot::of(conn, "reno", window_state(conn, self.ssthresh)) }
    }
}

/// The state of a loss-based algorithm, for the eye: nothing is decided by it.
pub(crate) fn window_state(conn: &Conn, ssthresh: u64) -> State {
    if conn.in_recovery() {
        State::Recovery
    } else if conn.cwnd < ssthresh {
        State::SlowStart
    } else {
        State::CongestionAvoidance
    }
}
