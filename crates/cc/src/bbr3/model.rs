//! The model of the path: rounds, bandwidth, round-trip time and aggregation.
//! Section "Updating Network Path Model Parameters".

use super::Bbr3;
use super::amended::is_short;
use super::params::{
    AGGREGATION_MARGIN, EXTRA_ACKED_BUCKETS, EXTRA_ACKED_ROUNDS, ExtraAckedFilter, Flavour,
    MIN_RTT_FILTER_LEN, PROBE_RTT_INTERVAL,
};
use crate::conn::Conn;
use crate::filter::WindowedMax;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Gain, Instant, Rate};

impl<F: Flavour> Bbr3<F> {
    /// UpdateRound(), "BBR.round_count: Tracking Packet-Timed Round Trips". The packet that counts
    /// is the newest acknowledged one (the pseudo-code leaves open which).
    fn update_round(&mut self, conn: &Conn, rs: &RateSample) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(conn);
            self.round_count += 1;
            self.rounds_since_probe_up = self.rounds_since_probe_up.saturating_add(1);
            self.is_round_unjudged = true;
            self.start_extra_acked_round();
            if self.answers_ecn() {
                self.update_ecn_alpha(conn);
            }
        }
    }

    /// StartRound().
    pub(super) fn start_round(&mut self, conn: &Conn) {
        self.next_round_delivered = conn.sampler.delivered;
    }

    /// UpdateMaxBw(), "Updating the BBR.max_bw Max Filter". A sample without a rate updates
    /// nothing.
    pub(super) fn update_max_bw(&mut self, conn: &Conn, rs: &RateSample) {
        self.update_round(conn, rs);
        let raises = rs.delivery_rate > self.max_bw_filter[1];
        if raises && (rs.delivery_rate >= self.max_bw || !rs.is_app_limited) {
            self.max_bw_filter[1] = rs.delivery_rate;
            self.max_bw = self.max_bw_filter[0].max(self.max_bw_filter[1]);
            // The margin of bbr3x follows from what this cycle delivers, and the room for packets
            // whose ACK waits from the maximum, also where BBR.bw stays.
            self.is_model_new = true;
        }
    }

    /// AdvanceMaxBwFilter(), "Tracking Time for the BBR.max_bw Max Filter". The maximum is taken
    /// again at once, or an old one would outlive its window until the next sample. A cycle without
    /// a sample (all of them application-limited) does not end: there is nothing to replace the old
    /// maximum with.
    pub(super) fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[1] == Rate::ZERO {
            return;
        }
        self.max_bw_filter = [self.max_bw_filter[1], Rate::ZERO];
        self.max_bw = self.max_bw_filter[0];
        self.is_model_new = true;
    }

    /// BoundBWForModel(), "When not Probing for Bandwidth".
    pub(super) fn bound_bw_for_model(&mut self, conn: &Conn) {
        let bw = self.max_bw.min(self.bw_shortterm);
        if bw != self.bw {
            self.bw = bw;
            self.renew_bdp(conn);
        }
    }

    #[cold]
    pub(super) fn renew_bdp(&mut self, conn: &Conn) {
        self.bdp = self.bdp_multiple(conn, self.bw, Gain::ONE);
        self.is_model_new = true;
    }

    /// Linux keeps two maxima, of the rounds since the newer was begun and of those before; each is
    /// of so many rounds, and of one in Startup.
    fn start_extra_acked_round(&mut self) {
        if let ExtraAckedFilter::TwoBuckets { rounds } = F::P.extra_acked_filter {
            self.extra_acked_bucket_rounds += 1;
            if !self.full_bw_reached || self.extra_acked_bucket_rounds >= rounds {
                self.extra_acked_bucket_rounds = 0;
                self.extra_acked_bucket = self.extra_acked_bucket.wrapping_add(1);
            }
        }
    }

    /// UpdateACKAggregation(), "BBR.extra_acked".
    ///
    /// The draft's interval ends when ACKs fall behind BBR.bw. An estimate that is a percent too low
    /// never explains what arrives, and the excess adds up for as long as data flows: on a BDP of a
    /// few packets to ten times that. Here ACKs that are ahead by less than
    /// [`AGGREGATION_MARGIN`] fell behind as well: an ACK after a silence begins an interval, and
    /// so does each of a steady stream. Not in Startup, whose estimate is far below, and where the
    /// excess of several bursts is what makes the window grow; and not while the window is full:
    /// beside CUBIC with a deep buffer the excess is what keeps a share. Linux bounds what the
    /// window makes of the volume instead ([`super::params::EXTRA_ACKED_TIME`]).
    pub(super) fn update_ack_aggregation(&mut self, conn: &Conn, rs: &RateSample) {
        let interval = rs.now.since(self.extra_acked_interval_start);
        // BBR.bw follows at the end of the ACK.
        let newest_bw = || self.max_bw.min(self.bw_shortterm);
        let bw = if F::P.aggregates_by_newest_bw { newest_bw() } else { self.bw };
        let mut expected_delivered = bw.bytes_in(interval);
        let explained = match F::P.extra_acked_filter {
            ExtraAckedFilter::Rounds if self.full_bw_reached && !conn.is_cwnd_limited() => {
                AGGREGATION_MARGIN.of(expected_delivered)
            }
            _ => expected_delivered,
        };
        // The ACKs fell behind the expected rate: the episode of aggregation is over.
        if self.extra_acked_delivered <= explained {
            self.extra_acked_delivered = 0;
            self.extra_acked_interval_start = rs.now;
            expected_delivered = 0;
        }
        self.extra_acked_delivered += rs.newly_acked;
        let extra = (self.extra_acked_delivered - expected_delivered).min(conn.cwnd);
        let (slot, slots) = match F::P.extra_acked_filter {
            // In Startup the bandwidth is not known yet, and much seems extra: remember one round.
            ExtraAckedFilter::Rounds if self.full_bw_reached => {
                (self.round_count, EXTRA_ACKED_ROUNDS)
            }
            ExtraAckedFilter::Rounds => (self.round_count, 1),
            ExtraAckedFilter::TwoBuckets { .. } => {
                (self.extra_acked_bucket.into(), EXTRA_ACKED_BUCKETS)
            }
        };
        let extra_acked = self.extra_acked_filter.update(extra, slot, slots);
        if extra_acked != self.extra_acked {
            self.extra_acked = extra_acked;
            self.is_model_new = true;
        }
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
        if rs.rtt < self.probe_rtt_min_delay || rs.now > self.next_rtt_check || may_renew {
            self.check_rtt(conn, rs);
        }
    }

    #[cold]
    fn check_rtt(&mut self, conn: &mut Conn, rs: &RateSample) {
        if F::P.app_limited_rtt_renews_probe_rtt
            && rs.is_app_limited
            && conn.was_application_limited
            && (self.is_in_a_probe_bw_state() || self.needs_no_probe_rtt_in_startup())
            && is_short(rs.rtt, self.min_rtt)
        {
            self.renew_probe_rtt_expiry(conn, rs.now);
        }
        let probe_rtt_expired = rs.now > self.probe_rtt_min_expiry;
        self.renew_min_rtt(conn, rs, probe_rtt_expired);
        self.schedule_rtt_check();
        self.check_probe_rtt(conn, rs, probe_rtt_expired);
        self.end_idle_restart(rs);
    }

    /// In ProbeRTT and after a restart each ACK is looked at, else those after one of the filters'
    /// windows has passed.
    pub(super) fn schedule_rtt_check(&mut self) {
        self.next_rtt_check = match self.state {
            State::ProbeRtt => Instant::default(),
            _ if self.idle_restart => Instant::default(),
            _ => self.probe_rtt_min_expiry.min(self.min_rtt_expiry),
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
        if rtt < self.probe_rtt_min_delay || probe_rtt_expired {
            self.probe_rtt_min_delay = rtt;
            self.renew_probe_rtt_expiry(conn, now);
        }
        let min_rtt_expired =
            now > self.min_rtt_expiry && !probe_rtt_expired && self.state != State::ProbeRtt;
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            // Both count from BBR.probe_rtt_min_stamp, and the filter is the longer one by 5 s, or
            // in bbr3x by an interval.
            let longer = MIN_RTT_FILTER_LEN - PROBE_RTT_INTERVAL;
            self.min_rtt_expiry =
                self.probe_rtt_min_expiry + self.probe_rtt_interval(conn).max(longer);
            self.renew_bdp(conn);
        }
    }
}
