//! Careful Resume as a transport sees it: what to keep of a path, and how its use went.

use super::Controller;
#[cfg(feature = "careful-resume")]
use crate::resume::{ResumePhase, SavedParameters};
#[cfg(feature = "careful-resume")]
use crate::snapshot::State;

impl Controller {
    /// The parameters of this path for a later connection
    /// ([`Config::resume`](crate::Config::resume)): the volume that it carried in a round trip, and
    /// the shortest round trip (RFC 9959 section 3.1). `None` before they are known, while those of
    /// an earlier connection are not validated, and for less than four initial windows, which slow
    /// start reaches as fast.
    ///
    /// The transport keeps them for one remote endpoint, for a lifetime of minutes to hours, lets
    /// one connection use them at a time, and deletes them when [`Self::saved_parameters_failed`].
    #[cfg(feature = "careful-resume")]
    pub fn saved_parameters(&self) -> Option<SavedParameters> {
        if self.resume_phase().is_some_and(|phase| phase != ResumePhase::Reconnaissance) {
            return None;
        }
        let (snapshot, rtt) = (self.snapshot(), self.conn.min_rtt()?);
        let cwnd = match (snapshot.bbr, snapshot.state) {
            (Some(bbr), _) => bbr.bw.bytes_in(rtt),
            // Half of the window has crossed the path (section 4.1).
            (None, State::SlowStart | State::ConservativeSlowStart) => snapshot.cwnd / 2,
            (None, _) => snapshot.cwnd,
        };
        SavedParameters::worth(cwnd, rtt, self.conn.initial_cwnd)
    }

    /// The phase of Careful Resume; `None` without [`Config::resume`](crate::Config::resume), and
    /// when it is over.
    #[cfg(feature = "careful-resume")]
    pub fn resume_phase(&self) -> Option<ResumePhase> {
        self.resume.map(|resume| resume.phase())
    }

    /// True from Safe Retreat on, and after a timeout in one of the two phases before it: the path
    /// did not carry what [`Config::resume`](crate::Config::resume) said. Nobody may use these
    /// parameters again (RFC 9959 section 3.5).
    #[cfg(feature = "careful-resume")]
    pub fn saved_parameters_failed(&self) -> bool {
        self.has_retreated
    }

    /// The path, or the account of what is in flight on it, is another one.
    pub(super) fn stop_resuming(&mut self) {
        #[cfg(feature = "careful-resume")]
        {
            self.resume = None;
        }
    }

    /// True while Careful Resume looks at each ACK.
    #[inline(always)]
    pub(super) fn is_resuming(&self) -> bool {
        #[cfg(feature = "careful-resume")]
        return self.resume.is_some();
        #[cfg(not(feature = "careful-resume"))]
        false
    }
}
