//! A value that changes at given times.

use std::sync::Arc;

use fullpipe_cc::{Duration, Instant};

/// Steps in the order of time; the first holds from the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Schedule<V> {
    steps: Arc<[(Duration, V)]>,
    current: usize,
}

impl<V: Copy> Schedule<V> {
    /// `steps` are not empty and in order: the configuration was validated.
    pub(crate) fn new(steps: &[(Duration, V)]) -> Self {
        Self { steps: steps.into(), current: 0 }
    }

    /// The value at `now`, which never goes back.
    pub(crate) fn at(&mut self, now: Instant) -> V {
        while self.next_step().is_some_and(|at| at <= now) {
            self.current += 1;
        }
        self.steps[self.current].1
    }

    /// The time at which the value of the last [`Self::at`] ends.
    pub(crate) fn next_step(&self) -> Option<Instant> {
        self.steps.get(self.current + 1).map(|(at, _)| Instant::default() + *at)
    }
}
