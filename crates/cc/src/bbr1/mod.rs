//! BBR version 1, as Linux has it: "BBR: Congestion-Based Congestion Control" (ACM Queue, 2016),
//! the policer model, and the estimate of ACK aggregation (Linux commit 78dc70ebaa38).
//!
//! It keeps two beliefs about the path, the bandwidth (`max_bw`) and the round-trip time without a
//! queue (`min_rtt`), and holds their product in flight. Loss is no signal to it but in one case:
//! much of it at a steady rate is a policer.
//!
//! Linux counts packets where this counts bytes, and estimates how much will be in flight at the
//! departure of the next packet where this takes what is in flight now.
//!
//! - `mod.rs`: the state, and the steps of one ACK in their order.
//! - [`model`]: rounds, bandwidth, full pipe, round-trip time. [`policer`]: the long-term
//!   bandwidth.
//!   [`aggregation`]: ACKs in clumps.
//! - [`states`]: the state machine. [`window`]: pacing rate, quantum and window.

mod aggregation;
mod model;
#[cfg(all(test, feature = "custom"))]
mod oracle;
mod params;
mod policer;
mod states;
#[cfg(test)]
mod tests;
mod window;

use crate::algo::{Congestion, CongestionControl, NotNow};
use crate::config::Config;
use crate::conn::{Conn, MarksAre};
use crate::filter::RoundMax;
use crate::options::Bbr1Options;
use crate::rng::Rng;
use crate::round::Round;
use crate::sampler::{PacketState, RateSample};
use crate::snapshot::{BbrSnapshot, Snapshot, State};
use crate::units::{Duration, Gain, Instant, Rate};
use aggregation::Aggregation;
use policer::Policer;
use window::{Basis, Conservation};

/// Conservation of packets in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Conserved {
    No,
    /// For losses, as far as is known.
    Yes,
    /// For losses that turned out to be spurious.
    ForNothing,
}

/// An instant that is not set yet is `None`, never 0: a clock may start anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Bbr1 {
    state: State,
    /// Phase of ProbeBW, an index into [`params::CYCLE`].
    cycle_index: usize,
    cycle_stamp: Instant,

    round: Round,
    /// The time of the newest ACK.
    delivered_time: Instant,
    idle_restart: bool,
    has_seen_rtt: bool,

    bw_filter: RoundMax<{ params::BW_ROUNDS }>,
    policer: Policer,
    /// `None` when it is switched off.
    aggregation: Option<Aggregation>,
    full_bw_reached: bool,
    full_bw: Rate,
    full_bw_count: u32,
    /// Packets were conserved in this round, and whether the losses behind that were real.
    conserved: Conserved,
    /// The newest round that counts in `full_bw_count` conserved packets.
    has_counted_conserved: bool,

    min_rtt: Duration,
    min_rtt_stamp: Instant,
    probe_rtt_done_stamp: Option<Instant>,
    probe_rtt_round_done: bool,

    /// Bytes lost so far. CE marks, to which this algorithm is blind, do not count.
    lost: u64,
    /// Bytes lost since the last ACK of new data.
    newly_lost: u64,
    in_recovery: bool,
    /// True if something was lost in the recovery: a mark alone opens one too.
    has_loss_in_recovery: bool,
    conservation: Conservation,
    /// The first round in which packets may be conserved again.
    conserve_from: u64,
    prior_cwnd: u64,
    target_cwnd: u64,
    /// The values from which pacing rate, quantum and target were computed.
    made_of: Option<Basis>,

    rng: Rng,
}

impl Bbr1 {
    pub(crate) fn new(
        conn: &mut Conn,
        now: Instant,
        config: &Config,
        options: Bbr1Options,
    ) -> Self {
        let mut bbr = Self {
            state: State::Startup,
            cycle_index: 0,
            cycle_stamp: now,
            round: Round::new(),
            delivered_time: now,
            idle_restart: false,
            has_seen_rtt: false,
            bw_filter: RoundMax::new(),
            policer: Policer::new(now),
            aggregation: options.ack_aggregation().then(|| Aggregation::new(now)),
            full_bw_reached: false,
            full_bw: Rate::ZERO,
            full_bw_count: 0,
            conserved: Conserved::No,
            has_counted_conserved: false,
            min_rtt: Duration::MAX,
            min_rtt_stamp: now,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            lost: 0,
            newly_lost: 0,
            in_recovery: false,
            has_loss_in_recovery: false,
            conservation: Conservation::Off,
            conserve_from: 0,
            prior_cwnd: 0,
            target_cwnd: 0,
            made_of: None,
            rng: Rng::new(config.seed),
        };
        conn.marks = MarksAre::NoLosses; // Linux's BBRv1 ignores them
        bbr.init_pacing_rate(conn);
        if let Some(rtt) = conn.srtt() {
            bbr.has_seen_rtt = true; // the handshake's
            bbr.min_rtt = rtt;
        }
        bbr
    }

    /// The recovery is over: the window of before it comes back.
    fn leave_recovery(&mut self, conn: &mut Conn) {
        if core::mem::replace(&mut self.in_recovery, false) {
            self.has_loss_in_recovery = false;
            self.conservation = Conservation::Off;
            if self.state != State::ProbeRtt {
                conn.cwnd = conn.cwnd.max(self.prior_cwnd);
            }
        }
    }
}

impl CongestionControl for Bbr1 {
    /// The model, then the state, then the control parameters.
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.delivered_time = rs.now;
        self.update_round(conn, rs);
        if self.newly_lost > 0 || self.policer.is_active() {
            self.update_policer(conn, rs.is_app_limited);
        }
        self.update_bw(rs);
        let (bw, round_start) = (self.bw(), self.round.start);
        if let Some(aggregation) = &mut self.aggregation {
            aggregation.update(conn, rs, bw, round_start);
        }
        self.update_cycle_phase(conn, rs);
        if self.round.start {
            self.check_full_bw_reached(rs);
        }
        self.check_drain(conn);
        let expired = self.update_min_rtt(rs);
        self.update_probe_rtt(conn, rs, expired);

        // Most ACKs only confirm what is known, and leave these as they are.
        let basis = self.basis(conn);
        if self.made_of != Some(basis) {
            self.renew_control_parameters(conn);
            // Until the pipe was full once, the rate does not follow the model downwards.
            self.made_of = self.full_bw_reached.then_some(basis);
        }
        self.set_cwnd(conn, rs);
        self.newly_lost = 0;
    }

    fn on_restart_from_idle(&mut self, conn: &mut Conn, now: Instant) {
        self.restart_from_idle(conn, now);
    }

    fn on_packet_lost(&mut self, _: &Conn, packet: &PacketState) {
        self.lost = self.lost.saturating_add(packet.size());
        self.newly_lost = self.newly_lost.saturating_add(packet.size());
    }

    fn on_enter_recovery(&mut self, conn: &mut Conn) {
        self.save_cwnd(conn);
        self.in_recovery = true;
    }

    fn on_exit_recovery(&mut self, conn: &mut Conn) {
        self.leave_recovery(conn);
    }

    /// The first loss of a recovery: conserve packets for a round. A mark alone changes nothing.
    ///
    /// Linux is in recovery until the repairs have arrived, a round trip longer than RFC 9002 has
    /// it. So a loss in the round after one of conservation does not begin another: on a path that
    /// always loses a little the flight would shrink by that in each round, and never grow.
    fn on_congestion(&mut self, _: &mut Conn, _: &Congestion<'_>) {
        let begins = self.in_recovery && self.newly_lost > 0 && !self.has_loss_in_recovery;
        if begins && self.round.count >= self.conserve_from {
            self.has_loss_in_recovery = true;
            self.conservation = Conservation::Entering;
            self.conserved = Conserved::Yes;
            self.has_counted_conserved = false;
        }
    }

    /// One packet leaves, and the window grows from there by what arrives. The model stays, but
    /// whether the pipe is full is looked at anew; to the search for a policer it is a loss at the
    /// start of a round.
    fn on_rto(&mut self, conn: &mut Conn) {
        self.save_cwnd(conn);
        self.full_bw = Rate::ZERO;
        self.round.start = true;
        self.newly_lost = self.newly_lost.max(1);
        self.update_policer(conn, false);
        self.newly_lost = 0;
        self.conservation = Conservation::Off;
        self.has_loss_in_recovery = true;
        conn.cwnd = conn.inflight.saturating_add(conn.smss);
    }

    /// RFC 9959, appendix on BBR: congestion while the saved parameters are in use ends Startup.
    /// The recovery that begins with it brings back no larger window, nor does the conservation of
    /// packets, whose flight is the jump's.
    fn on_safe_retreat(&mut self, conn: &mut Conn) {
        self.prior_cwnd = conn.cwnd;
        self.conservation = Conservation::Off;
        self.full_bw_reached = true;
        self.check_drain(conn);
    }

    /// The losses were none: no policer has been seen, and the round that conserved packets for
    /// them is no evidence of a full pipe.
    ///
    /// Linux begins the search for a full pipe anew. On a path that reorders all the time, an
    /// episode follows the other, the search never sees three rounds, and the flow stays in Startup
    /// with a full queue. The rounds in which nothing was held back count here.
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        if self.conserved == Conserved::Yes {
            self.conserved = Conserved::ForNothing;
        }
        if core::mem::take(&mut self.has_counted_conserved) && !self.full_bw_reached {
            self.full_bw_count -= 1;
        }
        self.policer.reset();
        self.leave_recovery(conn);
    }

    /// Linux's BBRv1 does not answer marks.
    fn wants_ecn(&self) -> bool {
        false
    }

    /// A phase in eight of ProbeBW is a probe, and nothing moves it.
    fn request_probe(&mut self, _: &Conn, _: Instant) -> Result<(), NotNow> {
        match self.state {
            State::Drain => Err(NotNow::Draining),
            State::ProbeRtt => Err(NotNow::ProbeRtt),
            _ => Ok(()),
        }
    }

    /// As Linux: a flight that recovers is twice its window, and one is written meanwhile.
    fn send_buffer_windows(&self) -> u64 {
        3
    }

    fn on_mtu_update(&mut self, conn: &mut Conn) {
        if !self.has_seen_rtt {
            self.init_pacing_rate(conn);
        }
        conn.cwnd = conn.cwnd.max(self.min_cwnd(conn));
        self.made_of = None; // two changes may end where they began, and have moved the quantum
    }

    fn state(&self, _: &Conn) -> State {
        self.state
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        let bbr = BbrSnapshot {
            max_bw: self.max_bw(),
            bw: self.bw(),
            bw_shortterm: None,
            inflight_shortterm: None,
            inflight_longterm: None,
            min_rtt: (self.min_rtt != Duration::MAX).then_some(self.min_rtt),
            bdp: self.bdp(conn, self.bw(), Gain::ONE),
            extra_acked: self.extra_acked(),
            max_inflight: self.target_cwnd(conn),
            pacing_gain: self.pacing_gain(),
            cwnd_gain: self.cwnd_gain(),
            round_count: self.round.count,
            round_start: self.round.start,
            full_bw_reached: self.full_bw_reached,
            full_bw_now: self.full_bw_reached,
            full_bw: self.full_bw,
            full_bw_count: self.full_bw_count,
            idle_restart: self.idle_restart,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            bw_probe_wait: Duration::ZERO,
            rounds_since_probe_up: 0,
            probe_rtt_min_delay: None,
            ecn_alpha: None,
            drain_start_round: 0,
            bw_latest: Rate::ZERO,
            inflight_latest: 0,
            bw_probe_up_rounds: 0,
            probe_up_acked_per_inc: None,
            undo_state: None,
            undo_bw_shortterm: None,
            undo_inflight_shortterm: None,
            undo_inflight_longterm: None,
        };
        Snapshot { bbr: Some(bbr), ..Snapshot::of(conn, "bbr1", self.state) }
    }
}
