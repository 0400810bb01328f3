//! The segments between SND.UNA and SND.NXT: which arrived, which are lost, which were sent when.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use fullpipe_cc::{AckBatch, Controller, Duration, Instant, PacketState};

use crate::rack::Rack;
use crate::receiver::{SACK_BLOCKS, Span};
use crate::sent::{Losses, News, Sent, arrive};
use crate::spans::Spans;

#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// In the order of the stream, without holes.
    segments: VecDeque<Sent>,
    /// Transmissions in the order of time: the number, and the place where the segment began. An
    /// entry whose segment was sent again or has arrived is stale.
    by_time: VecDeque<(u64, u64)>,
    /// Starts of the lost segments that wait to be sent again.
    repeat: BTreeSet<u64>,
    next_order: u64,
    /// Transmissions up to this number are not among the controller's bytes in flight.
    uncounted: u64,
    sacked: usize,
    lost_bytes: u64,
    /// Packets that the controller has in flight.
    under_way: usize,
    /// Segments that blocks made it look at.
    #[cfg(test)]
    pub(crate) looks: usize,
    /// The whole segments that are SACKed: what is in here needs no second look, in whatever order
    /// an ACK names it.
    told: Spans,
}

impl Flight {
    /// Bytes of memory for each segment.
    pub(crate) const BYTES_EACH: usize = size_of::<Sent>();

    /// Segments that are not cumulatively acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// The number of the next transmission.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_order + 1
    }

    /// Packets that are neither here nor lost, and that the controller counts.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The first segment.
    pub(crate) fn first(&self) -> Option<Span> {
        self.segments.front().map(|first| first.span)
    }

    /// The newest segment.
    pub(crate) fn last(&self) -> Option<&Sent> {
        self.segments.back()
    }

    /// Segments that are not acknowledged at all.
    pub(crate) fn open(&self) -> usize {
        self.segments.len() - self.sacked
    }

    pub(crate) fn sacked(&self) -> usize {
        self.sacked
    }

    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    pub(crate) fn has_lost(&self) -> bool {
        !self.repeat.is_empty()
    }

    /// Bytes of memory that the lists take up.
    pub(crate) fn memory(&self) -> usize {
        self.segments.capacity() * Self::BYTES_EACH
            + self.by_time.capacity() * size_of::<(u64, u64)>()
            + self.repeat.len() * size_of::<u64>()
            + self.told.memory()
    }

    /// Bytes of memory that are in use.
    pub(crate) fn used(&self) -> usize {
        self.segments.len() * Self::BYTES_EACH + self.by_time.len() * size_of::<(u64, u64)>()
    }

    /// Gives memory back that is not in use.
    pub(crate) fn tidy(&mut self) {
        self.forget_stale();
        self.segments.shrink_to(2 * self.segments.len());
        self.by_time.shrink_to(2 * self.by_time.len());
    }

    /// Notes a transmission. Those that mean nothing any more are forgotten when they are most of
    /// the list.
    fn note_time(&mut self, order: u64, start: u64) {
        if self.by_time.len() > 2 * self.segments.len() + 32 {
            self.forget_stale();
        }
        self.by_time.push_back((order, start));
    }

    fn forget_stale(&mut self) {
        let mut by_time = core::mem::take(&mut self.by_time);
        by_time.retain(|&(order, start)| self.is_current(order, start));
        self.by_time = by_time;
    }

    /// True if the segment that begins at `start` left last with the number `order`, and is
    /// neither here nor lost.
    fn is_current(&self, order: u64, start: u64) -> bool {
        let sent = self.segments.get(self.index(start));
        sent.is_some_and(|s| s.order == order && !s.sacked && !s.lost)
    }

    /// A segment is not under way any more, as it was until now.
    fn count_out(&mut self, sent: &Sent) {
        if !sent.sacked && !sent.lost && sent.order > self.uncounted {
            self.under_way -= 1;
        }
    }

    /// A new segment left.
    pub(crate) fn push(&mut self, span: Span, fin: bool, is_probe: bool, state: PacketState) {
        self.next_order += 1;
        let order = self.next_order;
        self.note_time(order, span.start);
        self.under_way += 1;
        self.segments.push_back(Sent {
            span,
            fin,
            is_probe,
            retransmitted: false,
            is_repair: false,
            sacked: false,
            lost: false,
            is_reneged: false,
            order,
            state,
        });
    }

    /// The index of the segment that `place` is in, or of the first one after it.
    fn index(&self, place: u64) -> usize {
        self.segments.partition_point(|sent| sent.span.end <= place)
    }

    /// The lost segment that is to be sent again next.
    pub(crate) fn next_repeat(&self) -> Option<&Sent> {
        self.segments.get(self.index(*self.repeat.first()?))
    }

    /// The lost segment that is to be sent again next is made two, of which the first has `bytes`
    /// of data.
    pub(crate) fn split_next_repeat(&mut self, bytes: u32) {
        let Some(&start) = self.repeat.first() else { return };
        let index = self.index(start);
        let Some(first) = self.segments.get_mut(index) else { return };
        let middle = first.span.start + u64::from(bytes);
        if middle >= first.span.end - u64::from(first.fin) {
            return;
        }
        let (here, there) = first.state.split(bytes);
        let rest =
            Sent { span: Span { start: middle, end: first.span.end }, state: there, ..*first };
        (first.span.end, first.fin, first.state) = (middle, false, here);
        self.segments.insert(index + 1, rest);
        self.repeat.insert(middle);
    }

    /// The fate of the segment that began at `start`: true if it arrived, false if it is lost,
    /// `None` if neither is known.
    pub(crate) fn fate(&self, start: u64) -> Option<bool> {
        match self.segments.get(self.index(start)).filter(|sent| sent.span.start <= start) {
            None => Some(true),
            Some(sent) if sent.sacked => Some(true),
            Some(sent) => sent.lost.then_some(false),
        }
    }

    /// Another algorithm takes over, which does not count what is under way
    /// ([`Controller::set_algorithm`]).
    pub(crate) fn on_other_algorithm(&mut self) {
        (self.uncounted, self.under_way) = (self.next_order, 0);
    }

    /// Everything with more than `bytes` of data that is under way was thrown away by a router,
    /// which said so.
    pub(crate) fn lose_larger(&mut self, bytes: u32, batch: &mut AckBatch<'_>) {
        for sent in self.segments.iter_mut().filter(|sent| !sent.sacked && !sent.lost) {
            if sent.bytes() - u64::from(sent.fin) > u64::from(bytes) {
                self.under_way -= usize::from(sent.order > self.uncounted);
                sent.lost = true;
                batch.discarded(&sent.state);
                self.repeat.insert(sent.span.start);
                self.lost_bytes += sent.bytes();
            }
        }
    }

    /// The last segment, which a tail loss probe repeats (RFC 8985 section 7.3).
    pub(crate) fn last_open(&self) -> Option<&Sent> {
        self.segments.iter().rev().find(|sent| !sent.sacked)
    }

    /// The segment that begins at `start` leaves once more.
    pub(crate) fn repeat(&mut self, start: u64, now: Instant, cc: &mut Controller) {
        let index = self.index(start);
        let Some(sent) = self.segments.get_mut(index) else { return };
        if !sent.lost {
            // Its first copy is neither lost nor here: only the new one counts from now on.
            cc.on_discarded(&sent.state);
            self.under_way -= usize::from(sent.order > self.uncounted);
        } else {
            self.lost_bytes -= sent.bytes();
        }
        sent.state = cc.on_sent(now, sent.bytes() as u32);
        sent.is_repair = sent.lost;
        (sent.lost, sent.is_reneged) = (false, false);
        (sent.retransmitted, sent.is_probe) = (true, false);
        self.next_order += 1;
        sent.order = self.next_order;
        self.under_way += 1;
        self.note_time(self.next_order, start);
        self.repeat.remove(&start);
    }

    /// Takes in the cumulative ACK `una` and the SACK blocks, which are inside of the flight.
    pub(crate) fn acknowledge(
        &mut self,
        una: u64,
        blocks: [Span; SACK_BLOCKS],
        rack: &mut Rack,
        batch: &mut AckBatch<'_>,
    ) -> News {
        let head = self.segments.front().filter(|head| head.is_repair && !head.lost);
        let mut news = News {
            head_repair: head.filter(|head| !head.sacked).map(Sent::time),
            ..News::default()
        };
        while let Some(first) = self.segments.front_mut().filter(|s| s.span.start < una) {
            if first.span.end > una {
                // A part of it: the rest is a segment of its own.
                let bytes = (una - first.span.start) as u32;
                let (here, rest) = first.state.split(bytes);
                let mut part = Sent { state: here, fin: false, ..*first };
                part.span.end = una;
                let moved = self.repeat.remove(&first.span.start);
                (first.span.start, first.state) = (una, rest);
                if moved {
                    self.repeat.insert(una);
                }
                if first.lost {
                    self.lost_bytes -= u64::from(bytes);
                }
                if !part.sacked {
                    arrive(&part, &mut news, rack, batch);
                }
                break;
            }
            let Some(sent) = self.segments.pop_front() else { break };
            self.count_out(&sent);
            if sent.sacked {
                self.sacked -= 1;
                continue;
            }
            if sent.lost {
                self.lost_bytes -= sent.bytes();
                self.repeat.remove(&sent.span.start);
            }
            arrive(&sent, &mut news, rack, batch);
        }
        if news.repeated.is_some() {
            // A copy filled a hole: the rest may have arrived long ago (Karn's algorithm, RFC 6298
            // section 3).
            (news.oldest_once, news.newest_once) = (None, None);
        }
        self.told.remove_before(una);
        // The newest block comes first, and segments are looked at in their order: what one ACK
        // tells is no reordering (RFC 8985 section 6.2, step 3).
        let mut blocks = blocks;
        blocks.sort_unstable_by_key(|block| block.start);
        for block in blocks {
            self.take_block(block, rack, batch, &mut news);
        }
        while self.by_time.front().is_some_and(|&(order, start)| !self.is_current(order, start)) {
            self.by_time.pop_front();
        }
        news
    }

    fn take_block(
        &mut self,
        block: Span,
        rack: &mut Rack,
        batch: &mut AckBatch<'_>,
        news: &mut News,
    ) {
        let mut place = block.start;
        let mut whole = Span::default();
        while place < block.end {
            if let Some(end) = self.told.end_at(place) {
                if whole.start == whole.end {
                    whole.start = place;
                }
                (place, whole.end) = (end, end);
                continue;
            }
            let index = self.index(place);
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let Some(sent) = self.segments.get_mut(index) else { break };
            place = sent.span.end;
            // Whole segments only: a part of one is sent again with the rest of it.
            if sent.span.start < block.start || sent.span.end > block.end {
                continue;
            }
            if whole.start == whole.end {
                whole.start = sent.span.start;
            }
            whole.end = place;
            if sent.sacked {
                continue;
            }
            let copy = *sent;
            (sent.sacked, sent.lost) = (true, false);
            self.sacked += 1;
            self.count_out(&copy);
            if copy.lost {
                self.lost_bytes -= copy.bytes();
                self.repeat.remove(&copy.span.start);
            }
            arrive(&copy, news, rack, batch);
        }
        self.told.insert(whole);
    }

    /// RACK_detect_loss() of RFC 8985 section 6.2, step 5: marks what has been waiting for too
    /// long; the time at which the next one will have.
    pub(crate) fn detect(
        &mut self,
        now: Instant,
        rack: &Rack,
        reo_wnd: Duration,
        batch: &mut AckBatch<'_>,
    ) -> (Losses, Option<Instant>) {
        let mut losses = Losses::default();
        while let Some(&(order, start)) = self.by_time.front() {
            let index = self.index(start);
            let sent = self.segments.get_mut(index);
            let Some(sent) = sent.filter(|s| s.order == order && !s.sacked && !s.lost) else {
                self.by_time.pop_front();
                continue;
            };
            if !rack.is_after(sent.time(), sent.span.end) {
                break;
            }
            let at = sent.time() + rack.rtt() + reo_wnd;
            if at > now {
                return (losses, Some(at));
            }
            self.by_time.pop_front();
            self.lose(index, &mut losses, batch);
        }
        (losses, None)
    }

    fn lose(&mut self, index: usize, losses: &mut Losses, batch: &mut AckBatch<'_>) {
        let Some(sent) = self.segments.get_mut(index) else { return };
        self.under_way -= usize::from(sent.order > self.uncounted);
        sent.lost = true;
        self.repeat.insert(sent.span.start);
        self.lost_bytes += sent.bytes();
        if sent.is_probe {
            return batch.discarded(&sent.state);
        }
        batch.lost(&sent.state);
        losses.segments += 1;
        losses.bytes += sent.bytes();
    }

    /// The first segment is lost: three duplicates or a partial ACK said so (RFC 6582), for peers
    /// without SACK.
    pub(crate) fn lose_first(&mut self, batch: &mut AckBatch<'_>) -> Losses {
        let mut losses = Losses::default();
        if self.segments.front().is_some_and(|sent| !sent.lost && !sent.sacked) {
            self.lose(0, &mut losses, batch);
        }
        losses
    }

    /// The first segment is lost if it is a probe of a larger size, which is under way; whether it
    /// was.
    pub(crate) fn lose_first_probe(&mut self, batch: &mut AckBatch<'_>) -> bool {
        let is_open = |sent: &&Sent| sent.is_probe && !sent.lost && !sent.sacked;
        let is_probe = self.segments.front().filter(is_open).is_some();
        if is_probe {
            self.lose(0, &mut Losses::default(), batch);
        }
        is_probe
    }

    /// The retransmission timer fired: everything that has not arrived is lost, but for what left
    /// less than `recently` ago and is not the first (RFC 8985 section 6.3). When the first segment
    /// was SACKed and never acknowledged, the peer has thrown it away, and no SACK counts any more
    /// (RFC 2018 section 8).
    pub(crate) fn lose_all(
        &mut self,
        now: Instant,
        recently: Option<Duration>,
        batch: &mut AckBatch<'_>,
    ) {
        if self.segments.front().is_some_and(|sent| sent.sacked) {
            for sent in self.segments.iter_mut().filter(|sent| sent.sacked) {
                (sent.sacked, sent.lost, sent.is_reneged) = (false, true, true);
                self.repeat.insert(sent.span.start);
                self.lost_bytes += sent.bytes();
            }
            self.sacked = 0;
            self.told.clear();
        }
        let mut losses = Losses::default();
        let is_lost = |(index, sent): &(usize, &Sent)| {
            let is_late = recently.is_none_or(|recently| sent.time() + recently <= now);
            !sent.sacked && !sent.lost && (*index == 0 || is_late)
        };
        let mut open: Vec<(u64, usize)> = (self.segments.iter().enumerate())
            .filter(is_lost)
            .map(|(index, sent)| (sent.order, index))
            .collect();
        open.sort_unstable();
        for (_, index) in open {
            self.lose(index, &mut losses, batch);
        }
        self.forget_stale();
    }

    /// The timer fired for nothing: what was marked lost and not sent again is under way after all,
    /// but for what the peer has thrown away. The bytes that the controller has in flight then.
    pub(crate) fn undo(&mut self) -> u64 {
        self.repeat.clear();
        self.lost_bytes = 0;
        self.by_time.clear();
        let mut flight = 0;
        self.under_way = 0;
        for sent in self.segments.iter_mut().filter(|sent| !sent.sacked) {
            sent.lost = sent.is_reneged;
            if sent.lost {
                self.repeat.insert(sent.span.start);
                self.lost_bytes += sent.bytes();
                continue;
            }
            if sent.order > self.uncounted {
                flight += sent.bytes();
                self.under_way += 1;
            }
            self.by_time.push_back((sent.order, sent.span.start));
        }
        self.by_time.make_contiguous().sort_unstable();
        flight
    }
}
