//! From the model to the three control parameters: pacing rate, send quantum and window.
//! Section "Updating Control Parameters".

use super::params::{NOMINAL_RTT, TCP_OFFLOAD_QUANTA};
use super::{Amend, Bbr3, MarkResponse, Rules};
use crate::config::Transport;
use crate::conn::{Conn, INFINITE, MAX_QUANTUM};
use crate::options::StartupGains;
use crate::rapid_start::RapidStart;
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Rate};

/// The gains of the state, and what follows from the model.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// BBR.pacing_gain and BBR.cwnd_gain.
    pub(super) pacing_gain: Gain,
    pub(super) cwnd_gain: Gain,
    pub(super) startup_gains: StartupGains,
    pub(super) rapid_start: RapidStart,
    /// BBR.bdp: BDPMultiple(BBR.bw, 1), as of the newest ACK.
    pub(super) bdp: u64,
    /// BBR.max_inflight.
    pub(super) max_inflight: u64,
    /// BBR.prior_cwnd.
    pub(super) prior_cwnd: u64,
    /// The values that made pacing rate, send quantum and max_inflight, if the same ones would make
    /// them again.
    made_of: Basis,
}

/// All that pacing rate, send quantum and max_inflight follow from while a state lasts, but what
/// changes at the start of a round or with SMSS; and the two of them that others may set.
///
/// Most ACKs leave all of it as it is. To compare it takes a third of the instructions of making
/// the three anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Basis {
    bw: Rate,
    min_rtt: Duration,
    extra_acked: u64,
    margin: Gain,
    send_quantum: u32,
    pacing_rate: Rate,
}

impl Basis {
    /// No basis: a margin is never 0.
    const NONE: Self = Self {
        bw: Rate::ZERO,
        min_rtt: Duration::ZERO,
        extra_acked: 0,
        margin: Gain::percent(0),
        send_quantum: 0,
        pacing_rate: Rate::ZERO,
    };
}

impl Control {
    pub(super) const fn new(
        startup_gains: StartupGains,
        rapid_start: RapidStart,
        max_inflight: u64,
    ) -> Self {
        Self {
            pacing_gain: Gain::ONE,
            cwnd_gain: Gain::ONE,
            startup_gains,
            rapid_start,
            bdp: 0,
            max_inflight,
            prior_cwnd: 0,
            made_of: Basis::NONE,
        }
    }

    /// Something has changed that is not in [`Basis`].
    pub(super) const fn forget_basis(&mut self) {
        self.made_of = Basis::NONE;
    }
}

impl<R: Rules> Bbr3<R> {
    /// InitPacingRate(), "Pacing Rate: C.pacing_rate". Called again with the first round-trip
    /// sample: the rate that came of the nominal 1 ms must not outlive it.
    pub(super) fn init_pacing_rate(&mut self, conn: &mut Conn) {
        let rtt = conn.srtt().unwrap_or(NOMINAL_RTT);
        let nominal_bandwidth = Rate::from_volume(conn.initial_cwnd, rtt);
        let rate = self.control.startup_gains.pacing.of_rate(nominal_bandwidth);
        let rate = R::first_pacing_rate(rate);
        conn.set_pacing_rate(rate.max(R::least_pacing_rate(conn)));
    }

    /// SetPacingRateWithGain(), "Pacing Rate: C.pacing_rate". Until the pipe was full once the rate
    /// only rises. Without an estimate there is nothing to set it to: a rate of 0 would never end.
    pub(super) fn set_pacing_rate_with_gain(&mut self, conn: &mut Conn, pacing_gain: Gain) {
        let margin = self.rules.pacing_margin(&self.view(conn));
        let rate = margin.of_rate(pacing_gain.of_rate(self.bandwidth.bw));
        if rate > Rate::ZERO && (self.full_pipe.reached || rate > conn.pacing_rate) {
            let rate = rate.min(self.rules.most_pacing_rate(conn));
            conn.set_pacing_rate(rate.max(R::least_pacing_rate(conn)));
        }
    }

    /// Raises the pacing rate to its lower bound, which may grow with SMSS.
    pub(super) fn keep_least_pacing_rate(&self, conn: &mut Conn) {
        conn.set_pacing_rate(conn.pacing_rate.max(R::least_pacing_rate(conn)));
    }

    /// SetPacingRate(), "Pacing Rate: C.pacing_rate".
    #[inline]
    pub(super) fn set_pacing_rate(&mut self, conn: &mut Conn) {
        if !self.rtt.is_measured && conn.srtt().is_some() {
            self.rtt.is_measured = true;
            self.init_pacing_rate(conn);
        }
        self.set_pacing_rate_with_gain(conn, self.control.pacing_gain);
    }

    /// SetSendQuantum(), "Send Quantum: C.send_quantum".
    #[inline]
    pub(super) fn set_send_quantum(&mut self, conn: &mut Conn) {
        let quantum = self.rules.send_quantum(conn, self.rtt.min).min(MAX_QUANTUM);
        conn.send_quantum = R::rounded_down(conn, quantum).max(2 * conn.smss);
    }

    /// BDPMultiple(bw, gain), "Computing BBR.max_inflight". Returns the product and keeps nothing:
    /// the pseudo-code overwrites BBR.bdp on each call, with whichever gain came last.
    pub(super) fn bdp_multiple(&self, conn: &Conn, bw: Rate, gain: Gain) -> u64 {
        if self.rtt.min == Duration::MAX {
            return conn.initial_cwnd;
        }
        R::rounded_up(conn, gain.of(bw.bytes_in(self.rtt.min)))
    }

    /// Updates BBR.bdp: BDPMultiple(BBR.bw, 1).
    pub(super) fn update_bdp(&mut self, conn: &Conn) {
        self.control.bdp = self.bdp_multiple(conn, self.bandwidth.bw, Gain::ONE);
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
        let cap = self
            .bdp_multiple(conn, bw, gain)
            .saturating_add(self.rules.volume_at_receiver(self.bandwidth.bw));
        self.quantization_budget(conn, cap)
    }

    /// UpdateMaxInflight(), "Computing BBR.max_inflight".
    #[inline]
    pub(super) fn update_max_inflight(&mut self, conn: &Conn) {
        self.update_bdp(conn);
        let bdp = |gain| self.bdp_multiple(conn, self.bandwidth.bw, gain);
        let cap = match self.state {
            State::ProbeBwCruise => {
                self.rules.amendments().cruise_inflight(conn.smss, self.rtt.min, bdp)
            }
            _ => bdp(self.control.cwnd_gain),
        };
        let cap = cap
            .saturating_add(R::extra_acked(self, conn))
            .saturating_add(self.rules.volume_at_receiver(self.bandwidth.bw));
        self.control.max_inflight = self.quantization_budget(conn, cap);
    }

    #[inline]
    fn basis(&self, conn: &Conn) -> Basis {
        Basis {
            bw: self.bandwidth.bw,
            min_rtt: self.rtt.min,
            extra_acked: self.aggregation.extra_acked(),
            margin: self.rules.pacing_margin(&self.view(conn)),
            send_quantum: conn.send_quantum as u32,
            pacing_rate: conn.pacing_rate,
        }
    }

    /// SetPacingRate(), SetSendQuantum() and UpdateMaxInflight(), where they may have another
    /// result than before. Until the pipe was full once the rate does not follow the model
    /// downwards.
    #[inline]
    pub(super) fn follow_model(&mut self, conn: &mut Conn) {
        let has_basis = R::FOLLOWS_BASIS && self.full_pipe.reached && !conn.has_ack_frequency();
        if has_basis && self.control.made_of == self.basis(conn) {
            return;
        }
        self.set_pacing_rate(conn);
        self.set_send_quantum(conn);
        self.update_max_inflight(conn);
        self.control.made_of = if has_basis { self.basis(conn) } else { Basis::NONE };
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

    /// SetCwnd() without UpdateMaxInflight(), "cwnd Adjustment Mechanism"; bounds of the rules come
    /// last.
    #[inline]
    pub(super) fn set_cwnd(&mut self, conn: &mut Conn, rs: &RateSample) {
        let (rules, view) = self.rules_and_view(conn);
        rules.marks_mut().follow_queue(&view, rs);
        self.grow_cwnd(conn, rs);
        self.bound_cwnd_for_probe_rtt(conn);
        self.bound_cwnd_for_model(conn);
        let least = self.min_pipe_cwnd(conn);
        conn.cwnd = conn.cwnd.min(self.rules.most_inflight(least));
    }

    /// The window follows BBR.max_inflight, upwards by what is acknowledged.
    #[inline]
    pub(super) fn grow_cwnd(&self, conn: &mut Conn, rs: &RateSample) {
        if self.full_pipe.reached {
            conn.cwnd = conn.cwnd.saturating_add(rs.newly_acked).min(self.control.max_inflight);
        } else if conn.cwnd < self.control.max_inflight || R::grows_at_the_start(conn) {
            let growth = if self.control.rapid_start.triples() { 2 } else { 1 };
            conn.cwnd = conn.cwnd.saturating_add(rs.newly_acked.saturating_mul(growth));
        }
        conn.cwnd = conn.cwnd.max(self.min_pipe_cwnd(conn));
    }

    /// BoundCwndForProbeRTT(), "Modulating cwnd in ProbeRTT".
    #[inline]
    fn bound_cwnd_for_probe_rtt(&self, conn: &mut Conn) {
        if self.state == State::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd(conn));
        }
    }

    /// BoundCwndForModel(), "Bounding cwnd Based on Recent Congestion". A path without loss has no
    /// bounds.
    #[inline]
    fn bound_cwnd_for_model(&self, conn: &mut Conn) {
        if self.bounds.inflight() == INFINITE {
            return;
        }
        let cap = match self.state {
            State::ProbeRtt | State::ProbeBwCruise => self.inflight_with_headroom(conn),
            State::Drain => R::bound_of_drain(&self.bounds),
            // Startup has none: its end sets the first, and an undo takes that back.
            _ => self.bounds.inflight_longterm,
        };
        let cap = cap.min(self.bounds.inflight_shortterm).max(self.min_pipe_cwnd(conn));
        conn.cwnd = conn.cwnd.min(cap);
    }
}

#[cfg(test)]
mod tests;
