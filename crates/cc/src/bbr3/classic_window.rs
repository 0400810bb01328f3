//! The bound that the marks of a classic queue put on the window. By RFC 3168 such a mark means to
//! CUBIC and Reno what a loss means, and a flow beside them gets its share by the same answer.
//!
//! The bound does what Reno's window does, with CUBIC's factor. A mark takes it to 0.7 at once, and
//! no other mark does before a packet has arrived that left after that. A round trip in which the
//! bound was the limit, and in which nothing was marked, adds a packet. BBR's model goes on below
//! the bound.

use super::amend::View;
use super::params::MIN_PIPE_PACKETS;
use crate::conn::{Conn, INFINITE};
use crate::sampler::RateSample;
use crate::units::Gain;

/// The part of the window that a marked round trip leaves: CUBIC's factor (RFC 9438 section 4.6).
const CLASSIC_BETA: Gain = Gain::percent(70);

#[derive(Clone, Debug)]
pub(crate) struct ClassicWindow {
    /// In bytes, infinite for no bound.
    pub(super) bound: u64,
    /// C.delivered at the newest reduction: the marks of packets that left before are answered.
    reduced: u64,
}

impl ClassicWindow {
    pub(super) const NONE: Self = Self { bound: INFINITE, reduced: 0 };

    pub(super) const fn is_there(&self) -> bool {
        self.bound != INFINITE
    }

    /// The bound begins at the window at hand, if that is not far above the volume that the path
    /// holds. What one ACK finds in flight may be little: a hole in what was sent.
    pub(super) fn begin(&mut self, view: &View<'_>, rs: &RateSample) {
        let bdp = view.bandwidth.bw.bytes_in(view.rtt.min);
        self.bound = view.conn.cwnd.min(rs.prior_inflight.max(bdp));
    }

    /// True if the packet of a sample left before the newest reduction.
    const fn is_answered(&self, rs: &RateSample) -> bool {
        rs.prior_delivered < self.reduced
    }

    /// The ACK of a sample brought marks.
    pub(super) fn reduce(&mut self, conn: &Conn, rs: &RateSample) {
        if self.is_there() && !self.is_answered(rs) {
            self.bound = CLASSIC_BETA.of(self.bound).max(MIN_PIPE_PACKETS * conn.smss);
            self.reduced = conn.sampler.delivered;
        }
    }

    /// A round without marks begins with a sample.
    pub(super) fn grow(&mut self, conn: &Conn, rs: &RateSample) {
        let is_limit = conn.cwnd >= self.bound && conn.is_cwnd_limited();
        if self.is_there() && !self.is_answered(rs) && is_limit {
            self.bound = self.bound.saturating_add(conn.smss);
        }
    }
}
