//! One connection of a flow: what was written at which time, and what of it was read.

use std::collections::VecDeque;

use fullpipe_cc::Instant;
use fullpipe_traffic::Supply;

/// A connection, and the data that its application has and wrote.
#[derive(Debug)]
pub(super) struct Connection<H> {
    /// At the sender.
    pub(super) handle: H,
    /// At the receiver, once its application has it.
    pub(super) accepted: Option<H>,
    /// The time at which the application opened it.
    pub(super) opened: Instant,
    pub(super) is_established: bool,
    /// The sender's application has said that there is no more.
    pub(super) is_closed: bool,
    /// The sender's buffer takes it.
    pub(super) supply: Supply,
    /// Bytes that left once or more.
    pub(super) left: u64,
    /// Bytes that the receiver's application read.
    pub(super) read: u64,
    /// Its last byte, for one that has a last byte.
    pub(super) bytes: Option<u64>,
    /// The time at which the receiver had that.
    pub(super) end: Option<Instant>,
    /// Ends of pieces of a segment's size that were not read yet, and when each was written.
    stamps: VecDeque<(u64, Instant)>,
    /// The end of the last of them.
    stamped: u64,
    /// Round-trip samples that were counted.
    pub(super) rtt_samples: u64,
}

impl<H> Connection<H> {
    pub(super) fn new(now: Instant, handle: H, bytes: Option<u64>) -> Self {
        Self {
            handle,
            accepted: None,
            opened: now,
            is_established: false,
            is_closed: false,
            supply: Supply::default(),
            left: 0,
            read: 0,
            bytes,
            end: None,
            stamps: VecDeque::new(),
            stamped: 0,
            rtt_samples: 0,
        }
    }

    /// Everything before the place `end` that has no time yet was written now.
    pub(super) fn stamp(&mut self, now: Instant, end: u64, segment: u64) {
        while self.stamped < end {
            self.stamped = end.min(self.stamped + segment);
            self.stamps.push_back((self.stamped, now));
        }
    }

    /// The application reads so many bytes; `latency` hears when each piece was written that is
    /// complete with them.
    pub(super) fn on_read(&mut self, bytes: u64, mut latency: impl FnMut(Instant)) {
        self.read += bytes;
        while let Some((_, written)) = self.stamps.front().filter(|(end, _)| *end <= self.read) {
            latency(*written);
            self.stamps.pop_front();
        }
    }
}
