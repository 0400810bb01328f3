//! The fallback of the draft's flavours for a classic queue, which marks by RFC 3168 (RFC 9331
//! section 4.3). One of its marks means to CUBIC and Reno what a loss means. It marks a few packets
//! in a thousand, and what [`super::ecn`] takes for that from the window is next to nothing.
//!
//! While [`ClassicQueue`] is sure that the queue is such a one, the window has the bound of
//! [`ClassicWindow`].
//!
//! Startup, UP and the round trips after them make a queue themselves, in a queue of L4S as well.
//! So only round trips of packets that left in CRUISE are looked at, and of those none that the
//! application limited, which may have the receiver's wait for a second packet in it. But CRUISE
//! may have no marks where the queue marks what a probe adds: the marks of a whole cycle of ProbeBW
//! count for its CRUISE.

use super::View;
use super::classic_window::ClassicWindow;
use crate::classic_queue::{ClassicQueue, SURE};
use crate::conn::INFINITE;
use crate::sampler::RateSample;
use crate::snapshot::State;

#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    queue: ClassicQueue,
    /// The bound; there is none while the queue is taken for one of L4S.
    window: ClassicWindow,
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
            window: ClassicWindow::NONE,
            cruise_began: 0,
            is_marked: false,
            is_cycle_marked: false,
        }
    }

    pub(super) const fn is_classic(&self) -> bool {
        self.window.is_there()
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

    /// The bound of the window, infinite while the queue is taken for one of L4S.
    pub(super) const fn window(&self) -> u64 {
        self.window.bound
    }

    /// One ACK, after the state machine's steps and before the window is set.
    #[inline]
    pub(super) fn follow(&mut self, view: &View<'_>, rs: &RateSample) {
        let is_cruise = view.state == State::ProbeBwCruise;
        if !is_cruise {
            self.cruise_began = view.conn.sampler.delivered;
        }
        if is_cruise && self.is_of_cruise(rs) {
            self.queue.observe(view.conn, rs);
        } else {
            self.queue.note_least(rs);
        }
        if view.round.start | self.is_marked {
            self.renew(view, rs);
        }
    }

    /// Once a round, and with each ACK that brings marks.
    #[cold]
    fn renew(&mut self, view: &View<'_>, rs: &RateSample) {
        let round_start = view.round.start;
        if round_start && self.is_of_cruise(rs) {
            self.queue.judge_by_mean(self.is_cycle_marked);
            match self.queue.certainty() {
                0 => self.window.bound = INFINITE,
                SURE if !self.is_classic() => self.window.begin(view, rs),
                _ => {}
            }
        }
        if core::mem::take(&mut self.is_marked) {
            self.window.reduce(view.conn, rs);
        } else if round_start {
            self.window.grow(view.conn, rs);
        }
    }
}

#[cfg(test)]
mod tests;
