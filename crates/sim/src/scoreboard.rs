//! The chunks of the application's data that have arrived: the basis of TCP's ACKs and of the room
//! in a send buffer.

use std::collections::VecDeque;

use crate::packet::{Chunk, SACK_BLOCKS, Span};

/// A chunk that was sent, and not everything up to it has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The packets that carried it first, before the last, and last.
    pub(crate) first_pn: u64,
    pub(crate) previous_pn: u64,
    pub(crate) newest_pn: u64,
    bytes: u32,
    has_arrived: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Segment>,
    /// The number of the first one.
    first: u64,
    /// Application bytes before it: all of them arrived.
    pub(crate) arrived_bytes: u64,
    /// Segments after it that arrived.
    pub(crate) sacked: u64,
    /// The blocks of the ACK before: what they named needs no second look.
    told: [Span; SACK_BLOCKS],
}

impl Scoreboard {
    pub(crate) fn on_sent(&mut self, chunk: Chunk, pn: u64) {
        let Some(i) = chunk.id.checked_sub(self.first) else { return };
        match self.segments.get_mut(i as usize) {
            Some(segment) => {
                segment.previous_pn = segment.newest_pn;
                segment.newest_pn = pn;
            }
            None => self.segments.push_back(Segment {
                first_pn: pn,
                previous_pn: pn,
                newest_pn: pn,
                bytes: chunk.bytes,
                has_arrived: false,
            }),
        }
    }

    /// True if the chunk has arrived, as far as ACKs said.
    pub(crate) fn has_arrived(&self, id: u64) -> bool {
        match id.checked_sub(self.first) {
            None => true,
            Some(i) => self.segments.get(i as usize).is_some_and(|s| s.has_arrived),
        }
    }

    /// A chunk has arrived; its segment, if that is news.
    pub(crate) fn arrive(&mut self, id: u64) -> Option<Segment> {
        let segment = self.segments.get_mut(id.checked_sub(self.first)? as usize)?;
        if core::mem::replace(&mut segment.has_arrived, true) {
            return None;
        }
        self.sacked += 1;
        Some(*segment)
    }

    /// The state of a sent chunk, until everything up to it has arrived.
    pub(crate) fn segment(&self, id: u64) -> Option<Segment> {
        self.segments.get(id.checked_sub(self.first)? as usize).copied()
    }

    /// The first chunk that has not arrived: SND.UNA.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The first chunk that was not sent: SND.NXT.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.segments.len() as u64
    }

    /// Calls `news` with the number and the segment of each chunk that an ACK names for the first
    /// time.
    pub(crate) fn on_ack(
        &mut self,
        cumulative: u64,
        blocks: [Span; SACK_BLOCKS],
        mut news: impl FnMut(u64, Segment),
    ) {
        let told = core::mem::replace(&mut self.told, blocks);
        for span in [Span { start: self.first, end: cumulative }].into_iter().chain(blocks) {
            let mut id = span.start;
            while id < span.end {
                if let Some(known) = told.iter().find(|t| t.start <= id && id < t.end) {
                    id = known.end;
                    continue;
                }
                if let Some(segment) = self.arrive(id) {
                    news(id, segment);
                }
                id += 1;
            }
        }
        self.advance();
    }

    /// Forgets what has arrived up to the first hole.
    pub(crate) fn advance(&mut self) {
        while let Some(segment) = self.segments.front().filter(|s| s.has_arrived) {
            self.arrived_bytes += u64::from(segment.bytes);
            self.segments.pop_front();
            self.first += 1;
            self.sacked -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Instant;

    use super::*;

    #[test]
    fn each_segment_is_news_once_and_holes_hold_the_buffer() {
        let mut board = Scoreboard::default();
        for id in 0..10 {
            board.on_sent(Chunk { id, bytes: 100, written: Instant::default() }, id);
        }
        let mut ack = |cumulative, start, end| {
            let mut news = Vec::new();
            let blocks = [Span { start, end }, Span::default(), Span::default()];
            board.on_ack(cumulative, blocks, |_, s| news.push(s.first_pn));
            (news, board.arrived_bytes)
        };
        assert_eq!(ack(2, 0, 0), (vec![0, 1], 200));
        assert_eq!(ack(2, 4, 6), (vec![4, 5], 200));
        assert_eq!(ack(2, 4, 8), (vec![6, 7], 200));
        assert_eq!(ack(8, 0, 0), (vec![2, 3], 800));
        assert!(board.has_arrived(7) && !board.has_arrived(8));
    }
}
