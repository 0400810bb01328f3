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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_episode_forgets_the_state_that_the_last_one_ended() {
        let mut undo = Undo { state: Some(State::Startup), ..Undo::NONE };
        undo.save(&Bounds { inflight_longterm: 7, ..Bounds::NONE });
        assert_eq!((undo.state, undo.bounds.inflight_longterm), (None, 7));
        assert_eq!(Undo::NONE.bounds.inflight(), 0, "raises nothing");
    }
}
