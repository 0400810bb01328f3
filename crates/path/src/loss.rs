//! Independent random loss.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::element::{Entry, Packet};
use crate::{DropReason, Probability};

/// Loses each packet with one probability, whatever happened to the others.
#[derive(Debug)]
pub(crate) struct Loss {
    probability: Probability,
    rng: Pcg64Mcg,
}

impl Loss {
    pub(crate) fn new(probability: Probability, seed: u64) -> Self {
        Self { probability, rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    pub(crate) fn enter<T>(&mut self, packet: Packet<T>) -> Entry<T> {
        // 63 bits against a threshold of at most 2^63: a probability of 1 is certain, 0 impossible.
        if self.rng.next_u64() >> 1 < self.probability.threshold() {
            Entry::Dropped(DropReason::RandomLoss, packet)
        } else {
            Entry::Passed(packet)
        }
    }
}
