//! A controller as an onlooker sees it.

use fullpipe_cc::{Controller, Snapshot};
#[cfg(feature = "careful-resume")]
use fullpipe_cc::{ResumePhase, SavedParameters};

/// All that a controller tells, of one moment.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The model.
    pub snapshot: Snapshot,
    /// What it would leave for a later connection over the same path.
    #[cfg(feature = "careful-resume")]
    pub saved: Option<SavedParameters>,
    /// True if the path did not carry what it began with.
    #[cfg(feature = "careful-resume")]
    pub has_failed: bool,
    /// The phase of Careful Resume.
    #[cfg(feature = "careful-resume")]
    pub phase: Option<ResumePhase>,
}

impl View {
    /// What the controller tells now.
    pub fn of(core: &Controller) -> Self {
        Self {
            snapshot: core.snapshot(),
            #[cfg(feature = "careful-resume")]
            saved: core.saved_parameters(),
            #[cfg(feature = "careful-resume")]
            has_failed: core.saved_parameters_failed(),
            #[cfg(feature = "careful-resume")]
            phase: core.resume_phase(),
        }
    }
}
