//! The RTTs of a round.

use crate::units::Duration;

/// Their sum, number and least.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    /// In nanoseconds.
    sum: u64,
    count: u32,
    least: Duration,
}

impl RoundTrips {
    pub(super) const NONE: Self = Self { sum: 0, count: 0, least: Duration::MAX };

    /// The RTT of an ACK, if it has one.
    #[inline]
    pub(super) fn add(&mut self, rtt: Duration) {
        if rtt != Duration::MAX {
            self.sum = self.sum.saturating_add(rtt.as_nanos());
            self.count = self.count.saturating_add(1);
            self.least = self.least.min(rtt);
        }
    }

    /// Their number.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The shortest; [`Duration::MAX`] without any.
    pub(super) const fn least(&self) -> Duration {
        self.least
    }

    /// The mean; [`Duration::MAX`] without any.
    pub(super) fn mean(&self) -> Duration {
        self.sum.checked_div(self.count.into()).map_or(Duration::MAX, Duration::from_nanos)
    }
}
