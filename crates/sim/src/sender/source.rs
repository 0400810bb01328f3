//! The application's data on its way to the transport.

use std::collections::VecDeque;

use fullpipe_cc::Instant;

/// The application's data as the transport sees it.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Source {
    /// Bytes that were written and never sent; `None` when there is always something to write.
    pub(super) unsent: Option<u64>,
    /// Bytes sent for the first time in all.
    pub(super) sent: u64,
    /// Boxed, because a bulk flow does not need it.
    pub(super) writes: Box<Writes>,
}

/// The application's writes.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    /// Times of those that are not sent yet: for each the offset at which it ends, and its time.
    pub(super) times: VecDeque<(u64, Instant)>,
    /// The buffer between application and transport, and what the application will still write into
    /// it (`None`: without an end).
    pub(super) buffer: Option<(u64, Option<u64>)>,
    /// Bytes written in all.
    pub(super) bytes: u64,
    /// The application has more, and waits for room in the buffer.
    pub(super) waits: bool,
}

impl Source {
    pub(super) fn write(&mut self, now: Instant, bytes: u64) {
        let writes = &mut *self.writes;
        writes.bytes = writes.bytes.max(self.sent).saturating_add(bytes);
        writes.times.push_back((writes.bytes, now));
        self.unsent = Some(self.unsent.unwrap_or(0).saturating_add(bytes));
    }

    /// Fills the send buffer up: `arrived` bytes have left it.
    pub(super) fn fill(&mut self, now: Instant, arrived: u64) {
        let Writes { buffer, bytes: written, waits, .. } = &mut *self.writes;
        let Some((size, left)) = buffer else { return };
        let room = size.saturating_sub(*written - arrived.min(*written));
        let bytes = left.map_or(room, |left| left.min(room));
        *waits = left.is_none_or(|left| left > bytes);
        if bytes > 0 {
            *left = left.map(|left| left - bytes);
            self.write(now, bytes);
        }
    }

    /// True if the application has nothing that was not sent, neither written nor waiting for room
    /// in the send buffer.
    #[inline]
    pub(super) fn is_out_of_data(&self) -> bool {
        self.unsent == Some(0) && !self.writes.waits
    }

    /// The next piece of up to `most` bytes: its size and when it was written.
    #[inline]
    pub(super) fn take(&mut self, now: Instant, most: u32) -> (u32, Instant) {
        let Some(unsent) = &mut self.unsent else {
            self.sent += u64::from(most);
            return (most, now);
        };
        let bytes = u64::from(most).min(*unsent);
        *unsent -= bytes;
        self.sent += bytes;
        let mut written = now;
        let times = &mut self.writes.times;
        while let Some((end, at)) = times.front() {
            written = *at;
            if *end > self.sent {
                break;
            }
            let is_last_byte = *end == self.sent;
            times.pop_front();
            if is_last_byte {
                break;
            }
        }
        (bytes as u32, written)
    }
}
