//! The data that was written and is not acknowledged.

use alloc::collections::VecDeque;

use crate::receiver::Span;

#[derive(Debug)]
pub(crate) struct SendBuffer {
    bytes: VecDeque<u8>,
    /// The place of the first byte.
    start: u64,
    limit: usize,
}

impl SendBuffer {
    pub(crate) fn new(start: u64, limit: usize) -> Self {
        Self { bytes: VecDeque::new(), start, limit }
    }

    /// One past the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    /// Bytes that are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives memory back that is not in use.
    pub(crate) fn tidy(&mut self) {
        self.bytes.shrink_to(2 * self.bytes.len());
    }

    /// Appends as much of `data` as there is room for; the number of bytes.
    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        let count = data.len().min(self.room());
        self.bytes.extend(&data[..count]);
        count
    }

    /// Forgets everything before `place`.
    pub(crate) fn acknowledge(&mut self, place: u64) {
        let count = (place.saturating_sub(self.start) as usize).min(self.bytes.len());
        self.bytes.drain(..count);
        self.start += count as u64;
    }

    /// The bytes of `span`, in two parts. What is not there is left out.
    pub(crate) fn get(&self, span: Span) -> [&[u8]; 2] {
        let held = self.bytes.len();
        let from = (span.start.saturating_sub(self.start) as usize).min(held);
        let to = (span.end.saturating_sub(self.start) as usize).clamp(from, held);
        let (first, second) = self.bytes.as_slices();
        let split = first.len();
        [
            &first[from.min(split)..to.min(split)],
            &second[from.saturating_sub(split)..to.saturating_sub(split)],
        ]
    }

    pub(crate) fn discard(&mut self) {
        self.start = self.end();
        self.bytes = VecDeque::new();
    }
}
