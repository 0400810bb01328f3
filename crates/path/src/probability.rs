//! Chance, in integers.

use std::fmt;

use fullpipe_units::Duration;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::ConfigError;

/// A probability from 0 to 1, held as an integer so that every draw is an exact comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(1 << 63);

    /// `p` in steps of 2^-63.
    ///
    /// # Errors
    /// [`ConfigError::NoProbability`] unless `p` is a number from 0 to 1.
    pub fn new(p: f64) -> Result<Self, ConfigError> {
        if !(0.0..=1.0).contains(&p) {
            return Err(ConfigError::NoProbability(p));
        }
        Ok(Self((p * Self::ONE.0 as f64) as u64))
    }

    /// A number between two of 63 bits: this share of `last`, and the rest of `new`.
    pub(crate) fn between(self, new: u64, last: u64) -> u64 {
        let (share, rest) = (u128::from(self.0), u128::from(Self::ONE.0 - self.0));
        ((u128::from(new) * rest + u128::from(last) * share) >> 63) as u64
    }

    /// The probability as a number from 0 to 1.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

/// One element's own random numbers.
#[derive(Clone, Debug)]
pub(crate) struct RandomSource(Pcg64Mcg);

impl RandomSource {
    /// Every element draws from its own generator, so that adding one does not change what the
    /// others do, and equal elements do not do the same.
    pub(crate) fn new(seed: u64, position: usize) -> Self {
        // The golden ratio's fraction, as in SplitMix64: neighbouring positions differ in every
        // bit.
        let seed = seed ^ (position as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Yes with `probability`: 63 bits against a threshold of at most 2^63, so a probability of 1
    /// is certain and 0 impossible.
    pub(crate) fn says(&mut self, probability: Probability) -> bool {
        self.draw() < probability.0
    }

    /// A draw as a time from nothing to `most`.
    pub(crate) fn share(draw: u64, most: Duration) -> Duration {
        let steps = u128::from(most.as_nanos()) + 1;
        Duration::from_nanos(((u128::from(draw) * steps) >> 63) as u64)
    }

    /// A number from 0 to below 1, in steps of 2^-53.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.draw() >> 10) as f64 / (1_u64 << 53) as f64
    }

    /// A number from 0 to 2^63 - 1.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0.next_u64() >> 1
    }
}
