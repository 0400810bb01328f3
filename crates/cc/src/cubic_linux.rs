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
use crate::conn::{Conn, INFINITE};
use crate::cubic::cube_root;
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
    pub(crate) const fn new(now: Instant) -> Self {
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
        if acked > 0 && conn.may_grow(rs) {
            let mut cwnd = conn.cwnd / conn.smss;
            if self.is_in_slow_start(conn) {
                let more = acked.min(self.ssthresh.div_ceil(conn.smss).saturating_sub(cwnd));
                cwnd += more;
                acked -= more;
            }
            if acked > 0 {
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
    fn on_restart_from_idle(&mut self, _: &mut Conn, now: Instant) {
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
        *self = Self { ssthresh, undo, ..Self::new(self.last_ack.unwrap_or_default()) };
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
        self.plateau = 0;
        self.stage = None;
        self.pace(conn);
    }

    fn on_retreated(&mut self, conn: &mut Conn, most: u64) {
        self.ssthresh = self.ssthresh.min(most);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const SMSS: u64 = 1_000;
    const RTT: Duration = Duration::from_millis(100);

    struct Flow {
        conn: Conn,
        cubic: LinuxCubic,
        now: Instant,
    }

    impl Flow {
        fn new(cwnd: u64) -> Self {
            let config = Config { smss: SMSS as u32, ..Config::new(1) };
            let now = Instant::default();
            let mut conn = Conn::new(&config, now);
            conn.cwnd = cwnd * SMSS;
            Self { conn, cubic: LinuxCubic::new(now), now }
        }

        fn lose(&mut self) {
            let now = self.now;
            let congestion = Congestion { now, new_episode: true, has_losses: true, marks: None };
            self.cubic.on_congestion(&mut self.conn, &congestion);
        }

        /// Each segment of a window is acknowledged by itself, `gap` after the one before, a round
        /// trip after all of them left.
        fn round(&mut self, rtt: Duration, gap: Duration) {
            let window = self.conn.cwnd / SMSS;
            let packets: std::vec::Vec<_> = (0..window)
                .map(|_| self.conn.sampler.on_sent(self.now, SMSS, false, self.conn.cwnd))
                .collect();
            self.now += rtt;
            for packet in &packets {
                self.conn.sampler.count_delivered(SMSS);
                let mut rs = self.conn.sample(self.now, packet, None);
                (rs.rtt, rs.newly_acked_after_recovery) = (rtt, SMSS);
                self.cubic.on_ack(&mut self.conn, &rs);
                self.now += gap;
            }
        }

        fn window(&self) -> u64 {
            self.conn.cwnd / SMSS
        }
    }

    /// 717/1024 of 11 segments are 7.7, and of 7 are 4.9: seven and four are left.
    #[test]
    fn a_reduction_leaves_whole_segments() {
        let mut flow = Flow::new(11);
        flow.lose();
        assert_eq!(flow.window(), 7);
        flow.lose();
        // Fast convergence: 7 x 1741/2048 = 5.95.
        assert_eq!((flow.window(), flow.cubic.plateau), (4, 5 * SMSS));
        (0..3).for_each(|_| flow.lose());
        assert_eq!(flow.window(), 2);
    }

    /// 1 MB is 1000 segments, and then 500 of twice the size: a loss at 1.2 MB is above the
    /// plateau. Counted in the old segments, 600 were below 1000, and the plateau was lowered for
    /// fast convergence.
    #[test]
    fn the_plateau_outlives_a_change_of_the_segment_size() {
        let mut flow = Flow::new(1_000);
        flow.lose();
        assert_eq!((flow.window(), flow.cubic.plateau), (700, 1_000 * SMSS));
        flow.conn.smss = 2 * SMSS;
        flow.cubic.on_mtu_update(&mut flow.conn);
        flow.conn.cwnd = 1_200 * SMSS;
        flow.lose();
        assert_eq!((flow.window(), flow.cubic.plateau), (840, 1_200 * SMSS));
    }

    /// A window of 10 segments with a round trip of 100 ms grows by 8/15 of a segment a round,
    /// above the window of before the loss as below it: RFC 9438 would have twice that there.
    #[test]
    fn the_window_that_reno_would_have_grows_as_slowly_above_the_plateau() {
        let mut flow = Flow::new(15);
        flow.lose();
        assert_eq!(flow.window(), 10);
        let gap = Duration::from_millis(1);
        let mut rounds = 0;
        let mut at = std::vec::Vec::new();
        while flow.window() < 19 {
            flow.round(RTT, gap);
            rounds += 1;
            at.push((rounds, flow.window()));
        }
        // 9 segments of 15/8 rounds are 16.9, and a round has ten to nineteen segments.
        assert!((15..=20).contains(&rounds), "{at:?}");
    }

    /// The cubic after a reduction from 1000 to 700 segments: W_max cbrt(300 / 0.4004) = 9.08 s
    /// later.
    #[test]
    fn the_plateau_is_reached_when_the_cubic_is_there() {
        let stage = Stage::new(Instant::default(), 700, 1000, 0);
        assert_eq!(stage.k * 1000 / TICKS, 9_082);
        assert_eq!(stage.target(Duration::from_millis(9_083)), 1000);
        assert!(stage.target(Duration::ZERO).abs_diff(700) <= 1);
        let target = stage.target(Duration::from_millis(14_083));
        assert!(target.abs_diff(1050) <= 1, "{target}: 0.4 x 5^3 = 50");
    }

    /// A timeout forgets plateau, round trips and HyStart's verdict, and keeps the threshold.
    #[test]
    fn a_timeout_forgets_all_but_the_threshold() {
        let mut flow = Flow::new(100);
        flow.round(RTT, Duration::from_millis(5));
        let window = flow.window();
        flow.lose();
        flow.cubic.on_rto(&mut flow.conn);
        let cubic = &flow.cubic;
        assert_eq!(flow.conn.cwnd, flow.conn.timeout_window());
        assert_eq!((cubic.plateau, cubic.delay_min), (0, Duration::MAX));
        assert_eq!(cubic.ssthresh, window * 717 / 1024 * SMSS);
    }

    /// The rise that ends slow start is an eighth of the smallest round trip of all, between 4 and
    /// 16 ms; in a window of 16 segments and more, and seen by the ninth sample.
    #[test]
    fn a_rise_of_the_round_trip_ends_slow_start() {
        let apart = Duration::from_millis(3);
        let ends = |rtt_ms: u64, rise_us: u64| {
            let mut flow = Flow::new(16);
            flow.conn.is_paced = true;
            let rtt = Duration::from_millis(rtt_ms);
            flow.round(rtt, apart);
            assert!(flow.cubic.is_in_slow_start(&flow.conn), "{rtt_ms}");
            flow.round(rtt + Duration::from_micros(rise_us), apart);
            !flow.cubic.is_in_slow_start(&flow.conn)
        };
        for (rtt, rise) in [(8, 4), (32, 4), (80, 10), (128, 16), (400, 16)] {
            assert!(!ends(rtt, rise * 1000), "{rtt} ms");
            assert!(ends(rtt, rise * 1000 + 1), "{rtt} ms");
        }
        let mut small = Flow::new(4);
        (0..2).for_each(|i| small.round(RTT + RTT.times(i), apart));
        assert!(small.cubic.is_in_slow_start(&small.conn), "up to 15 segments");
    }

    /// ACKs that follow each other within 2 ms for more than half of the smallest round trip are a
    /// train that ends slow start; paced, for more than all of it. A gap of more than 2 ms ends the
    /// train.
    #[test]
    fn a_train_of_acks_ends_slow_start() {
        let ends = |gap_us: u64, is_paced: bool| {
            let mut flow = Flow::new(60);
            flow.conn.is_paced = is_paced;
            flow.round(RTT, Duration::from_micros(gap_us));
            !flow.cubic.is_in_slow_start(&flow.conn)
        };
        // 59 gaps; half of 101 ms, as offload may delay by one.
        assert!(!ends(850, false), "50.15 ms");
        assert!(ends(870, false), "51.33 ms");
        assert!(!ends(2001, false), "no train");
        assert!(!ends(1700, true), "100.3 ms");
        assert!(ends(1730, true), "102.07 ms");
    }
}
