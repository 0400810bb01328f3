//! A sender with both on a path that changes at random: a queue, losses, late packets, pauses of
//! the application, ACKs in groups, steps of rate and round trip, and silences.

use std::collections::VecDeque;

use fullpipe_cc::{
    AckFrequency, Algorithm, Config, Controller, Duration, Instant, PacketState, RttSample,
};
use fullpipe_cc::{SendDecision, Transport};

use super::connection::{Connection, MILLISECOND, Packet, SECOND, scale};
use super::model::Model;
use super::ours::Ours;
use super::rng::Rng;

/// A packet as each of the two keeps it.
type Pair = (PacketState, Packet);

struct Flight {
    pair: Pair,
    /// When its ACK comes; `None` for a packet that the path drops.
    arrives: Option<u64>,
}

/// The core and the model, on one path.
pub(crate) struct Twin {
    pub(crate) cc: Controller,
    pub(crate) model: Model,
    pub(crate) acks: u64,
    pub(crate) undone: u64,
    pub(crate) timeouts: u64,
    /// The newest event was an ACK of data.
    pub(crate) has_sample: bool,
    now: u64,
    rng: Rng,
    rate: u64,
    rtt: u64,
    latest_rtt: u64,
    timeouts_in_a_row: u32,
    buffer: u64,
    /// Of a thousand packets.
    dropped: u64,
    late: u64,
    /// ACKs come at multiples of this.
    clump: u64,
    /// Nothing arrives before this.
    silent_until: u64,
    free: u64,
    last_arrival: u64,
    flight: VecDeque<Flight>,
    taken_for_lost: Vec<Flight>,
    has_true_loss: bool,
    /// Bytes that the application has to send, and the time at which it has more.
    to_send: u64,
    next_write: u64,
    is_bulk: bool,
    /// Most packets are full; some flows send aggregates.
    has_aggregates: bool,
    /// Not every ACK of some flows says when its packet was sent.
    knows_round_trips: bool,
}

impl Twin {
    pub(crate) fn new(seed: u64, without: Option<Ours>) -> Self {
        let mut rng = Rng::new(seed);
        let now = 1 + rng.below(SECOND);
        let smss = [1_200, 1_452, 9_000][rng.below(3) as usize];
        let rtt = MILLISECOND << rng.below(8);
        let config = Config {
            smss: smss as u32,
            initial_cwnd: (rng.below(4) == 0).then(|| smss * (4 + rng.below(60))),
            transport: if rng.below(2) == 0 { Transport::Tcp } else { Transport::Quic },
            has_selective_acks: rng.below(8) > 0,
            ack_frequency: (rng.below(8) == 0).then(|| AckFrequency {
                threshold_packets: 1 + rng.below(40) as u32,
                max_delay: Duration::from_micros(rng.below(30_000)),
            }),
            handshake_rtt: (rng.below(2) == 0).then(|| Duration::from_nanos(rtt)),
            ..Config::new(rng.below(u64::MAX))
        };
        let cc = Controller::new(Algorithm::BBR3, config, Instant::from_nanos(now));
        let handshake_rtt = config.handshake_rtt.map(Duration::as_nanos);
        let c = Connection::new(&config, cc.initial_cwnd(), without);
        let mut twin = Self {
            cc,
            model: Model::new(c, handshake_rtt, config.seed, now),
            acks: 0,
            undone: 0,
            timeouts: 0,
            has_sample: false,
            now,
            rate: 0,
            rtt,
            latest_rtt: 0,
            timeouts_in_a_row: 0,
            buffer: 0,
            dropped: 0,
            late: 0,
            clump: 1,
            silent_until: 0,
            free: now,
            last_arrival: now,
            flight: VecDeque::new(),
            taken_for_lost: Vec::new(),
            has_true_loss: false,
            to_send: 0,
            next_write: now,
            is_bulk: true,
            has_aggregates: rng.below(4) == 0,
            knows_round_trips: rng.below(4) > 0,
            rng,
        };
        (0..6).for_each(|what| twin.change(what));
        twin.silent_until = 0;
        twin
    }

    /// One thing about path or application changes.
    fn change(&mut self, what: u64) {
        match what {
            0 => {
                // A flight of a few hundred packets at most, so that a history has many rounds;
                // or packets that are seconds apart.
                let packets = 1 + self.spread(1, 9);
                let rate = scale(packets * self.model.c.smss, SECOND, self.rtt);
                let slow = self.model.c.smss / 4 + self.rng.below(4 * self.model.c.smss);
                self.rate = if self.is_one_in(8) { slow } else { rate };
            }
            1 => {
                let bdp = scale(self.rate, self.rtt, SECOND).max(4 * self.model.c.smss);
                self.buffer = bdp / 4 * (1 + self.rng.below(16));
            }
            2 => self.dropped = [0, 0, 0, 1, 10, 30, 100][self.rng.below(7) as usize],
            3 => self.late = [0, 0, 0, 0, 1, 10][self.rng.below(6) as usize],
            4 => {
                let clumps = [1, 1, 1, self.rtt / 8, self.rtt / 2, 2 * self.rtt];
                self.clump = clumps[self.rng.below(6) as usize];
            }
            5 => self.is_bulk = self.rng.below(2) == 0,
            6 => self.silent_until = self.now + (MILLISECOND << self.rng.below(14)),
            7 => self.rtt = (self.rtt / 2 + self.rng.below(self.rtt)).max(MILLISECOND / 2),
            _ => {}
        }
    }

    /// Less than `unit` times one of the first powers of two.
    fn spread(&mut self, unit: u64, powers: u64) -> u64 {
        let below = unit << self.rng.below(powers);
        self.rng.below(below)
    }

    fn is_one_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    /// Sends what may leave. Returns the time of the next packet that the pacer holds back.
    fn send(&mut self) -> Option<u64> {
        loop {
            if self.is_bulk {
                self.to_send = 1 << 20;
            }
            if self.to_send == 0 {
                self.cc.on_app_limited();
                self.model.c.check_if_application_limited();
                return None;
            }
            self.model.c.note_window();
            let quantum = match self.cc.can_send(Instant::from_nanos(self.now)) {
                SendDecision::Now { quantum } => quantum,
                SendDecision::At(at) => return Some(at.as_nanos()),
                SendDecision::CwndLimited => return None,
            };
            let full = if self.has_aggregates { quantum } else { self.model.c.smss };
            self.send_packet(full.min(self.to_send).min(65_536));
        }
    }

    fn send_packet(&mut self, size: u64) {
        self.to_send -= size;
        let state = self.cc.on_sent(Instant::from_nanos(self.now), size as u32);
        let packet = self.model.send(self.now, size);
        let queue = scale(self.rate, self.free.saturating_sub(self.now), SECOND);
        let mut arrives = None;
        if queue + size <= self.buffer.max(size) && self.rng.below(1_000) >= self.dropped {
            self.free = self.free.max(self.now) + scale(size, SECOND, self.rate);
            let there = (self.free + self.rtt).max(self.silent_until);
            let at = there.div_ceil(self.clump) * self.clump;
            if self.rng.below(1_000) < self.late {
                arrives = Some(at + self.rng.below(4 * self.rtt));
            } else {
                self.last_arrival = self.last_arrival.max(at);
                arrives = Some(self.last_arrival);
            }
        }
        self.flight.push_back(Flight { pair: (state, packet), arrives });
    }

    /// The next thing that happens.
    pub(crate) fn step(&mut self) {
        self.has_sample = false;
        if self.is_one_in(300) {
            let what = self.rng.below(12);
            self.change(what);
        }
        if self.is_one_in(100) {
            self.discard();
        }
        let next_send = self.send();
        let next_ack =
            self.flight.iter().chain(&self.taken_for_lost).filter_map(|f| f.arrives).min();
        let next_write = (!self.is_bulk && self.to_send == 0).then_some(self.next_write);
        let timeout = (!self.flight.is_empty()).then(|| {
            let sent = self.flight.back().map_or(self.now, |f| f.pair.1.send_time);
            sent + ((4 * self.rtt + 2 * self.latest_rtt + SECOND / 4) << self.timeouts_in_a_row)
        });
        let events = [next_send, next_ack, next_write, timeout];
        let next = events.into_iter().flatten().min().unwrap_or(self.now + MILLISECOND);
        self.now = self.now.max(next);
        if self.is_one_in(200) {
            self.now += self.rng.below(5 * MILLISECOND);
        }
        if next_ack.is_some_and(|at| at <= self.now) {
            self.ack();
        } else if timeout.is_some_and(|at| at <= self.now) {
            self.time_out();
        } else if next_write.is_some_and(|at| at <= self.now) {
            self.to_send = 1 + self.spread(self.model.c.smss, 9);
            let pause = self.spread(self.rtt, 8);
            // Now and then longer than ProbeRTT's interval.
            let long = if self.is_one_in(100) { self.rng.below(15 * SECOND) } else { 0 };
            self.next_write = self.now + pause + long;
        } else if self.is_one_in(200) {
            // Losses that a timer finds.
            let count = self.rng.below(3).min(self.flight.len() as u64) as usize;
            let lost = self.flight.drain(..count).collect();
            self.report(&[], &[], lost, false);
        }
    }

    /// The newest packet was a probe of the path's packet size, which nobody waits for.
    fn discard(&mut self) {
        if let Some(Flight { pair: (state, packet), .. }) = self.flight.pop_back() {
            self.cc.on_discarded(&state);
            self.model.c.inflight -= packet.size;
        }
    }

    fn ack(&mut self) {
        let now = self.now;
        let has_arrived = |f: &Flight| f.arrives.is_some_and(|at| at <= now);
        let newest = self.flight.iter().filter(|f| has_arrived(f)).map(|f| f.pair.1.id).max();
        let (acked, rest): (Vec<_>, Vec<_>) = self.flight.drain(..).partition(has_arrived);
        // Three packets later, a packet is lost (RFC 9002 section 6.1.1).
        let is_lost = |f: &Flight| newest.is_some_and(|newest| f.pair.1.id + 3 <= newest);
        let (lost, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_lost);
        self.flight = rest.into();
        let (late, rest): (Vec<_>, Vec<_>) = self.taken_for_lost.drain(..).partition(has_arrived);
        self.taken_for_lost = rest;
        let pairs = |flights: &[Flight]| flights.iter().map(|f| f.pair).collect::<Vec<_>>();
        let has_late = !late.is_empty();
        self.report(&pairs(&acked), &pairs(&late), lost, false);
        if has_late && self.taken_for_lost.is_empty() && !self.has_true_loss {
            self.undone += 1;
            self.cc.on_spurious_loss(Instant::from_nanos(now));
            self.model.on_spurious_loss(now);
        }
    }

    fn time_out(&mut self) {
        self.timeouts += 1;
        self.timeouts_in_a_row = (self.timeouts_in_a_row + 1).min(8);
        let lost = self.flight.drain(..).collect();
        self.report(&[], &[], lost, true);
    }

    fn report(&mut self, acked: &[Pair], late: &[Pair], lost: Vec<Flight>, has_timed_out: bool) {
        self.has_sample = !(has_timed_out || acked.is_empty() && late.is_empty());
        self.acks += u64::from(self.has_sample);
        if let Some((_, newest)) = acked.last() {
            self.latest_rtt = self.now - newest.send_time;
            self.timeouts_in_a_row = 0;
        }
        if !lost.is_empty() && !self.model.c.is_in_recovery {
            self.has_true_loss = false;
        }
        let has_rtt = self.knows_round_trips || self.rng.below(4) == 0;
        let mut batch = self.cc.ack(Instant::from_nanos(self.now));
        if !has_rtt {
            batch.rtt(RttSample::Ambiguous);
        }
        acked.iter().for_each(|(state, _)| batch.acked(state));
        late.iter().for_each(|(state, _)| batch.acked_after_loss(state));
        lost.iter().for_each(|f| batch.lost(&f.pair.0));
        if has_timed_out {
            batch.timeout();
        }
        batch.finish();
        let packets = |pairs: &[Pair]| pairs.iter().map(|(_, p)| *p).collect::<Vec<_>>();
        let gone: Vec<Packet> = lost.iter().map(|f| f.pair.1).collect();
        let said = (&packets(acked)[..], &packets(late)[..], &gone[..]);
        self.model.on_ack(self.now, said, has_rtt, has_timed_out);
        for flight in lost {
            self.to_send += flight.pair.1.size;
            match flight.arrives {
                Some(_) => self.taken_for_lost.push(flight),
                None => self.has_true_loss = true,
            }
        }
    }
}
