//! The question of a flow that starves: has the path become longer, or the link slower? ProbeRTT
//! shows if the RTT answers to the flow's own volume.

use super::super::amend::{Found, View};
use super::params::*;
use crate::sampler::RateSample;
use crate::units::{Duration, Instant, Rate};

/// State of the questions.
#[derive(Clone, Debug)]
pub(super) struct Questions {
    /// The newest starved rounds in a row.
    pub(super) starved_rounds: u8,
    /// No ProbeRTT is asked for before.
    next: Instant,
    /// The newest question has no answer, and the next one waits for a probe.
    pub(super) is_unanswered: bool,
    /// The RTT and the bandwidth of the rounds that asked for a ProbeRTT; [`Duration::MAX`] while none
    /// is asked for.
    rtt: Duration,
    bw: Rate,
}

impl Questions {
    pub(super) const NONE: Self = Self {
        starved_rounds: 0,
        next: Instant::from_nanos(0),
        is_unanswered: false,
        rtt: Duration::MAX,
        bw: Rate::ZERO,
    };

    /// True if a ProbeRTT is asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.rtt != Duration::MAX
    }

    /// None is asked for any more.
    pub(super) const fn withdraw(&mut self) {
        self.rtt = Duration::MAX;
    }

    /// A round ends whose shortest RTT is `least`. It is starved if it delivered far less than the
    /// flow would send, and that RTT is longer than flows of this kind make it. Two such rounds ask.
    pub(super) fn end_round(&mut self, view: &View<'_>, rs: &RateSample, least: Duration) {
        let bw = view.loss_round.bw_latest;
        let is_starved = !rs.is_app_limited
            && bw > Rate::ZERO
            && bw < LEAST_DELIVERED.of_rate(view.bandwidth.bw)
            && least != Duration::MAX
            && least >= view.rtt.min.times(STARVED_RTT)
            && !self.is_unanswered
            && rs.now >= self.next;
        self.withdraw();
        self.starved_rounds = if is_starved { self.starved_rounds + 1 } else { 0 };
        if self.starved_rounds == STARVED_ROUNDS {
            self.starved_rounds = 0;
            self.next = rs.now + QUESTION_INTERVAL.max(least.times(QUESTION_ROUNDS));
            self.rtt = if rs.rtt == Duration::MAX { least } else { rs.rtt.max(least) };
            self.bw = bw;
        }
    }

    /// ProbeRTT ends. The RTT went down with this flow's own volume, or it did not. `mean` is that of
    /// the round at hand, whose packets left when ProbeRTT had its window.
    pub(super) fn answer(&mut self, view: &View<'_>, mean: Duration) -> Found {
        if !self.is_asked() {
            return Found::Rtt;
        }
        let (rtt, min_rtt) = (self.rtt.as_nanos(), view.rtt.min.as_nanos());
        self.withdraw();
        let fell_by = rtt.saturating_sub(mean.as_nanos());
        let is_far = view.rtt.probe_min_delay >= view.rtt.min.times(STARVED_RTT);
        if fell_by <= min_rtt >> ANSWER_SHIFT && is_far && mean != Duration::MAX {
            Found::LongerPath
        } else if fell_by > rtt.saturating_sub(min_rtt) / 2 {
            Found::SlowerLink(self.bw)
        } else {
            self.is_unanswered = true;
            Found::Rtt
        }
    }
}
