//! The bounds that losses put on the model, "Bounding cwnd Based on Recent Congestion".

use crate::conn::INFINITE;
use crate::units::Rate;

/// Short-term bounds, from the newest losses, and the long-term one, from probes.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// BBR.bw_shortterm; [`Rate::MAX`] without one.
    pub(super) bw_shortterm: Rate,
    /// BBR.inflight_shortterm in bytes; [`INFINITE`] without one.
    pub(super) inflight_shortterm: u64,
    /// BBR.inflight_longterm in bytes; [`INFINITE`] without one.
    pub(super) inflight_longterm: u64,
}

impl Bounds {
    pub(super) const NONE: Self =
        Self { bw_shortterm: Rate::MAX, inflight_shortterm: INFINITE, inflight_longterm: INFINITE };

    /// ResetShortTermModel().
    pub(super) const fn reset_short_term(&mut self) {
        self.bw_shortterm = Rate::MAX;
        self.inflight_shortterm = INFINITE;
    }

    /// InitLowerBounds().
    pub(super) fn init_lower(&mut self, max_bw: Rate, cwnd: u64) {
        if self.bw_shortterm == Rate::MAX {
            self.bw_shortterm = max_bw;
        }
        if self.inflight_shortterm == INFINITE {
            self.inflight_shortterm = cwnd;
        }
    }

    /// Each bound is at least as high as in `saved`.
    pub(super) fn raise_to(&mut self, saved: &Self) {
        self.bw_shortterm = self.bw_shortterm.max(saved.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(saved.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(saved.inflight_longterm);
    }

    /// The lower one of both on the volume in flight.
    pub(super) fn inflight(&self) -> u64 {
        self.inflight_longterm.min(self.inflight_shortterm)
    }
}
