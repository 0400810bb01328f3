//! Random choices, the same on every machine.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// A source of random numbers.
pub(crate) struct Chance(Pcg64Mcg);

impl Chance {
    /// That of one path of a survey. A hash of both numbers, so that neighbours have nothing in
    /// common.
    pub(crate) fn of(seed: u64, path: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"fullpipe survey");
        hash.update(seed.to_le_bytes());
        hash.update(path.to_le_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Self(Pcg64Mcg::from_seed(bytes))
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number from `from` to `to`, both included.
    pub(crate) fn whole(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.whole(1, n) == 1
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.whole(0, all.len() as u64 - 1) as usize]
    }

    /// Evenly distributed, with three digits.
    pub(crate) fn even(&mut self, from: f64, to: f64) -> f64 {
        digits(from + (to - from) * self.unit(), 3)
    }

    /// Evenly distributed by its logarithm, with three digits. Nothing below `from`, whatever `to`
    /// is.
    pub(crate) fn spread(&mut self, from: f64, to: f64) -> f64 {
        digits(from * (to.max(from) / from).powf(self.unit()), 3)
    }
}

/// A number with so many digits, as people write it.
pub(crate) fn digits(x: f64, digits: usize) -> f64 {
    let text = format!("{x:.*e}", digits.saturating_sub(1));
    text.parse().unwrap_or(x)
}
