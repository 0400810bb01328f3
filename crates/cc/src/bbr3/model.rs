//! The model of the path, as each ACK changes it: rounds, bandwidth, round-trip time and
//! aggregation. Section "Updating Network Path Model Parameters".

use super::amend::Need;
use super::params::{MIN_RTT_FILTER_LEN, PROBE_RTT_INTERVAL};
use super::{Amend, Bbr3, MarkResponse, Rules, Verdict};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Instant};

impl<R: Rules> Bbr3<R> {
    /// UpdateRound(), and what happens once a round.
    #[inline]
    pub(super) fn update_round(&mut self, conn: &Conn, rs: &RateSample) {
        self.round.update(conn.sampler.delivered, rs.prior_delivered);
        if self.round.start {
            self.begin_round(conn);
        }
    }

    #[cold]
    fn begin_round(&mut self, conn: &Conn) {
        self.control.forget_basis();
        self.probe.rounds_since_up = self.probe.rounds_since_up.saturating_add(1);
        self.full_pipe.awaits_sample = true;
        self.aggregation.start_round(self.full_pipe.reached);
        let (rules, view) = self.rules_and_view(conn);
        if rules.marks_mut().start_round(&view) || rules.amendments().ends_startup(&view) {
            self.end_startup(conn);
        }
    }

    /// StartRound().
    pub(super) fn start_round(&mut self, conn: &Conn) {
        self.round.begin(conn.sampler.delivered);
    }

    /// BoundBWForModel(), "When not Probing for Bandwidth".
    #[inline]
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bandwidth.bw = self.bandwidth.max.min(self.bounds.bw_shortterm);
    }

    /// UpdateACKAggregation().
    #[inline]
    pub(super) fn update_ack_aggregation(&mut self, conn: &Conn, rs: &RateSample) {
        let (bw, reached) = (R::bw_of_aggregation(self), self.full_pipe.reached);
        self.aggregation.update(conn, rs, bw, &self.round, reached);
    }

    /// Delays judge the state. True if they have ended a probe.
    #[inline]
    pub(super) fn judge_delay(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        let (rules, view) = self.rules_and_view(conn);
        let verdict = rules.judge_delay(&view, rs);
        match verdict {
            Verdict::Nothing => {}
            Verdict::PipeIsFull => self.full_pipe.fill(),
            Verdict::ProbeTooHigh => {
                self.probe.prev_too_high = true;
                self.probe.is_sample = false;
                self.start_probe_bw_down(conn, rs.now);
            }
        }
        verdict == Verdict::ProbeTooHigh
    }

    /// UpdateMinRTT(), "ProbeRTT Logic".
    ///
    /// The draft lets min_rtt and the ProbeRTT interval expire on one and the same sample: the
    /// estimate would then rise to an RTT with a queue in it just before ProbeRTT drains that queue
    /// (its issue 109). Here min_rtt does not rise on the ACK that calls for ProbeRTT nor within
    /// ProbeRTT; it rises after it, to what it found.
    #[inline]
    pub(super) fn update_min_rtt(&mut self, conn: &Conn, rs: &RateSample) {
        let (rules, view) = self.rules_and_view(conn);
        let need = rules.amendments_mut().note_rtt(&view, rs);
        if need == Need::None || R::is_probe_rtt_needless(self, conn, rs) {
            self.renew_probe_rtt_expiry(conn, rs.now);
        }
        self.rtt.probe_expired = need == Need::Now || rs.now > self.rtt.probe_expiry;
        let Some(rtt) = rs.rtt() else { return };
        if rtt < self.rtt.probe_min_delay || self.rtt.probe_expired {
            self.rtt.probe_min_delay = rtt;
            self.renew_probe_rtt_expiry(conn, rs.now);
        }
        let may_rise = rs.now > self.rtt.min_expiry
            && !self.rtt.probe_expired
            && self.state != State::ProbeRtt;
        if self.rtt.probe_min_delay < self.rtt.min || may_rise {
            self.take_probe_rtt_min_delay(conn);
        }
    }

    /// BBR.min_rtt is BBR.probe_rtt_min_delay.
    pub(super) fn take_probe_rtt_min_delay(&mut self, conn: &Conn) {
        self.rtt.min = self.rtt.probe_min_delay;
        // Both count from BBR.probe_rtt_min_stamp, and the filter is the longer one by 5 s, or in
        // bbr3x by an interval.
        let longer = MIN_RTT_FILTER_LEN - PROBE_RTT_INTERVAL;
        self.rtt.min_expiry = self.rtt.probe_expiry + self.probe_rtt_interval(conn).max(longer);
    }

    /// BBR.ProbeRTTInterval.
    #[inline]
    pub(super) fn probe_rtt_interval(&self, conn: &Conn) -> Duration {
        self.rules.amendments().probe_rtt_interval(conn)
    }

    /// BBR.probe_rtt_min_stamp is `now`.
    pub(super) fn renew_probe_rtt_expiry(&mut self, conn: &Conn, now: Instant) {
        self.rtt.probe_expiry = now + self.probe_rtt_interval(conn);
    }
}
