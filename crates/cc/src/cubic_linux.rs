//! CUBIC as Linux has it (`tcp_cubic.c`, 6.18), where that differs from RFC 9438: for a simulated
//! TCP that is held against the kernel's.
//!
//! - The window is whole segments, rounded down when it is reduced.
//! - The window that Reno would have grows by 8/15 of a segment a window for ever. RFC 9438 section
//!   4.3 lets it grow by a whole one once it is back at the window of before the loss.
//! - While the window stands still, its growth is computed 32 times a second and no more often.
//! - Without a plateau it grows by at least a twentieth a window.
//! - Slow start ends by HyStart (Ha and Rhee 2008), see [`Hystart`], in each slow start.

use crate::algo::{Congestion, CongestionControl};
use crate::config::Config;
use crate::conn::{Conn, INFINITE};
use crate::cubic::cube_root;
use crate::options::CubicOptions;
use crate::sampler::RateSample;
use crate::snapshot::{Snapshot, State};
use crate::units::{Duration, Gain, Instant, Rate, mul_div};

/// `beta`: what is left of the window, 717/1024.
const BETA: (u64, u64) = (717, 1024);
/// `bic_scale` times ten: C in 1/1024 segments per second cubed, 0.4004.
const C: u64 = 410;
/// `beta_scale`: the segments acknowledged for each that Reno's window grows by are 15/8 of the
/// window.
const FRIENDLY: (u64, u64) = (15, 8);
/// While the window stands still, its growth is computed anew after this.
const UPDATE: Duration = Duration::from_nanos(1_000_000_000 / 32);
/// The most segments to be acknowledged for one more without a plateau, and the least with one.
const SLOWEST_WITHOUT_PLATEAU: u64 = 20;
const FASTEST: u64 = 2;
/// After a reduction round trips say nothing for so long: the queue is still draining.
const BLIND: Duration = Duration::from_secs(1);
/// Pacing in slow start up to half of the threshold, and above (`tcp_pacing_ss_ratio`,
/// `tcp_pacing_ca_ratio`).
const SLOW_START_PACING: Gain = Gain::percent(200);
const AVOIDANCE_PACING: Gain = Gain::percent(120);
/// Time in stages counts 1/1024 s.
const TICKS: u64 = 1024;

/// `hystart_low_window` in segments.
const LOW_WINDOW: u64 = 16;
/// ACKs that follow each other within this are a train (`hystart_ack_delta_us`).
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Samples of a round before its minimum counts.
const MIN_SAMPLES: u32 = 8;
/// The rise that counts is an eighth of the smallest round trip within these.
const RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// ACK delay allowed for offload: four aggregates of 64 KiB at the pacing rate, and this at the
/// most.
const OFFLOAD: (u64, Duration) = (4 * 65_536, Duration::from_millis(1));

/// Linux's HyStart: slow start is over when ACKs have come one after the other for half of the
/// smallest round trip (paced: for all of it), as then the bottleneck is full, or when the round
/// trip has risen.
#[derive(Clone, Debug)]
struct Hystart {
    found: bool,
    round_start: Instant,
    /// The round ends with the first ACK of a packet that was sent when C.delivered was this or
    /// more.
    round_end: u64,
    last_ack: Instant,
    min_rtt: Duration,
    samples: u32,
}

impl Hystart {
    const fn new(now: Instant) -> Self {
        Self {
            found: false,
            round_start: now,
            round_end: 0,
            last_ack: now,
            min_rtt: Duration::MAX,
            samples: 0,
        }
    }

    /// Takes an ACK of slow start in; whether slow start is over. `delay_min` is the smallest round
    /// trip.
    fn is_over(
        &mut self,
        conn: &Conn,
        rs: &RateSample,
        rtt: Duration,
        delay_min: Duration,
    ) -> bool {
        if self.found {
            return false;
        }
        if rs.prior_delivered >= self.round_end {
            let round_end = conn.sampler.delivered;
            *self = Self { round_end, ..Self::new(rs.now) };
        }
        if conn.cwnd < LOW_WINDOW * conn.smss {
            return false;
        }
        if rs.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = rs.now;
            let rate = Rate::from_volume(conn.cwnd.saturating_mul(2), conn.srtt().unwrap_or(rtt));
            let length = delay_min + rate.time_for(OFFLOAD.0).min(OFFLOAD.1);
            let length = if conn.is_paced { length } else { half(length) };
            self.found |= rs.now.since(self.round_start) > length;
        }
        self.min_rtt = self.min_rtt.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let rise = Duration::from_nanos(delay_min.as_nanos() / 8).clamp(RISE.0, RISE.1);
            self.found |= self.min_rtt > delay_min + rise;
        }
        self.found
    }
}

fn half(d: Duration) -> Duration {
    Duration::from_nanos(d.as_nanos() / 2)
}

/// A stage of congestion avoidance: windows in segments.
#[derive(Clone, Copy, Debug)]
struct Stage {
    start: Instant,
    /// The time at which the window is back at `origin`, in ticks.
    k: u64,
    origin: u64,
    /// The window of Reno, and the segments acknowledged towards its next one.
    reno: u64,
    acked: u64,
}

impl Stage {
    fn new(start: Instant, cwnd: u64, plateau: u64, acked: u64) -> Self {
        let distance = u128::from(plateau.saturating_sub(cwnd));
        let k = cube_root(((distance << 10) << 30) / u128::from(C));
        Self { start, k, origin: plateau.max(cwnd), reno: cwnd, acked }
    }

    /// The window that the cubic asks for at a time.
    fn target(&self, elapsed: Duration) -> u64 {
        let t = mul_div(elapsed.as_nanos(), TICKS, 1_000_000_000);
        let d = u128::from(t.abs_diff(self.k).min(1 << 34));
        let delta = u64::try_from((u128::from(C) * d * d * d) >> 40).unwrap_or(u64::MAX);
        if t < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct LinuxCubic {
    ssthresh: u64,
    hystart: Hystart,
    /// The smallest round trip since the start or the newest timeout.
    delay_min: Duration,
    /// `last_max_cwnd`, here in bytes, so that it outlives a change of the segment size; 0 for
    /// none.
    plateau: u64,
    stage: Option<Stage>,
    /// The window in segments and the time when its growth was computed, and the outcome: segments
    /// to be acknowledged for one more.
    computed: (u64, Instant),
    each: u64,
    /// Segments acknowledged towards the next one, and bytes towards the next segment.
    acked: u64,
    acked_bytes: u64,
    last_ack: Option<Instant>,
    undo: Option<Undo>,
}

impl LinuxCubic {
    pub(crate) const fn new(_: &mut Conn, now: Instant, _: &Config, _: CubicOptions) -> Self {
        Self::begun(now)
    }

    const fn begun(now: Instant) -> Self {
        Self {
            ssthresh: INFINITE,
            hystart: Hystart::new(now),
            delay_min: Duration::MAX,
            plateau: 0,
            stage: None,
            computed: (0, now),
            each: FASTEST,
            acked: 0,
            acked_bytes: 0,
            last_ack: None,
            undo: None,
        }
    }

    const fn is_in_slow_start(&self, conn: &Conn) -> bool {
        conn.cwnd < self.ssthresh
    }

    fn take_round_trip(&mut self, conn: &Conn, rs: &RateSample) {
        let Some(rtt) = rs.rtt() else { return };
        if self.stage.is_some_and(|stage| rs.now.since(stage.start) < BLIND) {
            return;
        }
        self.delay_min = self.delay_min.min(rtt);
        if self.is_in_slow_start(conn) && self.hystart.is_over(conn, rs, rtt, self.delay_min) {
            self.ssthresh = conn.cwnd;
        }
    }

    /// Computes the number of segments to acknowledge for one more in the window, after `acked`
    /// further ones.
    fn compute(&mut self, now: Instant, cwnd: u64, acked: u64, smss: u64) {
        if let Some(stage) = &mut self.stage {
            stage.acked = stage.acked.saturating_add(acked);
        }
        if self.computed.0 == cwnd && now.since(self.computed.1) <= UPDATE {
            return;
        }
        self.computed = (cwnd, now);
        let plateau = self.plateau / smss;
        let stage = self.stage.get_or_insert_with(|| Stage::new(now, cwnd, plateau, acked));
        let ahead = if self.delay_min == Duration::MAX { Duration::ZERO } else { self.delay_min };
        let target = stage.target(now.since(stage.start) + ahead);
        let mut each = cwnd.checked_div(target.saturating_sub(cwnd)).unwrap_or(100 * cwnd);
        if plateau == 0 {
            each = each.min(SLOWEST_WITHOUT_PLATEAU);
        }
        let for_reno = (cwnd * FRIENDLY.0 / FRIENDLY.1).max(1);
        let grown = stage.acked.saturating_sub(1) / for_reno;
        stage.reno += grown;
        stage.acked -= grown * for_reno;
        if let Some(for_one) = cwnd.checked_div(stage.reno.saturating_sub(cwnd)) {
            each = each.min(for_one);
        }
        self.each = each.max(FASTEST);
    }

    fn pace(&self, conn: &mut Conn) {
        let doubles = conn.cwnd < self.ssthresh / 2;
        conn.pace_by_window(if doubles { SLOW_START_PACING } else { AVOIDANCE_PACING });
    }

    /// The window after a reduction, in bytes.
    fn reduced(conn: &Conn) -> u64 {
        let segments = conn.cwnd / conn.smss;
        (segments * BETA.0 / BETA.1).max(2) * conn.smss
    }
}

impl CongestionControl for LinuxCubic {
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.take_round_trip(conn, rs);
        self.last_ack = Some(rs.now);
        self.acked_bytes += rs.newly_acked_after_recovery;
        let mut acked = self.acked_bytes / conn.smss;
        self.acked_bytes %= conn.smss;
        let may_grow = conn.may_grow(rs);
        let mut cwnd = conn.cwnd / conn.smss;
        if acked > 0 && (may_grow || self.is_in_slow_start(conn)) {
            if self.is_in_slow_start(conn) {
                let more = acked.min(self.ssthresh.div_ceil(conn.smss).saturating_sub(cwnd));
                let grown = conn.grown_in_slow_start(rs, more.saturating_mul(conn.smss));
                cwnd = cwnd.max(grown / conn.smss);
                acked -= more;
            }
            if acked > 0 && may_grow {
                self.compute(rs.now, cwnd, acked, conn.smss);
                if self.acked >= self.each {
                    self.acked = 0;
                    cwnd += 1;
                }
                self.acked += acked;
                cwnd += self.acked / self.each;
                self.acked %= self.each;
            }
            conn.cwnd = cwnd.saturating_mul(conn.smss);
        }
        self.pace(conn);
    }

    /// The time of a pause is no time of the stage.
    fn on_pause(&mut self, _: &mut Conn, now: Instant) {
        if let (Some(stage), Some(last)) = (&mut self.stage, self.last_ack.replace(now)) {
            stage.start += now.since(last);
        }
    }

    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if !congestion.new_episode {
            return;
        }
        self.undo = Some(Undo { cwnd: conn.cwnd, ssthresh: self.ssthresh });
        let cwnd = conn.cwnd / conn.smss;
        // Fast convergence.
        let is_below = cwnd < self.plateau / conn.smss;
        let plateau = if is_below { cwnd * (BETA.1 + BETA.0) / (2 * BETA.1) } else { cwnd };
        self.plateau = plateau.saturating_mul(conn.smss);
        conn.cwnd = Self::reduced(conn);
        self.ssthresh = conn.cwnd;
        self.stage = None;
        self.pace(conn);
    }

    /// Everything starts anew but the threshold.
    fn on_rto(&mut self, conn: &mut Conn) {
        conn.note_timeout_answered();
        conn.cwnd = conn.timeout_window();
        let (ssthresh, undo) = (self.ssthresh, self.undo);
        *self = Self { ssthresh, undo, ..Self::begun(self.last_ack.unwrap_or_default()) };
        self.pace(conn);
    }

    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if let Some(undo) = self.undo.take() {
            conn.cwnd = conn.cwnd.max(undo.cwnd);
            self.ssthresh = self.ssthresh.max(undo.ssthresh);
            self.pace(conn);
        }
    }

    /// The window of the jump was never carried, so it is no plateau.
    fn on_safe_retreat(&mut self, conn: &mut Conn) {
        self.undo = None;
        self.plateau = 0;
        self.stage = None;
        self.pace(conn);
    }

    fn on_retreated(&mut self, conn: &mut Conn, half_of_pipe: u64) {
        self.ssthresh = half_of_pipe;
        self.pace(conn);
    }

    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        if cwnd < conn.cwnd {
            self.ssthresh = self.ssthresh.max(conn.cwnd - conn.cwnd / 4);
            conn.cwnd = cwnd.max(conn.smss);
            self.pace(conn);
        }
    }

    fn on_mtu_update(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(conn.min_window());
        // A part of a segment of the old size would count for whole segments of a smaller one, and
        // the stage counts its windows in old segments: another begins from this window, with the
        // plateau in new ones.
        self.acked_bytes = 0;
        self.stage = None;
        self.computed.0 = 0;
        self.pace(conn);
    }

    fn wants_prr(&self) -> bool {
        true
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        let state = if conn.in_recovery() {
            State::Recovery
        } else if self.is_in_slow_start(conn) {
            State::SlowStart
        } else {
            State::CongestionAvoidance
        };
        let ssthresh = (self.ssthresh != INFINITE).then_some(self.ssthresh);
        Snapshot { ssthresh, ..Snapshot::of(conn, "cubic", state) }
    }
}

#[cfg(all(test, feature = "custom"))]
mod oracle;
#[cfg(test)]
mod tests;
