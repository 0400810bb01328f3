//! One trace of sends and ACKs, replayed into whatever is measured.
//!
//! The trace is that of a bbr3 flow of two-packet ACKs over a link that loses one packet before the
//! counting begins, recorded once and then replayed with its times as they were: every controller
//! sees the same events, and none of them can make its own work easier by sending less. The loss
//! ends the slow start of those that would never end it otherwise. Callgrind collects only inside
//! `counted_ack` or `counted_send`, so that neither set-up nor replay is in a figure.

use std::collections::VecDeque;
use std::hint::black_box;

use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant, Rate, SendDecision, State};

/// The size of every packet of the trace, in bytes.
pub const PACKET: u32 = 1200;
/// The link of the trace.
pub const RATE: Rate = Rate::from_bits_per_sec(50_000_000);
/// Its round-trip time without a queue.
pub const RTT: Duration = Duration::from_millis(40);
/// The time of the only loss.
const LOSS_AT: Instant = Instant::from_nanos(1_000_000_000);
/// Startup and Drain are over, and the first probe as well.
const STEADY_FROM: Instant = Instant::from_nanos(2_000_000_000);
/// Probes come every two to three seconds and ProbeRTT every five: three and one of them.
const END: Instant = Instant::from_nanos(10_000_000_000);

/// The events of the trace that count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those while the recorded flow was in ProbeBW_CRUISE.
    Cruise,
    /// All after Startup: every phase of ProbeBW in its true share, and one ProbeRTT.
    Cycle,
}

/// An event of the trace; packets have the numbers 0, 1, 2, ...
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The next packet leaves.
    Send,
    /// The next two packets are acknowledged, which leaves so many bytes in flight.
    Ack {
        /// Bytes.
        inflight: u64,
    },
    /// The next packet is lost.
    Loss,
}

/// An event with its time.
#[derive(Clone, Copy, Debug)]
pub struct TimedEvent {
    /// The event's time, on the trace's own clock.
    pub now: Instant,
    /// The event.
    pub event: Event,
    is_cruise: bool,
}

impl TimedEvent {
    fn counts_in(&self, scope: Scope) -> bool {
        self.now >= STEADY_FROM && (scope == Scope::Cycle || self.is_cruise)
    }
}

/// Sends and ACKs of the trace that count in `scope`.
pub fn counts(trace: &[TimedEvent], scope: Scope) -> (u64, u64) {
    trace.iter().filter(|entry| entry.counts_in(scope)).fold((0, 0), |(sends, acks), entry| {
        match entry.event {
            Event::Send => (sends + 1, acks),
            Event::Ack { .. } => (sends, acks + 1),
            Event::Loss => (sends, acks),
        }
    })
}

/// Records the trace: bbr3 over a link that delivers in order and loses one packet.
pub fn record() -> Vec<TimedEvent> {
    let mut now = Instant::default();
    let mut cc = Controller::new(Algorithm::BBR3, Config { smss: PACKET, ..Config::new(1) }, now);
    let mut link_free = now;
    let mut arrivals = VecDeque::new();
    let mut trace = Vec::new();
    let mut lost = false;
    while now < END {
        let is_cruise = cc.snapshot().state == State::ProbeBwCruise;
        // The second of each two packets brings the ACK of both.
        let ack_at = arrivals.get(1).map(|(at, _)| *at);
        let send_at = match cc.can_send(now) {
            SendDecision::Now { .. } => Some(now),
            SendDecision::At(at) => Some(at),
            SendDecision::CwndLimited => None,
        };
        let next = match (ack_at, send_at) {
            (Some(ack), Some(send)) => ack.min(send),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => break,
        };
        now = now.max(next);
        if ack_at.is_some_and(|at| at <= now) {
            let mut ack = cc.ack(now);
            if !lost && now >= LOSS_AT {
                let (_, packet) = arrivals.pop_front().expect("the first of the two");
                ack.lost(&packet);
                ack.finish();
                lost = true;
                trace.push(TimedEvent { now, event: Event::Loss, is_cruise });
                continue;
            }
            for (_, packet) in arrivals.drain(..2) {
                ack.acked(&packet);
            }
            ack.finish();
            let inflight = cc.inflight();
            trace.push(TimedEvent { now, event: Event::Ack { inflight }, is_cruise });
        } else if matches!(cc.can_send(now), SendDecision::Now { .. }) {
            link_free = link_free.max(now) + RATE.time_for(u64::from(PACKET));
            arrivals.push_back((link_free + RTT, cc.on_sent(now, PACKET)));
            trace.push(TimedEvent { now, event: Event::Send, is_cruise });
        }
    }
    trace
}

/// A controller under measurement. Clocks are converted outside what is counted.
pub trait Subject {
    /// Its point in time.
    type Time: Copy;
    /// Its state of a packet, which the transport keeps beside that packet.
    type Packet: Copy;
    /// The trace's time on its clock.
    fn time(&self, now: Instant) -> Self::Time;
    /// Asks whether a packet may leave, and sends it.
    fn send(&mut self, now: Self::Time, number: u64) -> Self::Packet;
    /// Takes one ACK of two packets, the first of which has the given number.
    fn ack(
        &mut self,
        now: Self::Time,
        first: u64,
        packets: &[(Self::Time, Self::Packet); 2],
        inflight: u64,
    );
    /// The packet of that number, which left at that time, is lost.
    fn lose(&mut self, now: Self::Time, number: u64, packet: (Self::Time, Self::Packet));
    /// Its estimate of the link's rate, if it has one.
    fn estimate(&self) -> Option<Rate>;
}

#[inline(never)]
fn counted_send<S: Subject>(subject: &mut S, now: S::Time, number: u64) -> S::Packet {
    subject.send(now, number)
}

#[inline(never)]
fn counted_ack<S: Subject>(
    subject: &mut S,
    now: S::Time,
    first: u64,
    packets: &[(S::Time, S::Packet); 2],
    inflight: u64,
) {
    subject.ack(now, first, packets, inflight);
}

/// Replays the trace; the events of `scope` go through the functions that callgrind collects in.
/// Panics if the subject's estimate is far from the trace's rate afterwards: it was not doing its
/// work.
pub fn replay<S: Subject>(trace: &[TimedEvent], mut subject: S, scope: Scope) -> S {
    let mut flight: VecDeque<(S::Time, S::Packet)> = VecDeque::with_capacity(1 << 14);
    let (mut next, mut oldest) = (0, 0);
    for entry in trace {
        let now = subject.time(entry.now);
        let counts = entry.counts_in(scope);
        match entry.event {
            Event::Send => {
                let packet = if counts {
                    counted_send(black_box(&mut subject), now, next)
                } else {
                    subject.send(now, next)
                };
                flight.push_back((now, packet));
                next += 1;
            }
            Event::Ack { inflight } => {
                let (Some(a), Some(b)) = (flight.pop_front(), flight.pop_front()) else {
                    unreachable!("the trace acknowledges what it sent");
                };
                if counts {
                    counted_ack(black_box(&mut subject), now, oldest, &[a, b], inflight);
                } else {
                    subject.ack(now, oldest, &[a, b], inflight);
                }
                oldest += 2;
            }
            Event::Loss => {
                let packet = flight.pop_front().expect("the trace loses what it sent");
                subject.lose(now, oldest, packet);
                oldest += 1;
            }
        }
    }
    if let Some(estimate) = subject.estimate() {
        let (low, high) = (RATE.as_bits_per_sec() / 4, RATE.as_bits_per_sec() * 2);
        assert!((low..high).contains(&estimate.as_bits_per_sec()), "takes it for {estimate}");
    }
    subject
}

/// The core itself: sampler, algorithm and pacer.
pub struct Core(pub Controller);

impl Core {
    /// A controller of `algorithm` at the trace's beginning.
    pub fn new(algorithm: Algorithm) -> Self {
        let config = Config { smss: PACKET, ..Config::new(1) };
        Self(Controller::new(algorithm, config, Instant::default()))
    }
}

impl Subject for Core {
    type Time = Instant;
    type Packet = fullpipe_cc::PacketState;

    fn time(&self, now: Instant) -> Instant {
        now
    }

    #[inline(always)]
    fn send(&mut self, now: Instant, _: u64) -> Self::Packet {
        black_box(self.0.can_send(now));
        self.0.on_sent(now, PACKET)
    }

    #[inline(always)]
    fn ack(&mut self, now: Instant, _: u64, packets: &[(Instant, Self::Packet); 2], _: u64) {
        let mut ack = self.0.ack(now);
        ack.acked(&packets[0].1);
        ack.acked(&packets[1].1);
        ack.finish();
    }

    fn lose(&mut self, now: Instant, _: u64, packet: (Instant, Self::Packet)) {
        let mut ack = self.0.ack(now);
        ack.lost(&packet.1);
        ack.finish();
    }

    fn estimate(&self) -> Option<Rate> {
        self.0.snapshot().bbr.map(|bbr| bbr.max_bw)
    }
}
