//! What a spurious loss recovery gives back, "Saving State Upon Loss Recovery".

use super::bounds::Bounds;
use crate::snapshot::State;
use crate::units::Rate;

/// BBR.undo_*.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    /// BBR.undo_state: the state that the losses of this episode ended.
    pub(super) state: Option<State>,
    /// BBR.undo_bw_shortterm, undo_inflight_shortterm and undo_inflight_longterm.
    pub(super) bounds: Bounds,
}

impl Undo {
    /// Gives nothing back.
    pub(super) const NONE: Self = Self {
        state: None,
        bounds: Bounds { bw_shortterm: Rate::ZERO, inflight_shortterm: 0, inflight_longterm: 0 },
    };

    /// SaveStateUponLoss().
    pub(super) fn save(&mut self, bounds: &Bounds) {
        *self = Self { state: None, bounds: bounds.clone() };
    }
}
