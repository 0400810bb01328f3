//! Windowed maxima, by their definition.

/// Over the present cycle and the one before.
#[derive(Default)]
pub(crate) struct CycleMax {
    /// BBR.cycle_count.
    cycle: u64,
    /// Samples and their cycles.
    samples: Vec<(u64, u64)>,
}

impl CycleMax {
    pub(crate) fn update(&mut self, value: u64) -> u64 {
        self.samples.retain(|(cycle, old)| cycle + 1 >= self.cycle && *old > value);
        self.samples.push((self.cycle, value));
        self.max()
    }

    /// The next cycle begins; an empty one may go on instead. Returns the maximum of what is left.
    pub(crate) fn advance(&mut self, empty_goes_on: bool) -> u64 {
        let is_empty = self.samples.iter().all(|(cycle, _)| *cycle != self.cycle);
        if !(is_empty && empty_goes_on) {
            self.cycle += 1;
            self.samples.retain(|(cycle, _)| cycle + 1 >= self.cycle);
        }
        self.max()
    }

    fn max(&self) -> u64 {
        self.samples.iter().map(|(_, value)| *value).max().unwrap_or(0)
    }
}

/// Over the last rounds. What a shorter window forgot stays forgotten.
#[derive(Default)]
pub(crate) struct RoundMax {
    /// The newest round, and the window of its first sample.
    newest: Option<(u64, u64)>,
    samples: Vec<(u64, u64)>,
}

impl RoundMax {
    /// Takes a value in. A round may keep the window of its first sample.
    pub(crate) fn update(&mut self, value: u64, round: u64, rounds: u64, keeps: bool) -> u64 {
        let first = self.newest.filter(|(newest, _)| keeps && *newest == round);
        let rounds = first.map_or(rounds, |(_, rounds)| rounds);
        self.newest = Some((round, rounds));
        self.samples.retain(|(then, old)| then + rounds > round && *old > value);
        self.samples.push((round, value));
        self.samples[0].1
    }
}
