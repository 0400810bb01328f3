//! What the model estimates beside bandwidth and round trip: a policer's rate, and what an
//! aggregation brings.

use super::{Linux, gained, volume};
use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::test_link::MS;
use crate::units::{Duration, Instant, Rate};

/// lt_bw.
#[derive(Clone, Debug)]
pub(super) struct LongTerm {
    pub(super) is_sampling: bool,
    pub(super) use_bw: bool,
    pub(super) bw: Option<u64>,
    rtt_cnt: u32,
    last_stamp: Instant,
    last_delivered: u64,
    last_lost: u64,
}

impl LongTerm {
    pub(super) const fn new(last_stamp: Instant) -> Self {
        Self {
            is_sampling: false,
            use_bw: false,
            bw: None,
            rtt_cnt: 0,
            last_stamp,
            last_delivered: 0,
            last_lost: 0,
        }
    }
}

/// extra_acked.
#[derive(Clone, Debug)]
pub(super) struct Extra {
    acked: [u64; 2],
    win_rtts: u32,
    win_idx: usize,
    epoch: Instant,
    epoch_acked: u64,
}

impl Extra {
    pub(super) const fn new(now: Instant) -> Self {
        Self { acked: [0; 2], win_rtts: 0, win_idx: 0, epoch: now, epoch_acked: 0 }
    }

    pub(super) const fn begin_epoch(&mut self, now: Instant) {
        (self.epoch, self.epoch_acked) = (now, 0);
    }
}

impl Linux {
    pub(super) fn lt_reset(&mut self) {
        self.lt = LongTerm::new(self.lt.last_stamp);
    }

    fn lt_start_interval(&mut self, conn: &Conn) {
        self.lt.last_stamp = self.last_ack;
        self.lt.last_delivered = conn.delivered();
        self.lt.last_lost = self.lost;
        self.lt.rtt_cnt = 0;
    }

    /// bbr_lt_bw_sampling().
    pub(super) fn lt_bw_sampling(&mut self, conn: &Conn, is_app_limited: bool) {
        if self.lt.use_bw {
            if self.mode == State::ProbeBw && self.round_start {
                self.lt.rtt_cnt += 1;
                if self.lt.rtt_cnt >= 48 {
                    self.lt_reset();
                    self.reset_probe_bw_mode();
                }
            }
            return;
        }
        if !self.lt.is_sampling {
            if self.newly_lost == 0 {
                return;
            }
            self.lt_start_interval(conn);
            self.lt.is_sampling = true;
        }
        if is_app_limited {
            return self.lt_reset();
        }
        self.lt.rtt_cnt += u32::from(self.round_start);
        if self.lt.rtt_cnt < 4 {
            return;
        }
        if self.lt.rtt_cnt > 4 * 4 {
            return self.lt_reset();
        }
        if self.newly_lost == 0 {
            return;
        }
        let lost = self.lost - self.lt.last_lost;
        let delivered = conn.delivered() - self.lt.last_delivered;
        let time = self.last_ack.since(self.lt.last_stamp);
        if delivered == 0 || lost < gained(50, delivered) || time < MS {
            return;
        }
        let bw = Rate::from_volume(delivered, time).as_bytes_per_sec();
        if let Some(before) = self.lt.bw {
            let diff = bw.abs_diff(before);
            if diff <= before / 8 || diff <= 4_000 / 8 {
                self.lt.bw = Some(u128::midpoint(bw.into(), before.into()).max(1) as u64);
                self.lt.use_bw = true;
                self.lt.rtt_cnt = 0;
                return;
            }
        }
        self.lt.bw = Some(bw);
        self.lt_start_interval(conn);
    }

    /// bbr_update_ack_aggregation().
    pub(super) fn update_ack_aggregation(&mut self, conn: &Conn, rs: &RateSample) {
        let (bw, round_start) = (self.bw(), self.round_start);
        let Some(extra) = &mut self.aggregation else { return };
        if rs.newly_acked == 0 || rs.delivery_rate == Rate::ZERO {
            return;
        }
        if round_start {
            extra.win_rtts += 1;
            if extra.win_rtts >= 5 {
                extra.win_rtts = 0;
                extra.win_idx = 1 - extra.win_idx;
                extra.acked[extra.win_idx] = 0;
            }
        }
        let mut expected = volume(bw, rs.now.since(extra.epoch));
        let most = conn.smss << 20;
        if extra.epoch_acked <= expected || extra.epoch_acked + rs.newly_acked >= most {
            extra.begin_epoch(rs.now);
            expected = 0;
        }
        extra.epoch_acked += rs.newly_acked;
        let acked = (extra.epoch_acked - expected).min(conn.cwnd);
        extra.acked[extra.win_idx] = extra.acked[extra.win_idx].max(acked);
    }

    /// bbr_ack_aggregation_cwnd().
    pub(super) fn ack_aggregation_cwnd(&self) -> u64 {
        match &self.aggregation {
            Some(extra) if self.full_bw_reached => extra.acked[0]
                .max(extra.acked[1])
                .min(volume(self.bw(), Duration::from_millis(100))),
            _ => 0,
        }
    }
}
