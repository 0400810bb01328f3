//! Estimate of ACK aggregation: bytes acknowledged at once in excess of what the bandwidth
//! explains. Linux added it to BBRv1 in 2019 (commit 78dc70ebaa38).
//!
//! Wi-Fi, cable and offloading hold ACKs back and deliver them in batches. A window of two BDP is
//! used up before the next batch arrives; the excess of recent batches is added to it.

use super::params::{EXTRA_ACKED_EPOCH_PACKETS, EXTRA_ACKED_ROUNDS, EXTRA_ACKED_TIME};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::units::{Instant, Rate};

/// Maximum excess of the last five to ten round trips, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Aggregation {
    /// The maximum of the rounds since the bucket was begun, and of the five before them.
    buckets: [u64; 2],
    current: usize,
    /// Age of the current bucket in rounds.
    age: u32,
    epoch_start: Instant,
    /// Bytes acknowledged within the epoch.
    epoch_acked: u64,
}

impl Aggregation {
    pub(super) const fn new(now: Instant) -> Self {
        Self { buckets: [0; 2], current: 0, age: 0, epoch_start: now, epoch_acked: 0 }
    }

    /// Begins a new epoch: after an idle period the old one would expect ACKs of nothing.
    pub(super) fn restart(&mut self, now: Instant) {
        self.epoch_start = now;
        self.epoch_acked = 0;
    }

    /// Takes one ACK in; `bw` is the rate at which data is expected to be acknowledged.
    pub(super) fn update(&mut self, conn: &Conn, rs: &RateSample, bw: Rate, round_start: bool) {
        if rs.newly_acked == 0 || rs.delivery_rate == Rate::ZERO {
            return;
        }
        if round_start {
            self.age += 1;
            if self.age >= EXTRA_ACKED_ROUNDS {
                self.age = 0;
                self.current ^= 1;
                self.buckets[self.current] = 0;
            }
        }
        let mut expected = bw.bytes_in(rs.now.since(self.epoch_start));
        let acked = self.epoch_acked.saturating_add(rs.newly_acked);
        let most = EXTRA_ACKED_EPOCH_PACKETS.saturating_mul(conn.smss);
        if self.epoch_acked <= expected || acked >= most {
            self.restart(rs.now);
            expected = 0;
        }
        self.epoch_acked = self.epoch_acked.saturating_add(rs.newly_acked);
        let extra = self.epoch_acked.saturating_sub(expected).min(conn.cwnd);
        let bucket = &mut self.buckets[self.current];
        *bucket = (*bucket).max(extra);
    }

    /// Bytes of window beside the BDP, never more than 100 ms of `bw`.
    pub(super) fn window(&self, bw: Rate) -> u64 {
        self.max().min(bw.bytes_in(EXTRA_ACKED_TIME))
    }

    /// The same without the bound.
    pub(super) fn max(&self) -> u64 {
        self.buckets[0].max(self.buckets[1])
    }
}
