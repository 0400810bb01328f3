//! From the model to the three control parameters: pacing rate, send quantum and window.
//! Section "Updating Control Parameters".

use super::Bbr3;
use super::params::{
    EXTRA_ACKED_TIME, ExtraAckedFilter, Flavour, NOMINAL_RTT, PACING_MARGIN, QUANTUM_HALVING,
    QUANTUM_TIME, TCP_OFFLOAD_QUANTA,
};
use crate::config::{StartupGains, Transport};
use crate::conn::{Conn, INFINITE, MAX_QUANTUM};
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Rate};

/// The gains of the state, and what follows from the model.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// BBR.pacing_gain and BBR.cwnd_gain.
    pub(super) pacing_gain: Gain,
    pub(super) cwnd_gain: Gain,
    pub(super) startup_gains: StartupGains,
    /// BBR.max_inflight.
    pub(super) max_inflight: u64,
    /// BBR.prior_cwnd.
    pub(super) prior_cwnd: u64,
}

impl Control {
    pub(super) const fn new(startup_gains: StartupGains, max_inflight: u64) -> Self {
        Self {
            pacing_gain: Gain::ONE,
            cwnd_gain: Gain::ONE,
            startup_gains,
            max_inflight,
            prior_cwnd: 0,
        }
    }
}

impl<F: Flavour> Bbr3<F> {
    /// A volume in whole packets, rounded down, where the flavour counts packets.
    pub(super) fn packets_down(conn: &Conn, volume: u64) -> u64 {
        if F::P.counts_packets { volume - volume % conn.smss } else { volume }
    }

    /// As [`Self::packets_down`], rounded up.
    pub(super) fn packets_up(conn: &Conn, volume: u64) -> u64 {
        let part = if F::P.counts_packets { volume % conn.smss } else { 0 };
        if part == 0 { volume } else { volume.saturating_add(conn.smss - part) }
    }

    /// InitPacingRate(), "Pacing Rate: C.pacing_rate". Called again with the first round-trip
    /// sample: the rate that came of the nominal 1 ms must not outlive it.
    pub(super) fn init_pacing_rate(&mut self, conn: &mut Conn) {
        let rtt = conn.srtt().unwrap_or(NOMINAL_RTT);
        let nominal_bandwidth = Rate::from_volume(conn.initial_cwnd, rtt);
        let rate = self.control.startup_gains.pacing.of_rate(nominal_bandwidth);
        let rate = if F::P.begins_with_margin { PACING_MARGIN.of_rate(rate) } else { rate };
        conn.set_pacing_rate(Self::at_least_a_packet_per_second(conn, rate));
    }

    /// SetPacingRateWithGain(), "Pacing Rate: C.pacing_rate". Until the pipe was full once the rate
    /// only rises. Without an estimate there is nothing to set it to: a rate of 0 would never end.
    pub(super) fn set_pacing_rate_with_gain(&mut self, conn: &mut Conn, pacing_gain: Gain) {
        let rate = self.pacing_margin().of_rate(pacing_gain.of_rate(self.bandwidth.bw));
        if rate > Rate::ZERO && (self.full_pipe.reached || rate > conn.pacing_rate) {
            let rate = rate.min(self.swift_rate(conn));
            conn.set_pacing_rate(Self::at_least_a_packet_per_second(conn, rate));
        }
    }

    /// The lower bound of the pacing rate: one SMSS per second.
    ///
    /// The draft has none, and there an estimate that one ACK after a long outage made lasts for
    /// hours: where packets leave further apart than ProbeRTTInterval, each ACK begins or ends a
    /// ProbeRTT, and no UP is reached; at few bytes per second a probe's quarter more is lost in
    /// rounding. On a path that is in fact so slow, the window of BBR.MinPipeCwnd is the limit,
    /// which the draft grants in each round trip. Linux's flavour is as Linux.
    fn at_least_a_packet_per_second(conn: &Conn, rate: Rate) -> Rate {
        if F::P.least_pacing_rate_is_a_packet_per_second {
            rate.max(Rate::from_bytes_per_sec(conn.smss))
        } else {
            rate
        }
    }

    /// Raises the pacing rate to its lower bound, which grows with SMSS.
    pub(super) fn keep_least_pacing_rate(&self, conn: &mut Conn) {
        conn.set_pacing_rate(Self::at_least_a_packet_per_second(conn, conn.pacing_rate));
    }

    /// AdvanceLatestDeliverySignals() with the end of a loss round, and the control parameters with
    /// a new model.
    #[cold]
    pub(super) fn renew_what_changed(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.loss_round.advance_latest(rs);
        if self.is_model_new {
            self.renew_control_parameters(conn);
        }
    }

    /// The part of UpdateControlParameters() that follows from the model alone.
    #[cold]
    pub(super) fn renew_control_parameters(&mut self, conn: &mut Conn) {
        self.set_pacing_rate(conn);
        self.set_send_quantum(conn);
        self.update_max_inflight(conn);
        // Until the pipe was full once, the rate does not follow the model downwards.
        self.is_model_new = !self.full_pipe.reached;
    }

    /// For a debug assertion: whether making the control parameters anew would change none.
    pub(super) fn control_parameters_are_current(&self, conn: &Conn) -> bool {
        let (mut bbr, mut renewed) = (self.clone(), conn.clone());
        bbr.renew_control_parameters(&mut renewed);
        (renewed.pacing_rate, renewed.send_quantum, bbr.control.max_inflight)
            == (conn.pacing_rate, conn.send_quantum, self.control.max_inflight)
    }

    /// SetPacingRate(), "Pacing Rate: C.pacing_rate".
    fn set_pacing_rate(&mut self, conn: &mut Conn) {
        if !self.rtt.is_measured && conn.srtt().is_some() {
            self.rtt.is_measured = true;
            self.init_pacing_rate(conn);
        }
        self.set_pacing_rate_with_gain(conn, self.control.pacing_gain);
    }

    /// SetSendQuantum(), "Send Quantum: C.send_quantum".
    ///
    /// Linux adds an allowance by the round trip, 64 KiB that halve every 512 us: bursts are what
    /// fills a short and fast path, and hurt a long one. Its millisecond is 1/1024 s.
    fn set_send_quantum(&mut self, conn: &mut Conn) {
        let quantum = if F::P.quantum_from_min_rtt {
            let halvings = (self.rtt.min.as_nanos() / QUANTUM_HALVING.as_nanos()).min(63);
            (conn.pacing_rate.as_bytes_per_sec() >> 10) + (MAX_QUANTUM >> halvings)
        } else {
            conn.pacing_rate.bytes_in(QUANTUM_TIME.min(self.quantum_time_for_swift()))
        };
        conn.send_quantum = Self::packets_down(conn, quantum.min(MAX_QUANTUM)).max(2 * conn.smss);
    }

    /// BDPMultiple(bw, gain), "Computing BBR.max_inflight". Returns the product and keeps nothing:
    /// the pseudo-code overwrites BBR.bdp on each call, with whichever gain came last.
    ///
    /// Linux rounds it up to a packet: rounded down, the window would deliver less than the
    /// estimate, and the next estimate would be lower.
    pub(super) fn bdp_multiple(&self, conn: &Conn, bw: Rate, gain: Gain) -> u64 {
        if self.rtt.min == Duration::MAX {
            return conn.initial_cwnd;
        }
        Self::packets_up(conn, gain.of(bw.bytes_in(self.rtt.min)))
    }

    /// The product of the estimates: BDPMultiple(BBR.bw, 1).
    pub(super) fn estimated_bdp(&self, conn: &Conn) -> u64 {
        debug_assert_eq!(
            self.bandwidth.bdp,
            self.bdp_multiple(conn, self.bandwidth.bw, Gain::ONE),
            "not current"
        );
        self.bandwidth.bdp
    }

    /// QuantizationBudget(), "Computing BBR.max_inflight", with UpdateOffloadBudget() of
    /// "BBR.offload_budget".
    pub(super) fn quantization_budget(&self, conn: &Conn, inflight_cap: u64) -> u64 {
        let quanta = match conn.transport {
            Transport::Quic => 1,
            Transport::Tcp => TCP_OFFLOAD_QUANTA,
        };
        let delayed = conn.unacknowledged_by_delay(self.bandwidth.max);
        let offload_budget = (quanta * conn.send_quantum).saturating_add(delayed);
        let cap = inflight_cap.max(offload_budget).max(self.min_pipe_cwnd(conn));
        if self.state == State::ProbeBwUp { cap.saturating_add(2 * conn.smss) } else { cap }
    }

    /// Inflight(bw, gain), "Computing BBR.max_inflight".
    pub(super) fn inflight(&self, conn: &Conn, bw: Rate, gain: Gain) -> u64 {
        let cap = self.bdp_multiple(conn, bw, gain).saturating_add(self.volume_at_receiver());
        self.quantization_budget(conn, cap)
    }

    /// UpdateMaxInflight(), "Computing BBR.max_inflight".
    fn update_max_inflight(&mut self, conn: &Conn) {
        let cap = self.inflight_of_cruise(conn);
        let cap = cap
            .unwrap_or_else(|| self.bdp_multiple(conn, self.bandwidth.bw, self.control.cwnd_gain));
        let extra_acked = match F::P.extra_acked_filter {
            ExtraAckedFilter::Rounds => self.aggregation.extra_acked,
            // Linux: aggregation explains 100 ms of data, no more.
            ExtraAckedFilter::TwoBuckets { .. } => {
                let most = Self::packets_down(conn, self.bandwidth.bw.bytes_in(EXTRA_ACKED_TIME));
                Self::packets_up(conn, self.aggregation.extra_acked).min(most)
            }
        };
        let cap = cap.saturating_add(extra_acked).saturating_add(self.volume_at_receiver());
        self.control.max_inflight = self.quantization_budget(conn, cap);
    }

    /// SaveCwnd(), "Modulating cwnd in Loss Recovery".
    pub(super) fn save_cwnd(&mut self, conn: &Conn) {
        self.control.prior_cwnd = if !conn.in_recovery() && self.state != State::ProbeRtt {
            conn.cwnd
        } else {
            self.control.prior_cwnd.max(conn.cwnd)
        };
    }

    /// RestoreCwnd(), "Modulating cwnd in Loss Recovery".
    pub(super) fn restore_cwnd(&mut self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.max(self.control.prior_cwnd);
    }

    /// SetCwnd(), "cwnd Adjustment Mechanism", but for max_inflight, with BoundCwndForProbeRTT() of
    /// "Modulating cwnd in ProbeRTT".
    pub(super) fn set_cwnd(&mut self, conn: &mut Conn, rs: &RateSample) {
        if self.full_pipe.reached {
            conn.cwnd = conn.cwnd.saturating_add(rs.newly_acked).min(self.control.max_inflight);
        } else if conn.cwnd < self.control.max_inflight || Self::is_at_the_start(conn) {
            conn.cwnd = conn.cwnd.saturating_add(rs.newly_acked);
        }
        conn.cwnd = conn.cwnd.max(self.min_pipe_cwnd(conn));
        if self.state == State::ProbeRtt {
            self.bound_cwnd_for_probe_rtt(conn);
        }
        // A path without loss has no bounds.
        if self.bounds.inflight() != INFINITE {
            self.bound_cwnd_for_model(conn);
        }
        self.bound_cwnd_for_swift(conn);
        conn.cwnd = conn.cwnd.min(self.classic_inflight(conn));
    }

    /// The window grows whatever the model says: in the draft until the initial window is
    /// delivered, in Linux until it has doubled.
    fn is_at_the_start(conn: &Conn) -> bool {
        if F::P.startup_doubles_initial_cwnd {
            conn.cwnd < conn.initial_cwnd.saturating_mul(2)
        } else {
            conn.sampler.delivered < conn.initial_cwnd
        }
    }

    /// BoundCwndForProbeRTT(), "Modulating cwnd in ProbeRTT".
    #[cold]
    fn bound_cwnd_for_probe_rtt(&self, conn: &mut Conn) {
        conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd(conn));
    }

    /// BoundCwndForModel(), "Bounding cwnd Based on Recent Congestion". Drain is bounded by the
    /// long-term bound too, as the table of control behaviour says and the pseudo-code does not; in
    /// Linux it is not.
    #[inline(never)]
    fn bound_cwnd_for_model(&mut self, conn: &mut Conn) {
        let cap = match self.state {
            State::ProbeRtt | State::ProbeBwCruise => self.inflight_with_headroom(conn),
            State::Drain if F::P.drain_ignores_bounds => INFINITE,
            // Startup has none.
            _ => self.bounds.inflight_longterm,
        };
        let cap = cap.min(self.bounds.inflight_shortterm).max(self.min_pipe_cwnd(conn));
        conn.cwnd = conn.cwnd.min(cap);
    }
}
