//! BBR's variables, what an ACK does, and Startup and Drain.

use fullpipe_cc::State;

use super::connection::{Connection, INFINITY, MILLISECOND, Packet, RateSample, bytes_in, scale};
use super::filters::{CycleMax, RoundMax};
use super::ours::Ours;
use super::rng::Rng;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// BBR's variables by the draft's names. Gains are percent, rates bytes a second, times
/// nanoseconds.
pub(crate) struct Model {
    pub(crate) c: Connection,
    pub(super) rs: RateSample,
    pub(super) now: u64,
    has_rtt: bool,
    pub(super) rng: Rng,
    pub(crate) state: State,
    pub(crate) pacing_gain: u64,
    pub(crate) cwnd_gain: u64,

    pub(crate) round_count: u64,
    pub(crate) round_start: bool,
    pub(super) next_round_delivered: u64,

    pub(super) max_bw_filter: CycleMax,
    pub(crate) max_bw: u64,
    pub(crate) bw: u64,
    pub(crate) bdp: u64,
    pub(crate) max_inflight: u64,
    pub(crate) min_rtt: u64,
    pub(super) min_rtt_stamp: u64,

    pub(super) extra_acked_filter: RoundMax,
    pub(crate) extra_acked: u64,
    pub(super) extra_acked_interval_start: u64,
    pub(super) extra_acked_delivered: u64,

    pub(crate) full_bw_reached: bool,
    pub(crate) full_bw_now: bool,
    pub(crate) full_bw: u64,
    pub(crate) full_bw_count: u32,
    /// A sample of this round was compared with `full_bw`.
    pub(super) is_round_judged: bool,
    pub(crate) drain_start_round: u64,

    pub(crate) bw_shortterm: u64,
    pub(crate) inflight_shortterm: u64,
    pub(crate) inflight_longterm: u64,
    pub(crate) bw_latest: u64,
    pub(crate) inflight_latest: u64,
    pub(super) is_loss_in_round: bool,
    pub(super) loss_round_start: bool,
    pub(super) loss_round_delivered: u64,
    /// Discontiguous ranges lost in this loss round, and the newest packet of the last.
    pub(super) lost_ranges: u32,
    pub(super) last_lost: Option<u64>,
    /// A recovery had begun before this ACK.
    pub(super) was_in_recovery: bool,

    pub(super) ack_phase: AckPhase,
    pub(super) is_bw_probe_sample: bool,
    pub(crate) bw_probe_up_rounds: u32,
    pub(super) bw_probe_up_acked: u64,
    pub(crate) probe_up_acked_per_inc: u64,
    pub(crate) rounds_since_probe_up: u64,
    pub(crate) bw_probe_wait: u64,
    pub(super) cycle_stamp: u64,
    pub(crate) prev_probe_too_high: bool,
    pub(crate) prev_probe_precautionary: bool,

    pub(super) prior_cwnd: u64,
    pub(crate) undo_state: Option<State>,
    pub(crate) undo_bw_shortterm: u64,
    pub(crate) undo_inflight_shortterm: u64,
    pub(crate) undo_inflight_longterm: u64,

    pub(crate) idle_restart: bool,
    pub(super) probe_rtt_expired: bool,
    pub(crate) probe_rtt_min_delay: u64,
    pub(super) probe_rtt_min_stamp: u64,
    pub(super) probe_rtt_done_stamp: Option<u64>,
    pub(super) probe_rtt_round_done: bool,
}

impl Model {
    /// OnInit().
    pub(crate) fn new(c: Connection, handshake_rtt: Option<u64>, seed: u64, now: u64) -> Self {
        let mut model = Self {
            rs: RateSample::default(),
            now,
            rng: Rng::new(seed),
            state: State::Startup,
            pacing_gain: 0,
            cwnd_gain: 0,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            max_bw_filter: CycleMax::default(),
            max_bw: 0,
            bw: 0,
            bdp: 0,
            max_inflight: 0,
            min_rtt: handshake_rtt.unwrap_or(INFINITY),
            min_rtt_stamp: now,
            extra_acked_filter: RoundMax::default(),
            extra_acked: 0,
            extra_acked_interval_start: now,
            extra_acked_delivered: 0,
            full_bw_reached: false,
            full_bw_now: false,
            full_bw: 0,
            full_bw_count: 0,
            is_round_judged: false,
            drain_start_round: 0,
            bw_shortterm: INFINITY,
            inflight_shortterm: INFINITY,
            inflight_longterm: INFINITY,
            bw_latest: 0,
            inflight_latest: 0,
            is_loss_in_round: false,
            loss_round_start: false,
            loss_round_delivered: 0,
            lost_ranges: 0,
            last_lost: None,
            was_in_recovery: false,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITY,
            rounds_since_probe_up: 0,
            bw_probe_wait: 0,
            cycle_stamp: now,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            prior_cwnd: 0,
            undo_state: None,
            undo_bw_shortterm: 0,
            undo_inflight_shortterm: 0,
            undo_inflight_longterm: 0,
            idle_restart: false,
            probe_rtt_expired: false,
            // OnInit() leaves it open; the handshake's sample is one of its interval, too.
            probe_rtt_min_delay: handshake_rtt.unwrap_or(INFINITY),
            probe_rtt_min_stamp: now,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            has_rtt: handshake_rtt.is_some(),
            c,
        };
        model.enter(State::Startup);
        model.update_bdp();
        model.init_pacing_rate(handshake_rtt.unwrap_or(MILLISECOND));
        model
    }

    /// The gains of the table in "Summary of Control Behavior in the State Machine".
    pub(super) fn enter(&mut self, state: State) {
        self.state = state;
        (self.pacing_gain, self.cwnd_gain) = match state {
            State::Startup => (277, 200),
            State::Drain => (50, 200),
            State::ProbeBwDown => (90, 200),
            State::ProbeBwCruise | State::ProbeBwRefill => (100, 200),
            State::ProbeBwUp => (125, 225),
            State::ProbeRtt => (100, 50),
            _ => unreachable!("no state of this algorithm"),
        };
    }

    pub(super) fn is_in_a_probe_bw_state(&self) -> bool {
        matches!(
            self.state,
            State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp)
    }

    /// A packet leaves: OnTransmit(), then OnPacketSent().
    pub(crate) fn send(&mut self, now: u64, size: u64) -> Packet {
        self.now = now;
        if self.c.is_idle() {
            if self.c.app_limited != 0 {
                self.handle_restart_from_idle();
                if self.c.has(Ours::RestartMarksEmptyPath) {
                    self.c.mark_connection_app_limited();
                }
            }
            self.c.begin_flight(now);
        }
        self.c.on_packet_sent(now, size)
    }

    /// One ACK or one firing of the loss timer: packets that arrived, packets that arrived after
    /// they were taken for lost, and packets that are lost; whether its round trip is known, and
    /// whether the timeout fired.
    pub(crate) fn on_ack(
        &mut self,
        now: u64,
        (acked, late, lost): (&[Packet], &[Packet], &[Packet]),
        has_rtt: bool,
        has_timed_out: bool,
    ) {
        self.now = now;
        self.c.note_window();
        self.was_in_recovery = self.c.is_in_recovery;
        let prior_inflight = self.c.inflight;
        let left: u64 = acked.iter().chain(lost).map(|p| p.size).sum();
        self.c.inflight -= left;
        let arrived: Vec<Packet> = acked.iter().chain(late).copied().collect();
        let newest = arrived.iter().max_by_key(|p| (p.send_time, p.id));

        // The losses of this ACK are counted before its sample is made, so that RS.lost has them,
        // and are handled after its deliveries are counted.
        let lost_before = self.c.lost;
        lost.iter().for_each(|p| self.c.count_lost(p));
        if !arrived.is_empty() {
            self.rs = self.c.sample(now, &arrived, prior_inflight, has_rtt);
        }
        if self.c.is_in_recovery && newest.is_some_and(|p| self.c.is_after_recovery_start(p)) {
            self.c.end_recovery(!lost.is_empty());
            self.restore_cwnd();
        }
        if let Some(newest_lost) = lost.iter().max_by_key(|p| (p.send_time, p.id))
            && !self.c.is_in_recovery
            && self.c.is_after_recovery_start(newest_lost)
        {
            self.on_enter_fast_recovery();
        }
        self.handle_lost_packets(lost, lost_before);
        if !arrived.is_empty() {
            // "The initial C.srtt after the first non-zero RTT sample": the pseudo-code has only
            // the start, when there may be none.
            if let Some(rtt) = self.rs.rtt.filter(|_| !self.has_rtt) {
                self.has_rtt = true;
                self.init_pacing_rate(rtt);
            }
            self.update_model_and_state();
            self.update_control_parameters();
        }
        if has_timed_out {
            self.on_enter_rto();
        }
    }

    fn update_model_and_state(&mut self) {
        self.update_latest_delivery_signals();
        self.update_congestion_signals();
        self.update_ack_aggregation();
        self.check_full_bw_reached();
        self.check_startup_done();
        self.check_drain_done();
        self.update_probe_bw_cycle_phase();
        self.update_min_rtt();
        self.check_probe_rtt();
        self.advance_latest_delivery_signals();
        self.bw = self.max_bw.min(self.bw_shortterm); // BoundBWForModel()
    }

    pub(super) fn update_round(&mut self) {
        self.round_start = self.rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
    }

    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.c.delivered;
    }

    pub(super) fn update_max_bw(&mut self) {
        self.update_round();
        let rate = self.rs.delivery_rate;
        if rate > 0 && (rate >= self.max_bw || !self.rs.is_app_limited) {
            self.max_bw = self.max_bw_filter.update(rate);
        }
    }

    pub(super) fn advance_max_bw_filter(&mut self) {
        let max = self.max_bw_filter.advance(self.c.has(Ours::EmptyCycleGoesOn));
        if self.c.has(Ours::MaxIsTakenAtOnce) && max > 0 {
            self.max_bw = max;
        }
    }

    fn update_ack_aggregation(&mut self) {
        let interval = self.now - self.extra_acked_interval_start;
        let mut expected = bytes_in(self.bw, interval);
        let mut explained = expected;
        let is_open = self.full_bw_reached && !self.c.is_cwnd_limited();
        if is_open && self.c.has(Ours::ExtraAckedEnds) {
            explained += expected / 16;
        }
        if self.extra_acked_delivered <= explained {
            self.extra_acked_delivered = 0;
            self.extra_acked_interval_start = self.now;
            expected = 0;
        }
        self.extra_acked_delivered += self.rs.newly_acked;
        let extra = self.extra_acked_delivered.saturating_sub(expected).min(self.c.cwnd);
        let rounds = if self.full_bw_reached { 10 } else { 1 };
        let keeps = self.c.has(Ours::ExtraAckedWindowByRound);
        self.extra_acked = self.extra_acked_filter.update(extra, self.round_count, rounds, keeps);
    }

    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    fn check_full_bw_reached(&mut self) {
        if self.round_start {
            self.is_round_judged = false;
        }
        let waits = self.c.has(Ours::FirstUnlimitedSample);
        let is_due = if waits { !self.is_round_judged } else { self.round_start };
        let is_rateless = self.rs.delivery_rate == 0 && self.c.has(Ours::RatelessSampleSaysNothing);
        let says_nothing = self.rs.is_app_limited || is_rateless;
        self.is_round_judged |= self.full_bw_now;
        if self.full_bw_now || !is_due || says_nothing {
            return;
        }
        self.is_round_judged = true;
        if self.rs.delivery_rate >= Self::percent(125, self.full_bw) {
            self.reset_full_bw();
            self.full_bw = self.rs.delivery_rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    fn check_startup_done(&mut self) {
        self.check_startup_high_loss();
        if self.state == State::Startup && self.full_bw_reached {
            self.enter(State::Drain);
            self.drain_start_round = self.round_count;
        }
    }

    /// The text's three criteria, judged once in a loss round, at its end: it began with the first
    /// loss, so that recovery has lasted for a round by then.
    fn check_startup_high_loss(&mut self) {
        let is_due = if self.c.has(Ours::StartupLossByLossRound) {
            self.loss_round_start
        } else if self.c.has_selective_acks {
            self.loss_round_start && self.was_in_recovery
        } else {
            self.was_in_recovery
        };
        let ranges = if self.c.has_selective_acks { 6 } else { 1 };
        let is_lossy = self.lost_ranges >= ranges && self.is_inflight_too_high(&self.rs);
        let is_there =
            self.state == State::Startup || self.c.has(Ours::ProbeRttOfStartupEndsByLoss);
        if !self.full_bw_reached && is_there && is_due && is_lossy {
            self.undo_state = Some(State::Startup);
            self.full_bw_reached = true;
            self.full_bw_now |= self.c.has(Ours::LossFillsPipe);
            self.inflight_longterm = self.bdp.max(self.inflight_latest);
        }
        if self.loss_round_start {
            self.lost_ranges = 0;
        }
    }

    fn check_drain_done(&mut self) {
        if self.state == State::Drain
            && (self.c.inflight <= self.inflight(self.bw, 100)
                || self.round_count > self.drain_start_round + 3)
        {
            self.start_probe_bw_down();
        }
    }

    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp.min(self.c.cwnd)
    }

    pub(super) fn percent(gain: u64, of: u64) -> u64 {
        scale(of, gain, 100)
    }
}
