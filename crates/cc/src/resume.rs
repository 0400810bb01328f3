//! Careful Resume (RFC 9959): a new connection goes on with a part of what an earlier one had over
//! the same path, and goes back if the path does not carry it any more.
//!
//! ```text
//!                                  congestion, timeout, another RTT
//! Reconnaissance ------------------------------------------------> Normal
//!       | initial window delivered                                   ^
//!       v                                                            |
//! Unvalidated --- little was sent -----------------------------------+
//!       |   \                                                        |
//!       |    +--> Validating --- all of it delivered ----------------+
//!       |             |                                              |
//!       +-------------+--- congestion ---> Safe Retreat -------------+
//! ```
//!
//! Lifetime, remote endpoint and the single use of saved parameters (sections 3.1 and 3.2) are the
//! transport's to keep: only it knows addresses and other connections.

use crate::conn::Conn;
use crate::sampler::{PacketState, SendOrder};
use crate::snapshot::State;
use crate::units::{Duration, Instant, Rate};

/// The part of saved_cwnd that a connection jumps to: at most half (section 3.3).
const JUMP_DIVISOR: u64 = 2;
/// Round trips that are this many times longer are another path (section 4.2.1).
const MAX_RTT_RATIO: u64 = 10;
/// Round trips of this part of saved_rtt, or less, are another path (section 3.2).
const MIN_RTT_DIVISOR: u64 = 2;
/// Beta of Safe Retreat (section 3.5): the new ssthresh is the PipeSize through this.
const RETREAT_DIVISOR: u64 = 2;
/// The least window that a phase sets, in packets: BBR.MinPipeCwnd. RFC 9002 has two.
const LEAST_PACKETS: u64 = 4;
/// Parameters under this many initial windows are not worth saving (section 3.1).
const LEAST_INITIAL_WINDOWS: u64 = 4;

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

    fn is_too_short(&self, rtt: Duration) -> bool {
        rtt.as_nanos() <= self.rtt.as_nanos() / MIN_RTT_DIVISOR
    }

    fn is_too_long(&self, rtt: Duration) -> bool {
        rtt.as_nanos() > self.rtt.as_nanos().saturating_mul(MAX_RTT_RATIO)
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

/// The part of a batch that matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News<'a> {
    pub(crate) now: Instant,
    pub(crate) newest: Option<&'a PacketState>,
    pub(crate) newly_acked: u64,
    /// Something was lost, or marked with CE.
    pub(crate) is_congested: bool,
    pub(crate) has_timed_out: bool,
}

/// The end of a phase, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// It goes on.
    Stay,
    /// Safe Retreat begins.
    Retreat,
    /// Safe Retreat is over: this is the largest ssthresh.
    Retreated(u64),
    /// Back to the algorithm alone.
    Normal,
    /// The same, since the jump ended in a timeout. The saved parameters must not be used again.
    Failed,
}

const fn least_window(conn: &Conn) -> u64 {
    LEAST_PACKETS * conn.smss
}

/// A connection that resumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resume {
    saved: SavedParameters,
    phase: ResumePhase,
    /// PipeSize: validated bytes.
    pipe_size: u64,
    /// The first packet that was sent in the Unvalidated Phase; later the first one that was sent
    /// after it.
    mark: SendOrder,
    /// The time at which the Unvalidated Phase is over.
    until: Instant,
    /// The window that the phase does not exceed.
    cwnd: u64,
    /// The rate of the Unvalidated Phase.
    rate: Rate,
}

impl Resume {
    pub(crate) fn new(saved: SavedParameters) -> Self {
        Self {
            saved,
            phase: ResumePhase::Reconnaissance,
            pipe_size: 0,
            mark: SendOrder::default(),
            until: Instant::default(),
            cwnd: 0,
            rate: Rate::ZERO,
        }
    }

    pub(crate) const fn phase(&self) -> ResumePhase {
        self.phase
    }

    /// True while packets are under way that the path was not known to carry.
    const fn is_in_jump(&self) -> bool {
        matches!(self.phase, ResumePhase::Unvalidated | ResumePhase::Validating)
    }

    /// The window of a connection that stops to resume here: what was validated, where it is in the
    /// jump.
    pub(crate) fn window_at_stop(&self, conn: &Conn) -> Option<u64> {
        let validated = self.pipe_size.max(conn.initial_cwnd).max(least_window(conn));
        self.is_in_jump().then_some(validated.min(conn.cwnd))
    }

    /// After the algorithm has taken a batch in, and is in `state`: the next phase, and its window
    /// and rate.
    pub(crate) fn step(&mut self, conn: &mut Conn, state: State, news: &News<'_>) -> Step {
        if news.has_timed_out {
            return if self.is_in_jump() { Step::Failed } else { Step::Normal };
        }
        if self.phase != ResumePhase::Reconnaissance {
            self.pipe_size = self.pipe_size.saturating_add(news.newly_acked);
        }
        match self.phase {
            ResumePhase::Reconnaissance => self.confirm(conn, state, news),
            ResumePhase::Unvalidated => self.jump_on(conn, state, news),
            ResumePhase::Validating if news.is_congested => self.retreat(conn, self.mark),
            ResumePhase::Validating if self.is_past_mark(conn, news) => Step::Normal,
            ResumePhase::Validating => Step::Stay,
            ResumePhase::SafeRetreat if self.is_past_mark(conn, news) => {
                Step::Retreated((self.pipe_size / RETREAT_DIVISOR).max(least_window(conn)))
            }
            ResumePhase::SafeRetreat => {
                // Section 3.5: the window does not grow.
                self.cwnd = self.cwnd.min(conn.cwnd).max(least_window(conn));
                conn.cwnd = self.cwnd;
                Step::Stay
            }
        }
    }

    /// True if a packet was acknowledged that was sent at the mark or later. Where none was sent
    /// since, the whole flight has to be gone.
    fn is_past_mark(&self, conn: &Conn, news: &News<'_>) -> bool {
        conn.inflight == 0 || news.newest.is_some_and(|newest| !self.mark.is_after(newest.order()))
    }

    /// Section 3.2. The path is confirmed when the initial window was delivered; a sender that
    /// has no more to send waits. BBR jumps in Startup alone (appendix on BBR).
    fn confirm(&mut self, conn: &mut Conn, state: State, news: &News<'_>) -> Step {
        let (Some(min_rtt), Some(rtt)) = (conn.min_rtt(), conn.srtt()) else {
            return if news.is_congested { Step::Normal } else { Step::Stay };
        };
        let jump = self.saved.cwnd / JUMP_DIVISOR;
        if news.is_congested
            || !matches!(state, State::Startup | State::SlowStart)
            || !conn.is_paced
            || conn.cwnd >= jump
            || self.saved.is_too_short(min_rtt)
            || self.saved.is_too_long(min_rtt)
        {
            return Step::Normal;
        }
        if conn.sampler.delivered < conn.initial_cwnd || conn.sampler.is_app_limited() {
            return Step::Stay;
        }
        self.phase = ResumePhase::Unvalidated;
        // A transport may send more than the window, which says nothing of the path.
        self.pipe_size = conn.inflight.min(conn.cwnd);
        self.mark = conn.sampler.next_order(news.now);
        self.until = news.now + rtt;
        self.cwnd = jump;
        self.rate = Rate::from_volume(jump, rtt);
        self.hold_jump(conn, state);
        Step::Stay
    }

    /// The window of the Unvalidated Phase, and its pace: the window over the current round trip
    /// (section 4.3.2). BBR keeps a rate of its own that is higher (appendix on BBR); that of a
    /// window would be twice as high in slow start.
    fn hold_jump(&self, conn: &mut Conn, state: State) {
        conn.cwnd = self.cwnd;
        let own = if state == State::Startup { conn.pacing_rate } else { Rate::ZERO };
        conn.set_pacing_rate(self.rate.max(own));
        conn.set_send_quantum(conn.pacing_rate.bytes_in(Duration::from_millis(1)));
    }

    /// Section 3.3.
    fn jump_on(&mut self, conn: &mut Conn, state: State, news: &News<'_>) -> Step {
        let is_other_path = conn.min_rtt().is_some_and(|rtt| self.saved.is_too_short(rtt));
        let next = conn.sampler.next_order(news.now);
        if news.is_congested || is_other_path {
            return self.retreat(conn, next);
        }
        let is_acknowledged = news.newest.is_some_and(|newest| !self.mark.is_after(newest.order()));
        if !is_acknowledged && !conn.is_window_full() && news.now < self.until {
            self.hold_jump(conn, state);
            return Step::Stay;
        }
        if conn.inflight < conn.initial_cwnd || conn.inflight <= self.pipe_size {
            conn.cwnd = self.pipe_size.max(conn.initial_cwnd).max(least_window(conn));
            return Step::Normal;
        }
        conn.cwnd = conn.inflight.min(self.cwnd).max(least_window(conn));
        self.phase = ResumePhase::Validating;
        self.mark = next;
        Step::Stay
    }

    /// Section 3.5: half of what was validated, at most. `mark`: what was sent before is
    /// unvalidated.
    fn retreat(&mut self, conn: &mut Conn, mark: SendOrder) -> Step {
        self.phase = ResumePhase::SafeRetreat;
        self.mark = mark;
        self.cwnd = (self.pipe_size / RETREAT_DIVISOR).max(least_window(conn)).min(conn.cwnd);
        conn.cwnd = self.cwnd;
        Step::Retreat
    }
}
