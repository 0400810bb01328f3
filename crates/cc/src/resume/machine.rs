//! A connection in one of the phases: which event a batch is, and what the phase sets.

use super::{Event, Pace, ResumePhase, SavedParameters, Step, Window, next};
use crate::conn::Conn;
use crate::sampler::{PacketState, SendOrder};
use crate::snapshot::State;
use crate::units::{Duration, Instant, Rate, mul_div};

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

const fn least_window(conn: &Conn) -> u64 {
    LEAST_PACKETS * conn.smss
}

/// True while the algorithm looks for the path's rate, so that it has no reason of its own for a
/// lower window.
const fn is_at_start(state: State) -> bool {
    matches!(state, State::Startup | State::SlowStart | State::ConservativeSlowStart)
}

/// The control parameters that an algorithm set.
#[derive(Clone, Copy, Debug)]
struct Control {
    cwnd: u64,
    rate: Rate,
    quantum: u64,
}

impl Control {
    const fn of(conn: &Conn) -> Self {
        Self { cwnd: conn.cwnd, rate: conn.pacing_rate, quantum: conn.send_quantum }
    }
}

/// A connection that resumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resume {
    saved_rtt: Duration,
    /// jump_cwnd.
    jump: u64,
    phase: ResumePhase,
    /// PipeSize: validated bytes.
    pipe_size: u64,
    /// The first packet that was sent in the Unvalidated Phase; later the first one that was sent
    /// after it.
    mark: SendOrder,
    /// In Validating: the bytes that have left the path when all of the jump has.
    all_departed: u64,
    /// The time at which Reconnaissance, or the Unvalidated Phase, is over.
    until: Instant,
    /// The window that the phase does not exceed.
    cwnd: u64,
    /// The rate of the Unvalidated Phase.
    rate: Rate,
    /// What the algorithm set, while others are in force.
    own: Control,
}

impl Resume {
    /// `None` where no path has such parameters.
    pub(crate) fn new(
        saved: SavedParameters,
        max_jump: u64,
        until: Instant,
        conn: &Conn,
    ) -> Option<Self> {
        saved.is_possible().then(|| Self {
            saved_rtt: saved.rtt,
            jump: (saved.cwnd / JUMP_DIVISOR).min(max_jump),
            phase: ResumePhase::Reconnaissance,
            pipe_size: 0,
            mark: SendOrder::default(),
            all_departed: 0,
            until,
            cwnd: 0,
            rate: Rate::ZERO,
            own: Control::of(conn),
        })
    }

    pub(crate) const fn phase(&self) -> ResumePhase {
        self.phase
    }

    /// PipeSize through Beta: the window and ssthresh of Safe Retreat.
    pub(crate) fn half_of_pipe(&self, conn: &Conn) -> u64 {
        (self.pipe_size / RETREAT_DIVISOR).max(least_window(conn))
    }

    /// Gives the algorithm its own control parameters back, before it hears of an event.
    pub(crate) const fn lift(&self, conn: &mut Conn) {
        if matches!(self.phase, ResumePhase::Unvalidated | ResumePhase::Validating) {
            conn.cwnd = self.own.cwnd;
            conn.pacing_rate = self.own.rate;
            conn.send_quantum = self.own.quantum;
        }
    }

    /// The event of a batch, after the algorithm has taken it in and is in `state`.
    pub(crate) fn event(&mut self, conn: &Conn, state: State, news: &News<'_>) -> Event {
        if self.phase != ResumePhase::Reconnaissance {
            self.pipe_size = self.pipe_size.saturating_add(news.newly_acked);
        }
        if news.has_timed_out {
            return Event::Timeout;
        }
        if news.is_congested {
            return Event::Congestion;
        }
        match self.phase {
            ResumePhase::Reconnaissance => self.reconnoitre(conn, state, news.now),
            ResumePhase::Unvalidated | ResumePhase::Validating if self.is_other_path(conn) => {
                Event::OtherRtt
            }
            ResumePhase::Unvalidated => self.end_of_jump(conn, state, news),
            ResumePhase::Validating
                if self.is_past_mark(news) || conn.departed() >= self.all_departed =>
            {
                Event::MarkAcked
            }
            ResumePhase::SafeRetreat if self.is_past_mark(news) || conn.inflight == 0 => {
                Event::MarkAcked
            }
            ResumePhase::Validating | ResumePhase::SafeRetreat => Event::Nothing,
        }
    }

    fn is_too_short(&self, rtt: Duration) -> bool {
        rtt.as_nanos() <= self.saved_rtt.as_nanos() / MIN_RTT_DIVISOR
    }

    fn is_too_long(&self, rtt: Duration) -> bool {
        rtt.as_nanos() > self.saved_rtt.as_nanos().saturating_mul(MAX_RTT_RATIO)
    }

    /// True if the round trip during a jump is not that of the path which carried the saved window.
    /// The RFC asks this before the jump alone. A slower path behind a deep buffer loses nothing of
    /// the jump and shows it by its queue: half of what the saved path carried is none there.
    fn is_other_path(&self, conn: &Conn) -> bool {
        conn.min_rtt().is_some_and(|rtt| self.is_too_short(rtt))
            || conn.srtt().is_some_and(|rtt| self.is_too_long(rtt))
    }

    /// True if a packet was acknowledged that was sent at the mark or later.
    fn is_past_mark(&self, news: &News<'_>) -> bool {
        news.newest.is_some_and(|newest| !self.mark.is_after(newest.order()))
    }

    /// Section 3.2. The path is confirmed when the initial window was delivered; a sender that
    /// has no more to send waits. BBR jumps in Startup alone (appendix on BBR).
    fn reconnoitre(&self, conn: &Conn, state: State, now: Instant) -> Event {
        if now > self.until {
            return Event::Deadline;
        }
        let Some(min_rtt) = conn.min_rtt() else { return Event::Nothing };
        let is_growing = matches!(state, State::Startup | State::SlowStart);
        if !is_growing || !conn.is_paced || conn.cwnd >= self.jump {
            Event::CannotJump
        } else if self.is_too_short(min_rtt) || self.is_too_long(min_rtt) {
            Event::OtherRtt
        } else if conn.sampler.delivered.saturating_add(conn.smss) <= conn.initial_cwnd
            || conn.sampler.is_app_limited()
        {
            // A window is used when no further full packet fits.
            Event::Nothing
        } else {
            Event::InitialWindowDelivered
        }
    }

    /// Section 3.3.
    fn end_of_jump(&self, conn: &Conn, state: State, news: &News<'_>) -> Event {
        let end = if self.is_past_mark(news) {
            Event::MarkAcked
        } else if conn.inflight.saturating_add(conn.smss) > self.cwnd || !is_at_start(state) {
            Event::WindowUsed
        } else if news.now >= self.until {
            Event::RoundOver
        } else {
            return Event::Nothing;
        };
        let is_unused = conn.inflight < conn.initial_cwnd || conn.inflight <= self.pipe_size;
        if is_unused { Event::LittleSent } else { end }
    }

    /// Does what the table says of window and rate; the algorithm's own are in `conn`.
    /// `newly_acked` bytes came with the event.
    pub(crate) fn take(
        &mut self,
        conn: &mut Conn,
        state: State,
        now: Instant,
        event: Event,
        newly_acked: u64,
    ) -> Step {
        let step = next(Some(self.phase), event);
        // An MTU raises the algorithm's window as well, and says nothing of the path.
        let growth = conn.cwnd.saturating_sub(self.own.cwnd).min(newly_acked);
        self.own = Control::of(conn);
        if step.phase != Some(self.phase) {
            self.enter(conn, now, step.phase);
        } else if step.window == Window::Flight && state != State::Startup {
            self.cwnd = self.cwnd.saturating_add(growth);
        }
        let cwnd = match step.window {
            Window::Own => self.own.cwnd,
            Window::Jump => self.own.cwnd.max(self.cwnd),
            Window::Flight | Window::Carried if is_at_start(state) => self.own.cwnd.max(self.cwnd),
            Window::Flight | Window::Carried => self.own.cwnd,
            Window::HalfOfPipe => self.own.cwnd.min(self.cwnd.max(least_window(conn))),
        };
        if step.window == Window::HalfOfPipe {
            self.cwnd = cwnd;
        }
        self.lay(conn, state, cwnd, step.pace);
        step
    }

    /// The values of a phase, at its begin.
    fn enter(&mut self, conn: &Conn, now: Instant, phase: Option<ResumePhase>) {
        let Some(phase) = phase else { return };
        let from_now = conn.sampler.next_order(now);
        match phase {
            ResumePhase::Reconnaissance => {}
            ResumePhase::Unvalidated => {
                let rtt = conn.srtt().unwrap_or(self.saved_rtt);
                // A transport may send more than the window, which says nothing of the path.
                self.pipe_size = conn.inflight.min(conn.cwnd);
                self.mark = from_now;
                self.until = now + rtt;
                self.cwnd = self.jump;
                self.rate = Rate::from_volume(self.jump, rtt);
            }
            ResumePhase::Validating => {
                self.cwnd = conn.inflight.min(self.cwnd).max(least_window(conn));
                self.all_departed = conn.departed().saturating_add(conn.inflight);
                self.mark = from_now;
            }
            ResumePhase::SafeRetreat => {
                // Section 3.5: what was sent until the end of the jump is unvalidated.
                if self.phase == ResumePhase::Unvalidated {
                    self.mark = from_now;
                }
                self.cwnd = self.half_of_pipe(conn);
            }
        }
        self.phase = phase;
    }

    /// Lays a window and its rate over the algorithm's own. The jump is paced over the current
    /// round trip (section 4.3.2); BBR keeps a rate of its own that is higher (appendix on BBR).
    fn lay(&mut self, conn: &mut Conn, state: State, cwnd: u64, pace: Pace) {
        let paces_by_window = matches!(
            state,
            State::SlowStart
                | State::ConservativeSlowStart
                | State::CongestionAvoidance
                | State::Recovery
        );
        let mut own = self.own.rate;
        if paces_by_window && own != Rate::MAX && self.phase != ResumePhase::Unvalidated {
            let rate = mul_div(own.as_bytes_per_sec(), cwnd, self.own.cwnd);
            own = Rate::from_bytes_per_sec(rate);
        }
        conn.cwnd = cwnd;
        if pace == Pace::Jump {
            conn.set_pacing_rate(own.max(self.rate));
        } else if own != self.own.rate {
            conn.set_pacing_rate(own);
        } else {
            return;
        }
        conn.set_send_quantum(conn.pacing_rate.bytes_in(Duration::from_millis(1)));
    }
}
