//! The receiver's record of arrived packets, in the form that its transport reports them in ACKs.

use std::collections::VecDeque;
use std::sync::Arc;

use fullpipe_cc::Instant;

use crate::packet::{Data, Named, SACK_BLOCKS, Sacked, Span};

/// QUIC: packet numbers in the order in which they came, as ranges. A range is forgotten when an
/// ACK that names it has reached the sender (RFC 9000 section 13.2.4).
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// The last range: the only one, as long as no packet was lost or came late.
    last: Span,
    before: VecDeque<Span>,
    /// The number of the first one.
    first: u64,
    /// One past the largest packet number; 0 before the first packet.
    expected: u64,
}

impl Ranges {
    /// Takes a packet number in; whether it was the one expected next.
    #[inline]
    pub(crate) fn on_packet(&mut self, pn: u64) -> bool {
        if pn == self.last.end {
            self.last.end += 1;
        } else {
            let ended = core::mem::replace(&mut self.last, Span { start: pn, end: pn + 1 });
            if self.expected > 0 {
                self.before.push_back(ended);
            }
        }
        let in_order = pn == self.expected;
        self.expected = self.expected.max(pn + 1);
        in_order
    }

    /// The current end of the log: the number of its last range, and that range's end.
    pub(crate) fn end(&self) -> (u64, u64) {
        (self.first + self.before.len() as u64, self.last.end)
    }

    #[inline]
    fn front(&self) -> &Span {
        self.before.front().unwrap_or(&self.last)
    }

    #[inline]
    fn front_mut(&mut self) -> &mut Span {
        self.before.front_mut().unwrap_or(&mut self.last)
    }

    /// The packets that an ACK up to that end names, if they are part of one range.
    #[inline]
    pub(crate) fn only_named(&self, range: u64, upto: u64) -> Span {
        if self.first != range {
            return Span::default();
        }
        let front = self.front();
        Span { start: front.start, end: upto.min(front.end) }
    }

    /// The range's part up to `upto` has reached the sender.
    #[inline]
    pub(crate) fn forget_to(&mut self, upto: u64) {
        self.front_mut().start = upto;
    }

    /// The next packets that an ACK up to there names and that none named before.
    #[inline]
    pub(crate) fn next_named(&mut self, range: u64, upto: u64) -> Option<Span> {
        if self.first < range {
            self.first += 1;
            return self.before.pop_front();
        }
        // The last range may have grown since: what came later stays.
        let named = self.only_named(range, upto);
        (!named.is_empty()).then(|| {
            self.forget_to(named.end);
            named
        })
    }
}

/// TCP: the blocks above the first hole (RFC 2018), and the timestamp to echo (RFC 7323).
#[derive(Debug, Default)]
pub(crate) struct Sack {
    /// The newest first. One more than fits into a segment, as Linux keeps it.
    blocks: [Span; SACK_BLOCKS + 1],
    echo: Instant,
    last_acked: u64,
    /// A chunk that came again since the last ACK (RFC 2883).
    again: Option<u64>,
    /// Options of ACKs that may still be under way, those used last at the end.
    shared: VecDeque<Arc<Sacked>>,
}

impl Sack {
    /// Takes a segment in, before the application reads it; whether it was the one expected next.
    pub(crate) fn on_segment(&mut self, data: &Data, next_chunk: u64) -> bool {
        let id = data.chunk().id;
        // RFC 7323 section 4.3, rule 2: of several segments that one ACK names, the first one
        // counts, so that a round trip includes the delay of the ACK.
        if id <= self.last_acked {
            self.echo = self.echo.max(data.sent);
        }
        if id < next_chunk || self.blocks.iter().any(|block| block.start <= id && id < block.end) {
            self.again = Some(id);
        }
        if id <= next_chunk {
            return id == next_chunk && self.blocks[0].is_empty();
        }
        let mut grown = Span { start: id, end: id + 1 };
        let mut kept = [Span::default(); SACK_BLOCKS + 1];
        let mut n = 1;
        for block in self.blocks.iter().filter(|b| !b.is_empty()) {
            if block.end >= grown.start && block.start <= grown.end {
                grown.start = grown.start.min(block.start);
                grown.end = grown.end.max(block.end);
            } else if n < kept.len() {
                kept[n] = *block;
                n += 1;
            }
        }
        kept[0] = grown;
        self.blocks = kept;
        false
    }

    /// Forgets what lies before the first hole.
    pub(crate) fn cut(&mut self, next_chunk: u64) {
        if self.blocks[0].is_empty() {
            return;
        }
        let mut n = 0;
        for i in 0..self.blocks.len() {
            if self.blocks[i].end > next_chunk && !self.blocks[i].is_empty() {
                self.blocks.swap(n, i);
                n += 1;
            }
        }
        self.blocks[n..].fill(Span::default());
    }

    /// The content of the ACK to send when everything before `next_chunk` has arrived.
    pub(crate) fn acknowledge(&mut self, next_chunk: u64) -> Named {
        self.last_acked = next_chunk;
        let [a, b, c, _] = self.blocks;
        let dsack = self.again.take();
        // It takes the place of a block.
        let c = if dsack.is_some() { Span::default() } else { c };
        let has_option = dsack.is_some() || !a.is_empty();
        let sacked = has_option.then(|| self.share(Sacked { dsack, blocks: [a, b, c] }));
        Named::Chunks { cumulative: next_chunk, echo: self.echo, sacked }
    }

    /// An option in memory that no ACK has any more: a recovery allocates as much as is under way
    /// at a time.
    fn share(&mut self, sacked: Sacked) -> Arc<Sacked> {
        // ACKs arrive in order, as a rule: if this one is under way, the others are too.
        if let Some(mut oldest) = self.shared.pop_front() {
            if let Some(free) = Arc::get_mut(&mut oldest) {
                *free = sacked;
                self.shared.push_back(Arc::clone(&oldest));
                return oldest;
            }
            self.shared.push_back(oldest);
        }
        let new = Arc::new(sacked);
        self.shared.push_back(Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Chunk;

    #[test]
    fn an_ack_names_what_a_lost_one_before_it_named_and_no_more() {
        let mut r = Ranges::default();
        assert!(r.on_packet(0) && r.on_packet(1) && !r.on_packet(3));
        let (range, upto) = r.end();
        assert!(!r.on_packet(2) && r.on_packet(4));
        let named = |r: &mut Ranges, range, upto| -> Vec<u64> {
            std::iter::from_fn(|| r.next_named(range, upto)).flat_map(|s| s.start..s.end).collect()
        };
        assert_eq!(named(&mut r, range, upto), [0, 1, 3]);
        let (late_range, late_upto) = r.end();
        assert_eq!(named(&mut r, late_range, late_upto), [2, 4]);
        assert_eq!(named(&mut r, range, upto), [0; 0], "an older ACK has nothing new");
    }

    #[test]
    fn the_first_packets_may_be_missing() {
        let mut r = Ranges::default();
        assert!(!r.on_packet(1));
        let (range, upto) = r.end();
        assert_eq!((range, upto), (0, 2));
        assert_eq!(r.only_named(range, upto), Span { start: 1, end: 2 });
        assert_eq!(r.next_named(range, upto), Some(Span { start: 1, end: 2 }));
        assert_eq!(r.next_named(range, upto), None);
    }

    fn segment(sack: &mut Sack, id: u64, next: u64, at: u64) -> bool {
        let sent = Instant::from_nanos(at);
        let chunk = Chunk { id, bytes: 1, written: sent };
        sack.on_segment(&Data::new(0, 0, sent, chunk), next)
    }

    /// The SACK option of the next ACK; one that says nothing is none.
    fn option(sack: &mut Sack, next: u64) -> Sacked {
        match sack.acknowledge(next) {
            Named::Chunks { sacked, .. } => sacked.map_or_else(Sacked::default, |s| *s),
            Named::Packets { .. } => panic!("TCP"),
        }
    }

    /// The second example of RFC 2018 section 4, case 2: the first segment is lost, and the block
    /// grows.
    #[test]
    fn the_block_that_grew_last_comes_first_and_three_are_told() {
        let mut sack = Sack::default();
        for (i, id) in [2, 4, 6, 8, 5].into_iter().enumerate() {
            assert!(!segment(&mut sack, id, 0, i as u64));
        }
        let told = |sack: &mut Sack, next| option(sack, next).blocks.map(|b| (b.start, b.end));
        assert_eq!(told(&mut sack, 0), [(4, 7), (8, 9), (2, 3)]);
        sack.cut(8);
        assert_eq!(told(&mut sack, 8), [(8, 9), (0, 0), (0, 0)]);
        sack.cut(9);
        let Named::Chunks { sacked, .. } = sack.acknowledge(9) else { panic!("TCP") };
        assert_eq!(sacked, None, "nothing is missing");
    }

    /// ACKs that are under way keep what they say, and the memory of one that arrived is used
    /// again.
    #[test]
    fn options_are_shared_with_no_ack_that_is_under_way() {
        let mut sack = Sack::default();
        let mut next = 0;
        let mut option = |sack: &mut Sack| {
            next += 2;
            segment(sack, next, 0, 0);
            let Named::Chunks { sacked, .. } = sack.acknowledge(0) else { panic!("TCP") };
            (next, sacked.expect("a block"))
        };
        let says = |(id, sacked): &(u64, Arc<Sacked>)| sacked.blocks[0].start == *id;
        let (first, second) = (option(&mut sack), option(&mut sack));
        assert!(says(&first) && says(&second));
        let memory = Arc::as_ptr(&first.1);
        drop(first);
        let third = option(&mut sack);
        assert_eq!(Arc::as_ptr(&third.1), memory);
        assert!(says(&second) && says(&third));
        assert_eq!(sack.shared.len(), 2);
        let mut acks: VecDeque<_> = VecDeque::from([second, third]);
        for _ in 0..100 {
            acks.push_back(option(&mut sack));
            if acks.len() == 6 {
                assert!(acks.pop_front().as_ref().is_some_and(says));
            }
        }
        assert!(sack.shared.len() <= 12, "{} for 6 under way", sack.shared.len());
    }

    /// RFC 2883 section 4: what comes again is named once, below the cumulative number or in a
    /// block.
    #[test]
    fn a_segment_that_comes_again_is_named_in_the_next_ack() {
        let mut sack = Sack::default();
        let mut dsack = |id, next| {
            segment(&mut sack, id, next, 0);
            let dsacks = [0, 0].map(|_| option(&mut sack, next).dsack);
            assert_eq!(dsacks[1], None, "once");
            dsacks[0]
        };
        assert_eq!(
            [dsack(0, 0), dsack(0, 1), dsack(3, 1), dsack(3, 1)],
            [None, Some(0), None, Some(3)]
        );
    }

    /// RFC 7323 section 4.3, case A and B: the first of delayed segments is echoed, and the one
    /// before a hole while there is one.
    #[test]
    fn the_timestamp_of_the_first_unacknowledged_segment_is_echoed() {
        let mut sack = Sack::default();
        let echo = |sack: &mut Sack, next| match sack.acknowledge(next) {
            Named::Chunks { echo, .. } => echo.as_nanos(),
            Named::Packets { .. } => panic!("TCP"),
        };
        segment(&mut sack, 0, 0, 1);
        segment(&mut sack, 1, 1, 2);
        assert_eq!(echo(&mut sack, 2), 1);
        segment(&mut sack, 3, 2, 4); // 2 is missing
        assert_eq!(echo(&mut sack, 2), 1);
        segment(&mut sack, 2, 2, 5);
        assert_eq!(echo(&mut sack, 4), 5);
    }
}
