//! Times between the events of a Poisson process.

use fullpipe_units::Duration;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Exponentially distributed times, as between the events of a Poisson process.
#[derive(Clone, Debug)]
pub struct Exponential {
    rng: Pcg64Mcg,
}

impl Exponential {
    /// The start of the sequence that `seed` names.
    pub fn new(seed: u64) -> Self {
        Self { rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// A time with this mean, in whole nanoseconds.
    ///
    /// Von Neumann's method (1951): the fraction is a uniform number that starts a falling run of
    /// odd length, and each run of even length before it adds one. It compares integers and nothing
    /// else; a logarithm would differ between machines in its last bits.
    pub fn draw(&mut self, mean: Duration) -> Duration {
        let mut whole = 0u64;
        loop {
            let fraction = self.rng.next_u64();
            let mut last = fraction;
            let mut length = 1u32;
            loop {
                let next = self.rng.next_u64();
                if next >= last {
                    break;
                }
                last = next;
                length += 1;
            }
            if length % 2 == 1 {
                let mean = u128::from(mean.as_nanos());
                let part = (mean * u128::from(fraction)) >> 64;
                return Duration::from_nanos((mean as u64).saturating_mul(whole) + part as u64);
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_mean_and_the_tail_of_an_exponential() {
        let mut chance = Exponential::new(3);
        let mean = Duration::from_millis(1);
        let draws: Vec<f64> = (0..100_000)
            .map(|_| chance.draw(mean).as_nanos() as f64 / mean.as_nanos() as f64)
            .collect();
        let n = draws.len() as f64;
        let average = draws.iter().sum::<f64>() / n;
        let variance = draws.iter().map(|x| (x - average).powi(2)).sum::<f64>() / n;
        assert!((average - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.03);
        for t in [0.1f64, 1.0, 3.0] {
            let beyond = draws.iter().filter(|x| **x > t).count() as f64 / n;
            assert!((beyond - (-t).exp()).abs() < 0.005, "P(X > {t}) = {beyond}");
        }
    }
}
