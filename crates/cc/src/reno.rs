//! NewReno as QUIC has it: RFC 9002 section 7, with the slow start of RFC 9406.

use crate::algo::{Congestion, CongestionControl};
use crate::config::Config;
use crate::conn::{Conn, INFINITE};
use crate::hystart::SlowStart;
use crate::options::RenoOptions;
use crate::sampler::RateSample;
use crate::snapshot::Snapshot;
use crate::units::{Gain, Instant};

/// kLossReductionFactor, RFC 9002 appendix B.1.
const LOSS_REDUCTION: Gain = Gain::percent(50);

#[derive(Clone, Debug)]
pub(crate) struct Reno {
    slow_start: SlowStart,
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
    pub(crate) fn new(_: &mut Conn, _: Instant, config: &Config, _: RenoOptions) -> Self {
        Self { slow_start: SlowStart::new(config.start), acked: 0, undo: None }
    }
}

impl CongestionControl for Reno {
    /// RFC 9002 sections 7.3.1 and 7.3.3.
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let acked = rs.newly_acked_after_recovery;
        self.slow_start.observe(conn, rs);
        if self.slow_start.converges() {
            self.slow_start.converge(conn, rs);
        } else if self.slow_start.is_in(conn) {
            self.slow_start.grow(conn, rs, acked);
        } else if conn.may_grow(rs) {
            self.acked = self.acked.saturating_add(acked.saturating_mul(conn.smss));
            conn.cwnd = conn.cwnd.saturating_add(self.acked / conn.cwnd);
            self.acked %= conn.cwnd;
        }
        self.slow_start.pace(conn);
    }

    /// OnCongestionEvent(), RFC 9002 section 7.3.2: once an episode.
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if !congestion.new_episode {
            return;
        }
        self.undo = Some(Undo { cwnd: conn.cwnd, ssthresh: self.slow_start.ssthresh() });
        self.slow_start.reduce(conn, LOSS_REDUCTION);
        self.acked = 0;
        self.slow_start.pace(conn);
    }

    /// Persistent congestion, RFC 9002 section 7.6.2.
    fn on_rto(&mut self, conn: &mut Conn) {
        conn.note_timeout_answered();
        self.slow_start.time_out(conn);
        self.acked = 0;
        self.slow_start.pace(conn);
    }

    fn on_safe_retreat(&mut self, conn: &mut Conn) {
        self.undo = None;
        self.slow_start.end_convergence(conn);
        self.slow_start.pace(conn);
    }

    fn on_retreated(&mut self, conn: &mut Conn, half_of_pipe: u64) {
        self.slow_start.set_ssthresh(half_of_pipe);
        self.slow_start.pace(conn);
    }

    /// The window before the episode (RFC 9002 leaves it open; as RFC 9438 section 4.9.2).
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if let Some(undo) = self.undo.take().filter(|undo| conn.cwnd < undo.cwnd) {
            conn.cwnd = undo.cwnd;
            self.slow_start.set_ssthresh(undo.ssthresh);
            self.slow_start.pace(conn);
        }
    }

    /// RFC 5681 section 4.1, and the threshold of RFC 2861: three quarters of the window stay
    /// known.
    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        if cwnd < conn.cwnd {
            let known = conn.cwnd - conn.cwnd / 4;
            self.slow_start.set_ssthresh(self.slow_start.ssthresh().max(known));
            conn.cwnd = cwnd.max(conn.smss);
            self.slow_start.pace(conn);
        }
    }

    fn on_mtu_update(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(conn.min_window());
        // The rate of a smaller window would hold this one back.
        self.slow_start.pace(conn);
    }

    /// Rapid Start brings the window down by a rule of its own.
    fn wants_prr(&self) -> bool {
        !self.slow_start.converges()
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        let ssthresh = self.slow_start.ssthresh();
        let ssthresh = (ssthresh != INFINITE).then_some(ssthresh);
        Snapshot { ssthresh, ..Snapshot::of(conn, "reno", self.slow_start.state(conn)) }
    }
}
