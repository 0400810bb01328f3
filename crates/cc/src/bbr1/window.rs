//! From the model to the three control parameters: pacing rate, send quantum and window.

use super::Bbr1;
use super::params::{
    HIGH_GAIN, LOW_RATE, NOMINAL_RTT, PACING_MARGIN, QUANTUM_TIME, TCP_OFFLOAD_QUANTA,
};
use crate::config::Transport;
use crate::conn::{Conn, MAX_QUANTUM};
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Rate};

/// Packet conservation: in the first round of a recovery one packet leaves for each that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Conservation {
    Off,
    /// A recovery began; the next ACK sets the window.
    Entering,
    On,
}

/// All that pacing rate, quantum and target window follow from once the pipe was full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Basis {
    bw: Rate,
    min_rtt: Duration,
    extra_acked: u64,
    smss: u64,
    state: State,
    cycle_index: usize,
    has_policer: bool,
}

impl Bbr1 {
    pub(super) fn basis(&self, conn: &Conn) -> Basis {
        let policed = self.policer.bw();
        Basis {
            bw: policed.unwrap_or(self.max_bw()),
            min_rtt: self.min_rtt,
            extra_acked: self.aggregation.as_ref().map_or(0, |aggregation| aggregation.max()),
            smss: conn.smss,
            state: self.state,
            cycle_index: self.cycle_index,
            has_policer: policed.is_some(),
        }
    }

    #[cold]
    pub(super) fn renew_control_parameters(&mut self, conn: &mut Conn) {
        self.set_pacing_rate(conn);
        self.set_send_quantum(conn);
        self.target_cwnd = self.target_cwnd(conn);
    }

    /// The initial window in the first round-trip time, at Startup's gain. Called again with the
    /// first sample: the rate that came of the nominal 1 ms must not outlive it.
    pub(super) fn init_pacing_rate(&self, conn: &mut Conn) {
        let bw = Rate::from_volume(conn.initial_cwnd, conn.srtt().unwrap_or(NOMINAL_RTT));
        let rate = PACING_MARGIN.of_rate(HIGH_GAIN.of_rate(bw));
        conn.set_pacing_rate(rate);
    }

    /// Until the pipe was full once the rate only rises. Without an estimate there is nothing to
    /// set it to: a rate of 0 would never end.
    pub(super) fn set_pacing_rate_with_gain(&self, conn: &mut Conn, gain: Gain) {
        let rate = PACING_MARGIN.of_rate(gain.of_rate(self.bw()));
        if rate > Rate::ZERO && (self.full_bw_reached || rate > conn.pacing_rate) {
            conn.set_pacing_rate(rate);
        }
    }

    pub(super) fn set_pacing_rate(&mut self, conn: &mut Conn) {
        if !self.has_seen_rtt && conn.srtt().is_some() {
            self.has_seen_rtt = true;
            self.init_pacing_rate(conn);
        }
        self.set_pacing_rate_with_gain(conn, self.pacing_gain());
    }

    /// A millisecond of the rate; at least two packets, or one on a slow path.
    pub(super) fn set_send_quantum(&self, conn: &mut Conn) {
        let rate = conn.pacing_rate;
        let least = if rate.as_bytes_per_sec() < LOW_RATE { conn.smss } else { 2 * conn.smss };
        conn.send_quantum = rate.bytes_in(QUANTUM_TIME).min(MAX_QUANTUM).max(least);
    }

    /// `gain` times `bw` times min_rtt, in bytes; the initial window before the first sample.
    pub(super) fn bdp(&self, conn: &Conn, bw: Rate, gain: Gain) -> u64 {
        if self.min_rtt == Duration::MAX {
            return conn.initial_cwnd;
        }
        gain.of(bw.bytes_in(self.min_rtt))
    }

    /// Room for the aggregates that are not in the network, for pairs of packets (a delayed ACK
    /// waits for the second), and for the probe of a path whose BDP is a few packets.
    fn quantization_budget(&self, conn: &Conn, volume: u64) -> u64 {
        let quanta = match conn.transport {
            Transport::Quic => 1,
            Transport::Tcp => TCP_OFFLOAD_QUANTA,
        };
        let pair = 2 * conn.smss;
        let volume = volume.saturating_add(quanta * conn.send_quantum);
        let even = volume.div_ceil(pair).saturating_mul(pair);
        let probes = self.state == State::ProbeBw && self.cycle_index == 0;
        if probes { even.saturating_add(pair) } else { even }
    }

    /// The volume in flight that uses the path at `gain`.
    pub(super) fn inflight(&self, conn: &Conn, bw: Rate, gain: Gain) -> u64 {
        self.quantization_budget(conn, self.bdp(conn, bw, gain))
    }

    /// Extra window for aggregated ACKs. Not before the pipe was full: until then the bandwidth is
    /// not known, and much seems extra.
    pub(super) fn extra_acked(&self) -> u64 {
        match &self.aggregation {
            Some(aggregation) if self.full_bw_reached => aggregation.window(self.bw()),
            _ => 0,
        }
    }

    /// The window that the model asks for.
    pub(super) fn target_cwnd(&self, conn: &Conn) -> u64 {
        let bdp = self.bdp(conn, self.bw(), self.cwnd_gain());
        self.quantization_budget(conn, bdp.saturating_add(self.extra_acked()))
    }

    /// Remembers the window for after a recovery or ProbeRTT; within one only a larger window is
    /// worth remembering.
    pub(super) fn save_cwnd(&mut self, conn: &Conn) {
        self.prior_cwnd = if self.in_recovery || self.state == State::ProbeRtt {
            self.prior_cwnd.max(conn.cwnd)
        } else {
            conn.cwnd
        };
    }

    /// The window of the first round of a recovery; `None` when the model decides.
    fn conserve_packets(&mut self, conn: &mut Conn, rs: &RateSample) -> Option<u64> {
        conn.cwnd = conn.cwnd.saturating_sub(self.newly_lost).max(conn.smss);
        let conserved = conn.inflight.saturating_add(rs.newly_acked);
        match self.conservation {
            Conservation::Off => None,
            Conservation::Entering => {
                self.conservation = Conservation::On;
                // This round, and the one in which the repairs arrive.
                self.conserve_from = self.round.count.saturating_add(2);
                self.round.begin(conn.sampler.delivered);
                Some(conserved)
            }
            Conservation::On => Some(conn.cwnd.max(conserved)),
        }
    }

    /// Towards the target by what was acknowledged: at once down, but only when the pipe was full.
    pub(super) fn set_cwnd(&mut self, conn: &mut Conn, rs: &RateSample) {
        let conserved = self.conserve_packets(conn, rs);
        conn.cwnd = conserved.unwrap_or_else(|| {
            let target = self.target_cwnd;
            debug_assert_eq!(target, self.target_cwnd(conn), "made of something else too");
            let grown = conn.cwnd.saturating_add(rs.newly_acked);
            let cwnd = if self.full_bw_reached {
                grown.min(target)
            } else if conn.cwnd < target || conn.sampler.delivered < conn.initial_cwnd {
                grown
            } else {
                conn.cwnd
            };
            cwnd.max(self.min_cwnd(conn))
        });
        conn.cwnd = conn.cwnd.max(conn.smss);
        if self.state == State::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.min_cwnd(conn));
        }
    }
}
