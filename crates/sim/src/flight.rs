//! The packets of a flow between their departure and the end of all doubt about them.

use std::collections::VecDeque;

use fullpipe_cc::{AckBatch, Controller, Duration, Instant, PacketState};

use crate::packet::{Ack, Chunk, Named, Span};
use crate::receiver::Receiver;
use crate::recovery::{PACKET_THRESHOLD, Rtt};
use crate::scoreboard::{Scoreboard, Segment};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    InFlight,
    Acked,
    Lost,
}

#[derive(Debug)]
struct Sent {
    state: PacketState,
    chunk: Chunk,
    fate: Fate,
}

/// What the losses of one detection came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// RFC 9002 section 7.6.2.
    pub(crate) persistent_congestion: bool,
}

/// What an ACK came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Something is newly acknowledged.
    pub(crate) any: bool,
    /// Everything that was marked lost of late has arrived after all.
    pub(crate) spurious: bool,
    /// A round trip measured by timestamps.
    pub(crate) rtt: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct Flight {
    /// Packets from `first` on, each with its fate.
    packets: VecDeque<Sent>,
    first: u64,
    /// No packet below this number is in flight.
    oldest_in_flight: u64,
    pub(crate) in_flight: u64,
    largest_acked: Option<u64>,
    pub(crate) rtt: Rtt,
    pub(crate) loss_time: Option<Instant>,
    /// Chunks to send again.
    pub(crate) retransmit: VecDeque<Chunk>,
    /// Recent packets marked lost that did not turn up.
    missing: VecDeque<u64>,
    /// The newly acknowledged of the ACK at hand, by their place in `packets`, and whether they had
    /// been marked lost; kept for its capacity.
    acked: Vec<(usize, bool)>,
    /// For TCP, and where there is a send buffer.
    pub(crate) scoreboard: Option<Scoreboard>,
}

impl Flight {
    pub(crate) fn new(max_ack_delay: Duration, has_scoreboard: bool) -> Self {
        Self {
            packets: VecDeque::new(),
            first: 0,
            oldest_in_flight: 0,
            in_flight: 0,
            largest_acked: None,
            rtt: Rtt::new(max_ack_delay),
            loss_time: None,
            retransmit: VecDeque::new(),
            missing: VecDeque::new(),
            acked: Vec::new(),
            scoreboard: has_scoreboard.then(Scoreboard::default),
        }
    }

    #[inline]
    pub(crate) fn next_pn(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    #[inline]
    pub(crate) fn push(&mut self, state: PacketState, chunk: Chunk) {
        let pn = self.next_pn();
        if let Some(board) = &mut self.scoreboard {
            board.on_sent(chunk, pn);
        }
        self.packets.push_back(Sent { state, chunk, fate: Fate::InFlight });
        self.in_flight += 1;
    }

    /// What a probe repeats when there is nothing new to send, RFC 9002 section 6.2.4.
    pub(crate) fn oldest_chunk(&self) -> Option<Chunk> {
        self.packets.iter().find(|p| p.fate == Fate::InFlight).map(|p| p.chunk)
    }

    /// The next chunk to send again that did not turn up meanwhile.
    pub(crate) fn next_retransmit(&mut self) -> Option<Chunk> {
        while let Some(chunk) = self.retransmit.pop_front() {
            if !self.scoreboard.as_ref().is_some_and(|board| board.has_arrived(chunk.id)) {
                return Some(chunk);
            }
        }
        None
    }

    /// Marks what an ACK names.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &Ack,
        receiver: &mut Receiver,
        cc: &mut Controller,
    ) -> News {
        self.acked.clear();
        let (largest, mut late, mut rtt) = (self.largest_acked, false, None);
        match ack.named {
            Named::Packets { range, upto, delay } => {
                let Some(ranges) = receiver.ranges() else { return News::default() };
                while let Some(span) = ranges.next_named(range, upto) {
                    for pn in span.start..span.end {
                        late |= self.take(pn);
                    }
                }
                if let Some(pn) = self.largest_acked.filter(|pn| Some(*pn) != largest) {
                    self.measure(now, (pn - self.first) as usize, delay);
                }
            }
            Named::Chunks { cumulative, echo, blocks } => {
                let Some(mut board) = self.scoreboard.take() else { return News::default() };
                let before = board.arrived_bytes;
                board.on_ack(cumulative, blocks, |segment| {
                    late |= self.take_segment(now, segment, cc);
                });
                // RFC 7323 section 4.1: only an ACK that advances measures.
                if board.arrived_bytes > before {
                    rtt = Some(now.since(echo));
                    self.rtt.update(now.since(echo), Duration::ZERO);
                }
                self.scoreboard = Some(board);
            }
        }
        let spurious = late && self.missing.is_empty();
        News { any: !self.acked.is_empty(), spurious, rtt }
    }

    /// How many of the oldest packets these are, when they are just that, and no other packet's fate
    /// is open or changes with them.
    #[inline]
    pub(crate) fn in_order(&self, named: Span) -> Option<usize> {
        let is_plain = named.start == self.first
            && self.oldest_in_flight <= self.first
            && self.largest_acked.is_none_or(|largest| largest < self.first)
            && self.missing.is_empty()
            && self.scoreboard.is_none()
            && !named.is_empty();
        is_plain.then(|| (named.end - named.start) as usize)
    }

    /// Takes a round trip from a packet by its place in `packets`.
    #[inline]
    pub(crate) fn measure(&mut self, now: Instant, place: usize, ack_delay: Duration) {
        if let Some(packet) = self.packets.get(place) {
            self.rtt.update(now.since(packet.state.send_time()), ack_delay);
        }
    }

    /// The oldest packets, all in flight, are acknowledged.
    #[inline]
    pub(crate) fn take_oldest(&mut self, packets: usize, batch: &mut AckBatch<'_>) {
        for packet in self.packets.drain(..packets) {
            batch.acked(&packet.state);
        }
        self.in_flight -= packets as u64;
        self.first += packets as u64;
        self.largest_acked = Some(self.first - 1);
        self.loss_time = None;
    }

    /// Marks a packet as acknowledged; whether it had been marked lost.
    #[inline]
    fn take(&mut self, pn: u64) -> bool {
        let Some(i) = pn.checked_sub(self.first) else { return false };
        let Some(packet) = self.packets.get_mut(i as usize) else { return false };
        let was_lost = match core::mem::replace(&mut packet.fate, Fate::Acked) {
            Fate::Acked => return false,
            Fate::InFlight => {
                self.in_flight -= 1;
                false
            }
            Fate::Lost => {
                self.missing.retain(|missing| *missing != pn);
                true
            }
        };
        self.acked.push((i as usize, was_lost));
        if self.largest_acked.is_none_or(|largest| pn > largest) {
            self.largest_acked = Some(pn);
        }
        was_lost
    }

    /// Which of its packets brought a segment? The newest one, unless that would have been faster
    /// than any round trip so far (RFC 8985 section 6.2, step 2): then it was the first one, and the
    /// newest is a copy that means nothing any more.
    fn take_segment(&mut self, now: Instant, segment: Segment, cc: &mut Controller) -> bool {
        let Segment { first_pn, newest_pn, .. } = segment;
        if first_pn != newest_pn
            && let Some(i) = newest_pn.checked_sub(self.first)
            && let Some(copy) = self.packets.get_mut(i as usize)
            && now.since(copy.state.send_time()) < self.rtt.min()
            && first_pn >= self.first
        {
            if copy.fate == Fate::InFlight {
                copy.fate = Fate::Acked;
                self.in_flight -= 1;
                cc.on_discarded(&copy.state);
            }
            return self.take(first_pn);
        }
        self.take(newest_pn)
    }

    /// Tells the controller what [`Self::on_ack`] marked.
    #[inline]
    pub(crate) fn tell_acked(&mut self, batch: &mut AckBatch<'_>) {
        for (i, was_lost) in &self.acked {
            let packet = &self.packets[*i];
            if *was_lost {
                batch.acked_after_loss(&packet.state);
            } else {
                batch.acked(&packet.state);
            }
        }
    }

    /// Application bytes that are known to have arrived, without a hole; for a send buffer.
    pub(crate) fn arrived_bytes(&mut self) -> u64 {
        let Some(board) = &mut self.scoreboard else { return 0 };
        for (i, _) in &self.acked {
            board.arrive(self.packets[*i].chunk.id);
        }
        board.advance();
        board.arrived_bytes
    }

    /// Finds losses by the thresholds of RFC 9002 section 6.1 and tells the controller.
    pub(crate) fn detect_losses(&mut self, now: Instant, batch: &mut AckBatch<'_>) -> Losses {
        self.loss_time = None;
        let mut losses = Losses::default();
        let Some(largest) = self.largest_acked else { return losses };
        let mut run_start: Option<Instant> = None;
        for pn in self.oldest_in_flight.max(self.first)..largest {
            let packet = &mut self.packets[(pn - self.first) as usize];
            match packet.fate {
                Fate::Acked => run_start = None,
                Fate::Lost => {}
                Fate::InFlight => {
                    let sent = packet.state.send_time();
                    let lost_at = sent + self.rtt.loss_delay();
                    if largest - pn < PACKET_THRESHOLD && now < lost_at {
                        // Send times rise with the numbers: this is the earliest.
                        self.loss_time = Some(lost_at);
                        self.oldest_in_flight = pn;
                        return losses;
                    }
                    packet.fate = Fate::Lost;
                    batch.lost(&packet.state);
                    self.in_flight -= 1;
                    self.retransmit.push_back(packet.chunk);
                    self.missing.push_back(pn);
                    losses.packets += 1;
                    losses.bytes += packet.state.size();
                    let start = *run_start.get_or_insert(sent);
                    losses.persistent_congestion |=
                        sent.since(start) > self.rtt.persistent_congestion();
                }
            }
        }
        self.oldest_in_flight = largest;
        losses
    }

    /// Lets go of the packets whose fate can't change any more: a lost one may still turn up for
    /// two probe timeouts.
    #[inline]
    pub(crate) fn forget(&mut self, now: Instant) {
        while let Some(packet) = self.packets.front() {
            match packet.fate {
                Fate::Acked => {}
                Fate::Lost if now.since(packet.state.send_time()) > self.rtt.horizon() => {}
                Fate::InFlight | Fate::Lost => break,
            }
            self.packets.pop_front();
            self.first += 1;
        }
        while self.missing.front().is_some_and(|pn| *pn < self.first) {
            self.missing.pop_front();
        }
    }
}
