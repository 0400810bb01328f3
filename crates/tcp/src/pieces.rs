//! Data that arrived before its turn.

use alloc::collections::{BTreeMap, VecDeque};

use crate::receiver::Span;

/// Data without a hole. What is missing takes up no memory: a byte at the edge of the window is a
/// byte.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) bytes: VecDeque<u8>,
}

impl Piece {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn span(&self) -> Span {
        Span { start: self.start, end: self.end() }
    }

    /// Adds `data`, which begins at `start` and touches the piece. What is there stays.
    fn add(&mut self, start: u64, data: &[u8]) {
        let before = (self.start.saturating_sub(start) as usize).min(data.len());
        for byte in data[..before].iter().rev() {
            self.bytes.push_front(*byte);
        }
        self.start -= before as u64;
        let known = (self.end() - start) as usize;
        self.bytes.extend(&data[known.min(data.len())..]);
    }

    /// Adds a piece that begins in this one or at its end: the smaller one moves, so that a byte
    /// moves seldom.
    fn join(&mut self, mut next: Self) {
        let keep = (next.start - self.start) as usize;
        if next.end() <= self.end() {
            return;
        }
        if next.bytes.len() > self.bytes.len() {
            for byte in self.bytes.range(..keep).rev() {
                next.bytes.push_front(*byte);
            }
            self.bytes = next.bytes;
        } else {
            self.bytes.truncate(keep);
            self.bytes.append(&mut next.bytes);
        }
    }
}

/// Pieces with holes between them. A peer may send thousands, in any order: each costs the
/// logarithm of their number, and the sums are kept.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    by_start: BTreeMap<u64, VecDeque<u8>>,
    /// Bytes of data, and those that there is a place for.
    bytes: usize,
    places: usize,
}

impl Pieces {
    /// Bytes of memory for each piece beside its data. A node of a tree is two thirds full.
    pub(crate) const BYTES_EACH: usize = size_of::<(u64, VecDeque<u8>)>() * 3 / 2;

    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.places + self.len() * Self::BYTES_EACH
    }

    /// Bytes of memory that are in use.
    pub(crate) fn used(&self) -> usize {
        self.bytes + self.len() * Self::BYTES_EACH
    }

    /// Gives memory back that is not in use.
    pub(crate) fn tidy(&mut self) {
        self.by_start.values_mut().for_each(|bytes| bytes.shrink_to(2 * bytes.len()));
        self.places = self.by_start.values().map(VecDeque::capacity).sum();
    }

    /// Ascending.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Span> {
        self.by_start.iter().map(span)
    }

    /// The first piece with a byte at `place` or behind it.
    pub(crate) fn at_or_after(&self, place: u64) -> Option<Span> {
        let before = self.by_start.range(..=place).next_back().map(span);
        before
            .filter(|before| before.end > place)
            .or_else(|| self.by_start.range(place..).next().map(span))
    }

    /// Removes the first piece, if it begins at `place` or before it.
    pub(crate) fn pop_until(&mut self, place: u64) -> Option<Piece> {
        let (&start, _) = self.by_start.first_key_value()?;
        if start <= place { self.remove(start) } else { None }
    }

    /// Removes everything from `end` on.
    pub(crate) fn cut(&mut self, end: u64) {
        while let Some((&start, _)) = self.by_start.last_key_value()
            && let Some(mut last) = self.remove(start)
        {
            if start < end {
                last.bytes.truncate((end - start) as usize);
                return self.insert(last);
            }
        }
    }

    /// Adds data and joins it to what it touches; the piece that it is in. Data that would make
    /// one piece more than `most` is not kept.
    pub(crate) fn add(&mut self, start: u64, data: &[u8], most: usize) -> Option<Span> {
        let end = start + data.len() as u64;
        let before = self.by_start.range(..=start).next_back().map(span);
        let before = before.filter(|before| before.end >= start);
        let mut whole = match before.map_or_else(|| self.first_in(start, end), |b| Some(b.start)) {
            Some(first) => self.remove(first)?,
            None if self.len() >= most => return None,
            None => Piece { start, bytes: data.iter().copied().collect() },
        };
        while let Some(next) = self.first_in(start, end).and_then(|next| self.remove(next)) {
            // The data fills what is between two pieces.
            let gap = (whole.end().max(start) - start) as usize..(next.start - start) as usize;
            whole.add(start + gap.start as u64, &data[gap]);
            whole.join(next);
        }
        whole.add(start, data);
        let span = whole.span();
        self.insert(whole);
        Some(span)
    }

    /// The start of the first piece that begins from `start` to `end`.
    fn first_in(&self, start: u64, end: u64) -> Option<u64> {
        self.by_start.range(start..=end).next().map(|(start, _)| *start)
    }

    fn insert(&mut self, piece: Piece) {
        self.bytes += piece.bytes.len();
        self.places += piece.bytes.capacity();
        self.by_start.insert(piece.start, piece.bytes);
    }

    fn remove(&mut self, start: u64) -> Option<Piece> {
        let bytes = self.by_start.remove(&start)?;
        self.bytes -= bytes.len();
        self.places -= bytes.capacity();
        Some(Piece { start, bytes })
    }
}

fn span((&start, bytes): (&u64, &VecDeque<u8>)) -> Span {
    Span { start, end: start + bytes.len() as u64 }
}
