//! The clock of a stack, in the core's units.

use fullpipe_cc::{Duration, Instant};

/// The core's time of a clock's zero. A clock that steps back shows times before its first one.
const ZERO: Instant = Instant::from_nanos(1 << 62);

/// Converts the stack's times to the core's.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: std::time::Instant,
    latest: Instant,
}

impl Clock {
    /// A clock whose zero is `base`.
    pub fn new(base: std::time::Instant) -> Self {
        Self { base, latest: ZERO }
    }

    /// The time of an event. Time that seems to run backwards stands still.
    pub fn at(&mut self, now: std::time::Instant) -> Instant {
        self.latest = self.latest.max(self.of(now));
        self.latest
    }

    /// The time of an event of a stack that stamps its packets, and its ACKs, in their order: where
    /// it steps back, the core notices.
    pub fn in_order(&mut self, now: std::time::Instant) -> Instant {
        self.latest = self.of(now);
        self.latest
    }

    /// A time that may be past.
    pub fn of(&self, time: std::time::Instant) -> Instant {
        match time.checked_duration_since(self.base) {
            Some(after) => ZERO + Duration::from(after),
            None => ZERO - Duration::from(self.base.saturating_duration_since(time)),
        }
    }

    /// The stack's time of a time of the core's.
    pub fn back(&self, time: Instant) -> std::time::Instant {
        let before = self.base.checked_sub(ZERO.since(time).into()).unwrap_or(self.base);
        before + std::time::Duration::from(time.since(ZERO))
    }

    /// The time of the newest event.
    pub fn latest(&self) -> Instant {
        self.latest
    }
}
