//! "ProbeBW Algorithm Details" of the plain model.

use super::{INFINITY, Plain, percent};
use crate::bbr3::{AckPhase, Bbr3, Draft};
use crate::conn::Conn;
use crate::rng::Rng;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Instant};

/// What ProbeBW alone needs.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    random: Rng,
    pub(super) ack_phase: AckPhase,
    pub(super) is_bw_probe_sample: bool,
    pub(super) rounds_since_up: u64,
    prev_too_high: bool,
    prev_precautionary: bool,
    up_rounds: u32,
    up_acked: u64,
    up_acked_per_inc: u64,
    wait: Duration,
    cycle_stamp: Instant,
}

impl Phase {
    pub(super) fn new(now: Instant, random: Rng) -> Self {
        Self {
            random,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            rounds_since_up: 0,
            prev_too_high: false,
            prev_precautionary: false,
            up_rounds: 0,
            up_acked: 0,
            up_acked_per_inc: INFINITY,
            wait: Duration::ZERO,
            cycle_stamp: now,
        }
    }

    pub(super) fn agrees(&self, real: &Bbr3<Draft>) {
        assert_eq!(real.probe.ack_phase, self.ack_phase);
        assert_eq!(real.probe.is_sample, self.is_bw_probe_sample);
        assert_eq!(u64::from(real.probe.rounds_since_up), self.rounds_since_up);
        assert_eq!(real.probe.prev_too_high, self.prev_too_high);
        assert_eq!(real.probe.prev_precautionary, self.prev_precautionary);
        assert_eq!(u32::from(real.probe.up_rounds), self.up_rounds);
        assert_eq!(real.probe.up_acked, self.up_acked);
        assert_eq!(real.probe.up_acked_per_inc, self.up_acked_per_inc);
        assert_eq!(real.probe.wait, self.wait);
        assert_eq!(real.probe.time, self.cycle_stamp + self.wait);
    }
}

impl Plain {
    pub(super) fn is_in_a_probe_bw_state(&self) -> bool {
        use State::*;
        [ProbeBwDown, ProbeBwCruise, ProbeBwRefill, ProbeBwUp].contains(&self.state)
    }

    pub(super) fn is_probing_bw(&self) -> bool {
        [State::Startup, State::ProbeBwRefill, State::ProbeBwUp].contains(&self.state)
    }

    /// StartProbeBW_DOWN(), with PickProbeWait(): 0 or 1 rounds, and 2 to 3 s.
    pub(super) fn start_probe_bw_down(&mut self, conn: &Conn, now: Instant) {
        self.reset_congestion_signals();
        let probe = &mut self.probe;
        probe.up_acked_per_inc = INFINITY;
        probe.rounds_since_up = probe.random.below(2);
        probe.wait =
            Duration::from_secs(2) + Duration::from_nanos(probe.random.below(1_000_000_001));
        probe.cycle_stamp = now;
        probe.ack_phase = AckPhase::ProbeStopping;
        self.start_round(conn);
        self.state = State::ProbeBwDown;
    }

    pub(super) fn start_probe_bw_refill(&mut self, conn: &Conn) {
        self.reset_short_term_model();
        let probe = &mut self.probe;
        (probe.up_rounds, probe.up_acked) = (0, 0);
        probe.prev_precautionary = false;
        probe.ack_phase = AckPhase::Refilling;
        self.start_round(conn);
        self.state = State::ProbeBwRefill;
    }

    /// StartProbeBW_UP(). The samples of the round that is at hand left in REFILL.
    fn start_probe_bw_up(&mut self, conn: &Conn, rs: &RateSample) {
        self.probe.is_bw_probe_sample = true;
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.start_round(conn);
        self.reset_full_bw();
        self.full_bw = rs.delivery_rate.as_bytes_per_sec();
        self.is_round_judged = true;
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope(conn);
    }

    pub(super) fn update_probe_bw_cycle_phase(&mut self, conn: &Conn, rs: &RateSample) {
        if !self.full_bw_reached || self.adapt_long_term_model(conn, rs) {
            return;
        }
        let state = self.state;
        match state {
            State::ProbeBwDown | State::ProbeBwCruise if self.is_time_to_probe_bw(conn, rs.now) => {
                self.start_probe_bw_refill(conn);
            }
            State::ProbeBwDown
                if conn.inflight <= self.inflight_with_headroom(conn)
                    && conn.inflight <= self.inflight(conn, self.max_bw, 100) =>
            {
                self.state = State::ProbeBwCruise;
            }
            State::ProbeBwRefill if self.round_start => self.start_probe_bw_up(conn, rs),
            State::ProbeBwUp if self.is_time_to_go_down(conn, rs) => {
                self.probe.prev_too_high = false;
                self.start_probe_bw_down(conn, rs.now);
            }
            _ => {}
        }
    }

    /// IsTimeToProbeBW(). TargetInflight() in whole packets is Reno's window, of one at least.
    fn is_time_to_probe_bw(&self, conn: &Conn, now: Instant) -> bool {
        let reno_rounds = (self.target_inflight(conn) / conn.smss).clamp(1, 63);
        now > self.probe.cycle_stamp + self.probe.wait || self.probe.rounds_since_up >= reno_rounds
    }

    fn target_inflight(&self, conn: &Conn) -> u64 {
        self.bdp(conn, self.bw, 100).min(conn.cwnd)
    }

    /// IsTimeToGoDown(): with the flight of before this ACK, and up to the last full packet.
    fn is_time_to_go_down(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        if self.probe.prev_too_high && rs.prior_inflight + conn.smss > self.inflight_longterm {
            self.probe.prev_precautionary = true;
            return true;
        }
        if conn.is_cwnd_limited() && conn.cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = rs.delivery_rate.as_bytes_per_sec();
            return false;
        }
        self.full_bw_now
    }

    pub(super) fn inflight_with_headroom(&self, conn: &Conn) -> u64 {
        if self.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = percent(15, self.inflight_longterm).max(conn.smss);
        self.inflight_longterm.saturating_sub(headroom).max(4 * conn.smss)
    }

    fn raise_inflight_longterm_slope(&mut self, conn: &Conn) {
        let growth_this_round = 1 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.up_acked_per_inc = (conn.cwnd / growth_this_round).max(conn.smss);
    }

    fn probe_inflight_longterm_upward(&mut self, conn: &Conn, rs: &RateSample) {
        if !conn.is_cwnd_limited() || conn.cwnd < self.inflight_longterm {
            return;
        }
        self.probe.up_acked += rs.newly_acked;
        let delta = self.probe.up_acked / self.probe.up_acked_per_inc;
        self.probe.up_acked %= self.probe.up_acked_per_inc;
        self.inflight_longterm += delta * conn.smss;
        if self.round_start {
            self.raise_inflight_longterm_slope(conn);
        }
    }

    fn adapt_long_term_model(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        if self.round_start && self.probe.ack_phase == AckPhase::ProbeStarting {
            self.probe.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.round_start && self.probe.ack_phase == AckPhase::ProbeStopping {
            self.probe.is_bw_probe_sample = false;
            self.probe.ack_phase = AckPhase::Init;
            if self.is_in_a_probe_bw_state() && !rs.is_app_limited {
                self.advance_max_bw_filter();
            }
            let went_well = self.probe.prev_precautionary && !self.probe.prev_too_high;
            if self.is_in_a_probe_bw_state() && went_well {
                self.start_probe_bw_refill(conn);
                return true;
            }
        }
        let is_too_high = self.is_inflight_too_high(conn, rs.lost, rs.tx_in_flight);
        if !is_too_high && self.inflight_longterm != INFINITY {
            self.inflight_longterm = self.inflight_longterm.max(rs.tx_in_flight);
            if self.state == State::ProbeBwUp {
                self.probe_inflight_longterm_upward(conn, rs);
            }
        }
        false
    }

    /// HandleInflightTooHigh() for a flight and whether the application was the limit.
    pub(super) fn handle_inflight_too_high(
        &mut self,
        conn: &Conn,
        (inflight, is_app_limited): (u64, bool),
        now: Instant,
    ) {
        self.probe.prev_too_high = true;
        self.probe.is_bw_probe_sample = false;
        if !is_app_limited {
            self.inflight_longterm = inflight.max(percent(70, self.target_inflight(conn)));
        }
        if self.state == State::ProbeBwUp {
            self.undo_state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(conn, now);
        }
    }
}
