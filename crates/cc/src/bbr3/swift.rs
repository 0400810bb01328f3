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
//! - Neither is so for a flow whose bandwidth is below the least window in a round trip.
//! - REFILL raises the fabric window to the estimated BDP, in place of BBR's reset: that much makes
//!   no queue. REFILL and UP double the window while the network RTT is below the target.
//! - Targets are absolute, as Swift's: operators know the distances in their network. A flow that
//!   begins behind the others' queue takes it for distance; a target that followed min_rtt would
//!   keep that queue, and a thousand flows filled any buffer. Only where min_rtt is far above
//!   anything that the options know, it is one and a half times min_rtt at least: on long paths the
//!   flow works, which is all.
//! - There is no pacing margin: it is there to drain queues, which the law does.

use super::aggregation::MaxOfRounds;
use super::params::{MIN_PIPE_PACKETS, PACING_MARGIN, QUANTUM_TIME};
use super::{Rules, Verdict, View};
use crate::config::Config;
use crate::conn::{Conn, INFINITE};
use crate::options::{BbrSwiftOptions, DraftRules, FlavourOptions};
use crate::sampler::RateSample;
use crate::snapshot::State;
use crate::units::{Duration, Gain, Instant, Rate, mul_div};

/// beta_md of its law, 0.8 as simulators of it have it (csg-htsim's `swift.cpp`).
const SWIFT_BETA: Gain = Gain::percent(80);
/// max_mdf, the most that a window loses in a round trip; 0.5 as there.
const SWIFT_MAX_DECREASE: Gain = Gain::percent(50);
/// fs_min_cwnd in thousandths of a packet, and fs_max_cwnd in packets: the windows between
/// which the flow scaling falls from its range to nothing. 0.1 and 100 as there.
const FLOW_SCALING_MIN_MILLIPACKETS: u64 = 100;
const FLOW_SCALING_MAX_PACKETS: u64 = 100;
/// The least window is this part of a packet, or one packet in this time if that is more:
/// the same at 25 us. The part is that of simulators; htsim marks its own of ten bytes as a guess,
/// and so is this.
const LEAST_WINDOW_DIVISOR: u64 = 1_000;
const LEAST_RATE_INTERVAL: Duration = Duration::from_millis(25);
/// A path is far if min_rtt is above so many of the longest target. Below, a long
/// min_rtt may be the queue of a data centre's switch: 1.35 ms with the usual options, 17 MB at 100
/// Gbit/s.
const FAR_TARGETS: u64 = 8;
/// The target of a far path is at least min_rtt and this binary fraction of it, 1/2: UP,
/// which sends a quarter more for up to three rounds, just reaches it.
const FAR_SHIFT: u32 = 1;
/// Windows of a packet and more are paced so much faster than they say, so that they are
/// the limit. RFC 9002 section 7.7 has the same.
const SWIFT_PACING_GAIN: Gain = Gain::percent(125);
/// C.send_quantum is what the rate gives in this part of min_rtt: the pacer's own bound
/// for its credit.
const QUANTUM_RTT_DIVISOR: u64 = 4;
/// The receiver's delay of late falls by this binary fraction of it, 1/16, with each ACK
/// that has a shorter one.
const RECEIVER_DELAY_SHIFT: u32 = 4;
/// The network has at least this binary fraction of a round trip, 1/16, whatever the
/// receiver says of its part, or else the shortest network RTT that was seen.
const NETWORK_RTT_SHIFT: u32 = 4;
/// A wait of the receiver for more to acknowledge that is longer than this part of the
/// network RTT costs a flow that it makes wait a noticeable part of its rate.
const ACK_DELAY_RTT_DIVISOR: u64 = 4;
/// Packets that make a receiver acknowledge, as long as nothing else is known of it, and
/// the most that are kept in flight for that: an initial window (RFC 9002 section 7.2).
const DELAYED_ACK_PACKETS: u8 = 2;
const MAX_MIN_PIPE_PACKETS: u8 = 10;
/// A receiver that acknowledged so many packets one by one does so with all. Linux
/// acknowledges up to 16 packets so when a connection begins.
const SINGLE_ACKS: u8 = 32;
/// Rounds between probes are up to so many fewer than RENO_ROUNDS, by chance: flows
/// that began together do not probe together.
const PROBE_ROUNDS_RANDOM: u64 = 32;

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
    /// It has neither marks nor amendments.
    nothing: (),
}

/// Bits of [`Swift::keeps`]. Three booleans would make a controller eight bytes larger.
mod kept {
    pub(super) const MIN_PIPE_CWND: u8 = 1;
    pub(super) const PACING_MARGIN: u8 = 1 << 1;
    pub(super) const PROBE_ROUNDS: u8 = 1 << 2;
}

impl Swift {
    fn with(options: BbrSwiftOptions) -> Self {
        let hops = options.hop_delay().times(options.hops().into());
        let DraftRules { min_pipe_cwnd, pacing_margin, probe_rounds } = options.keeps();
        let bit = |is_kept: bool, bit| if is_kept { bit } else { 0 };
        Self {
            fabric: Window::NONE,
            endpoint: Window::NONE,
            base_target: nanos(options.base_target() + hops),
            scaling_range: nanos(options.flow_scaling_range()),
            endpoint_target: nanos(options.endpoint_target()),
            max_receiver_delay: nanos(options.max_receiver_delay()),
            receiver_delay: 0,
            ack_delay: 0,
            least_rtt: u32::MAX,
            min_pipe_packets: DELAYED_ACK_PACKETS,
            single_acks: Some(0),
            keeps: bit(min_pipe_cwnd, kept::MIN_PIPE_CWND)
                | bit(pacing_margin, kept::PACING_MARGIN)
                | bit(probe_rounds, kept::PROBE_ROUNDS),
            nothing: (),
        }
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

/// True if the law can take something from the flow: its bandwidth is the `least` window in a round
/// trip of `time`, or more. A slower flow would stay as slow as its first ACKs said.
fn takes_something(view: &View<'_>, least: u64, time: Duration) -> bool {
    let granted = Rate::from_volume(least, time).as_bytes_per_sec();
    view.bandwidth.max.as_bytes_per_sec() >= granted >> UNIT_SHIFT
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

impl Rules for Swift {
    const NAME: &'static str = "bbr-swift";
    /// Each delay moves the law's bounds.
    const FOLLOWS_BASIS: bool = false;
    type ExtraAcked = MaxOfRounds;
    type Marks = ();
    type Amendments = ();

    fn new(_: &Config, options: &FlavourOptions) -> Self {
        Self::with(options.swift)
    }

    #[inline]
    fn marks(&self) -> &() {
        &()
    }

    #[inline]
    fn marks_mut(&mut self) -> &mut () {
        &mut self.nothing
    }

    #[inline]
    fn amendments(&self) -> &() {
        &()
    }

    #[inline]
    fn amendments_mut(&mut self) -> &mut () {
        &mut self.nothing
    }

    /// One packet, or as many as make the receiver acknowledge, and less by pacing: four packets of
    /// each of a thousand flows are a queue that no law can empty.
    #[inline]
    fn min_pipe_packets(&self) -> u64 {
        match self.keeps & kept::MIN_PIPE_CWND {
            0 => self.min_pipe_packets.into(),
            _ => MIN_PIPE_PACKETS,
        }
    }

    /// The sample with the network RTT: without the time that the packet, or its ACK, spent in the
    /// receiver's host, and without the receiver's wait for more to acknowledge.
    ///
    /// RFC 9002 section 5.3 goes no lower than the connection's shortest round trip, so that a
    /// receiver that tells of more delay than there was does not make the path look shorter. But a
    /// delay that was always there is in that round trip too. Here the network has at least a
    /// sixteenth of the round trip, or else the shortest network RTT that was seen: the path never
    /// becomes shorter than a sixteenth of what it is.
    #[inline]
    fn sample<'a>(
        &self,
        rs: &'a RateSample,
        min_rtt: Duration,
        own: &'a mut Option<RateSample>,
    ) -> &'a RateSample {
        let Some(rtt) = rs.rtt() else { return rs };
        let least = Duration::from_nanos(rtt.as_nanos() >> NETWORK_RTT_SHIFT).min(min_rtt);
        let most = (rtt - least).min(Duration::from_nanos(self.max_receiver_delay.into()));
        let (host, wait) = rs.delays_at_receiver();
        let host = host.min(most);
        let wait = wait.min(most - host);
        let sample = own.insert(*rs);
        sample.rtt = rtt - host - wait;
        sample.set_delays_at_receiver(host, wait);
        sample
    }

    /// Swift's law. `rs` is the network's sample.
    fn judge_delay(&mut self, view: &View<'_>, rs: &RateSample) -> Verdict {
        let Some(rtt) = rs.rtt() else { return Verdict::Nothing };
        let (min_rtt, smss, round_start) = (view.rtt.min, view.conn.smss, view.round.start);
        let ((host, wait), now) = (rs.delays_at_receiver(), rs.now);
        self.ack_delay = nanos(wait);
        self.note_ack(wait, rtt, rs.newly_acked, smss);
        let peak = self.receiver_delay - (self.receiver_delay >> RECEIVER_DELAY_SHIFT);
        self.receiver_delay = nanos(host + wait).max(peak);

        let flight = rs.tx_in_flight;
        let size = self.fabric.size.min(flight.saturating_mul(1 << UNIT_SHIFT));
        let target = self.fabric_target(size, smss, min_rtt.min(rtt));
        let endpoint_target = Duration::from_nanos(self.endpoint_target.into());
        let time = rtt + host;
        let least = least_window(smss, time);
        // A cut is seen after the wait, too. That of a delayed ACK is rare and many round trips.
        let next_cut = now + time + wait.min(endpoint_target);
        let doubles =
            matches!(view.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp);
        let most = view.control.max_inflight;
        if host <= endpoint_target {
            self.endpoint.grow(rs.newly_acked, smss, doubles, most);
        } else if now >= self.endpoint.next_cut {
            self.endpoint.shrink(flight, host, endpoint_target, least);
            self.endpoint.next_cut = next_cut;
        }
        let least_rtt = self.least_rtt;
        self.least_rtt = if round_start { nanos(rtt) } else { least_rtt.min(nanos(rtt)) };
        if rtt <= target {
            self.fabric.grow(rs.newly_acked, smss, doubles, most);
        } else if !view.full_pipe.reached {
            // Each packet of a round of Startup waited for longer than the target: what follows is
            // the exit by a plateau, and Drain.
            let is_over =
                round_start && least_rtt != u32::MAX && takes_something(view, least, time);
            if is_over && Duration::from_nanos(least_rtt.into()) > target {
                let bdp = self.bdp(view.bandwidth.max, min_rtt.min(rtt));
                self.fabric.size = bdp.max(least_window(smss, rtt));
                self.fabric.next_cut = now + rtt;
                return Verdict::PipeIsFull;
            }
        } else if now >= self.fabric.next_cut {
            self.fabric.shrink(flight, rtt, target, least);
            self.fabric.next_cut = next_cut;
            // HandleInflightTooHigh(), but for inflight_longterm, which stays as losses left it.
            // The fabric window is that bound here, and has no headroom for others below it: with
            // headroom a flow to a slow receiver had 0.9 of a link.
            if view.state == State::ProbeBwUp && takes_something(view, least, time) {
                return Verdict::ProbeTooHigh;
            }
        }
        Verdict::Nothing
    }

    /// A probe waits for rounds alone, however small the BDP is: where a flow's share of the path
    /// is a few packets, it would probe in every few rounds, and so would all the others.
    #[inline]
    fn probes_by_bdp(&self) -> bool {
        self.keeps & kept::PROBE_ROUNDS != 0
    }

    #[inline]
    fn random_probe_rounds(&self) -> u64 {
        if self.probes_by_bdp() { 2 } else { PROBE_ROUNDS_RANDOM }
    }

    /// The fabric window is the estimated BDP at least, which makes no queue.
    fn begin_refill(&mut self, max_bw: Rate, min_rtt: Duration) {
        self.fabric.size = self.fabric.size.max(self.bdp(max_bw, min_rtt));
    }

    /// Bytes that wait in the receiver's host.
    #[inline]
    fn volume_at_receiver(&self, bw: Rate) -> u64 {
        bw.bytes_in(self.time_at_receiver())
    }

    /// The most that both windows let this flow send in.
    ///
    /// Below BBR.MinPipeCwnd it is the window in a round trip, exactly: that is how such a window
    /// is kept. Above it a quarter more, so that the window is the limit and the pacer spreads it.
    /// The receiver's wait for more to acknowledge is not in that round trip: the rate would be
    /// that of one packet in a wait.
    fn most_pacing_rate(&self, conn: &Conn) -> Rate {
        let (window, Some(rtt)) = (self.window(), conn.latest_rtt()) else { return Rate::MAX };
        if window == INFINITE {
            return Rate::MAX;
        }
        let rtt = rtt - Duration::from_nanos(self.ack_delay.into()).min(rtt);
        let units = Rate::from_volume(window, rtt).as_bytes_per_sec();
        let rate = Rate::from_bytes_per_sec(units >> UNIT_SHIFT);
        let is_paced = window < (self.min_pipe_packets() * conn.smss) << UNIT_SHIFT;
        if is_paced { rate } else { SWIFT_PACING_GAIN.of_rate(rate) }
    }

    /// None: the law drains queues.
    #[inline]
    fn pacing_margin(&self, _: &View<'_>) -> Gain {
        if self.keeps & kept::PACING_MARGIN == 0 { Gain::ONE } else { PACING_MARGIN }
    }

    /// Of less time where min_rtt is short: a burst of a millisecond is many round trips of a data
    /// centre, and no pacing.
    #[inline]
    fn send_quantum(&self, conn: &Conn, min_rtt: Duration) -> u64 {
        let part = Duration::from_nanos(min_rtt.as_nanos() / QUANTUM_RTT_DIVISOR);
        conn.pacing_rate.bytes_in(QUANTUM_TIME.min(part))
    }

    /// Both windows; below BBR.MinPipeCwnd it is that, and the pacer does the rest.
    #[inline]
    fn most_inflight(&self, least: u64) -> u64 {
        match self.window() {
            INFINITE => INFINITE,
            window => (window >> UNIT_SHIFT).max(least),
        }
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
