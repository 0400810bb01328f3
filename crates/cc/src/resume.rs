//! Careful Resume (RFC 9959): a new connection goes on with a part of what an earlier one had over
//! the same path, and goes back if the path does not carry it any more.
//!
//! [`next`] is the table of phases and events. While a jump lasts, the algorithm does not see it:
//! its own window and rate are those of a connection without the saved parameters, and what it
//! derives from them (a threshold, the state for an undo, the window to restore) is too. The jump's
//! window and rate are laid over them after each event, and taken away before the next one. So
//! every end of a jump but its validation leaves the connection as if there had been none.
//!
//! Lifetime, remote endpoint and the single use of saved parameters (sections 3.1 and 3.2) are the
//! transport's to keep: only it knows addresses and other connections.

mod machine;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use crate::sampler::MAX_TX_IN_FLIGHT;
use crate::units::Duration;

pub(crate) use machine::{News, Resume};

/// Parameters under this many initial windows are not worth saving (section 3.1).
const LEAST_INITIAL_WINDOWS: u64 = 4;

/// The default of [`crate::Config::max_jump`]: 450 Mbit/s over the round trip of a satellite, 0.6 s,
/// saved.
pub(crate) const MAX_JUMP: u64 = 16 << 20;
/// The default of [`crate::Config::resume_within`]. The RFC has parameters live for minutes to
/// hours, so that a minute adds little to their age.
pub(crate) const RESUME_WITHIN: Duration = Duration::from_secs(60);

/// The congestion control parameters of a path that a connection leaves for the next one: the RFC's
/// CC parameters. [`crate::Controller::saved_parameters`] makes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SavedParameters {
    /// saved_cwnd: the volume in bytes that the path carried in a round trip.
    pub cwnd: u64,
    /// saved_rtt: the shortest round trip.
    pub rtt: Duration,
}

impl SavedParameters {
    /// The parameters, if they are worth saving.
    pub(crate) fn worth(cwnd: u64, rtt: Duration, initial_cwnd: u64) -> Option<Self> {
        (cwnd >= initial_cwnd.saturating_mul(LEAST_INITIAL_WINDOWS)).then_some(Self { cwnd, rtt })
    }

    /// False for what no path has: no round trip, or a flight beyond what the sampler counts.
    fn is_possible(&self) -> bool {
        self.rtt != Duration::ZERO && self.cwnd <= MAX_TX_IN_FLIGHT
    }
}

/// The phases of a connection that resumes (section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum ResumePhase {
    /// It sends as any other, and looks whether the path is the one that it knows.
    Reconnaissance,
    /// It sends up to half of what was saved, paced over a round trip.
    Unvalidated,
    /// It waits for the acknowledgements of that.
    Validating,
    /// Some of it was lost or marked. The saved parameters must not be used again:
    /// [`crate::Controller::saved_parameters_failed`].
    SafeRetreat,
}

/// What happens to a connection that resumes, as far as a phase may end with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// None of the others.
    Nothing,
    /// The initial window was delivered over the path that is known, and there is more to send.
    InitialWindowDelivered,
    /// There is nothing to jump to: the window is as large already, the algorithm has left its
    /// start, or the sender does not pace (what is unvalidated has to be paced).
    CannotJump,
    /// The round trip is one of another path.
    OtherRtt,
    /// [`crate::Config::resume_within`] is over.
    Deadline,
    /// The first packet of the jump was acknowledged; all of the jump in Validating; in Safe Retreat
    /// a packet that was sent after it began, or nothing is in flight any more.
    MarkAcked,
    /// The jump's window is full, or the algorithm has left its start.
    WindowUsed,
    /// A round trip has passed since the jump began.
    RoundOver,
    /// At the end of a jump no more was sent than the usual, or nothing was in flight for a time.
    LittleSent,
    /// Losses or marks.
    Congestion,
    /// The retransmission timeout, or persistent congestion.
    Timeout,
    /// Losses were none.
    SpuriousLoss,
    /// The flow goes on from another port: nothing is known of what was in flight.
    FlightForgotten,
    /// The flow goes on over another path, or with another algorithm, and begins anew.
    BegunAnew,
}

/// The window after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Window {
    /// The algorithm's own.
    Own,
    /// A part of the saved one.
    Jump,
    /// The flight at the end of the jump. It grows as the algorithm's own in slow start, and gives
    /// way to it when the algorithm has left its start.
    Flight,
    /// The same, for good: the path has carried it.
    Carried,
    /// The algorithm's own, but no more than half of what was delivered, and no growth.
    HalfOfPipe,
}

/// The pacing rate after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// The algorithm's own; where it paces by its window, for the window of this phase.
    Own,
    /// At least the jump's window in a round trip.
    Jump,
}

/// ssthresh after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ssthresh {
    /// The algorithm's own.
    Own,
    /// Half of what was delivered.
    HalfOfPipe,
}

/// The state for the undo of a response to losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Undo {
    /// The algorithm's own.
    Own,
    /// Dropped: the response stands.
    None,
}

/// The saved parameters that the connection began with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Saved {
    /// Another connection may use them.
    Usable,
    /// Not before this one has proven them.
    Unproven,
    /// Nobody may use them again (section 3.5).
    Failed,
}

/// All that follows from an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// `None`: Normal.
    pub(crate) phase: Option<ResumePhase>,
    pub(crate) window: Window,
    pub(crate) pace: Pace,
    pub(crate) ssthresh: Ssthresh,
    pub(crate) undo: Undo,
    pub(crate) saved: Saved,
}

/// As a connection without saved parameters.
const NORMAL: Step = Step {
    phase: None,
    window: Window::Own,
    pace: Pace::Own,
    ssthresh: Ssthresh::Own,
    undo: Undo::Own,
    saved: Saved::Usable,
};
const LOOK: Step = Step { phase: Some(ResumePhase::Reconnaissance), ..NORMAL };
const JUMP: Step = Step {
    phase: Some(ResumePhase::Unvalidated),
    window: Window::Jump,
    pace: Pace::Jump,
    saved: Saved::Unproven,
    ..NORMAL
};
const VALIDATE: Step =
    Step { phase: Some(ResumePhase::Validating), window: Window::Flight, ..JUMP };
const CARRIED: Step = Step { window: Window::Carried, ..NORMAL };
/// The jump ends without a proof that the path carries it.
const FAILED: Step = Step { saved: Saved::Failed, ..NORMAL };
const RETREAT: Step = Step {
    phase: Some(ResumePhase::SafeRetreat),
    window: Window::HalfOfPipe,
    undo: Undo::None,
    ..FAILED
};
const RETREATED: Step =
    Step { window: Window::HalfOfPipe, ssthresh: Ssthresh::HalfOfPipe, ..FAILED };

/// The table of section 3: what follows from an event in a phase; `None` is Normal.
pub(crate) const fn next(phase: Option<ResumePhase>, event: Event) -> Step {
    use Event::*;
    use ResumePhase::*;
    match (phase, event) {
        (None, _) => NORMAL,

        (Some(Reconnaissance), InitialWindowDelivered) => JUMP,
        (
            Some(Reconnaissance),
            CannotJump | OtherRtt | Deadline | Congestion | Timeout | FlightForgotten | BegunAnew,
        ) => NORMAL,
        (
            Some(Reconnaissance),
            Nothing | MarkAcked | WindowUsed | RoundOver | LittleSent | SpuriousLoss,
        ) => LOOK,

        (Some(Unvalidated), MarkAcked | WindowUsed | RoundOver) => VALIDATE,
        (Some(Unvalidated | Validating), LittleSent) => NORMAL,
        (Some(Unvalidated | Validating), OtherRtt | Congestion) => RETREAT,
        (Some(Unvalidated | Validating), Timeout | FlightForgotten | BegunAnew) => FAILED,
        (
            Some(Unvalidated),
            Nothing | InitialWindowDelivered | CannotJump | Deadline | SpuriousLoss,
        ) => JUMP,

        (Some(Validating), MarkAcked) => CARRIED,
        (
            Some(Validating),
            Nothing
            | InitialWindowDelivered
            | CannotJump
            | Deadline
            | WindowUsed
            | RoundOver
            | SpuriousLoss,
        ) => VALIDATE,

        (Some(SafeRetreat), MarkAcked | LittleSent | Timeout | FlightForgotten) => RETREATED,
        (Some(SafeRetreat), BegunAnew) => FAILED,
        (
            Some(SafeRetreat),
            Nothing
            | InitialWindowDelivered
            | CannotJump
            | OtherRtt
            | Deadline
            | WindowUsed
            | RoundOver
            | Congestion
            | SpuriousLoss,
        ) => RETREAT,
    }
}
