//! Careful Resume in a controller: what a transport sees of it, and how its events come to
//! [`crate::resume`].

use super::Controller;
#[cfg(feature = "careful-resume")]
use super::{Algo, each, each_of};
#[cfg(feature = "careful-resume")]
use crate::algo::CongestionControl;
#[cfg(feature = "careful-resume")]
use crate::resume::{Event, News, ResumePhase, Saved, SavedParameters, Ssthresh, Undo, next};
#[cfg(feature = "careful-resume")]
use crate::snapshot::State;
use crate::units::Instant;

impl Controller {
    /// The parameters of this path for a later connection
    /// ([`Config::resume`](crate::Config::resume)): the volume that it carried in a round trip, and
    /// the shortest round trip (RFC 9959 section 3.1). `None` before they are known, while those of
    /// an earlier connection are not validated, and for less than four initial windows, which slow
    /// start reaches as fast. Never more than was delivered in the round trip of a packet.
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
        // A window that is not the limit says nothing of the path.
        let cwnd = cwnd.min(self.most_in_round_trip);
        SavedParameters::worth(cwnd, rtt, self.conn.initial_cwnd)
    }

    /// The phase of Careful Resume; `None` without [`Config::resume`](crate::Config::resume), and
    /// when it is over.
    #[cfg(feature = "careful-resume")]
    pub fn resume_phase(&self) -> Option<ResumePhase> {
        self.resume.map(|resume| resume.phase())
    }

    /// True from Safe Retreat on, after a jump that a timeout or a change of the path broke off, and
    /// for parameters that no path has: the path did not prove what
    /// [`Config::resume`](crate::Config::resume) said. Nobody may use these parameters again (RFC
    /// 9959 section 3.5).
    #[cfg(feature = "careful-resume")]
    pub fn saved_parameters_failed(&self) -> bool {
        self.has_saved_failed
    }

    /// The algorithm is about to hear of something: it does not see the jump.
    #[inline(always)]
    pub(super) fn lift_jump(&mut self) {
        #[cfg(feature = "careful-resume")]
        if let Some(resume) = &self.resume {
            resume.lift(&mut self.conn);
        }
    }

    /// The algorithm has heard of something that is no event of Careful Resume.
    pub(super) fn lay_jump(&mut self, now: Instant) {
        #[cfg(feature = "careful-resume")]
        self.resume_on(now, 0, Event::Nothing);
        #[cfg(not(feature = "careful-resume"))]
        let _ = now;
    }

    /// Nothing was in flight for a time.
    pub(super) fn resume_after_pause(&mut self, now: Instant) {
        #[cfg(feature = "careful-resume")]
        self.resume_on(now, 0, Event::LittleSent);
        #[cfg(not(feature = "careful-resume"))]
        let _ = now;
    }

    pub(super) fn resume_after_spurious_loss(&mut self, now: Instant) {
        #[cfg(feature = "careful-resume")]
        self.resume_on(now, 0, Event::SpuriousLoss);
        #[cfg(not(feature = "careful-resume"))]
        let _ = now;
    }

    /// What was in flight is forgotten.
    pub(super) fn resume_without_flight(&mut self) {
        #[cfg(feature = "careful-resume")]
        // No phase begins with it, so that the time does not matter.
        self.resume_on(Instant::default(), 0, Event::FlightForgotten);
    }

    /// Another controller begins anew where `before` was.
    pub(super) fn stop_resuming_after(&mut self, before: &Self) {
        #[cfg(feature = "careful-resume")]
        {
            let step = next(before.resume_phase(), Event::BegunAnew);
            self.resume = None;
            self.has_saved_failed = before.has_saved_failed || step.saved == Saved::Failed;
        }
        #[cfg(not(feature = "careful-resume"))]
        let _ = before;
    }

    /// An ACK, or a firing of the loss timer, after the algorithm.
    #[cfg(feature = "careful-resume")]
    #[cold]
    pub(super) fn resume_after_batch(&mut self, news: &News<'_>) {
        let state = self.state();
        if let Some(resume) = &mut self.resume {
            let event = resume.event(&self.conn, state, news);
            self.resume_on(news.now, news.newly_acked, event);
        }
    }

    /// Does what the table says.
    #[cfg(feature = "careful-resume")]
    #[cold]
    fn resume_on(&mut self, now: Instant, newly_acked: u64, event: Event) {
        let Some(mut resume) = self.resume else { return };
        let (before, state) = (resume.phase(), self.state());
        let step = resume.take(&mut self.conn, state, now, event, newly_acked);
        if step.undo == Undo::None && before != resume.phase() {
            each!(&mut self.algo, a => a.on_safe_retreat(&mut self.conn));
        }
        if step.ssthresh == Ssthresh::HalfOfPipe {
            let half = resume.half_of_pipe(&self.conn);
            each!(&mut self.algo, a => a.on_retreated(&mut self.conn, half));
        }
        self.has_saved_failed |= step.saved == Saved::Failed;
        self.resume = step.phase.is_some().then_some(resume);
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
