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

use super::params::{ECN_ALPHA_GAIN, ECN_FACTOR, ECN_FULL_ROUNDS, ECN_THRESH, ECN_UNIT, Flavour};
use super::{Bbr3, TooHigh};
use crate::algo::Marks;
use crate::conn::{Conn, INFINITE};
use crate::units::{Gain, Instant, mul_div};

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
    pub(super) const fn new(is_on: bool) -> Self {
        Self {
            is_on,
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

    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// `None` while there is no response to marks.
    pub(super) fn alpha(&self) -> Option<Gain> {
        self.is_eligible.then_some(Gain::per_256(self.alpha))
    }
}

impl<F: Flavour> Bbr3<F> {
    /// True if marks have their own response, and are no losses.
    #[inline]
    pub(super) fn answers_ecn(&self) -> bool {
        F::P.answers_ecn || F::ecn(&self.own).is_some()
    }

    /// The ACK at hand says that more than ECN_THRESH of its sample was marked.
    #[inline]
    pub(super) fn is_mark_rate_too_high(&self) -> bool {
        F::ecn(&self.own).is_some_and(|ecn| ecn.is_mark_rate_too_high)
    }

    /// The draft's flavours judge no ACKs of a probe: one in which too much is marked went too
    /// high, at once.
    pub(super) fn judge_marked_probe(&mut self, conn: &Conn, marks: &Marks<'_>, now: Instant) {
        if self.is_mark_rate_too_high() && self.probe.is_sample {
            let rs = marks.sample;
            let (inflight, is_app_limited) = (rs.tx_in_flight, rs.is_app_limited);
            self.handle_inflight_too_high(conn, TooHigh { inflight, is_app_limited }, now);
        }
    }

    /// The marks of one ACK, before the rest of it is looked at.
    pub(super) fn note_marks(&mut self, marks: &Marks<'_>) {
        if let Some(fallback) = F::fallback_mut(&mut self.own) {
            fallback.note_marks();
        }
        // A classic queue's have their answer there.
        let is_queue_classic = self.is_queue_classic();
        let Some(ecn) = F::ecn_mut(&mut self.own) else { return };
        ecn.marked = ecn.marked.saturating_add(marks.newly_marked);
        if ecn.is_eligible && !is_queue_classic {
            ecn.is_in_round = true;
            let threshold = ECN_THRESH.of(marks.sample.delivered);
            ecn.is_mark_rate_too_high = marks.marked > threshold;
        }
    }

    /// Once a round: alpha moves towards the share that was marked since the last time. Linux's
    /// bbr_update_ecn_alpha(), to the bit but for the unit, which is bytes here.
    #[cold]
    pub(super) fn update_ecn_alpha(&mut self, conn: &Conn) {
        let Some(ecn) = F::ecn_mut(&mut self.own) else { return };
        ecn.is_eligible |= ecn.is_on && self.rtt.min <= F::P.ecn_max_rtt;
        let delivered = conn.sampler.delivered.saturating_sub(ecn.alpha_delivered);
        if !ecn.is_eligible || delivered == 0 {
            return;
        }
        let marked = ecn.marked.saturating_sub(ecn.alpha_marked);
        // Marks are counted in full packets, and may seem more than what small ones delivered.
        let share = mul_div(marked, u64::from(ECN_UNIT), delivered).min(u64::from(ECN_UNIT)) as u32;
        let old = ((ECN_UNIT - ECN_ALPHA_GAIN) * ecn.alpha) / ECN_UNIT;
        ecn.alpha = (old + ECN_ALPHA_GAIN * share / ECN_UNIT).min(ECN_UNIT);
        ecn.alpha_delivered = conn.sampler.delivered;
        ecn.alpha_marked = ecn.marked;
        self.check_startup_high_ecn(conn, share);
    }

    /// Linux's bbr_check_ecn_too_high_in_startup().
    fn check_startup_high_ecn(&mut self, conn: &Conn, share: u32) {
        if self.full_pipe.reached {
            return;
        }
        let is_high = Gain::per_256(share) >= ECN_THRESH;
        let Some(ecn) = F::ecn_mut(&mut self.own) else { return };
        ecn.startup_rounds = if is_high { ecn.startup_rounds + 1 } else { 0 };
        if ecn.startup_rounds >= ECN_FULL_ROUNDS {
            self.end_startup(conn);
        }
    }

    /// inflight_shortterm as the marks of the round want it: lower by alpha times ECN_FACTOR.
    /// Linux's bbr_ecn_lower_bounds(). Marks say nothing about the bandwidth.
    pub(super) fn ecn_lower_bound(&mut self, conn: &Conn) -> u64 {
        let Some(ecn) = F::ecn(&self.own).filter(|ecn| ecn.is_in_round) else { return INFINITE };
        let cut = ecn.alpha * ECN_FACTOR / ECN_UNIT;
        if self.bounds.inflight_shortterm == INFINITE {
            self.bounds.inflight_shortterm = conn.cwnd;
        }
        Self::packets_down(conn, Gain::per_256(ECN_UNIT - cut).of(self.bounds.inflight_shortterm))
    }
}
