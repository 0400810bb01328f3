//! Data that arrives in bursts, "BBR.extra_acked".

use core::marker::PhantomData;

use super::params::{
    AGGREGATION_MARGIN, EXTRA_ACKED_BUCKETS, EXTRA_ACKED_ROUNDS, ExtraAckedFilter, Flavour,
};
use super::round::Round;
use crate::conn::Conn;
use crate::filter::WindowedMax;
use crate::sampler::RateSample;
use crate::units::{Instant, Rate};

/// BBR.extra_acked, its interval and its filter.
#[derive(Clone, Debug)]
pub(super) struct Aggregation<F: Flavour> {
    /// BBR.extra_acked.
    pub(super) extra_acked: u64,
    /// BBR.extra_acked_interval_start and BBR.extra_acked_delivered.
    pub(super) interval_start: Instant,
    pub(super) delivered: u64,
    filter: F::ExtraAcked,
    /// Number and age in rounds of the newer of Linux's two buckets.
    bucket: u32,
    bucket_rounds: u32,
    flavour: PhantomData<F>,
}

impl<F: Flavour> Aggregation<F> {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            extra_acked: 0,
            interval_start: now,
            delivered: 0,
            filter: F::ExtraAcked::default(),
            bucket: 0,
            bucket_rounds: 0,
            flavour: PhantomData,
        }
    }

    /// An interval begins, with nothing delivered.
    pub(super) const fn begin(&mut self, now: Instant) {
        self.interval_start = now;
        self.delivered = 0;
    }

    /// Linux keeps two maxima, of the rounds since the newer was begun and of those before; each is
    /// of so many rounds, and of one in Startup.
    pub(super) fn start_round(&mut self, full_bw_reached: bool) {
        if let ExtraAckedFilter::TwoBuckets { rounds } = F::P.extra_acked_filter {
            self.bucket_rounds += 1;
            if !full_bw_reached || self.bucket_rounds >= rounds {
                self.bucket_rounds = 0;
                self.bucket = self.bucket.wrapping_add(1);
            }
        }
    }

    /// UpdateACKAggregation(); true if BBR.extra_acked is another one.
    ///
    /// The draft's interval ends when ACKs fall behind BBR.bw. An estimate that is a percent too low
    /// never explains what arrives, and the excess adds up for as long as data flows: on a BDP of a
    /// few packets to ten times that. Here ACKs that are ahead by less than
    /// [`AGGREGATION_MARGIN`] fell behind as well: an ACK after a silence begins an interval, and
    /// so does each of a steady stream. Not in Startup, whose estimate is far below, and where the
    /// excess of several bursts is what makes the window grow; and not while the window is full:
    /// beside CUBIC with a deep buffer the excess is what keeps a share. Linux bounds what the
    /// window makes of the volume instead ([`super::params::EXTRA_ACKED_TIME`]).
    #[inline]
    pub(super) fn update(
        &mut self,
        conn: &Conn,
        rs: &RateSample,
        bw: Rate,
        round: &Round,
        full_bw_reached: bool,
    ) -> bool {
        let interval = rs.now.since(self.interval_start);
        let mut expected_delivered = bw.bytes_in(interval);
        let explained = match F::P.extra_acked_filter {
            ExtraAckedFilter::Rounds if full_bw_reached && !conn.is_cwnd_limited() => {
                AGGREGATION_MARGIN.of(expected_delivered)
            }
            _ => expected_delivered,
        };
        // The ACKs fell behind the expected rate: the episode of aggregation is over.
        if self.delivered <= explained {
            self.begin(rs.now);
            expected_delivered = 0;
        }
        self.delivered += rs.newly_acked;
        let extra = (self.delivered - expected_delivered).min(conn.cwnd);
        let (slot, slots) = match F::P.extra_acked_filter {
            // In Startup the bandwidth is not known yet, and much seems extra: remember one round.
            ExtraAckedFilter::Rounds if full_bw_reached => (round.count, EXTRA_ACKED_ROUNDS),
            ExtraAckedFilter::Rounds => (round.count, 1),
            ExtraAckedFilter::TwoBuckets { .. } => (self.bucket.into(), EXTRA_ACKED_BUCKETS),
        };
        let extra_acked = self.filter.update(extra, slot, slots);
        let is_new = extra_acked != self.extra_acked;
        self.extra_acked = extra_acked;
        is_new
    }
}
