//! The receiving side's data: what is there to read, and what arrived before its turn.

use alloc::collections::VecDeque;

use crate::autotune::Offsets;
use crate::pieces::Pieces;

/// Pieces of data that may wait for a hole before them to be filled, whatever the buffer is.
const LEAST_PIECES: usize = 512;
/// Bytes of the buffer for each such piece, if these are more pieces: where every second segment of
/// a whole window is lost all others have a place, also those of the default size (RFC 9293 section
/// 3.7.1: 536). A piece of one byte takes up about a sixteenth of that, so that islands make a
/// peer's share of the memory hardly larger.
const BYTES_PER_PIECE: usize = 1024;
/// Bytes that an end takes in, or takes from its application, while memory is short.
pub(crate) const SMALL_WINDOW: usize = 4096;
/// Bytes that may be unread while memory is short, if more were in the window before: an initial
/// window (RFC 6928).
const SHORT_ROOM: usize = 16 << 10;
/// Blocks of a SACK option beside a timestamps option (RFC 2018 section 3).
pub(crate) const SACK_BLOCKS: usize = 3;

/// Places from `start` up to and without `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    pub(crate) const fn contains(self, place: u64) -> bool {
        self.start <= place && place < self.end
    }
}

/// The result that a segment's data has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Taken {
    /// RCV.NXT moved.
    pub(crate) advanced: bool,
    /// The data is not the next that was expected, or fills a hole: RFC 5681 section 4.2 wants an
    /// ACK at once.
    pub(crate) out_of_order: bool,
    /// Data that was there already (RFC 2883).
    pub(crate) duplicate: Option<Span>,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    /// From the first unread byte to RCV.NXT.
    bytes: VecDeque<u8>,
    /// The place of the first unread byte.
    read: u64,
    /// RCV.NXT.
    next: u64,
    /// What arrived beyond `next`.
    pieces: Pieces,
    /// A byte of each piece that was touched, the newest first.
    recent: [u64; SACK_BLOCKS],
    /// The largest number of bytes from `read` on.
    limit: usize,
    /// The right edge of the window that the peer was told.
    edge: u64,
    /// The place of the peer's FIN.
    fin: Option<u64>,
    /// Memory is short: most bytes that the window opens by, once everything is read.
    small: Option<usize>,
}

impl Receiver {
    /// A receiver whose first byte of data is at `next`.
    pub(crate) fn new(next: u64, limit: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            read: next,
            next,
            pieces: Pieces::default(),
            recent: [0; SACK_BLOCKS],
            limit,
            edge: next,
            fin: None,
            small: None,
        }
    }

    /// Memory is short, and the window opens by so much at most; or it is not.
    pub(crate) fn set_small(&mut self, small: Option<usize>) {
        self.small = small;
    }

    /// Bytes that may be taken in at `start` while memory is short: of data in order as many as
    /// there is a place for already, or may always be.
    pub(crate) fn short_room(&self, start: u64) -> usize {
        if start > self.next {
            return 0;
        }
        let most = SHORT_ROOM.max(self.small.unwrap_or(0)).max(self.bytes.capacity());
        (self.read + most as u64).max(self.next).saturating_sub(start) as usize
    }

    /// Throws away what arrived before its turn; the number of pieces. The peer sends it again (RFC
    /// 2018 section 8).
    pub(crate) fn drop_pieces(&mut self) -> usize {
        core::mem::take(&mut self.pieces).len()
    }

    /// RCV.NXT.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The right edge of the window: RCV.NXT + RCV.WND.
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// The places by which the buffer's size is tuned.
    pub(crate) fn places(&self) -> Offsets {
        Offsets { read: self.read, next: self.next, edge: self.edge }
    }

    /// The buffer may hold `limit` bytes, if that is more than before.
    pub(crate) fn grow(&mut self, limit: usize) {
        self.limit = self.limit.max(limit);
    }

    /// Most bytes that the buffer may hold.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that can be read.
    pub(crate) fn readable(&self) -> usize {
        (self.data_end() - self.read) as usize
    }

    /// True if everything up to the peer's FIN has arrived.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Bytes of memory that the data takes up.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.pieces.memory()
    }

    /// Bytes that are in use.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.pieces.used()
    }

    /// Gives memory back that is not in use.
    pub(crate) fn tidy(&mut self) {
        self.bytes.shrink_to(2 * self.bytes.len());
        self.pieces.tidy();
    }

    fn data_end(&self) -> u64 {
        self.next - u64::from(self.is_finished())
    }

    fn limit_now(&self) -> u64 {
        self.small.map_or(self.limit, |small| small.min(self.limit)) as u64
    }

    /// The right edge that the free room would allow.
    fn possible_edge(&self) -> u64 {
        let may_open = self.small.is_none() || self.readable() == 0;
        let wanted = if may_open { self.read + self.limit_now() } else { 0 };
        wanted.max(self.edge)
    }

    /// The right edge of the next segment that leaves. It moves by a full segment or by half of the
    /// buffer at least (RFC 9293 section 3.8.6.2.2), and never back (section 3.8.6).
    pub(crate) fn window(&mut self, mss: u32) -> u64 {
        if self.would_open(mss) {
            self.edge = self.possible_edge();
        }
        self.edge - self.next.min(self.edge)
    }

    /// True if the window can be opened by so much that it is worth telling.
    pub(crate) fn would_open(&self, mss: u32) -> bool {
        let step = u64::from(mss).min(self.limit_now() / 2).max(1);
        self.possible_edge() - self.edge >= step
    }

    /// True if the window has become so much larger that the peer is told without another reason
    /// for an ACK: by two segments, as it would have asked for an ACK then, or from nothing.
    pub(crate) fn has_news_of_room(&self, mss: u32) -> bool {
        let open = self.edge.saturating_sub(self.next);
        let most = (self.limit_now() / 2).max(1);
        let step = if open < u64::from(mss) { u64::from(mss) } else { most };
        self.possible_edge() - self.edge >= step.min(most)
    }

    /// Takes in the data of a segment, and its FIN. What is outside of the window has to be cut off
    /// before.
    pub(crate) fn take(&mut self, start: u64, data: &[u8], fin: bool) -> Taken {
        let before = self.next;
        if fin && self.fin.is_none() {
            self.end_at(start + data.len() as u64);
        }
        let room = self.fin.map_or(data.len(), |fin| fin.saturating_sub(start) as usize);
        let data = &data[..room.min(data.len())];
        let end = start + data.len() as u64;
        let mut taken = Taken::default();
        if !data.is_empty() {
            taken.duplicate = self.duplicate(Span { start, end });
            if end > self.next {
                self.store(start, data, &mut taken);
            }
        }
        if self.fin == Some(self.next) {
            self.next += 1;
        }
        taken.advanced = self.next > before;
        taken
    }

    /// The peer's FIN is at `fin`. Nothing follows it (RFC 9293 section 3.10.7.4, seventh): what
    /// arrived before its turn and claims to is no part of the stream.
    fn end_at(&mut self, fin: u64) {
        if fin < self.next {
            return;
        }
        self.fin = Some(fin);
        self.pieces.cut(fin);
    }

    fn store(&mut self, start: u64, data: &[u8], taken: &mut Taken) {
        let end = start + data.len() as u64;
        taken.out_of_order = start > self.next || !self.pieces.is_empty();
        if start <= self.next {
            let new = &data[(self.next - start) as usize..];
            if self.small.is_some() {
                // A buffer that doubled would take up what is short.
                self.bytes.reserve_exact(new.len());
            }
            self.bytes.extend(new);
            self.next = end;
            while let Some(piece) = self.pieces.pop_until(self.next) {
                let known = (self.next - piece.start) as usize;
                if known < piece.bytes.len() {
                    self.bytes.extend(piece.bytes.range(known..));
                    self.next = piece.end();
                }
            }
            return;
        }
        let most = LEAST_PIECES.max(self.limit / BYTES_PER_PIECE);
        if let Some(span) = self.pieces.add(start, data, most) {
            self.touch(span);
        }
    }

    /// Notes the newest piece, and forgets older notes of the same one.
    fn touch(&mut self, piece: Span) {
        let mut recent = [piece.start; SACK_BLOCKS];
        let others = self.recent.iter().filter(|&&place| !piece.contains(place));
        for (to, from) in recent[1..].iter_mut().zip(others) {
            *to = *from;
        }
        self.recent = recent;
    }

    /// The first part of `new` that had arrived before.
    fn duplicate(&self, new: Span) -> Option<Span> {
        if new.start < self.next {
            return Some(Span { start: new.start, end: new.end.min(self.next) });
        }
        let piece = self.pieces.at_or_after(new.start)?;
        (piece.start < new.end)
            .then(|| Span { start: new.start.max(piece.start), end: new.end.min(piece.end) })
    }

    /// Blocks for a SACK option: a duplicate first (RFC 2883 section 4), then the piece that the
    /// newest segment is in, then those of the segments before it (RFC 2018 section 4).
    pub(crate) fn sack_blocks(&self, duplicate: Option<Span>) -> [Option<(u32, u32)>; SACK_BLOCKS] {
        if duplicate.is_none() && self.pieces.is_empty() {
            return [None; SACK_BLOCKS];
        }
        let mut spans = [Span::default(); SACK_BLOCKS];
        let mut count = 0;
        if let Some(span) = duplicate {
            (spans[0], count) = (span, 1);
        }
        let kept = count;
        let recent = self.recent.iter().filter_map(|&place| self.piece_with(place));
        for span in recent.chain(self.pieces.spans()) {
            if count == SACK_BLOCKS {
                break;
            }
            if !spans[kept..count].contains(&span) {
                spans[count] = span;
                count += 1;
            }
        }
        let mut blocks = [None; SACK_BLOCKS];
        for (block, span) in blocks.iter_mut().zip(&spans[..count]) {
            *block = Some((span.start as u32, span.end as u32));
        }
        blocks
    }

    fn piece_with(&self, place: u64) -> Option<Span> {
        self.pieces.at_or_after(place).filter(|span| span.contains(place))
    }

    /// Reads into `to`; the number of bytes.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> usize {
        let count = self.peek(to);
        self.bytes.drain(..count);
        self.read += count as u64;
        count
    }

    /// Copies into `to` what [`Self::read`] would give; the number of bytes.
    pub(crate) fn peek(&self, to: &mut [u8]) -> usize {
        let count = self.readable().min(to.len());
        let (first, second) = self.bytes.as_slices();
        let in_first = first.len().min(count);
        to[..in_first].copy_from_slice(&first[..in_first]);
        to[in_first..count].copy_from_slice(&second[..count - in_first]);
        count
    }

    /// Gives the memory back: nobody reads any more.
    pub(crate) fn discard(&mut self) {
        self.bytes = VecDeque::new();
        self.pieces = Pieces::default();
        self.read = self.data_end();
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
