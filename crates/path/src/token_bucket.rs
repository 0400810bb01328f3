//! Credit that grows with time.

use fullpipe_units::{Duration, Instant, NANOS_PER_SEC, Rate};

/// Bytes that may pass: at most `depth`, refilled at `rate`.
///
/// Credit is counted in 10^-9 bytes, what a rate of 1 byte a second brings in a nanosecond: nothing
/// is ever rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    rate: u64,
    depth: u128,
    credit: u128,
    counted: Instant,
}

fn cost(bytes: u64) -> u128 {
    u128::from(bytes) * u128::from(NANOS_PER_SEC)
}

impl TokenBucket {
    /// A full one.
    pub(crate) fn new(rate: Rate, depth_bytes: u64) -> Self {
        let depth = cost(depth_bytes);
        Self { rate: rate.as_bytes_per_sec(), depth, credit: depth, counted: Instant::default() }
    }

    /// The same with so much in it, at most its depth.
    pub(crate) fn holding(self, bytes: u64) -> Self {
        Self { credit: cost(bytes), ..self }
    }

    fn refill(&mut self, now: Instant) {
        let earned = u128::from(self.rate) * u128::from(now.since(self.counted).as_nanos());
        self.credit = self.credit.saturating_add(earned).min(self.depth);
        self.counted = self.counted.max(now);
    }

    /// Takes the tokens for `bytes`, all or none.
    pub(crate) fn take(&mut self, now: Instant, bytes: u32) -> bool {
        self.refill(now);
        let cost = cost(u64::from(bytes));
        let enough = self.credit >= cost;
        if enough {
            self.credit -= cost;
        }
        enough
    }

    /// The first nanosecond at which the bucket holds `bytes`, not more than its depth, when
    /// nothing is taken until then.
    pub(crate) fn ready_at(&self, bytes: u32) -> Instant {
        let missing = cost(u64::from(bytes)).saturating_sub(self.credit);
        let nanos = missing.div_ceil(u128::from(self.rate.max(1)));
        self.counted + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
