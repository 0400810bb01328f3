//! RACK-TLP (RFC 8985): time instead of counting, and a probe for the tail.

use fullpipe_cc::{Duration, Instant};

use crate::receiver::Span;
use crate::rtt::{Rtt, is_round_trip};
use crate::sent::Sent;

/// DupThresh, RFC 5681 section 3.2.
pub(crate) const DUP_THRESH: usize = 3;
/// Recoveries without a DSACK after which a widened window is given up: section 6.2, step 4.
const REO_WND_PERSIST: u32 = 16;
/// Time that a probe allows for the delayed ACK of a single segment: section 7.2,
/// TLP.max_ack_delay.
const WORST_DELAYED_ACK: Duration = Duration::from_millis(200);
/// The timeout of a probe before the first round-trip sample: section 7.2.
const PROBE_WITHOUT_RTT: Duration = Duration::from_secs(1);

/// A tail loss probe whose end is open.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// TLP.end_seq.
    end: u64,
    /// TLP.is_retrans.
    is_copy: bool,
}

#[derive(Debug)]
pub(crate) struct Rack {
    /// RACK.segment's xmit_ts and end_seq.
    newest: Option<(Instant, u64)>,
    /// RACK.rtt.
    rtt: Duration,
    /// RACK.fack.
    fack: u64,
    reordering_seen: bool,
    reo_wnd_mult: u32,
    reo_wnd_persist: u32,
    /// RACK.dsack_round.
    dsack_round: Option<u64>,
    probe: Option<Probe>,
    /// The time of the ACK that is being taken in, and the shortest round trip before it.
    now: Instant,
    min_rtt: Duration,
}

impl Rack {
    pub(crate) fn new(una: u64) -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            fack: una,
            reordering_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: REO_WND_PERSIST,
            dsack_round: None,
            probe: None,
            now: Instant::default(),
            min_rtt: Duration::ZERO,
        }
    }

    /// RACK.rtt.
    pub(crate) fn rtt(&self) -> Duration {
        self.rtt
    }

    /// An ACK comes at `now`.
    pub(crate) fn begin(&mut self, now: Instant, rtt: &Rtt) {
        (self.now, self.min_rtt) = (now, rtt.min().unwrap_or(Duration::ZERO));
    }

    /// RACK_sent_after(): whether the newest segment that arrived left after one that left at
    /// `time` and ends at `end`.
    pub(crate) fn is_after(&self, time: Instant, end: u64) -> bool {
        self.newest
            .is_some_and(|(newest, newest_end)| newest > time || newest == time && newest_end > end)
    }

    /// Steps 2 and 3 of section 6.2; true if this was the original of a segment that was sent
    /// again.
    pub(crate) fn on_arrival(&mut self, sent: &Sent) -> bool {
        let (time, end) = (sent.time(), sent.span.end);
        let rtt = self.now.since(time);
        // The ACK of a copy that came faster than any round trip is that of the original.
        let is_originals = sent.retransmitted && rtt < self.min_rtt;
        if !is_originals {
            if is_round_trip(rtt) {
                self.rtt = rtt;
            }
            let is_newer =
                self.newest.is_none_or(|(newest, newest_end)| (time, end) > (newest, newest_end));
            if is_newer {
                self.newest = Some((time, end));
            }
        }
        if end > self.fack {
            self.fack = end;
        } else if end < self.fack && !sent.retransmitted {
            self.reordering_seen = true;
        }
        is_originals
    }

    /// The original of a segment arrived after the repair of its loss had left: it was late and not
    /// lost. RFC 8985 leaves segments aside that were sent again; Linux takes this for reordering
    /// (`tcp_try_undo_partial`), or the window would stay closed on a path that makes few segments
    /// late and all of these by much.
    pub(crate) fn on_late_original(&mut self) {
        self.reordering_seen = true;
    }

    /// RACK_update_reo_wnd(): the reordering window, section 6.2, step 4.
    pub(crate) fn reo_wnd(&self, rtt: &Rtt, in_recovery: bool, sacked: usize) -> Duration {
        if !self.reordering_seen && (in_recovery || sacked >= DUP_THRESH) {
            return Duration::ZERO;
        }
        let quarter = Duration::from_nanos(rtt.min().map_or(0, Duration::as_nanos) / 4);
        quarter.times(u64::from(self.reo_wnd_mult)).min(rtt.smoothed().unwrap_or(quarter))
    }

    /// A DSACK: the window was too small.
    pub(crate) fn on_dsack(&mut self, next: u64) {
        if self.dsack_round.is_none() {
            self.dsack_round = Some(next);
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// SND.UNA has moved to `una`.
    pub(crate) fn on_advance(&mut self, una: u64) {
        if self.dsack_round.is_some_and(|end| una >= end) {
            self.dsack_round = None;
        }
    }

    /// A recovery is over.
    pub(crate) fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// TLP_calc_PTO() of section 7.2 for `open` segments under way.
    pub(crate) fn probe_timeout(rtt: &Rtt, open: usize) -> Duration {
        let Some(smoothed) = rtt.smoothed() else { return PROBE_WITHOUT_RTT };
        smoothed.times(2) + if open == 1 { WORST_DELAYED_ACK } else { Duration::ZERO }
    }

    /// True if `span` ends where the open probe does, which repeated a segment.
    pub(crate) fn is_probe(&self, span: Span) -> bool {
        self.probe.is_some_and(|probe| probe.is_copy && probe.end == span.end)
    }

    pub(crate) fn has_probe(&self) -> bool {
        self.probe.is_some()
    }

    /// A probe left that ends at `end`: section 7.3.
    pub(crate) fn on_probe(&mut self, end: u64, is_copy: bool) {
        self.probe = Some(Probe { end, is_copy });
    }

    /// The retransmission timer fired: section 7.3 ends a probe's episode.
    pub(crate) fn on_timeout(&mut self) {
        self.probe = None;
    }

    /// TLP_process_ack() of section 7.4.2; whether the probe has repaired a loss that no other sign
    /// shows. `is_pure_duplicate`: the ACK acknowledges `una` again without SACK blocks.
    pub(crate) fn on_probe_ack(
        &mut self,
        una: u64,
        dsack: Option<Span>,
        is_pure_duplicate: bool,
    ) -> bool {
        let Some(probe) = self.probe.filter(|probe| una >= probe.end) else { return false };
        let was_there = dsack.is_some_and(|span| span.end == probe.end);
        if !probe.is_copy || was_there || una == probe.end && is_pure_duplicate {
            self.probe = None;
        } else if una > probe.end {
            self.probe = None;
            return true;
        }
        false
    }
}
