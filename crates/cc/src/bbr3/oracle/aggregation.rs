//! "BBR.extra_acked", with an interval that also ends a sixteenth above the rate.

use std::vec::Vec;

use super::{Plain, volume};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::units::Instant;

#[derive(Clone, Debug)]
pub(super) struct Aggregation {
    interval_start: Instant,
    /// C.delivered when the interval began.
    delivered_at_start: u64,
    /// The rounds that count, and the samples of each.
    samples: Vec<(u64, u64)>,
}

impl Aggregation {
    pub(super) const fn new(now: Instant) -> Self {
        Self { interval_start: now, delivered_at_start: 0, samples: Vec::new() }
    }

    pub(super) fn begin(&mut self, now: Instant, delivered: u64) {
        (self.interval_start, self.delivered_at_start) = (now, delivered);
    }
}

impl Plain {
    /// UpdateACKAggregation().
    pub(super) fn update_ack_aggregation(&mut self, conn: &Conn, rs: &RateSample) {
        let aggregation = &mut self.aggregation;
        let before = conn.delivered() - rs.newly_acked;
        let expected = volume(self.bw, rs.now.since(aggregation.interval_start));
        // Where the window has room, a sixteenth more than expected is an estimate too low.
        let is_tolerant = self.full_bw_reached && !conn.is_cwnd_limited();
        let most = if is_tolerant { expected + expected / 16 } else { expected };
        if before - aggregation.delivered_at_start <= most {
            aggregation.begin(rs.now, before);
        }
        let expected = volume(self.bw, rs.now.since(aggregation.interval_start));
        let extra = conn.delivered() - aggregation.delivered_at_start - expected;
        let rounds = if self.full_bw_reached { 10 } else { 1 };
        let round = self.round_count;
        aggregation.samples.push((round, extra.min(conn.cwnd)));
        aggregation.samples.retain(|(at, _)| at + rounds > round);
        self.extra_acked = aggregation.samples.iter().map(|(_, extra)| *extra).max().unwrap_or(0);
    }
}
