//! Chance, the same on every machine.

use fullpipe_cc::{Duration, Instant};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Evenly distributed times below a bound.
#[derive(Clone, Debug)]
pub struct Jitter {
    bound_ns: u64,
    rng: Pcg64Mcg,
}

impl Jitter {
    /// Times below `bound`; `seed` decides them.
    pub fn new(bound: Duration, seed: u64) -> Self {
        Self { bound_ns: bound.as_nanos(), rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// `at`, and a random time below the bound.
    #[inline]
    pub fn after(&mut self, at: Instant) -> Instant {
        if self.bound_ns == 0 {
            return at;
        }
        let part = (u128::from(self.rng.next_u64()) * u128::from(self.bound_ns)) >> 64;
        at + Duration::from_nanos(part as u64)
    }
}
