//! Liveness: a flow in whatever state, on a plain link, with data to send and ACKs that return.
//!
//! The link carries 10 Mbit/s, has a round trip of 20 ms and a buffer of four BDP, loses nothing
//! but what does not fit, and keeps the order.

use std::collections::VecDeque;

use fullpipe_cc::{Algorithm, Duration, Instant, PacketState, Rate, SendDecision};

use super::Flow;

const LINK: Rate = Rate::from_bits_per_sec(10_000_000);
const ROUND_TRIP: Duration = Duration::from_millis(20);
const BUFFER: u64 = 100_000;
const SMSS: u32 = 1200;
/// Goodput is measured over this span.
const WINDOW: Duration = Duration::from_secs(1);
/// The transport's timer when no ACK can come.
const TIMER: Duration = Duration::from_millis(200);
/// More events than any run that ends needs.
const MAX_EVENTS: u64 = 2_000_000;

/// The fate of the packets that the history left in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Acked,
    Lost,
    TimedOut,
}

impl Fate {
    pub(crate) fn decode(byte: u8) -> Self {
        [Self::Acked, Self::Lost, Self::TimedOut][usize::from(byte) % 3]
    }
}

/// Largest time until a flow fills half of the link for a second.
///
/// BBR's filters decide: a min_rtt from another life bounds C.inflight until MinRTTFilterLen (10 s)
/// and the ProbeRTT that lets it rise are over, then the window and the rate grow by a quarter a
/// round. Round trips count by the flow's own clock: after an ACK that took a day, ten days are not
/// long. What was sent without asking the pacer is paid for first, at the rate of that time.
///
/// Silence counts too, where something was lost before it: that is no idleness, and the first ACK
/// after it gives a rate of one packet in all of that time, as in Linux. Where the filter has
/// nothing better, the next packets leave at this rate. `bbr3` has a least pacing rate, and is
/// granted no time for this.
pub(crate) fn bound(flow: &mut Flow) -> Duration {
    let debt = match flow.cc.can_send(flow.now) {
        SendDecision::At(t) => t.since(flow.now),
        _ => Duration::ZERO,
    };
    let bound = Duration::from_secs(BOUND_SECS) + flow.longest_rtt.times(BOUND_ROUND_TRIPS) + debt;
    if flow.cc.algorithm() == Algorithm::BBR3 {
        return bound;
    }
    let packet = flow.cc.pacing_rate().map_or(Duration::ZERO, |rate| rate.time_for(SMSS.into()));
    bound + flow.longest_silence().times(BOUND_SILENCES) + packet.times(BOUND_PACKETS)
}

/// The slowest of some thousand histories took 12.1 s with BBR; CUBIC and Reno need one window.
const BOUND_SECS: u64 = 15;
const BOUND_ROUND_TRIPS: u64 = 2;
const BOUND_PACKETS: u64 = 2;
/// Two packets at half of the rate, less the pacing margin.
const BOUND_SILENCES: u64 = 5;

/// BBRv1 believes in a policer for 48 rounds, at whatever rate it thought to have seen, with a
/// packet in flight at a time if that is low enough; no other algorithm may take so long.
fn policer(flow: &Flow) -> Duration {
    match flow.cc.pacing_rate() {
        Some(rate) if flow.conserves_packets() => {
            rate.time_for(SMSS.into()).times(POLICER_PACKETS) + Duration::from_secs(BOUND_SECS)
        }
        _ => Duration::ZERO,
    }
}

const POLICER_PACKETS: u64 = 60;

struct Link {
    free_at: Instant,
    /// ACKs on their way back.
    acks: VecDeque<(Instant, PacketState)>,
}

impl Link {
    fn enqueue(&mut self, now: Instant, packet: PacketState) {
        let start = self.free_at.max(now);
        if LINK.bytes_in(start.since(now)) + packet.size() <= BUFFER {
            self.free_at = start + LINK.time_for(packet.size());
            self.acks.push_back((self.free_at + ROUND_TRIP, packet));
        }
    }
}

/// Panics when `flow` does not fill half of the link within [`bound`]. Without control (a fixed
/// rate) there is nothing to recover, at the end of the clock no time to do it in, and a flow that
/// may not send as fast as the link is not held to it.
pub(crate) fn assert_delivers(mut flow: Flow, fate: Fate) -> Duration {
    let start = flow.now;
    settle(&mut flow, fate);
    let mut bound = bound(&mut flow);
    let no_time = bound.times(2).as_nanos() > u64::MAX - start.as_nanos();
    let is_capped = flow.config.max_pacing_rate.is_some_and(|cap| cap < LINK);
    if matches!(flow.cc.algorithm(), Algorithm::Fixed(_)) || no_time || is_capped {
        return Duration::ZERO;
    }
    let mut link = Link { free_at: flow.now, acks: VecDeque::new() };
    let (mut window_start, mut delivered) = (flow.now, 0);
    for _ in 0..MAX_EVENTS {
        delivered += advance(&mut flow, &mut link);
        bound = bound.max(policer(&flow));
        let span = flow.now.since(window_start);
        if span >= WINDOW {
            let taken = flow.now.since(start);
            if delivered >= LINK.bytes_in(span) / 2 {
                assert!(taken <= bound, "{taken} until half of the link, bound {bound}: {flow:?}");
                return taken;
            }
            assert!(taken <= bound, "nothing in {taken}, bound {bound}: {flow:?}");
            (window_start, delivered) = (flow.now, 0);
        }
    }
    panic!("not half of the link after {} and {MAX_EVENTS} events", flow.now.since(start));
}

/// Gives the packets of the history their fate, and the flow the link's packet size.
fn settle(flow: &mut Flow, fate: Fate) {
    flow.now += ROUND_TRIP;
    match fate {
        Fate::Acked => {
            let packets = core::mem::take(&mut flow.outstanding);
            flow.report(&packets, Vec::new());
        }
        Fate::Lost => {
            let packets = core::mem::take(&mut flow.outstanding);
            flow.report(&[], packets);
        }
        Fate::TimedOut => flow.time_out(),
    }
    flow.change_mtu(SMSS);
}

/// Until the next packet or ACK; returns the bytes that an ACK delivered.
fn advance(flow: &mut Flow, link: &mut Link) -> u64 {
    let ack_at = link.acks.front().map(|(at, _)| *at);
    let send_at = match flow.cc.can_send(flow.now) {
        SendDecision::Now { .. } => {
            let packet = flow.send(SMSS);
            link.enqueue(flow.now, packet);
            return 0;
        }
        SendDecision::At(t) => Some(t),
        SendDecision::CwndLimited => None,
    };
    match (ack_at, send_at) {
        (Some(ack), send) if send.is_none_or(|send| ack <= send) => {
            flow.now = ack;
            link.acks.pop_front().map_or(0, |(_, packet)| deliver(flow, packet))
        }
        (_, Some(send)) => {
            flow.now = send;
            0
        }
        _ => {
            assert!(!flow.outstanding.is_empty(), "no room, and nothing in flight: {flow:?}");
            flow.now += TIMER;
            let packets = core::mem::take(&mut flow.outstanding);
            flow.report(&[], packets);
            0
        }
    }
}

/// The ACK of one packet; what was sent before it and is still outstanding did not fit the buffer.
fn deliver(flow: &mut Flow, packet: PacketState) -> u64 {
    let Some(position) = flow.outstanding.iter().position(|p| *p == packet) else { return 0 };
    let mut lost: Vec<PacketState> = flow.outstanding.drain(..=position).collect();
    lost.pop();
    flow.report(&[packet], lost);
    packet.size()
}
