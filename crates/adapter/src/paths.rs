//! Configurations of the controllers of a connection, one for each of its paths.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "careful-resume")]
use std::sync::{Mutex, PoisonError};

use fullpipe_cc::{Algorithm, Config};
#[cfg(feature = "careful-resume")]
use fullpipe_cc::{Duration, SavedParameters};

use crate::Marks;

/// The algorithm of a connection, and what its controllers begin with: the part of a factory that
/// is the same for all stacks.
#[derive(Debug)]
pub struct PathConfigs {
    algorithm: Algorithm,
    next_seed: AtomicU64,
    marks: Option<Marks>,
    /// For the first controller.
    #[cfg(feature = "careful-resume")]
    saved: Mutex<Option<SavedParameters>>,
    /// [`Config::resume_within`] of it.
    #[cfg(feature = "careful-resume")]
    within: Option<Duration>,
}

impl PathConfigs {
    /// Configurations with drawn seeds of the randomised probe times.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            next_seed: AtomicU64::new(RandomState::new().build_hasher().finish()),
            marks: None,
            #[cfg(feature = "careful-resume")]
            saved: Mutex::default(),
            #[cfg(feature = "careful-resume")]
            within: None,
        }
    }

    /// The same with seeds that are made from `seed`, one for each controller in the order in which
    /// they are built.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { next_seed: AtomicU64::new(seed), ..self }
    }

    /// The same, of which the first controller begins with what an earlier connection has left (RFC
    /// 9959).
    #[cfg(feature = "careful-resume")]
    #[must_use]
    pub fn resuming(self, saved: SavedParameters) -> Self {
        Self { saved: Mutex::new(Some(saved)), ..self }
    }

    /// The same for parameters that live for no more than `lifetime` from now on
    /// ([`Config::resume_within`]).
    #[cfg(feature = "careful-resume")]
    #[must_use]
    pub fn for_lifetime(self, lifetime: Duration) -> Self {
        Self { within: Some(lifetime), ..self }
    }

    /// The same where marks are those of L4S ([`Config::ecn`]), whose number is in `marks`.
    #[must_use]
    pub fn with_marks(self, marks: Marks) -> Self {
        Self { marks: Some(marks), ..self }
    }

    /// The marks that its controllers hear of.
    pub fn marks(&self) -> Option<Marks> {
        self.marks.clone()
    }

    /// The algorithm of all of them.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The configuration of the next controller, without a packet size.
    pub fn next_config(&self) -> Config {
        let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
        let config = Config::new(seed);
        Config {
            ecn: self.marks.is_some(),
            // A panic while the lock was held leaves the value as it was.
            #[cfg(feature = "careful-resume")]
            resume: self.saved.lock().unwrap_or_else(PoisonError::into_inner).take(),
            #[cfg(feature = "careful-resume")]
            resume_within: self
                .within
                .map_or(config.resume_within, |lifetime| lifetime.min(config.resume_within)),
            ..config
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_has_a_seed_of_its_own() {
        let configs = PathConfigs::new(Algorithm::BBR3).with_seed(u64::MAX);
        let seeds = [(); 3].map(|()| configs.next_config().seed);
        assert_eq!(seeds, [u64::MAX, 0, 1]);
    }

    #[cfg(feature = "careful-resume")]
    #[test]
    fn saved_parameters_are_used_once() {
        let saved = SavedParameters { cwnd: 1 << 20, rtt: fullpipe_cc::Duration::from_millis(40) };
        let configs = PathConfigs::new(Algorithm::BBR3).resuming(saved);
        let resume = [(); 3].map(|()| configs.next_config().resume);
        assert_eq!(resume, [Some(saved), None, None]);
        // The rest of their lifetime counts, and no more than a minute.
        let within = |seconds| {
            let lifetime = Duration::from_secs(seconds);
            let configs = PathConfigs::new(Algorithm::BBR3).resuming(saved);
            configs.for_lifetime(lifetime).next_config().resume_within
        };
        assert_eq!([within(5), within(3600)], [5, 60].map(Duration::from_secs));
    }
}
