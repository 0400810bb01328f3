//! The clock of a stack, in the core's units.

use fullpipe_cc::{Duration, Instant};

/// Converts the stack's times to the core's. The first time is the core's zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: std::time::Instant,
    latest: Instant,
}

impl Clock {
    /// A clock whose zero is `base`.
    pub fn new(base: std::time::Instant) -> Self {
        Self { base, latest: Instant::default() }
    }

    /// The time of an event. Time that seems to run backwards stands still.
    pub fn at(&mut self, now: std::time::Instant) -> Instant {
        self.latest = self.latest.max(self.of(now));
        self.latest
    }

    /// A time that may be past.
    pub fn of(&self, time: std::time::Instant) -> Instant {
        Instant::default() + Duration::from(time.saturating_duration_since(self.base))
    }

    /// The stack's time of a time of the core's.
    pub fn back(&self, time: Instant) -> std::time::Instant {
        self.base + std::time::Duration::from(time.since(Instant::default()))
    }

    /// The time of the newest event.
    pub fn latest(&self) -> Instant {
        self.latest
    }
}
