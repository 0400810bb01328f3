//! Swift's law (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
//! Datacenter", SIGCOMM 2020), in the flavour `bbr-swift`. `docs/bbr-swift.md` says what of it is
//! published, what is ours, and what was measured.
//!
//! Swift compares delays with targets. The round trip without the time in the receiver's host, the
//! network RTT, governs the fabric window; the time in the receiver's host governs the endpoint
//! window; the smaller of both windows is what may be in flight. Below its target a window grows by
//! a packet a round trip; above it, at most once a round trip, it shrinks by a part that follows
//! the excess. A window of less than a packet is kept by pacing: one packet in several round trips.
//!
//! Swift's code at Google is not public, nor is its BBR.Swift. What joins the law to BBR's model is
//! ours:
//!
//! - BBR's RTT is the network RTT, in min_rtt and everything that follows from it. The volume in
//!   flight may be larger by what waits in the receiver's host.
//! - Both windows bound C.cwnd and the pacing rate after BBR's own bounds: they are short-term
//!   bounds, which a snapshot shows as inflight_shortterm. A window comes into force with the first
//!   delay above its target, at what was in flight then, and goes out of force when BBR's model
//!   allows no more than it.
//! - Startup ends with a round of which the shortest network RTT is above the target: each packet
//!   waited, so the pipe is full. The fabric window is the estimated BDP from there.
//! - In UP a network RTT above the target is an inflight that is too high, as too many losses are.
//! - REFILL raises the fabric window to the estimated BDP, in place of BBR's reset: that much makes
//!   no queue. REFILL and UP double the window while the network RTT is below the target.
//! - Targets are absolute, as Swift's: operators know the distances in their network. A flow that
//!   begins behind the others' queue takes it for distance; a target that followed min_rtt would
//!   keep that queue, and a thousand flows filled any buffer. Only where min_rtt is far above
//!   anything that the options know, it is one and a half times min_rtt at least: on long paths the
//!   flow works, which is all.
//! - There is no pacing margin: it is there to drain queues, which the law does.

use super::Bbr3;
use super::params::{
    ACK_DELAY_RTT_DIVISOR, DELAYED_ACK_PACKETS, FAR_SHIFT, FAR_TARGETS, FLOW_SCALING_MAX_PACKETS,
    FLOW_SCALING_MIN_MILLIPACKETS, Flavour, LEAST_RATE_INTERVAL, LEAST_WINDOW_DIVISOR,
    MAX_MIN_PIPE_PACKETS, MIN_PIPE_PACKETS, NETWORK_RTT_SHIFT, QUANTUM_RTT_DIVISOR,
    RECEIVER_DELAY_SHIFT, SINGLE_ACKS, SWIFT_BETA, SWIFT_MAX_DECREASE, SWIFT_PACING_GAIN,
};
use crate::config::{DraftRules, SwiftOptions};
use crate::conn::{Conn, INFINITE};
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Instant, Rate, mul_div};

/// Windows are in units of a byte's binary fraction 2^-10: a thousandth of a packet is a few bytes.
const UNIT_SHIFT: u32 = 10;

/// Fixed point of [`inverse_sqrt`].
const INVERSE_SHIFT: u32 = 20;

/// State of Swift's law.
#[derive(Clone, Debug)]
pub(crate) struct Swift {
    fabric: Window,
    endpoint: Window,
    /// The options in nanoseconds: base target with the hops, range of the flow scaling, the
    /// endpoint's target, and the longest delay that a receiver is believed.
    base_target: u32,
    scaling_range: u32,
    endpoint_target: u32,
    max_receiver_delay: u32,
    /// The longest delay at the receiver of late, the wait for more to acknowledge included, in
    /// nanoseconds.
    receiver_delay: u32,
    /// The wait for more to acknowledge in the newest round trip, in nanoseconds.
    ack_delay: u32,
    /// The shortest network RTT of this round in nanoseconds; [`u32::MAX`] before one.
    least_rtt: u32,
    /// BBR.MinPipeCwnd in packets: as many as make the receiver acknowledge.
    min_pipe_packets: u8,
    /// ACKs in a row that named one packet without a wait; `None` once the receiver has waited.
    single_acks: Option<u8>,
    /// The rules of [`DraftRules`] that stay the draft's: bits of [`kept`].
    keeps: u8,
}

/// Bits of [`Swift::keeps`]. Three booleans would make a controller eight bytes larger.
mod kept {
    pub(super) const MIN_PIPE_CWND: u8 = 1;
    pub(super) const PACING_MARGIN: u8 = 1 << 1;
    pub(super) const PROBE_ROUNDS: u8 = 1 << 2;
}

impl Swift {
    pub(super) fn new(options: &SwiftOptions) -> Self {
        let hops = options.hop_delay.times(options.hops.into());
        let DraftRules { min_pipe_cwnd, pacing_margin, probe_rounds } = options.keeps;
        let bit = |is_kept: bool, bit| if is_kept { bit } else { 0 };
        Self {
            fabric: Window::NONE,
            endpoint: Window::NONE,
            base_target: nanos(options.base_target + hops),
            scaling_range: nanos(options.flow_scaling_range),
            endpoint_target: nanos(options.endpoint_target),
            max_receiver_delay: nanos(options.max_receiver_delay),
            receiver_delay: 0,
            ack_delay: 0,
            least_rtt: u32::MAX,
            min_pipe_packets: DELAYED_ACK_PACKETS,
            single_acks: Some(0),
            keeps: bit(min_pipe_cwnd, kept::MIN_PIPE_CWND)
                | bit(pacing_margin, kept::PACING_MARGIN)
                | bit(probe_rounds, kept::PROBE_ROUNDS),
        }
    }

    /// BBR.MinPipeCwnd in packets.
    pub(super) fn min_pipe_packets(&self) -> u64 {
        match self.keeps & kept::MIN_PIPE_CWND {
            0 => self.min_pipe_packets.into(),
            _ => MIN_PIPE_PACKETS,
        }
    }

    /// True if the pacing rate has no margin below the estimated bandwidth: the law drains queues.
    pub(super) const fn is_without_margin(&self) -> bool {
        self.keeps & kept::PACING_MARGIN == 0
    }

    /// True if a probe waits for rounds alone, however small the BDP is.
    pub(super) const fn has_own_probe_rounds(&self) -> bool {
        self.keeps & kept::PROBE_ROUNDS == 0
    }

    /// Learns from an ACK of `acked` bytes after a wait of `ack_delay` how many packets make the
    /// receiver acknowledge. With fewer in flight each round trip takes the whole wait; the pacer
    /// keeps windows that are smaller.
    ///
    /// Receivers acknowledge every second packet as a rule (RFC 9000 section 13.2.2, RFC 9293
    /// section 3.8.6.3). If each was acknowledged many times in a row, one is enough, which a
    /// thousand flows to one port need. A wait says that what it acknowledged was too little.
    fn note_ack(&mut self, ack_delay: Duration, rtt: Duration, acked: u64, smss: u64) {
        if ack_delay.as_nanos() > rtt.as_nanos() / ACK_DELAY_RTT_DIVISOR {
            let packets = acked.div_ceil(smss.max(1)).saturating_mul(2);
            let packets = packets.min(MAX_MIN_PIPE_PACKETS.into()) as u8;
            self.min_pipe_packets = self.min_pipe_packets.max(packets).max(DELAYED_ACK_PACKETS);
            self.single_acks = None;
        }
        let Some(count) = &mut self.single_acks else { return };
        *count = if acked > smss { 0 } else { count.saturating_add(1) };
        if *count >= SINGLE_ACKS {
            self.min_pipe_packets = 1;
        }
    }

    /// The smaller of both windows; [`INFINITE`] if none is in force.
    fn window(&self) -> u64 {
        self.fabric.size.min(self.endpoint.size)
    }

    /// The distance that is believed of `min_rtt`: no more than the base target on a path that is
    /// not far, where the rest is a queue.
    fn distance(&self, min_rtt: Duration) -> Duration {
        let (base, range) = (u64::from(self.base_target), u64::from(self.scaling_range));
        let is_far = min_rtt.as_nanos() > FAR_TARGETS * (base + range);
        if is_far { min_rtt } else { min_rtt.min(Duration::from_nanos(base)) }
    }

    /// The time for which the receiver holds bytes that are in flight, and not in the network: no
    /// more than the endpoint's target. Above it the endpoint window is the limit, and a delayed
    /// ACK names a few packets, however long its wait was.
    fn time_at_receiver(&self) -> Duration {
        Duration::from_nanos(self.receiver_delay.min(self.endpoint_target).into())
    }

    /// The estimated BDP at that distance with what the receiver holds, in units of a window: it
    /// makes no queue.
    fn bdp(&self, max_bw: Rate, min_rtt: Duration) -> u64 {
        let time = self.distance(min_rtt) + self.time_at_receiver();
        max_bw.bytes_in(time).saturating_mul(1 << UNIT_SHIFT)
    }

    /// The fabric's target for a flow with a window of `size` and the distance `min_rtt`.
    fn fabric_target(&self, size: u64, smss: u64, min_rtt: Duration) -> Duration {
        let distance = self.distance(min_rtt).as_nanos();
        let is_far = distance > self.base_target.into();
        let distance = if is_far { distance.saturating_add(distance >> FAR_SHIFT) } else { 0 };
        let base = u64::from(self.base_target).max(distance);
        let scaling = flow_scaling(size, smss, self.scaling_range.into());
        Duration::from_nanos(base.saturating_add(scaling))
    }
}

/// A window of Swift's law.
#[derive(Clone, Debug)]
struct Window {
    /// In 2^-10 bytes; [`INFINITE`] if it is not in force.
    size: u64,
    /// It does not shrink again before this.
    next_cut: Instant,
}

impl Window {
    const NONE: Self = Self { size: INFINITE, next_cut: Instant::from_nanos(0) };

    fn is_in_force(&self) -> bool {
        self.size != INFINITE
    }

    /// Grows for `acked` bytes whose delay was below the target; out of force above `most` bytes.
    ///
    /// By a packet a round trip: SMSS * acked / window, Swift's ai of one. Below one packet Swift
    /// adds ai for each packet acknowledged, which makes a window of a twentieth of a packet one of
    /// a whole one at once, and of a thousand such flows as many packets. Here it is that times the
    /// window in packets, so that both rules are the same at one packet: an ACK there doubles the
    /// window at most.
    fn grow(&mut self, acked: u64, smss: u64, doubles: bool, most: u64) {
        if !self.is_in_force() {
            return;
        }
        let packet = smss << UNIT_SHIFT;
        let added = if self.size < packet {
            mul_div(self.size, acked.min(smss), smss)
        } else if doubles {
            acked.saturating_mul(1 << UNIT_SHIFT)
        } else {
            // In units: (SMSS * acked / bytes) * 2^10.
            mul_div(smss, acked.saturating_mul(1 << (2 * UNIT_SHIFT)), self.size)
        };
        self.size = self.size.saturating_add(added);
        if self.size >= most.saturating_mul(1 << UNIT_SHIFT) {
            self.size = INFINITE;
        }
    }

    /// Shrinks for a `delay` above `target`: by the factor max(1 - beta * (delay - target) / delay,
    /// 1 - max_mdf), from what was in flight if that was less, and to no less than `least`.
    fn shrink(&mut self, flight: u64, delay: Duration, target: Duration, least: u64) {
        let size = self.size.min(flight.saturating_mul(1 << UNIT_SHIFT));
        let excess = (delay - target).as_nanos();
        let part = SWIFT_BETA.of(mul_div(size, excess, delay.as_nanos()));
        self.size = (size - part.min(SWIFT_MAX_DECREASE.of(size))).max(least);
    }
}

/// The time that the flow scaling adds to the target of a flow with a window of `size`, of at most
/// `range` nanoseconds: clamp(alpha / sqrt(window) + beta, 0, range), window in packets.
///
/// Of n flows that arrive at random the mean queue grows as the square root of n, and n goes as 1 /
/// window: a target that grows alike does not punish a flow for the number of flows.
fn flow_scaling(size: u64, smss: u64, range: u64) -> u64 {
    let packets = mul_div(size, 1 << (INVERSE_SHIFT - UNIT_SHIFT), smss);
    let packets = packets.min(1 << 52);
    let least = inverse_sqrt(FLOW_SCALING_MAX_PACKETS << INVERSE_SHIFT);
    let most = inverse_sqrt((FLOW_SCALING_MIN_MILLIPACKETS << INVERSE_SHIFT) / 1_000);
    let above = inverse_sqrt(packets).saturating_sub(least);
    mul_div(range, above, most - least).min(range)
}

/// 2^20 / sqrt(packets), with `packets` in units of 2^-20.
const fn inverse_sqrt(packets: u64) -> u64 {
    let sqrt = packets.isqrt(); // in 2^-10
    let sqrt = if sqrt == 0 { 1 } else { sqrt };
    (1 << (INVERSE_SHIFT + INVERSE_SHIFT / 2)) / sqrt
}

/// The least window in its unit. A thousandth of a packet, Swift's least window as simulators have
/// it, is one packet in 25 ms where the RTT is 25 us. On longer paths a thousandth would be seconds
/// without a packet, and so without news; there it is that same packet in 25 ms, and from that
/// distance on one packet in each round trip.
fn least_window(smss: u64, rtt: Duration) -> u64 {
    let packet = smss << UNIT_SHIFT;
    let by_time = mul_div(packet, rtt.as_nanos(), LEAST_RATE_INTERVAL.as_nanos());
    by_time.clamp((packet / LEAST_WINDOW_DIVISOR).max(1), packet)
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

impl<F: Flavour> Bbr3<F> {
    /// The sample with the network RTT: without the time that the packet, or its ACK, spent in the
    /// receiver's host, and without the receiver's wait for more to acknowledge.
    ///
    /// RFC 9002 section 5.3 goes no lower than the connection's shortest round trip, so that a
    /// receiver that tells of more delay than there was does not make the path look shorter. But a
    /// delay that was always there is in that round trip too. Here the network has at least a
    /// sixteenth of the round trip, or else the shortest network RTT that was seen: the path never
    /// becomes shorter than a sixteenth of what it is.
    #[inline]
    pub(super) fn network_sample(&self, rs: &RateSample) -> RateSample {
        let (Some(swift), Some(rtt)) = (F::swift(&self.own), rs.rtt()) else { return *rs };
        let least = Duration::from_nanos(rtt.as_nanos() >> NETWORK_RTT_SHIFT).min(self.rtt.min);
        let most = (rtt - least).min(Duration::from_nanos(swift.max_receiver_delay.into()));
        let (host, wait) = rs.delays_at_receiver();
        let host = host.min(most);
        let wait = wait.min(most - host);
        let mut sample = *rs;
        sample.rtt = rtt - host - wait;
        sample.set_delays_at_receiver(host, wait);
        sample
    }

    /// Swift's law for one ACK. `rs` is the network's sample. True if it ended a probe.
    pub(super) fn follow_swift(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        let (min_rtt, smss, round_start) = (self.rtt.min, conn.smss, self.round.start);
        let Some(swift) = F::swift_mut(&mut self.own) else { return false };
        let Some(rtt) = rs.rtt() else { return false };
        let ((host, wait), now) = (rs.delays_at_receiver(), rs.now);
        swift.ack_delay = nanos(wait);
        swift.note_ack(wait, rtt, rs.newly_acked, smss);
        let peak = swift.receiver_delay - (swift.receiver_delay >> RECEIVER_DELAY_SHIFT);
        let receiver_delay = nanos(host + wait).max(peak);
        self.is_model_new |= receiver_delay != swift.receiver_delay;
        swift.receiver_delay = receiver_delay;

        let flight = rs.tx_in_flight;
        let size = swift.fabric.size.min(flight.saturating_mul(1 << UNIT_SHIFT));
        let target = swift.fabric_target(size, smss, min_rtt.min(rtt));
        let endpoint_target = Duration::from_nanos(swift.endpoint_target.into());
        let least = least_window(smss, rtt + host);
        // A cut is seen after the wait as well. That of a delayed ACK is rare and many round trips.
        let next_cut = now + rtt + host + wait.min(endpoint_target);
        let doubles =
            matches!(self.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp);
        let most = self.control.max_inflight;
        if host <= endpoint_target {
            swift.endpoint.grow(rs.newly_acked, smss, doubles, most);
        } else if now >= swift.endpoint.next_cut {
            swift.endpoint.shrink(flight, host, endpoint_target, least);
            swift.endpoint.next_cut = next_cut;
        }
        // The rate follows the windows and the newest RTT, and the window that went out of force
        // leaves it to the model.
        self.is_model_new = true;
        let least_rtt = swift.least_rtt;
        swift.least_rtt = if round_start { nanos(rtt) } else { least_rtt.min(nanos(rtt)) };
        if rtt <= target {
            swift.fabric.grow(rs.newly_acked, smss, doubles, most);
        } else if !self.full_pipe.reached {
            let is_over = round_start && least_rtt != u32::MAX;
            if is_over && Duration::from_nanos(least_rtt.into()) > target {
                self.end_startup_for_swift(conn, rs);
            }
        } else if now >= swift.fabric.next_cut {
            swift.fabric.shrink(flight, rtt, target, least);
            swift.fabric.next_cut = next_cut;
            if self.state == State::ProbeBwUp {
                self.end_probe_for_swift(conn, now);
                return true;
            }
        }
        false
    }

    /// A network RTT above the target in UP: HandleInflightTooHigh(), but for inflight_longterm,
    /// which stays as losses left it. The fabric window is that bound here, and has no headroom for
    /// others below it: with headroom a flow to a slow receiver had 0.9 of a link.
    #[cold]
    fn end_probe_for_swift(&mut self, conn: &Conn, now: Instant) {
        self.probe.prev_too_high = true;
        self.probe.is_sample = false;
        self.start_probe_bw_down(conn, now);
    }

    /// Each packet of a round of Startup waited for longer than the target: the pipe is full. What
    /// follows is the exit by a plateau, and Drain.
    #[cold]
    fn end_startup_for_swift(&mut self, conn: &Conn, rs: &RateSample) {
        self.full_pipe.fill();
        self.is_model_new = true;
        let (max_bw, min_rtt) = (self.bandwidth.max, self.rtt.min.min(rs.rtt));
        if let Some(swift) = F::swift_mut(&mut self.own) {
            swift.fabric.size = swift.bdp(max_bw, min_rtt).max(least_window(conn.smss, rs.rtt));
            swift.fabric.next_cut = rs.now + rs.rtt;
        }
    }

    /// REFILL begins: the fabric window is the estimated BDP at least, which makes no queue.
    pub(super) fn refill_for_swift(&mut self) {
        let (max_bw, min_rtt) = (self.bandwidth.max, self.rtt.min);
        if let Some(swift) = F::swift_mut(&mut self.own) {
            swift.fabric.size = swift.fabric.size.max(swift.bdp(max_bw, min_rtt));
            self.is_model_new = true;
        }
    }

    /// The most that both windows let this flow send in: [`Rate::MAX`] without one.
    ///
    /// Below BBR.MinPipeCwnd it is the window in a round trip, exactly: that is how such a window
    /// is kept. Above it a quarter more, so that the window is the limit and the pacer spreads it.
    /// The receiver's wait for more to acknowledge is not in that round trip: the rate would be
    /// that of one packet in a wait.
    pub(super) fn swift_rate(&self, conn: &Conn) -> Rate {
        let (Some(swift), Some(rtt)) = (F::swift(&self.own), conn.latest_rtt()) else {
            return Rate::MAX;
        };
        let window = swift.window();
        if window == INFINITE {
            return Rate::MAX;
        }
        let rtt = rtt - Duration::from_nanos(swift.ack_delay.into()).min(rtt);
        let units = Rate::from_volume(window, rtt).as_bytes_per_sec();
        let rate = Rate::from_bytes_per_sec(units >> UNIT_SHIFT);
        let is_paced = window < self.min_pipe_cwnd(conn) << UNIT_SHIFT;
        if is_paced { rate } else { SWIFT_PACING_GAIN.of_rate(rate) }
    }

    /// Bounds C.cwnd by both windows; below BBR.MinPipeCwnd it is that, and the pacer does the
    /// rest.
    #[inline]
    pub(super) fn bound_cwnd_for_swift(&self, conn: &mut Conn) {
        if let Some(swift) = F::swift(&self.own) {
            let window = (swift.window() >> UNIT_SHIFT).max(self.min_pipe_cwnd(conn));
            conn.cwnd = conn.cwnd.min(window);
        }
    }

    /// The windows as a short-term bound in bytes, for a snapshot; at least 1, [`INFINITE`] for
    /// none.
    pub(super) fn swift_inflight(&self) -> u64 {
        match F::swift(&self.own).map_or(INFINITE, Swift::window) {
            INFINITE => INFINITE,
            window => (window >> UNIT_SHIFT).max(1),
        }
    }

    /// Bytes that wait in the receiver's host.
    pub(super) fn volume_at_receiver(&self) -> u64 {
        F::swift(&self.own).map_or(0, |swift| self.bandwidth.bw.bytes_in(swift.time_at_receiver()))
    }

    /// True if a probe waits for rounds alone, however small the BDP is: `bbr-swift`, unless it
    /// keeps the draft's rule.
    #[inline]
    pub(super) fn has_own_probe_rounds(&self) -> bool {
        F::swift(&self.own).is_some_and(Swift::has_own_probe_rounds)
    }

    /// The time at the pacing rate that C.send_quantum is, where min_rtt decides: a burst of a
    /// millisecond is many round trips of a data centre, and no pacing.
    pub(super) fn quantum_time_for_swift(&self) -> Duration {
        match F::swift(&self.own) {
            Some(_) => Duration::from_nanos(self.rtt.min.as_nanos() / QUANTUM_RTT_DIVISOR),
            None => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
