//! Age of the application's data when the other end reads it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fullpipe_cc::{Duration, Instant};
use fullpipe_traffic::Tally;

/// A write on its way.
#[derive(Clone, Copy)]
struct Write {
    /// The flow's bytes up to its end.
    end: u64,
    at: Instant,
}

/// The writes of one flow that were not read yet, in order.
#[derive(Default)]
pub(super) struct Writes(Mutex<VecDeque<Write>>);

/// Times of one kind in nanoseconds, which several threads record.
pub(super) struct SharedTally(Mutex<Tally>);

impl Writes {
    /// Before a write that was due at `at`, because the receiver may be faster than this thread
    /// after it: it has the time now, and its length by [`Writes::written`].
    pub(super) fn write(&self, end: u64, at: Instant) {
        self.lock().push_back(Write { end, at });
    }

    /// The newest write took no more than up to `end`.
    pub(super) fn written(&self, end: u64) {
        if let Some(write) = self.lock().back_mut() {
            write.end = end;
        }
    }

    /// Everything up to `received` bytes has been read by `now`.
    pub(super) fn read(&self, received: u64, now: Instant, latencies: &SharedTally) {
        let mut writes = self.lock();
        while let Some(write) = writes.front().copied().filter(|w| w.end <= received) {
            writes.pop_front();
            latencies.record(now.since(write.at));
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Write>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedTally {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Tally::new()))
    }

    pub(super) fn record(&self, time: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(time.as_nanos());
    }

    pub(super) fn tally(&self) -> Tally {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_counts_when_its_last_byte_was_read() {
        let (writes, found) = (Writes::default(), SharedTally::new());
        let at = |ms| Instant::default() + Duration::from_millis(ms);
        // As the histogram has it: in three digits.
        let millis = |ns: u64| (ns + 500_000) / 1_000_000;
        writes.write(100, at(0));
        writes.write(300, at(2));
        writes.written(250);
        writes.read(99, at(5), &found);
        assert!(found.tally().is_empty());
        writes.read(249, at(5), &found);
        let all = found.tally().histogram();
        assert_eq!((all.len(), millis(all.min())), (1, 5));
        writes.read(250, at(9), &found);
        let all = found.tally().histogram();
        assert_eq!((all.len(), millis(all.max())), (2, 7));
        assert!(writes.lock().is_empty());
    }
}
