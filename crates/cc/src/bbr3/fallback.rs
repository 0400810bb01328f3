//! The fallback of the draft's flavours for a classic queue, which marks by RFC 3168 (RFC 9331
//! section 4.3). One of its marks means to CUBIC and Reno what a loss means. It marks a few packets
//! in a thousand, and what [`super::ecn`] takes for that from the window is next to nothing.
//!
//! While [`ClassicQueue`] is sure that the queue is such a one, the window has a bound that does
//! what Reno's window does, with CUBIC's factor. A mark takes it to 0.7 at once, and so does no
//! other one before a packet has arrived that left after that. A round trip in which it was the
//! limit, and in which nothing was marked, adds a packet. BBR's model goes on below the bound.
//!
//! Startup, UP and the round trips after them make a queue themselves, in a queue of L4S as well.
//! So only round trips of packets that left in CRUISE are looked at, and of those none that the
//! application limited, which may have the receiver's wait for a second packet in it. But CRUISE
//! may have no marks where the queue marks what a probe adds: the marks of a whole cycle of ProbeBW
//! count for its CRUISE.

use super::Bbr3;
use super::params::{CLASSIC_BETA, Flavour};
use crate::classic_queue::{ClassicQueue, SURE};
use crate::conn::{Conn, INFINITE};
use crate::sampler::RateSample;
use crate::snapshot::State;

#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    queue: ClassicQueue,
    /// The bound; infinite while the queue is taken for one of L4S.
    window: u64,
    /// C.delivered at the newest reduction: the marks of packets that left before are answered.
    reduced: u64,
    /// C.delivered when the newest CRUISE began.
    cruise_began: u64,
    /// The ACK at hand brought marks; an ACK since REFILL did.
    is_marked: bool,
    is_cycle_marked: bool,
}

impl Fallback {
    pub(super) const fn new() -> Self {
        Self {
            queue: ClassicQueue::new(true),
            window: INFINITE,
            reduced: 0,
            cruise_began: 0,
            is_marked: false,
            is_cycle_marked: false,
        }
    }

    pub(super) const fn is_classic(&self) -> bool {
        self.window != INFINITE
    }

    pub(super) const fn note_marks(&mut self) {
        self.is_marked = true;
        self.is_cycle_marked = true;
    }

    /// A sample that shows the queue: its packet left in CRUISE, and the application was not the
    /// limit.
    const fn is_of_cruise(&self, rs: &RateSample) -> bool {
        rs.prior_delivered >= self.cruise_began && !rs.is_app_limited
    }

    /// A cycle of ProbeBW begins, with REFILL.
    pub(super) const fn begin_cycle(&mut self) {
        self.is_cycle_marked = false;
    }
}

impl<F: Flavour> Bbr3<F> {
    /// One ACK, after the state machine's steps and before the window is set.
    #[inline]
    pub(super) fn follow_classic_queue(&mut self, conn: &Conn, rs: &RateSample) {
        let (state, round_start) = (self.state, self.round.start);
        let Some(fallback) = F::fallback_mut(&mut self.own) else { return };
        let is_cruise = state == State::ProbeBwCruise;
        if !is_cruise {
            fallback.cruise_began = conn.sampler.delivered;
        }
        if is_cruise && fallback.is_of_cruise(rs) {
            fallback.queue.observe(conn, rs);
        } else {
            fallback.queue.note_least(rs);
        }
        if round_start | fallback.is_marked {
            self.renew_fallback(conn, rs);
        }
    }

    /// Once a round, and with each ACK that brings marks.
    #[cold]
    fn renew_fallback(&mut self, conn: &Conn, rs: &RateSample) {
        let (least, round_start, bdp) =
            (self.min_pipe_cwnd(conn), self.round.start, self.bandwidth.bdp);
        let Some(fallback) = F::fallback_mut(&mut self.own) else { return };
        if round_start && fallback.is_of_cruise(rs) {
            fallback.queue.judge_by_mean(fallback.is_cycle_marked);
            match fallback.queue.certainty() {
                0 => fallback.window = INFINITE,
                // What one ACK finds in flight may be little: a hole in what was sent.
                SURE if !fallback.is_classic() => {
                    fallback.window = conn.cwnd.min(rs.prior_inflight.max(bdp));
                }
                _ => {}
            }
        }
        let is_marked = core::mem::take(&mut fallback.is_marked);
        if !fallback.is_classic() || rs.prior_delivered < fallback.reduced {
            return;
        }
        if is_marked {
            fallback.window = CLASSIC_BETA.of(fallback.window).max(least);
            fallback.reduced = conn.sampler.delivered;
        } else if round_start && conn.cwnd >= fallback.window && conn.is_cwnd_limited() {
            fallback.window = fallback.window.saturating_add(conn.smss);
        }
    }

    /// True while the queue is taken for a classic one.
    #[inline]
    pub(super) fn is_queue_classic(&self) -> bool {
        F::fallback(&self.own).is_some_and(Fallback::is_classic)
    }

    /// The bound of the window, infinite without one.
    #[inline]
    pub(super) fn classic_inflight(&self, conn: &Conn) -> u64 {
        F::fallback(&self.own)
            .map_or(INFINITE, |fallback| fallback.window.max(self.min_pipe_cwnd(conn)))
    }
}

#[cfg(all(test, feature = "l4s"))]
mod tests;
