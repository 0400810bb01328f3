//! The model of the path: rounds, bandwidth, round-trip time and aggregation.
//! Section "Updating Network Path Model Parameters".

use super::Bbr3;
use super::amended::is_short;
use super::params::{Flavour, MIN_RTT_FILTER_LEN, PROBE_RTT_INTERVAL};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Gain, Instant};

impl<F: Flavour> Bbr3<F> {
    /// UpdateRound(), and what happens once a round.
    fn update_round(&mut self, conn: &Conn, rs: &RateSample) {
        self.round.update(conn.sampler.delivered, rs);
        if self.round.start {
            self.probe.rounds_since_up = self.probe.rounds_since_up.saturating_add(1);
            self.full_pipe.is_round_unjudged = true;
            self.aggregation.start_round(self.full_pipe.reached);
            if self.answers_ecn() {
                self.update_ecn_alpha(conn);
            }
        }
    }

    /// StartRound().
    pub(super) fn start_round(&mut self, conn: &Conn) {
        self.round.begin(conn.sampler.delivered);
    }

    /// UpdateMaxBw(). The margin of bbr3x follows from what this cycle delivers, and the room for
    /// packets whose ACK waits from the maximum, also where BBR.bw stays.
    pub(super) fn update_max_bw(&mut self, conn: &Conn, rs: &RateSample) {
        self.update_round(conn, rs);
        self.is_model_new |= self.bandwidth.update_max(rs);
    }

    /// AdvanceMaxBwFilter().
    pub(super) fn advance_max_bw_filter(&mut self) {
        self.is_model_new |= self.bandwidth.advance_filter();
    }

    /// BoundBWForModel(), "When not Probing for Bandwidth".
    pub(super) fn bound_bw_for_model(&mut self, conn: &Conn) {
        let bw = self.bandwidth.max.min(self.bounds.bw_shortterm);
        if bw != self.bandwidth.bw {
            self.bandwidth.bw = bw;
            self.renew_bdp(conn);
        }
    }

    #[cold]
    pub(super) fn renew_bdp(&mut self, conn: &Conn) {
        self.bandwidth.bdp = self.bdp_multiple(conn, self.bandwidth.bw, Gain::ONE);
        self.is_model_new = true;
    }

    /// UpdateACKAggregation().
    #[inline]
    pub(super) fn update_ack_aggregation(&mut self, conn: &Conn, rs: &RateSample) {
        // BBR.bw follows at the end of the ACK.
        let newest_bw = || self.bandwidth.max.min(self.bounds.bw_shortterm);
        let bw = if F::P.aggregates_by_newest_bw { newest_bw() } else { self.bandwidth.bw };
        let reached = self.full_pipe.reached;
        self.is_model_new |= self.aggregation.update(conn, rs, bw, &self.round, reached);
    }

    /// UpdateMinRTT() and CheckProbeRTT(), "ProbeRTT Logic", and the end of BBR.idle_restart. Most
    /// ACKs call for none of them.
    ///
    /// "ProbeRTT Design Rationale" wants no ProbeRTT for a flow that is idle or slow often enough
    /// to drain the queue by itself. The pseudo-code asks for a sample below probe_rtt_min_delay,
    /// and a flow of frames, whose every frame finds an empty queue, has none: it holds frames back
    /// for 200 ms in every 5 s. Here an application-limited sample in ProbeBW that is near min_rtt
    /// says as much. Once the route is longer, no sample is near min_rtt, and ProbeRTT comes.
    /// In Startup the draft's test 20 wants a ProbeRTT, which bbr3x leaves out there as well.
    pub(super) fn update_min_rtt(&mut self, conn: &mut Conn, rs: &RateSample) {
        let may_renew = F::P.app_limited_rtt_renews_probe_rtt && rs.is_app_limited;
        if rs.rtt < self.rtt.probe_min_delay || rs.now > self.rtt.next_check || may_renew {
            self.check_rtt(conn, rs);
        }
    }

    #[cold]
    fn check_rtt(&mut self, conn: &mut Conn, rs: &RateSample) {
        if F::P.app_limited_rtt_renews_probe_rtt
            && rs.is_app_limited
            && conn.was_application_limited
            && (self.is_in_a_probe_bw_state() || self.needs_no_probe_rtt_in_startup())
            && is_short(rs.rtt, self.rtt.min)
        {
            self.renew_probe_rtt_expiry(conn, rs.now);
        }
        let probe_rtt_expired = rs.now > self.rtt.probe_expiry;
        self.renew_min_rtt(conn, rs, probe_rtt_expired);
        self.schedule_rtt_check();
        self.check_probe_rtt(conn, rs, probe_rtt_expired);
        self.end_idle_restart(rs);
    }

    /// In ProbeRTT and after a restart each ACK is looked at, else those after one of the filters'
    /// windows has passed.
    pub(super) fn schedule_rtt_check(&mut self) {
        self.rtt.next_check = match self.state {
            State::ProbeRtt => Instant::default(),
            _ if self.probe_rtt.idle_restart => Instant::default(),
            _ => self.rtt.probe_expiry.min(self.rtt.min_expiry),
        };
    }

    /// UpdateMinRTT(), for a shorter RTT, or none for too long.
    ///
    /// The draft lets min_rtt and the ProbeRTT interval expire on one and the same sample: the
    /// estimate would then rise to an RTT with a queue in it just before ProbeRTT drains that queue
    /// (its issue 109). Here min_rtt does not rise on the ACK that calls for ProbeRTT nor within
    /// ProbeRTT; it rises after it, to what it found.
    fn renew_min_rtt(&mut self, conn: &Conn, rs: &RateSample, probe_rtt_expired: bool) {
        let (now, Some(rtt)) = (rs.now, rs.rtt()) else { return };
        if rtt < self.rtt.probe_min_delay || probe_rtt_expired {
            self.rtt.probe_min_delay = rtt;
            self.renew_probe_rtt_expiry(conn, now);
        }
        let min_rtt_expired =
            now > self.rtt.min_expiry && !probe_rtt_expired && self.state != State::ProbeRtt;
        if self.rtt.probe_min_delay < self.rtt.min || min_rtt_expired {
            self.rtt.min = self.rtt.probe_min_delay;
            // Both count from BBR.probe_rtt_min_stamp, and the filter is the longer one by 5 s, or
            // in bbr3x by an interval.
            let longer = MIN_RTT_FILTER_LEN - PROBE_RTT_INTERVAL;
            self.rtt.min_expiry = self.rtt.probe_expiry + self.probe_rtt_interval(conn).max(longer);
            self.renew_bdp(conn);
        }
    }
}
