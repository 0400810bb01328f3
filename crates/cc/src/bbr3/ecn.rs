//! The response to ECN of Linux's flavour, for networks whose marks mean a queue of well under a
//! millisecond ("low-latency ECN"). The draft has none yet; with the feature `l4s` its flavours
//! have this one as well, where the transport says that marks mean that ([`crate::Config::ecn`]),
//! for round trips of any length: Linux's bound of 5 ms keeps it to data centres, and L4S (RFC
//! 9330) is for all paths.
//!
//! `alpha` follows the share of marked data as DCTCP's does. Outside probes a marked round lowers
//! inflight_shortterm by a third of it; a probe in which more than half is marked went too high;
//! two rounds in succession with half marked end Startup.
//!
//! Linux also probes again at once when the marks of a cycle cease before anything was lost. A flow
//! that is alone then makes its own marks, and probes for half of the time; the figures are in
//! `docs/kernel.md`. Here the next probe comes in its time, which on paths of 5 ms is at most 63
//! rounds or 0.3 s away.

#[cfg(feature = "l4s")]
use super::fallback::Fallback;
use super::{Bounds, MarkResponse, Rules, View};
use crate::algo::Marks;
use crate::config::Config;
use crate::conn::{Conn, INFINITE};
#[cfg(feature = "l4s")]
use crate::sampler::RateSample;
use crate::units::{Duration, Gain, mul_div};

/// The unit of Linux's arithmetic.
const ECN_UNIT: u32 = 256;
/// The part of a round's share of marks that goes into alpha, 1/16 as DCTCP has it, in ECN_UNIT.
const ECN_ALPHA_GAIN: u32 = ECN_UNIT / 16;
/// The part of alpha by which inflight_shortterm is cut, 1/3, in ECN_UNIT.
const ECN_FACTOR: u32 = ECN_UNIT / 3;
/// A probe in which more was marked went too high.
const ECN_THRESH: Gain = Gain::percent(50);
/// So many rounds in succession with that much marked end Startup.
const ECN_FULL_ROUNDS: u32 = 2;
/// Above this min_rtt marks are not taken for those of a low-latency network.
const ECN_MAX_RTT: Duration = Duration::from_millis(5);

/// State of the response to ECN marks.
#[derive(Clone, Debug)]
pub(crate) struct Ecn {
    /// The transport says that marks on this path mean low-latency ECN.
    is_on: bool,
    /// Linux's ecn_eligible: min_rtt was once short enough. Stays.
    is_eligible: bool,
    /// Linux's ecn_in_round: an ACK of this loss round brought marks.
    pub(super) is_in_round: bool,
    /// The ACK at hand says that more than ECN_THRESH of its sample was marked.
    pub(super) is_mark_rate_too_high: bool,
    /// Linux's ecn_alpha in units of 1/256.
    alpha: u32,
    /// Rounds of Startup in succession with at least ECN_THRESH marked.
    startup_rounds: u32,
    /// Bytes marked so far, and of those and of C.delivered what `alpha` has in it.
    marked: u64,
    alpha_marked: u64,
    alpha_delivered: u64,
}

impl Ecn {
    const fn is_on(&self) -> bool {
        self.is_on
    }

    /// The marks of an ACK.
    fn add(&mut self, marks: &Marks<'_>) {
        self.marked = self.marked.saturating_add(marks.newly_marked);
    }

    /// They are to be answered.
    fn answer(&mut self, marks: &Marks<'_>) {
        if self.is_eligible {
            self.is_in_round = true;
            let threshold = ECN_THRESH.of(marks.sample.delivered);
            self.is_mark_rate_too_high = marks.marked > threshold;
        }
    }

    /// alpha moves towards the share that was marked since the last time. Linux's
    /// bbr_update_ecn_alpha(), to the bit but for the unit, which is bytes here. True if the marks
    /// end Startup.
    #[cold]
    fn update_alpha(&mut self, view: &View<'_>, max_rtt: Duration) -> bool {
        self.is_eligible |= self.is_on && view.rtt.min <= max_rtt;
        let all = view.conn.sampler.delivered;
        let delivered = all.saturating_sub(self.alpha_delivered);
        if !self.is_eligible || delivered == 0 {
            return false;
        }
        let marked = self.marked.saturating_sub(self.alpha_marked);
        // Marks are counted in full packets, and may seem more than what small ones delivered.
        let share = mul_div(marked, u64::from(ECN_UNIT), delivered).min(u64::from(ECN_UNIT)) as u32;
        let old = ((ECN_UNIT - ECN_ALPHA_GAIN) * self.alpha) / ECN_UNIT;
        self.alpha = (old + ECN_ALPHA_GAIN * share / ECN_UNIT).min(ECN_UNIT);
        self.alpha_delivered = all;
        self.alpha_marked = self.marked;
        !view.full_pipe.reached && self.is_too_high_in_startup(share)
    }

    /// Linux's bbr_check_ecn_too_high_in_startup().
    fn is_too_high_in_startup(&mut self, share: u32) -> bool {
        let is_high = Gain::per_256(share) >= ECN_THRESH;
        self.startup_rounds = if is_high { self.startup_rounds + 1 } else { 0 };
        self.startup_rounds >= ECN_FULL_ROUNDS
    }
}

/// Linux's, on paths of up to [`ECN_MAX_RTT`]. To Linux marks are never losses.
impl MarkResponse for Ecn {
    fn new(config: &Config) -> Self {
        Self {
            is_on: config.ecn,
            is_eligible: false,
            is_in_round: false,
            is_mark_rate_too_high: false,
            alpha: ECN_UNIT,
            startup_rounds: 0,
            marked: 0,
            alpha_marked: 0,
            alpha_delivered: 0,
        }
    }

    #[inline]
    fn is_there(&self) -> bool {
        true
    }

    fn wants_ecn(&self) -> bool {
        self.is_on
    }

    fn alpha(&self) -> Option<Gain> {
        self.is_eligible.then_some(Gain::per_256(self.alpha))
    }

    fn note(&mut self, marks: &Marks<'_>) {
        self.add(marks);
        self.answer(marks);
    }

    #[inline]
    fn is_rate_too_high(&self) -> bool {
        self.is_mark_rate_too_high
    }

    #[inline]
    fn start_round(&mut self, view: &View<'_>) -> bool {
        self.update_alpha(view, ECN_MAX_RTT)
    }

    /// Lower by alpha times ECN_FACTOR: Linux's bbr_ecn_lower_bounds(). Marks say nothing about the
    /// bandwidth.
    fn lower_bound<R: Rules>(&self, conn: &Conn, bounds: &mut Bounds) -> u64 {
        if !self.is_in_round {
            return INFINITE;
        }
        let cut = self.alpha * ECN_FACTOR / ECN_UNIT;
        if bounds.inflight_shortterm == INFINITE {
            bounds.inflight_shortterm = conn.cwnd;
        }
        R::rounded_down(conn, Gain::per_256(ECN_UNIT - cut).of(bounds.inflight_shortterm))
    }

    #[inline]
    fn end_loss_round(&mut self) {
        self.is_in_round = false;
    }

    #[inline]
    fn end_ack(&mut self) {
        self.is_mark_rate_too_high = false;
    }
}

/// The draft's, on paths of any length, where the transport says that marks are those of L4S; with
/// the fallback for other queues.
#[cfg(feature = "l4s")]
#[derive(Clone, Debug)]
pub(crate) struct L4s {
    ecn: Ecn,
    pub(super) fallback: Fallback,
}

#[cfg(feature = "l4s")]
impl MarkResponse for L4s {
    fn new(config: &Config) -> Self {
        Self { ecn: Ecn::new(config), fallback: Fallback::new() }
    }

    #[inline]
    fn is_there(&self) -> bool {
        self.ecn.is_on()
    }

    fn alpha(&self) -> Option<Gain> {
        self.ecn.alpha()
    }

    /// A classic queue's marks have their answer in the fallback.
    fn note(&mut self, marks: &Marks<'_>) {
        self.fallback.note_marks();
        self.ecn.add(marks);
        if !self.fallback.is_classic() {
            self.ecn.answer(marks);
        }
    }

    #[inline]
    fn is_rate_too_high(&self) -> bool {
        self.ecn.is_mark_rate_too_high
    }

    #[inline]
    fn start_round(&mut self, view: &View<'_>) -> bool {
        self.ecn.is_on() && self.ecn.update_alpha(view, Duration::MAX)
    }

    fn lower_bound<R: Rules>(&self, conn: &Conn, bounds: &mut Bounds) -> u64 {
        self.ecn.lower_bound::<R>(conn, bounds)
    }

    #[inline]
    fn end_loss_round(&mut self) {
        self.ecn.end_loss_round();
    }

    #[inline]
    fn begin_cycle(&mut self) {
        self.fallback.begin_cycle();
    }

    #[inline]
    fn follow_queue(&mut self, view: &View<'_>, rs: &RateSample) {
        if self.ecn.is_on() {
            self.fallback.follow(view, rs);
        }
    }

    #[inline]
    fn end_ack(&mut self) {
        self.ecn.end_ack();
    }

    #[inline]
    fn most_inflight(&self, least: u64) -> u64 {
        self.fallback.window().max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_those_of_linux() {
        assert_eq!((ECN_ALPHA_GAIN, ECN_FACTOR, ECN_FULL_ROUNDS), (16, 85, 2));
        assert_eq!((ECN_THRESH, ECN_MAX_RTT), (Gain::per_256(128), Duration::from_millis(5)));
    }
}
