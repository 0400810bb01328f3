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
    #[inline]
    pub(super) fn inflight(&self) -> u64 {
        self.inflight_longterm.min(self.inflight_shortterm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_loss_sets_what_has_no_value() {
        let rate = Rate::from_bytes_per_sec;
        let mut bounds = Bounds::NONE;
        assert_eq!(bounds.inflight(), INFINITE);
        bounds.init_lower(rate(1_000), 50);
        assert_eq!((bounds.bw_shortterm, bounds.inflight_shortterm), (rate(1_000), 50));
        bounds.init_lower(rate(2_000), 90);
        assert_eq!((bounds.bw_shortterm, bounds.inflight_shortterm), (rate(1_000), 50));
        bounds.inflight_longterm = 40;
        assert_eq!(bounds.inflight(), 40);
        bounds.reset_short_term();
        assert_eq!((bounds.bw_shortterm, bounds.inflight_shortterm), (Rate::MAX, INFINITE));
        assert_eq!(bounds.inflight_longterm, 40);
    }

    /// A bound that is higher now stays.
    #[test]
    fn an_undo_raises_each_bound_by_itself() {
        let rate = Rate::from_bytes_per_sec;
        let of = |bw, short, long| Bounds {
            bw_shortterm: rate(bw),
            inflight_shortterm: short,
            inflight_longterm: long,
        };
        let mut bounds = of(10, 200, 30);
        bounds.raise_to(&of(20, 100, 60));
        let all = (bounds.bw_shortterm, bounds.inflight_shortterm, bounds.inflight_longterm);
        assert_eq!(all, (rate(20), 200, 60));
    }
}
