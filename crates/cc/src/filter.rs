//! The windowed maximum that every BBR needs: over round trips, not over time.

impl<const N: usize> Default for RoundMax<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// The maximum over the last `N` round trips, exactly: one slot a round.
///
/// The draft and Linux take Nichols' three-sample estimate; `N` words and a scan once a round give
/// the true maximum, and no two samples can expire together.
#[derive(Clone, Debug)]
pub(crate) struct RoundMax<const N: usize> {
    /// Maxima of the rounds before `round`.
    slots: [u64; N],
    round: u64,
    /// Maximum of `round` itself, apart: its slot is found by a division, and needed once a round.
    current: u64,
    max: u64,
}

impl<const N: usize> RoundMax<N> {
    pub(crate) const fn new() -> Self {
        Self { slots: [0; N], round: 0, current: 0, max: 0 }
    }

    /// The maximum as of the last update: a window without samples forgets nothing.
    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// UpdateWindowedMaxFilter(): takes `value` in at `round`; the window is the last `rounds`, of
    /// which there are no more than `N`.
    pub(crate) fn update(&mut self, value: u64, round: u64, rounds: usize) -> u64 {
        if round != self.round {
            self.start_round(round, rounds);
        }
        if value > self.current {
            self.current = value;
            self.max = self.max.max(value);
        }
        self.max
    }

    #[cold]
    fn start_round(&mut self, round: u64, rounds: usize) {
        let len = N as u64;
        self.slots[(self.round % len) as usize] = self.current;
        let passed = round.saturating_sub(self.round).min(len);
        for ago in 0..passed {
            self.slots[((round - ago) % len) as usize] = 0;
        }
        // What a shorter window has forgotten must not come back when it grows.
        for ago in (rounds as u64).min(len)..len {
            self.slots[((round + len - ago) % len) as usize] = 0;
        }
        self.round = round;
        self.current = 0;
        self.max = 0;
        for ago in 0..(rounds as u64).min(len).min(round + 1) {
            self.max = self.max.max(self.slots[((round - ago) % len) as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_that_grows_does_not_remember_what_a_shorter_one_forgot() {
        let mut filter = RoundMax::<4>::new();
        filter.update(9, 1, 1);
        filter.update(2, 2, 1);
        assert_eq!(filter.update(1, 3, 4), 2, "of the round before, and not of the first");
    }

    const ROUNDS: usize = 10;

    proptest! {
        /// The filter against the definition: the largest value of the last ten rounds, or of as
        /// many as the window of a round has. What one window forgot the next one has forgotten.
        #[test]
        fn the_round_filter_is_the_true_maximum(
            samples in prop::collection::vec((0u64..3, 0u64..1000, 1..=ROUNDS), 1..200),
            is_window_fixed: bool,
        ) {
            let mut filter = RoundMax::<ROUNDS>::new();
            let mut seen: std::vec::Vec<(u64, u64)> = std::vec::Vec::new();
            let mut round = 0;
            for (step, value, window) in samples {
                let window = if is_window_fixed { ROUNDS } else { window };
                round += step * step * step;
                if step > 0 {
                    seen.retain(|(r, _)| r + window as u64 > round);
                }
                seen.push((round, value));
                let expected = seen.iter().map(|(_, v)| *v).max();
                prop_assert_eq!(Some(filter.update(value, round, window)), expected);
                prop_assert_eq!(Some(filter.max()), expected);
            }
        }
    }
}
