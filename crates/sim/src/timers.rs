//! What is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fullpipe_cc::Instant;

/// Timers by number, each with one deadline. Setting one to a later time costs nothing until the
/// earlier time comes up: most timers of a transport move with every packet and never fire.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Nanoseconds above, the timer's number below: one comparison, and a fixed order at one time.
    queue: BinaryHeap<Reverse<u128>>,
    /// The earliest entry of each timer in `queue`, in nanoseconds; others of it are stale.
    armed: Vec<u64>,
}

/// A time that does not come, in nanoseconds.
pub(crate) const NEVER: u64 = u64::MAX;

impl Timers {
    /// The timer fires at `at` or before.
    #[inline]
    pub(crate) fn arm(&mut self, timer: usize, at: Instant) {
        let at = at.as_nanos();
        if timer >= self.armed.len() {
            self.armed.resize(timer + 1, NEVER);
        }
        if at < self.armed[timer] {
            self.armed[timer] = at;
            self.queue.push(Reverse(u128::from(at) << 64 | timer as u128));
        }
    }

    /// When to look again, in nanoseconds; [`NEVER`] when there is nothing.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.queue.peek().map_or(NEVER, |Reverse(key)| (key >> 64) as u64)
    }

    /// Takes out the first entry; the timer's number, unless the entry was stale.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let Reverse(key) = self.queue.pop()?;
        let timer = key as u64 as usize;
        if self.armed[timer] != (key >> 64) as u64 {
            return None;
        }
        self.armed[timer] = NEVER;
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_at_its_earliest_deadline_and_once() {
        let at = Instant::from_nanos;
        let mut t = Timers::default();
        t.arm(0, at(10));
        t.arm(1, at(7));
        t.arm(0, at(5));
        t.arm(0, at(20)); // later than what is armed: nothing to do yet
        assert_eq!((t.next(), t.pop()), (5, Some(0)));
        assert_eq!((t.next(), t.pop()), (7, Some(1)));
        assert_eq!((t.next(), t.pop()), (10, None), "moved to 5, and fired");
        assert_eq!(t.next(), NEVER);
    }
}
