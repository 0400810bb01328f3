//! A rate, exactly.

use fullpipe_cc::units::NANOS_PER_SEC;
use fullpipe_cc::{Duration, Instant, Rate};

/// The exact time at which the wire is free again, `nanos + fraction / rate`.
///
/// The fraction is carried from packet to packet, so a busy wire never drifts from its rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    rate: u64,
    nanos: u64,
    fraction: u64,
}

impl Wire {
    /// `rate` is not zero.
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate: rate.as_bytes_per_sec().max(1), nanos: 0, fraction: 0 }
    }

    /// Another rate, not zero, from when it is free again.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        let nanos = self.free_at().as_nanos();
        *self = Self { nanos, ..Self::new(rate) };
    }

    /// An idle wire takes a packet at `now`.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.nanos = now.as_nanos();
        self.fraction = 0;
    }

    /// Puts `bytes` more on the wire.
    pub(crate) fn carry(&mut self, bytes: u64) {
        let in_64_bits =
            bytes.checked_mul(NANOS_PER_SEC).and_then(|b| b.checked_add(self.fraction));
        let nanos = match in_64_bits {
            // A division of 64 bits costs a tenth of one of 128.
            Some(total) => {
                self.fraction = total % self.rate;
                total / self.rate
            }
            None => {
                let rate = u128::from(self.rate);
                let total =
                    u128::from(bytes) * u128::from(NANOS_PER_SEC) + u128::from(self.fraction);
                self.fraction = (total % rate) as u64;
                u64::try_from(total / rate).unwrap_or(u64::MAX)
            }
        };
        self.nanos = self.nanos.saturating_add(nanos);
    }

    /// The first whole nanosecond at which the wire is free: never earlier than the exact time, so
    /// that the rate is never exceeded.
    pub(crate) fn free_at(&self) -> Instant {
        Instant::from_nanos(self.nanos) + Duration::from_nanos(u64::from(self.fraction > 0))
    }
}
