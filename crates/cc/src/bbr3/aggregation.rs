//! Data that arrives in bursts, "BBR.extra_acked".

use core::fmt::Debug;

use super::params::{AGGREGATION_MARGIN, EXTRA_ACKED_ROUNDS};
use crate::conn::Conn;
use crate::filter::RoundMax;
use crate::round::Round;
use crate::sampler::RateSample;
use crate::units::{Gain, Instant, Rate};

/// BBR.extra_acked, its interval and its filter.
#[derive(Clone, Debug)]
pub(super) struct Aggregation<E> {
    /// BBR.extra_acked_interval_start and BBR.extra_acked_delivered.
    pub(super) interval_start: Instant,
    pub(super) delivered: u64,
    pub(super) filter: E,
}

impl<E: ExtraAckedFilter> Aggregation<E> {
    pub(super) fn new(now: Instant) -> Self {
        Self { interval_start: now, delivered: 0, filter: E::default() }
    }

    /// BBR.extra_acked.
    #[inline]
    pub(super) fn extra_acked(&self) -> u64 {
        self.filter.max()
    }

    /// An interval begins, with nothing delivered.
    pub(super) const fn begin(&mut self, now: Instant) {
        self.interval_start = now;
        self.delivered = 0;
    }

    /// A round begins.
    pub(super) fn start_round(&mut self, full_bw_reached: bool) {
        self.filter.start_round(full_bw_reached);
    }

    /// UpdateACKAggregation().
    ///
    /// The draft's interval ends when ACKs fall behind BBR.bw. An estimate that is a percent too
    /// low never explains what arrives, and the excess adds up for as long as data flows: on a BDP
    /// of a few packets to ten times that. Here ACKs that are ahead by less than
    /// [`AGGREGATION_MARGIN`] fell behind as well: an ACK after a silence begins an interval, and
    /// so does each of a steady stream. Not in Startup, whose estimate is far below, and where the
    /// excess of several bursts is what makes the window grow; and not while the window is full:
    /// beside CUBIC with a deep buffer the excess is what keeps a share.
    #[inline]
    pub(super) fn update(
        &mut self,
        conn: &Conn,
        rs: &RateSample,
        bw: Rate,
        round: &Round,
        full_bw_reached: bool,
    ) {
        let interval = rs.now.since(self.interval_start);
        let mut expected_delivered = bw.bytes_in(interval);
        // The ACKs fell behind the expected rate: the episode of aggregation is over.
        if self.delivered <= expected_delivered
            || full_bw_reached
                && !conn.is_cwnd_limited()
                && self.delivered <= E::MARGIN.of(expected_delivered)
        {
            self.begin(rs.now);
            expected_delivered = 0;
        }
        self.delivered += rs.newly_acked;
        let extra = (self.delivered - expected_delivered).min(conn.cwnd);
        self.filter.update(extra, round.count, full_bw_reached);
    }
}

/// The filter of the maximum of extra_acked.
pub(crate) trait ExtraAckedFilter: Clone + Debug + Default {
    /// Volumes up to this multiple of the expected one are explained by the estimate.
    const MARGIN: Gain;

    /// A round begins.
    fn start_round(&mut self, full_bw_reached: bool);

    /// Takes `extra` in at a round.
    fn update(&mut self, extra: u64, round: u64, full_bw_reached: bool);

    /// The maximum as of the last update.
    fn max(&self) -> u64;
}

/// The maximum of BBR.ExtraAckedFilterLen rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaxOfRounds(RoundMax<EXTRA_ACKED_ROUNDS>);

impl ExtraAckedFilter for MaxOfRounds {
    const MARGIN: Gain = AGGREGATION_MARGIN;

    #[inline]
    fn start_round(&mut self, _: bool) {}

    #[inline]
    fn update(&mut self, extra: u64, round: u64, full_bw_reached: bool) {
        // In Startup the bandwidth is not known yet, and much seems extra: remember one round.
        let rounds = if full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        self.0.update(extra, round, rounds);
    }

    #[inline]
    fn max(&self) -> u64 {
        self.0.max()
    }
}

/// Linux's filter: two maxima, of the rounds since the newer was begun and of those before; each is
/// of [`Self::ROUNDS`], and of one in Startup. Linux bounds what the window makes of the volume
/// instead of having a margin.
#[derive(Clone, Debug, Default)]
pub(crate) struct TwoBuckets {
    max: RoundMax<2>,
    /// Number and age in rounds of the newer bucket.
    number: u32,
    age: u32,
}

impl TwoBuckets {
    pub(super) const ROUNDS: u32 = 5;
}

impl ExtraAckedFilter for TwoBuckets {
    const MARGIN: Gain = Gain::ONE;

    #[inline]
    fn start_round(&mut self, full_bw_reached: bool) {
        self.age += 1;
        if !full_bw_reached || self.age >= Self::ROUNDS {
            self.age = 0;
            self.number = self.number.wrapping_add(1);
        }
    }

    #[inline]
    fn update(&mut self, extra: u64, _: u64, _: bool) {
        self.max.update(extra, self.number.into(), 2);
    }

    #[inline]
    fn max(&self) -> u64 {
        self.max.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One large excess, and the rounds in which each filter remembers it.
    #[test]
    fn a_maximum_lives_as_long_as_its_filter() {
        fn rounds<E: ExtraAckedFilter>(full_bw_reached: bool) -> u64 {
            let mut filter = E::default();
            filter.update(100, 0, full_bw_reached);
            (1..20)
                .find(|round| {
                    filter.start_round(full_bw_reached);
                    filter.update(1, *round, full_bw_reached);
                    filter.max() < 100
                })
                .expect("forgotten")
        }
        assert_eq!((rounds::<MaxOfRounds>(false), rounds::<MaxOfRounds>(true)), (1, 10));
        assert_eq!((rounds::<TwoBuckets>(false), rounds::<TwoBuckets>(true)), (2, 10));
    }
}
