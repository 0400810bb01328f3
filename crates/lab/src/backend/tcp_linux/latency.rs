//! How old the application's data is when the other end reads it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time;

use hdrhistogram::Histogram;

use crate::backend::realtime::times;
use crate::metrics::round_trip;
use crate::output::results::AppLatency;

/// How much a sender may write before it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unsent {
    Bounded,
    Unbounded,
}

/// A write on its way.
#[derive(Clone, Copy)]
struct Write {
    /// The flow's bytes up to its end.
    end: u64,
    at: time::Instant,
    unsent: Unsent,
}

/// The writes of one flow that were not read yet, in order.
#[derive(Default)]
pub(super) struct Writes(Mutex<VecDeque<Write>>);

/// What all flows' receivers found.
pub(super) struct Latencies(Mutex<[Histogram<u64>; 2]>);

impl Writes {
    /// Before a write, because the receiver may be faster than this thread after it: it has the
    /// time now, and its length by [`Writes::written`].
    pub(super) fn write(&self, end: u64, unsent: Unsent) {
        self.lock().push_back(Write { end, at: time::Instant::now(), unsent });
    }

    /// The newest write took no more than up to `end`.
    pub(super) fn written(&self, end: u64) {
        if let Some(write) = self.lock().back_mut() {
            write.end = end;
        }
    }

    /// Everything up to `received` bytes has been read now.
    pub(super) fn read(&self, received: u64, latencies: &Latencies) {
        let now = time::Instant::now();
        let mut writes = self.lock();
        let mut found = latencies.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(write) = writes.front().copied().filter(|w| w.end <= received) {
            writes.pop_front();
            let age = now.duration_since(write.at).as_nanos();
            found[write.unsent as usize].saturating_record(age as u64);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Write>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self(Mutex::new([times(), times()]))
    }

    pub(super) fn result(&self, unsent_bound_bytes: u32) -> AppLatency {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [bounded, unbounded] = [0, 1].map(|i| round_trip(&found[i]));
        AppLatency { unsent_bound_bytes, bounded, unbounded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_counts_when_its_last_byte_was_read() {
        let (writes, found) = (Writes::default(), Latencies::new());
        writes.write(100, Unsent::Bounded);
        writes.write(300, Unsent::Unbounded);
        writes.written(250);
        std::thread::sleep(time::Duration::from_millis(5));
        writes.read(99, &found);
        assert_eq!((found.result(1).bounded, found.result(1).unbounded), (None, None));
        writes.read(249, &found);
        let result = found.result(1);
        assert!(result.bounded.is_some_and(|b| b.min >= 5.0) && result.unbounded.is_none());
        writes.read(250, &found);
        assert!(found.result(1).unbounded.is_some());
        assert!(writes.lock().is_empty());
    }
}
