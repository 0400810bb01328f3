//! The packets of a flow between their departure and the end of all doubt about them.

use std::collections::VecDeque;

use fullpipe_cc::{AckBatch, Controller, Duration, Instant, PacketState};

use crate::outstanding::{Fate, Outstanding, Sent};
use crate::packet::{Ack, Chunk, Named, Sacked, Span};
use crate::receiver::Receiver;
use crate::recovery::{Rtt, Wait};
use crate::scoreboard::{Scoreboard, Segment};
use crate::tcp::{ProbeResult, Tcp};

/// The losses found by one detection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// RFC 9002 section 7.6.2.
    pub(crate) persistent_congestion: bool,
}

/// The result of processing an ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Something is newly acknowledged.
    pub(crate) any: bool,
    /// Everything that was marked lost of late has arrived after all.
    pub(crate) spurious: bool,
    /// The round trip that it measured: of the newest packet.
    pub(crate) rtt: Option<Duration>,
    /// Bytes that it acknowledges for the first time, as congestion control counts them.
    pub(crate) delivered_bytes: u64,
    /// TCP: a tail loss probe repaired a loss that is seen by this alone.
    pub(crate) repaired_loss: bool,
    /// TCP: the cumulative number advances.
    pub(crate) advances: bool,
}

/// The departure times of segments that a TCP ACK names for the first time, leaving out segments
/// that were sent more than once (Karn's rule): the oldest and the newest of those before the
/// cumulative number, and of those in SACK blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Departures {
    cumulative: Option<(Instant, Instant)>,
    sacked: Option<(Instant, Instant)>,
    /// A segment before the cumulative number had been sent more than once.
    has_copies: bool,
}

impl Departures {
    fn add(&mut self, sent: Instant, is_cumulative: bool) {
        let seen = if is_cumulative { &mut self.cumulative } else { &mut self.sacked };
        *seen = Some(seen.map_or((sent, sent), |(old, new)| (old.min(sent), new.max(sent))));
    }

    /// The round trips of the oldest and of the newest segment, as Linux takes them
    /// (`tcp_clean_rtx_queue`): the first goes into the timeout, so that it covers delayed ACKs,
    /// the second to the congestion control. `echo` is the timestamp, for an ACK that advances.
    fn round_trips(&self, now: Instant, echo: Option<Instant>) -> Option<(Duration, Duration)> {
        let cumulative = self.cumulative.filter(|_| !self.has_copies);
        let oldest = cumulative.or(self.sacked).map(|(oldest, _)| oldest);
        let newest = self.sacked.or(cumulative).map(|(_, newest)| newest);
        let (oldest, newest) = oldest.zip(newest).or(echo.map(|echo| (echo, echo)))?;
        Some((now.since(oldest), now.since(newest)))
    }
}

/// The order in memory is that of use, as in [`crate::Flow`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Flight {
    // For each packet and each ACK.
    packets: Outstanding,
    pub(crate) in_flight: u64,
    pub(crate) loss_time: Option<Instant>,
    /// For TCP, and where there is a send buffer.
    pub(crate) scoreboard: Option<Box<Scoreboard>>,
    pub(crate) tcp: Option<Box<Tcp>>,
    /// Chunks to send again.
    pub(crate) retransmit: VecDeque<Chunk>,
    pub(crate) rtt: Rtt,
    /// No packet below this number is in flight.
    oldest_in_flight: u64,
    largest_acked: Option<u64>,
    // For ACKs that tell more than that the oldest packets arrived.
    /// The round trip of the newest packet that arrived.
    newest_rtt: Duration,
    /// Recent packets marked lost that did not turn up.
    missing: VecDeque<u64>,
    /// The numbers of the newly acknowledged of the ACK at hand, and whether they had been marked
    /// lost; kept for its capacity.
    acked: Vec<(u64, bool)>,
    /// Bytes of a packet that are not its chunk's.
    overhead_bytes: u32,
}

impl Flight {
    pub(crate) fn new(
        max_ack_delay: Duration,
        overhead_bytes: u32,
        has_scoreboard: bool,
        tcp: Option<Tcp>,
    ) -> Self {
        Self {
            packets: Outstanding::default(),
            overhead_bytes,
            oldest_in_flight: 0,
            in_flight: 0,
            largest_acked: None,
            rtt: Rtt::new(max_ack_delay),
            loss_time: None,
            retransmit: VecDeque::new(),
            missing: VecDeque::new(),
            acked: Vec::new(),
            scoreboard: has_scoreboard.then(Box::default),
            tcp: tcp.map(Box::new),
            newest_rtt: Duration::ZERO,
        }
    }

    /// The newest packet that was acknowledged; 0 before there was one.
    #[inline]
    pub(crate) fn largest_acked(&self) -> u64 {
        self.largest_acked.unwrap_or(0)
    }

    /// Packets that the ACK at hand acknowledges for the first time.
    pub(crate) fn newly_acked(&self) -> u64 {
        self.acked.len() as u64
    }

    #[inline]
    pub(crate) fn next_pn(&self) -> u64 {
        self.packets.next()
    }

    #[inline]
    pub(crate) fn push(&mut self, state: PacketState, chunk: Chunk) {
        let pn = self.next_pn();
        if let Some(board) = &mut self.scoreboard {
            board.on_sent(chunk, pn);
        }
        if let Some(tcp) = &mut self.tcp {
            // The first segment that is missing, sent again, has the whole timeout to arrive.
            let is_head = self.scoreboard.as_ref().is_some_and(|board| board.first() == chunk.id);
            tcp.on_sent(state.send_time(), self.in_flight == 0 || is_head);
        }
        self.packets.push(state, chunk);
        self.in_flight += 1;
    }

    /// The chunk that a probe repeats when there is no new data: for QUIC the oldest (RFC 9002
    /// section 6.2.4), for TCP the newest (RFC 8985 section 7.3).
    pub(crate) fn probe_chunk(&self) -> Option<Chunk> {
        let mut in_flight = self.packets.ring().iter().filter(|p| p.fate() == Fate::InFlight);
        let probe = if self.tcp.is_some() { in_flight.next_back() } else { in_flight.next() };
        probe.map(|p| p.chunk(self.overhead_bytes))
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
        let (mut repaired_loss, mut advances) = (false, false);
        match ack.named {
            Named::Packets { range, upto, delay } => {
                let Some(ranges) = receiver.ranges() else { return News::default() };
                while let Some(span) = ranges.next_named(range, upto) {
                    for pn in span.start..span.end {
                        late |= self.take(pn);
                    }
                }
                if let Some(pn) = self.largest_acked.filter(|pn| Some(*pn) != largest) {
                    self.measure(now, pn, delay);
                    rtt = self.rtt.latest;
                }
            }
            Named::Chunks { cumulative, echo, ref sacked } => {
                let Sacked { dsack, blocks } = sacked.as_deref().copied().unwrap_or_default();
                let Some(mut board) = self.scoreboard.take() else { return News::default() };
                let (before, next) = (board.arrived_bytes, board.next());
                let mut departures = Departures::default();
                board.on_ack(cumulative, blocks, |id, segment| {
                    let is_cumulative = id < cumulative;
                    let has_copies = segment.first_pn != segment.newest_pn;
                    if let Some(tcp) = &mut self.tcp {
                        tcp.on_segment(id, has_copies);
                    }
                    if has_copies {
                        departures.has_copies |= is_cumulative;
                    } else if let Some(packet) = self.packet(segment.first_pn) {
                        departures.add(packet.state.send_time(), is_cumulative);
                    }
                    late |= self.take_segment(now, segment, cc);
                });
                advances = board.arrived_bytes > before;
                if let Some(tcp) = &mut self.tcp {
                    if dsack.is_some() {
                        tcp.on_dsack(next);
                    }
                    repaired_loss =
                        tcp.on_probe_ack(cumulative, dsack) == ProbeResult::RepairedLoss;
                    if advances {
                        tcp.on_advance(now, cumulative);
                    }
                }
                let echo = advances.then_some(echo);
                if let Some((oldest, newest)) = departures.round_trips(now, echo) {
                    rtt = Some(newest);
                    self.rtt.update_of_ack(now, oldest, newest);
                }
                self.scoreboard = Some(board);
            }
        }
        if let Some(pn) = self.largest_acked.filter(|pn| Some(*pn) != largest)
            && let Some(packet) = self.packet(pn)
        {
            self.newest_rtt = now.since(packet.state.send_time());
        }
        let spurious = late && self.missing.is_empty();
        let size = |(pn, _): &(u64, bool)| self.packet(*pn).map_or(0, |p| p.state.size());
        let delivered_bytes = self.acked.iter().map(size).sum();
        let any = !self.acked.is_empty();
        News { any, spurious, rtt, delivered_bytes, repaired_loss, advances }
    }

    /// The number of packets named, if they are exactly the oldest ones in flight and no other
    /// packet's fate changes with them.
    #[inline]
    pub(crate) fn in_order(&self, named: Span) -> Option<usize> {
        let first = self.packets.first();
        let is_plain = named.start == first
            // The first one was not marked lost since [`Self::forget`].
            && self.oldest_in_flight <= first
            && self.largest_acked.is_none_or(|largest| largest < first)
            && self.scoreboard.is_none()
            && !named.is_empty();
        is_plain.then(|| (named.end - named.start) as usize)
    }

    #[inline]
    fn packet(&self, pn: u64) -> Option<&Sent> {
        self.packets.get(pn)
    }

    /// Takes a round trip from a packet.
    #[inline]
    pub(crate) fn measure(&mut self, now: Instant, pn: u64, ack_delay: Duration) {
        if let Some(packet) = self.packets.get(pn) {
            self.rtt.update(now, now.since(packet.state.send_time()), ack_delay);
        }
    }

    /// The oldest packets, all in flight, are acknowledged.
    #[inline]
    pub(crate) fn take_oldest(&mut self, packets: usize, batch: &mut AckBatch<'_>) {
        // Two at most as a rule: a drain costs more than it saves.
        for _ in 0..packets {
            let Some(packet) = self.packets.pop_first() else { break };
            batch.acked(&packet.state);
        }
        self.in_flight -= packets as u64;
        self.largest_acked = Some(self.packets.first() - 1);
        self.loss_time = None;
    }

    /// A probe repeated the segment of a chunk: TCP counts a segment once, so that the packet
    /// before the copy leaves the flight.
    pub(crate) fn replace(&mut self, chunk: Chunk, cc: &mut Controller) {
        let Some(segment) = self.scoreboard.as_ref().and_then(|b| b.segment(chunk.id)) else {
            return;
        };
        if let Some(packet) = self.packets.in_ring(segment.previous_pn)
            && packet.fate() == Fate::InFlight
        {
            packet.set_fate(Fate::Replaced);
            self.in_flight -= 1;
            cc.on_discarded(&packet.state);
        }
    }

    /// Marks a packet as acknowledged; whether it had been marked lost.
    #[inline]
    fn take(&mut self, pn: u64) -> bool {
        let Some(packet) = self.packets.get_mut(pn) else { return false };
        let fate = packet.fate();
        packet.set_fate(Fate::Acked);
        let was_lost = match fate {
            Fate::Acked => return false,
            Fate::InFlight => {
                self.in_flight -= 1;
                false
            }
            Fate::Replaced => {
                self.acked.push((pn, true));
                return false;
            }
            Fate::Lost => {
                self.missing.retain(|missing| *missing != pn);
                true
            }
        };
        self.acked.push((pn, was_lost));
        if self.largest_acked.is_none_or(|largest| pn > largest) {
            self.largest_acked = Some(pn);
        }
        was_lost
    }

    /// Finds the packet that brought a segment: the newest one, unless that would have been faster
    /// than any round trip so far (RFC 8985 section 6.2, step 2); then it was the first one, and
    /// the newest is a copy that carries no information any more.
    fn take_segment(&mut self, now: Instant, segment: Segment, cc: &mut Controller) -> bool {
        let Segment { first_pn, newest_pn, .. } = segment;
        let is_too_fast = first_pn != newest_pn
            && self.packet(first_pn).is_some()
            && self
                .packet(newest_pn)
                .is_some_and(|copy| now.since(copy.state.send_time()) < self.rtt.min());
        if !is_too_fast {
            return self.take(newest_pn);
        }
        if let Some(tcp) = &mut self.tcp {
            tcp.on_original();
        }
        self.discard(newest_pn, cc);
        self.take(first_pn)
    }

    /// A packet in flight means nothing any more.
    fn discard(&mut self, pn: u64, cc: &mut Controller) {
        if let Some(packet) = self.packets.in_ring(pn)
            && packet.fate() == Fate::InFlight
        {
            packet.set_fate(Fate::Acked);
            self.in_flight -= 1;
            cc.on_discarded(&packet.state);
        }
    }

    /// Segments that arrived above the first hole.
    pub(crate) fn sacked(&self) -> u64 {
        self.scoreboard.as_ref().map_or(0, |board| board.sacked)
    }

    fn wait(&self) -> Wait {
        match &self.tcp {
            None => self.rtt.threshold(),
            Some(tcp) => tcp.wait(&self.rtt, self.newest_rtt, self.sacked()),
        }
    }

    /// A retransmission timeout: the first segment that is missing is lost, and so are those whose
    /// time is over by RACK's measure (RFC 8985 section 6.3). They go again in their order.
    pub(crate) fn time_out(&mut self, now: Instant, batch: &mut AckBatch<'_>) -> Losses {
        let mut losses = Losses::default();
        let wait = self.wait().time;
        let head = self.scoreboard.as_deref().map(Scoreboard::first);
        for pn in self.oldest_in_flight.max(self.packets.first())..self.next_pn() {
            let Some(packet) = self.packets.in_ring(pn) else { break };
            if packet.fate() == Fate::InFlight
                && (Some(packet.chunk_id()) == head || packet.state.send_time() + wait <= now)
            {
                packet.set_fate(Fate::Lost);
                batch.lost(&packet.state);
                self.in_flight -= 1;
                self.retransmit.push_back(packet.chunk(self.overhead_bytes));
                self.missing.push_back(pn);
                losses.packets += 1;
                losses.bytes += packet.state.size();
            }
        }
        self.retransmit.make_contiguous().sort_unstable_by_key(|chunk| chunk.id);
        losses
    }

    /// Tells the controller what [`Self::on_ack`] marked.
    #[inline]
    pub(crate) fn tell_acked(&mut self, batch: &mut AckBatch<'_>) {
        for (pn, was_lost) in &self.acked {
            let Some(packet) = self.packets.get(*pn) else { continue };
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
        for (pn, _) in &self.acked {
            if let Some(packet) = self.packets.get(*pn) {
                board.arrive(packet.chunk_id());
            }
        }
        board.advance();
        board.arrived_bytes
    }

    /// Finds losses among the packets that later ones have overtaken, and tells the controller.
    pub(crate) fn detect_losses(&mut self, now: Instant, batch: &mut AckBatch<'_>) -> Losses {
        self.loss_time = None;
        let mut losses = Losses::default();
        let Some(largest) = self.largest_acked else { return losses };
        let start = self.oldest_in_flight.max(self.packets.first());
        if start >= largest {
            return losses;
        }
        let wait = self.wait();
        let mut run_start: Option<Instant> = None;
        for pn in start..largest {
            let Some(packet) = self.packets.in_ring(pn) else { break };
            match packet.fate() {
                Fate::Acked => run_start = None,
                Fate::Lost | Fate::Replaced => {}
                Fate::InFlight => {
                    let sent = packet.state.send_time();
                    let lost_at = sent + wait.time;
                    if largest - pn < wait.packets && now < lost_at {
                        // Send times rise with the numbers: this is the earliest.
                        self.loss_time = Some(lost_at);
                        self.oldest_in_flight = pn;
                        if losses.persistent_congestion && self.tcp.is_none() {
                            batch.timeout();
                        }
                        return losses;
                    }
                    packet.set_fate(Fate::Lost);
                    batch.lost(&packet.state);
                    self.in_flight -= 1;
                    self.retransmit.push_back(packet.chunk(self.overhead_bytes));
                    self.missing.push_back(pn);
                    losses.packets += 1;
                    losses.bytes += packet.state.size();
                    // Section 7.6.2: only what left after the first round-trip sample counts.
                    if self.rtt.first_sample.is_some_and(|first| sent > first) {
                        let start = *run_start.get_or_insert(sent);
                        losses.persistent_congestion |=
                            sent.since(start) > self.rtt.persistent_congestion();
                    }
                }
            }
        }
        self.oldest_in_flight = largest;
        if losses.persistent_congestion && self.tcp.is_none() {
            batch.timeout();
        }
        losses
    }

    /// Lets go of the packets whose fate can't change any more: a lost one may still turn up for
    /// two probe timeouts.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.packets.settle(now, self.rtt.horizon());
        let known = self.packets.first_known();
        while self.missing.front().is_some_and(|pn| *pn < known) {
            self.missing.pop_front();
        }
    }

    /// The same after [`Self::take_oldest`], where as a rule there is nothing to let go of.
    #[inline]
    pub(crate) fn forget_if_due(&mut self, now: Instant) {
        let waits = self.packets.has_aside();
        if waits && !self.packets.is_settled(self.in_flight, now, self.rtt.horizon()) {
            self.forget(now);
        }
    }
}
