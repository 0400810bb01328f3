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
    /// Writes that were not read in full yet, which count by pieces of a segment's size.
    stamps: VecDeque<Written>,
    /// The end of the last of them.
    stamped: u64,
    /// The end of the newest piece that was read.
    heard: u64,
    /// Round-trip samples that were counted.
    pub(super) rtt_samples: u64,
}

/// Bytes that were written at one time. A write of terabytes is one entry.
#[derive(Clone, Copy, Debug)]
struct Written {
    end: u64,
    segment: u64,
    at: Instant,
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
            heard: 0,
            rtt_samples: 0,
        }
    }

    /// Everything before the place `end` that has no time yet was written now.
    pub(super) fn stamp(&mut self, now: Instant, end: u64, segment: u64) {
        if self.stamped < end {
            self.stamped = end;
            self.stamps.push_back(Written { end, segment: segment.max(1), at: now });
        }
    }

    /// The application reads so many bytes; `latency` hears when each piece was written that is
    /// complete with them.
    pub(super) fn on_read(&mut self, bytes: u64, mut latency: impl FnMut(Instant)) {
        self.read += bytes;
        while let Some(written) = self.stamps.front() {
            let end = written.end.min(self.heard.saturating_add(written.segment));
            if end > self.read {
                return;
            }
            latency(written.at);
            self.heard = end;
            if end == written.end {
                self.stamps.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn each_segment_of_a_write_is_heard_of_with_the_time_of_its_write() {
        let mut connection = Connection::new(at(0), (), None);
        connection.stamp(at(1), 250, 100);
        connection.stamp(at(2), 250, 100);
        connection.stamp(at(3), 260, 100);
        let heard = |connection: &mut Connection<()>, bytes| {
            let mut times = Vec::new();
            connection.on_read(bytes, |written| times.push(written.as_nanos()));
            times
        };
        assert_eq!(heard(&mut connection, 99), [0; 0]);
        assert_eq!(heard(&mut connection, 1), [1]);
        // The last piece of a write is what is left of it.
        assert_eq!(heard(&mut connection, 150), [1, 1]);
        assert_eq!(heard(&mut connection, 9), [0; 0]);
        assert_eq!(heard(&mut connection, 1), [3]);
        assert!(connection.stamps.is_empty());
    }

    /// A frame of live media at 1000 Tbit/s has four terabytes.
    #[test]
    fn a_write_of_any_size_is_one_entry() {
        let mut connection = Connection::new(at(0), (), None);
        connection.stamp(at(1), u64::MAX / 2, 1200);
        connection.stamp(at(2), u64::MAX, 1200);
        assert_eq!(connection.stamps.len(), 2);
        let mut pieces = 0;
        connection.on_read(12_000, |_| pieces += 1);
        assert_eq!((pieces, connection.stamps.len()), (10, 2));
    }
}
