//! A link for tests that is simple enough to say what must come out of it.

use std::collections::VecDeque;
use std::vec::Vec;

use crate::{
    Algorithm, BbrSnapshot, Config, Controller, Duration, Instant, PacketState, Rate, SendDecision,
    State,
};

pub(crate) const SMSS: u64 = 1_200;
pub(crate) const MS: Duration = Duration::from_millis(1);

/// A token bucket: what finds no token is dropped.
pub(crate) struct TokenBucket {
    pub(crate) rate: Rate,
    pub(crate) depth: u64,
    pub(crate) tokens: u64,
    pub(crate) filled: Instant,
}

impl TokenBucket {
    fn drops(&mut self, now: Instant, size: u64) -> bool {
        // Whole bytes only: what the time earned beyond them stays in `filled`.
        let earned = self.rate.bytes_in(now.since(self.filled));
        if earned > 0 {
            self.filled = now;
            self.tokens = (self.tokens + earned).min(self.depth);
        }
        let drops = self.tokens < size;
        self.tokens -= if drops { 0 } else { size };
        drops
    }
}

pub(crate) struct Flight {
    pub(crate) ack: Instant,
    pub(crate) packet: PacketState,
    pub(crate) lost: bool,
    pub(crate) marked: bool,
}

/// A bottleneck without end of its queue, perhaps behind a policer, and a receiver that
/// acknowledges each packet at once or in clumps.
pub(crate) struct Link {
    pub(crate) cc: Controller,
    pub(crate) now: Instant,
    /// Bytes of every packet.
    pub(crate) size: u64,
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    /// The time at which the bottleneck is free again.
    pub(crate) free: Instant,
    pub(crate) flight: VecDeque<Flight>,
    pub(crate) policer: Option<TokenBucket>,
    /// Packets that wait longer than this are marked with CE.
    pub(crate) mark_above: Duration,
    /// Packets that would wait longer than this are dropped.
    pub(crate) drop_above: Duration,
    /// ACKs come at multiples of this.
    pub(crate) clump: Duration,
    /// The time that the receiver takes for each packet, and what it says of it if that is not
    /// true.
    pub(crate) receiver_delay: Duration,
    pub(crate) told_delay: Option<Duration>,
    /// The wait for more to acknowledge that the receiver tells of.
    pub(crate) told_wait: Duration,
    pub(crate) busy: bool,
    /// The receiver's flow control: the most bytes in flight.
    pub(crate) credit: u64,
    pub(crate) most_inflight: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) states: Vec<State>,
}

impl Link {
    pub(crate) fn new(algorithm: Algorithm, mbit: u64, rtt: Duration) -> Self {
        Self::with(algorithm, mbit, rtt, Config::new(1))
    }

    pub(crate) fn with(algorithm: Algorithm, mbit: u64, rtt: Duration, config: Config) -> Self {
        let now = Instant::from_nanos(77);
        Self {
            cc: Controller::new(algorithm, config, now),
            now,
            size: u64::from(config.smss),
            rate: Rate::from_bits_per_sec(mbit * 1_000_000),
            rtt,
            free: now,
            flight: VecDeque::new(),
            policer: None,
            mark_above: Duration::MAX,
            drop_above: Duration::MAX,
            clump: Duration::from_nanos(1),
            receiver_delay: Duration::ZERO,
            told_delay: None,
            told_wait: Duration::ZERO,
            busy: true,
            credit: u64::MAX,
            most_inflight: 0,
            delivered: 0,
            lost: 0,
            states: std::vec![State::Startup],
        }
    }

    pub(crate) fn bbr(&self) -> BbrSnapshot {
        self.cc.snapshot().bbr.expect("BBR has a model")
    }

    pub(crate) fn gain(&self) -> u32 {
        self.bbr().pacing_gain.as_percent()
    }

    pub(crate) fn state(&self) -> State {
        self.cc.state()
    }

    pub(crate) fn send(&mut self) -> Option<Instant> {
        if !self.busy {
            self.cc.on_app_limited();
            return None;
        }
        loop {
            if self.cc.inflight() + self.size > self.credit {
                return None;
            }
            match self.cc.can_send(self.now) {
                SendDecision::Now { .. } => self.send_packet(),
                SendDecision::At(at) => return Some(at),
                SendDecision::CwndLimited => return None,
            }
        }
    }

    /// A full packet leaves, allowed or not.
    pub(crate) fn send_packet(&mut self) {
        let packet = self.cc.on_sent(self.now, self.size as u32);
        self.most_inflight = self.most_inflight.max(self.cc.inflight());
        let (now, size) = (self.now, self.size);
        let is_full = self.free.since(now) > self.drop_above;
        let lost = is_full || self.policer.as_mut().is_some_and(|p| p.drops(now, size));
        let marked = self.free.since(now) > self.mark_above;
        if !lost {
            self.free = self.free.max(now) + self.rate.time_for(size);
        }
        let clump = self.clump.as_nanos();
        // Nothing overtakes, also where the path has become shorter.
        let before = self.flight.back().map_or(Instant::default(), |f| f.ack);
        let there = before.max(self.free.max(now) + self.rtt + self.receiver_delay);
        let nanos = there.as_nanos().div_ceil(clump) * clump;
        let ack = Instant::from_nanos(nanos);
        self.flight.push_back(Flight { ack, packet, lost, marked });
    }

    /// The next thing that happens; `lose` says which packets never arrive.
    pub(crate) fn step(&mut self, lose: &mut dyn FnMut() -> bool) {
        let next_send = self.send();
        let next_ack = self.flight.front().map(|f| f.ack);
        let Some(next) = [next_send, next_ack].into_iter().flatten().min() else {
            self.now += MS;
            return;
        };
        self.now = next;
        if next_ack != Some(next) {
            return;
        }
        let mut batch = self.cc.ack(self.now);
        batch.receiver_delay(self.told_delay.unwrap_or(self.receiver_delay));
        batch.ack_delay(self.told_wait);
        while self.flight.front().is_some_and(|f| f.ack == next) {
            let Some(f) = self.flight.pop_front() else { break };
            if f.lost || lose() {
                batch.lost(&f.packet);
                self.lost += self.size;
            } else {
                batch.acked(&f.packet);
                batch.ce(u64::from(f.marked));
                self.delivered += self.size;
            }
        }
        batch.finish();
        let state = self.state();
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(&mut || false);
        }
    }

    /// Loses every `n`th packet.
    pub(crate) fn run_losing(&mut self, time: Duration, n: u64) {
        let (mut count, end) = (0, self.now + time);
        while self.now < end {
            self.step(&mut || {
                count += 1;
                count % n == 0
            });
        }
    }

    pub(crate) fn run_to(&mut self, state: State) {
        let end = self.now + Duration::from_secs(30);
        while self.state() != state {
            assert!(self.now < end, "never in {state:?}: {:?}", self.states);
            self.step(&mut || false);
        }
    }
}
