//! The link's clock: nanoseconds since its zero.

use std::time::{self, SystemTime};

use fullpipe_cc::{Duration, Instant};

/// The monotonic clock, counted from a chosen zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: time::Instant,
}

impl Clock {
    pub(crate) fn new(zero: time::Instant) -> Self {
        Self { zero }
    }

    pub(crate) fn zero(&self) -> time::Instant {
        self.zero
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::default() + Duration::from(self.zero.elapsed())
    }

    /// Both clocks at one moment, to place the kernel's wall-clock stamps on ours.
    pub(crate) fn read_both(&self) -> Both {
        let mut both = self.read_both_once();
        // Losing the processor between the two readings would shift every stamp by that time.
        for _ in 0..3 {
            if both.apart <= Duration::from_micros(2) {
                break;
            }
            let again = self.read_both_once();
            if again.apart < both.apart {
                both = again;
            }
        }
        both
    }

    fn read_both_once(&self) -> Both {
        let before = self.now();
        let wall = SystemTime::now();
        let now = self.now();
        Both { now, wall, apart: now.since(before) }
    }
}

/// The same moment on the monotonic and on the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Both {
    now: Instant,
    wall: SystemTime,
    apart: Duration,
}

impl Both {
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Converts a wall-clock stamp to the monotonic clock. The result is the current time if the
    /// wall clock was set back meanwhile, and too early if it was set forward; the path replaces a
    /// time that is too early by its own latest time, so the error ends with that packet.
    pub(crate) fn place(&self, stamp: SystemTime) -> Instant {
        match self.wall.duration_since(stamp) {
            Ok(age) => self.now - Duration::from(age),
            Err(_) => self.now,
        }
    }
}
