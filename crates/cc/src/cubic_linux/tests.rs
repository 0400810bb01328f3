//! Growth, thresholds and slow start of Linux's CUBIC.

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
        let cubic = LinuxCubic::new(&mut conn, now, &config, CubicOptions::new());
        Self { conn, cubic, now }
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
            .map(|_| self.conn.sampler.on_sent(self.now, SMSS, self.conn.cwnd))
            .collect();
        self.conn.inflight = self.conn.cwnd;
        self.conn.mark_cwnd_limited();
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
