//! CUBIC, RFC 9438, in bytes and integers, with the slow start of RFC 9406.
//!
//! Time inside is in 1/65536 s, so that its cube times a window fits 128 bits and needs no
//! division: W_cubic is a multiplication and a shift.

use crate::algo::{Congestion, CongestionControl};
use crate::config::Config;
use crate::conn::{Conn, INFINITE};
use crate::hystart::SlowStart;
use crate::options::CubicOptions;
use crate::sampler::RateSample;
use crate::snapshot::Snapshot;
use crate::units::{Duration, Gain, Instant, mul_div};

/// beta_cubic, section 4.6.
const BETA: Gain = Gain::percent(70);
/// (1 + beta_cubic) / 2, fast convergence, section 4.7.
const FAST_CONVERGENCE: Gain = Gain::percent(85);
/// 3 (1 - beta_cubic) / (1 + beta_cubic) = 9 / 17, section 4.3.
const ALPHA: (u64, u64) = (9, 17);
/// C = 0.4 segments per second cubed, section 5.
const C: (u128, u128) = (2, 5);
/// W_cubic(t + RTT) may ask for at most this much more than the window, section 4.4.
const MAX_TARGET: Gain = Gain::percent(150);
/// Bits of a second's fraction.
const TIME_BITS: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    slow_start: SlowStart,
    epoch: Option<Epoch>,
    w_max: u64,
    /// cwnd_prior of section 4.3: W_est grows like Reno from there on.
    cwnd_prior: u64,
    /// The time of the newest ACK, or of the restart from idle.
    last_ack: Option<Instant>,
    undo: Option<Undo>,
}

/// A congestion avoidance stage: section 4.2.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// K in 1/65536 s.
    k: u64,
    /// W_max of this stage in bytes.
    w_max: u64,
    w_est: u64,
    /// Remainders below a whole byte: of W_est and of the window, each times the window.
    w_est_part: u64,
    cwnd_part: u64,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
    w_max: u64,
    cwnd_prior: u64,
    epoch: Option<Epoch>,
}

/// `d` in 1/65536 s.
fn ticks(d: Duration) -> u64 {
    mul_div(d.as_nanos(), 1 << TIME_BITS, 1_000_000_000)
}

/// The integer cube root, rounded down, one bit at a time: once a loss.
pub(crate) fn cube_root(x: u128) -> u64 {
    let mut root: u128 = 0;
    for bit in (0..42).rev() {
        let candidate = root | 1 << bit;
        if candidate * candidate * candidate <= x {
            root = candidate;
        }
    }
    root as u64
}

impl Epoch {
    /// Section 4.2: K = cbrt((W_max - cwnd_epoch) / C). A window already above W_max starts at the
    /// inflection point, where the cubic begins to probe.
    fn new(start: Instant, cwnd: u64, w_max: u64, smss: u64) -> Self {
        let distance = u128::from(w_max.saturating_sub(cwnd));
        let seconds_cubed = (distance * C.1) << (3 * TIME_BITS);
        let k = cube_root(seconds_cubed / (C.0 * u128::from(smss)));
        Self { start, k, w_max: w_max.max(cwnd), w_est: cwnd, w_est_part: 0, cwnd_part: 0 }
    }

    /// W_cubic(t) of section 4.2 in bytes, `t` in 1/65536 s.
    fn w_cubic(&self, t: u64, smss: u64) -> u64 {
        // 2^34 ticks are three days; the cube times a segment still fits.
        let d = t.abs_diff(self.k).min(1 << 34);
        let volume = if d < 1 << 20 && smss < 1 << 17 {
            // Within 16 s of the plateau 64 bits are enough, at a quarter of the instructions.
            let (n, m) = (C.0 as u64, C.1 as u64);
            (((d * d * d) >> TIME_BITS) * smss * n / m) >> (2 * TIME_BITS)
        } else {
            let d = u128::from(d);
            let volume =
                (((d * d * d) >> TIME_BITS) * u128::from(smss) * C.0 / C.1) >> (2 * TIME_BITS);
            u64::try_from(volume).unwrap_or(u64::MAX)
        };
        if t < self.k {
            self.w_max.saturating_sub(volume)
        } else {
            self.w_max.saturating_add(volume)
        }
    }
}

impl Cubic {
    pub(crate) fn new(_: &mut Conn, _: Instant, config: &Config, _: CubicOptions) -> Self {
        Self {
            slow_start: SlowStart::new(config.start),
            epoch: None,
            w_max: 0,
            cwnd_prior: 0,
            last_ack: None,
            undo: None,
        }
    }

    /// Section 5.8: time in which the application was the limit is no time of the epoch. Takes out
    /// what passed since the last ACK, or since the last call.
    fn skip_to(&mut self, now: Instant) {
        if let (Some(epoch), Some(last)) = (&mut self.epoch, self.last_ack.replace(now)) {
            epoch.start += now.since(last);
        }
    }

    /// Rapid Start, "Handing Over to CUBIC": the window is beta of what the path holds with its
    /// queue, and W_max is twice of that, which slow start would have reached.
    fn end_rapid_start(&mut self, conn: &Conn) {
        self.cwnd_prior = BETA.divide(conn.cwnd);
        self.w_max = self.cwnd_prior.saturating_mul(2);
    }

    /// Sections 4.3 to 4.5: the larger of what Reno would have and what the cubic asks for.
    fn avoid_congestion(&mut self, conn: &mut Conn, rs: &RateSample, acked: u64) {
        let (cwnd, smss) = (conn.cwnd, conn.smss);
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(rs.now, cwnd, w_max, smss));
        let elapsed = rs.now.since(epoch.start);

        let (n, d) = if epoch.w_est < self.cwnd_prior { ALPHA } else { (1, 1) };
        epoch.w_est_part =
            epoch.w_est_part.saturating_add(acked.saturating_mul(smss).saturating_mul(n) / d);
        epoch.w_est = epoch.w_est.saturating_add(epoch.w_est_part / cwnd);
        epoch.w_est_part %= cwnd;

        if epoch.w_cubic(ticks(elapsed), smss) < epoch.w_est {
            conn.cwnd = cwnd.max(epoch.w_est);
            return;
        }
        let rtt = conn.srtt().unwrap_or(Duration::ZERO);
        let target = epoch.w_cubic(ticks(elapsed + rtt), smss).clamp(cwnd, MAX_TARGET.of(cwnd));
        epoch.cwnd_part = epoch.cwnd_part.saturating_add((target - cwnd).saturating_mul(acked));
        conn.cwnd = cwnd.saturating_add(epoch.cwnd_part / cwnd);
        epoch.cwnd_part %= cwnd;
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let acked = rs.newly_acked_after_recovery;
        self.slow_start.observe(conn, rs);
        if self.slow_start.converges() {
            if self.slow_start.converge(conn, rs) {
                self.end_rapid_start(conn);
            }
        } else if self.slow_start.is_in(conn) {
            self.slow_start.grow(conn, rs, acked);
        } else if !conn.may_grow(rs) {
            self.skip_to(rs.now);
        } else if acked > 0 {
            self.avoid_congestion(conn, rs, acked);
        }
        self.last_ack = Some(rs.now);
        self.slow_start.pace(conn);
    }

    /// The time of a pause is no time of the stage, as in Linux (CA_EVENT_TX_START).
    fn on_pause(&mut self, _: &mut Conn, now: Instant) {
        self.skip_to(now);
    }

    /// Sections 4.6 and 4.7, once an episode. The reduction starts from the window, as Linux has
    /// it and the RFC allows; growth is only granted to a window that was used.
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if !congestion.new_episode {
            return;
        }
        self.undo = Some(Undo {
            cwnd: conn.cwnd,
            ssthresh: self.slow_start.ssthresh(),
            w_max: self.w_max,
            cwnd_prior: self.cwnd_prior,
            epoch: self.epoch,
        });
        self.w_max =
            if conn.cwnd < self.w_max { FAST_CONVERGENCE.of(conn.cwnd) } else { conn.cwnd };
        self.cwnd_prior = conn.cwnd;
        self.slow_start.reduce(conn, BETA);
        self.epoch = None;
        self.slow_start.pace(conn);
    }

    /// Section 4.8, with the transport's window after a timeout. Without a W_max the next stage
    /// begins at its own window: K is 0.
    fn on_rto(&mut self, conn: &mut Conn) {
        conn.note_timeout_answered();
        self.slow_start.time_out(conn);
        self.w_max = 0;
        self.epoch = None;
        self.slow_start.pace(conn);
    }

    /// The window of the jump was never carried, so it is no W_max. As after a timeout, the next
    /// stage begins at its own window.
    fn on_safe_retreat(&mut self, conn: &mut Conn) {
        self.undo = None;
        self.slow_start.end_convergence(conn);
        self.w_max = 0;
        self.cwnd_prior = conn.cwnd;
        self.epoch = None;
        self.slow_start.pace(conn);
    }

    fn on_retreated(&mut self, conn: &mut Conn, half_of_pipe: u64) {
        self.slow_start.set_ssthresh(half_of_pipe);
        self.slow_start.pace(conn);
    }

    /// Section 4.9.2.
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if let Some(undo) = self.undo.take().filter(|undo| conn.cwnd < undo.cwnd) {
            conn.cwnd = undo.cwnd;
            self.slow_start.set_ssthresh(undo.ssthresh);
            self.w_max = undo.w_max;
            self.cwnd_prior = undo.cwnd_prior;
            self.epoch = undo.epoch;
            self.slow_start.pace(conn);
        }
    }

    /// RFC 5681 section 4.1, and the threshold of RFC 2861: three quarters of the window stay
    /// known. Congestion avoidance begins another stage: W_est of the last one is the window of
    /// before, and the first ACK would bring that back.
    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        if cwnd < conn.cwnd {
            let known = conn.cwnd - conn.cwnd / 4;
            self.slow_start.set_ssthresh(self.slow_start.ssthresh().max(known));
            conn.cwnd = cwnd.max(conn.smss);
            self.epoch = None;
            self.slow_start.pace(conn);
        }
    }

    /// C and K of a stage are in segments: with others its curve would be elsewhere. Another stage
    /// begins from this window, with W_max in bytes.
    fn on_mtu_update(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(conn.min_window());
        self.epoch = None;
        if let Some(undo) = &mut self.undo {
            undo.epoch = None;
        }
        // The rate of a smaller window would hold this one back.
        self.slow_start.pace(conn);
    }

    /// Rapid Start brings the window down by a rule of its own.
    fn wants_prr(&self) -> bool {
        !self.slow_start.converges()
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        let ssthresh = self.slow_start.ssthresh();
        let ssthresh = (ssthresh != INFINITE).then_some(ssthresh);
        Snapshot { ssthresh, ..Snapshot::of(conn, "cubic", self.slow_start.state(conn)) }
    }
}

#[cfg(all(test, feature = "custom"))]
mod oracle;
#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::Config;

    const SMSS: u64 = 1_000;

    fn conn() -> Conn {
        Conn::new(&Config { smss: SMSS as u32, ..Config::new(1) }, Instant::default())
    }

    fn lose(cubic: &mut Cubic, conn: &mut Conn) {
        let now = Instant::default();
        cubic.on_congestion(
            conn,
            &Congestion { now, new_episode: true, has_losses: true, marks: None },
        );
    }

    /// Sections 4.6 and 4.7: seven tenths of the window stay. A flow that lost before it was back
    /// at W_max leaves room for others: its plateau is (1 + 0.7) / 2 of the window.
    #[test]
    fn a_loss_below_the_last_plateau_lowers_the_next_one() {
        let (mut conn, at) = (conn(), 1_000 * SMSS);
        let mut cubic =
            Cubic::new(&mut conn, Instant::default(), &Config::new(1), CubicOptions::new());
        conn.cwnd = at;
        lose(&mut cubic, &mut conn);
        assert_eq!((conn.cwnd, cubic.w_max), (700 * SMSS, at));
        conn.cwnd = 900 * SMSS;
        lose(&mut cubic, &mut conn);
        assert_eq!((conn.cwnd, cubic.w_max), (630 * SMSS, 765 * SMSS));
        // At the plateau or above it nothing is given away.
        conn.cwnd = 765 * SMSS;
        lose(&mut cubic, &mut conn);
        assert_eq!(cubic.w_max, 765 * SMSS);
    }

    /// Section 4.10: without a congestion before, K is 0 and W_max the window, so that t seconds
    /// later it is 0.4 t^3 segments larger: 400 after 10 s, where Reno has 20 at this round trip.
    #[test]
    fn a_slow_start_that_ended_without_a_loss_is_the_inflection() {
        let mut conn = conn();
        let mut cubic =
            Cubic::new(&mut conn, Instant::default(), &Config::new(1), CubicOptions::new());
        conn.cwnd = 1_000 * SMSS;
        cubic.slow_start.set_ssthresh(conn.cwnd);
        let rtt = Duration::from_millis(500);
        let mut now = Instant::default();
        for _ in 0..=20 {
            let packet = conn.sampler.on_sent(now, SMSS, conn.cwnd);
            conn.inflight = conn.cwnd;
            conn.mark_cwnd_limited();
            now += rtt;
            let mut rs = conn.sample(now, &packet, None);
            rs.newly_acked_after_recovery = conn.cwnd;
            cubic.on_ack(&mut conn, &rs);
        }
        let segments = conn.cwnd / SMSS;
        assert!(segments.abs_diff(1_400) <= 70, "{segments}: half a second early or late is 60");
    }

    /// Section 4.9.2, and RFC 9406: what was no congestion ends no initial slow start either.
    #[test]
    fn a_spurious_loss_gives_back_plateau_and_threshold() {
        let mut conn = conn();
        let mut cubic =
            Cubic::new(&mut conn, Instant::default(), &Config::new(1), CubicOptions::new());
        conn.cwnd = 1_000 * SMSS;
        lose(&mut cubic, &mut conn);
        cubic.on_spurious_loss(&mut conn);
        assert_eq!((conn.cwnd, cubic.w_max), (1_000 * SMSS, 0));
        assert_eq!(cubic.slow_start.ssthresh(), INFINITE);
    }

    /// Section 4.8: the window of a flow that timed out grows from the end of its slow start on: K
    /// is 0 and W_max the window of that moment. The plateau of before the timeout is not its aim:
    /// from 700 of 1000 segments that would be 9.1 s away.
    #[test]
    fn a_timeout_forgets_the_plateau() {
        let mut conn = conn();
        let mut cubic =
            Cubic::new(&mut conn, Instant::default(), &Config::new(1), CubicOptions::new());
        conn.cwnd = 1_000 * SMSS;
        lose(&mut cubic, &mut conn);
        cubic.on_rto(&mut conn);
        assert_eq!((conn.cwnd, cubic.slow_start.ssthresh()), (2 * SMSS, 700 * SMSS));
        // Slow start to the threshold, then the first ACK of congestion avoidance.
        conn.cwnd = 700 * SMSS;
        let packet = conn.sampler.on_sent(Instant::default(), SMSS, conn.cwnd);
        conn.inflight = conn.cwnd;
        conn.mark_cwnd_limited();
        let mut rs = conn.sample(Instant::default(), &packet, None);
        rs.newly_acked_after_recovery = SMSS;
        cubic.on_ack(&mut conn, &rs);
        let epoch = cubic.epoch.expect("congestion avoidance");
        assert_eq!((epoch.k, epoch.w_max), (0, 700 * SMSS));
        // Nor does the next congestion compare with it (fast convergence, section 4.7).
        lose(&mut cubic, &mut conn);
        assert_eq!(cubic.w_max, 700 * SMSS);
    }

    /// RFC 9959 section 3.5: a window that the path did not carry is no plateau either, and the
    /// next congestion is not compared with it.
    #[test]
    fn a_jump_that_failed_leaves_no_plateau() {
        let mut conn = conn();
        let mut cubic =
            Cubic::new(&mut conn, Instant::default(), &Config::new(1), CubicOptions::new());
        conn.cwnd = 1_000 * SMSS;
        lose(&mut cubic, &mut conn);
        conn.cwnd = 50 * SMSS;
        cubic.on_safe_retreat(&mut conn);
        assert_eq!((cubic.w_max, cubic.cwnd_prior), (0, 50 * SMSS));
        lose(&mut cubic, &mut conn);
        assert_eq!(cubic.w_max, 50 * SMSS);
    }

    /// Rapid Start, "Handing Over to CUBIC": W_max is twice cwnd / beta.
    #[test]
    fn after_rapid_start_the_plateau_is_twice_what_the_path_holds() {
        let mut conn = conn();
        let mut cubic =
            Cubic::new(&mut conn, Instant::default(), &Config::new(1), CubicOptions::new());
        conn.cwnd = 700 * SMSS;
        cubic.end_rapid_start(&conn);
        assert_eq!((cubic.cwnd_prior, cubic.w_max), (1_000 * SMSS, 2_000 * SMSS));
    }

    #[test]
    fn the_cube_root_is_the_largest_whose_cube_fits() {
        for x in (0..2_000).chain([1 << 60, (1 << 60) + 1, 1 << 120]) {
            let r = u128::from(cube_root(x));
            assert!(r * r * r <= x && (r + 1) * (r + 1) * (r + 1) > x, "{x}: {r}");
        }
    }

    /// RFC 9438 section 4.2: after a cut from 1000 to 700 segments the plateau is
    /// cbrt(300 / 0.4) = 9.0856 s away, and the curve passes W_max there.
    #[test]
    fn the_curve_goes_through_its_points() {
        let epoch = Epoch::new(Instant::default(), 700 * SMSS, 1000 * SMSS, SMSS);
        let k_ms = (epoch.k * 1000) >> TIME_BITS;
        assert_eq!(k_ms, 9_085);
        assert!(epoch.w_cubic(0, SMSS).abs_diff(700 * SMSS) < 50);
        assert_eq!(epoch.w_cubic(epoch.k, SMSS), 1000 * SMSS);
        let later = epoch.k + (5 << TIME_BITS);
        assert!(epoch.w_cubic(later, SMSS).abs_diff(1050 * SMSS) < 10, "0.4 x 5^3 = 50 segments");
    }

    #[test]
    fn a_window_above_w_max_starts_at_the_inflection() {
        let epoch = Epoch::new(Instant::default(), 900 * SMSS, 700 * SMSS, SMSS);
        assert_eq!((epoch.k, epoch.w_cubic(0, SMSS)), (0, 900 * SMSS));
    }

    /// Fractions of a byte are carried over: a window grows by bytes, and not by ACKs.
    #[test]
    fn many_small_acks_add_as_much_as_one() {
        let grown = |acks: u64, bytes: u64| {
            let start = Instant::default();
            let mut conn = conn();
            conn.cwnd = 1_000 * SMSS;
            let mut cubic = Cubic {
                w_max: 2_000 * SMSS,
                ..Cubic::new(&mut conn, Instant::default(), &Config::new(1), CubicOptions::new())
            };
            let packet = conn.sampler.on_sent(start, SMSS, SMSS);
            let rs = conn.sample(start, &packet, None);
            cubic.avoid_congestion(&mut conn, &rs, 1);
            let later = RateSample { now: start + Duration::from_secs(2), ..rs };
            (0..acks).for_each(|_| cubic.avoid_congestion(&mut conn, &later, bytes));
            conn.cwnd - 1_000 * SMSS
        };
        let (many, one) = (grown(10_000, 1), grown(1, 10_000));
        assert!(one > 100 && many.abs_diff(one) <= one / 100, "{many} and {one}");
    }
}
