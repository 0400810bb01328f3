//! Counts values by size: a histogram that costs a packet a dozen instructions.
//!
//! hdrhistogram's own `record` costs five times that, which is felt when three values of each
//! packet are kept; so values are counted here, and handed out as its histogram, which knows
//! quantiles.

use hdrhistogram::Histogram;

/// Up to so many flows have distributions of their own: each is about 80 kB.
pub const MAX_OWN_TALLIES: usize = 64;

/// Counters of one power of two: a value is kept to within one part in 1024.
const STEPS_LOG2: u32 = 10;

/// Counters of values by their size.
#[derive(Clone, Debug)]
pub struct Tally {
    counts: Vec<u64>,
}

impl Tally {
    /// Nothing yet.
    #[expect(clippy::new_without_default, reason = "it is large: nobody should have one by chance")]
    pub fn new() -> Self {
        let octaves = (u64::BITS - STEPS_LOG2) as usize;
        // Zeroed memory that nothing touches takes none.
        Self { counts: vec![0; (octaves + 1) << STEPS_LOG2] }
    }

    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let shift = (value | 1 << STEPS_LOG2).ilog2() - STEPS_LOG2;
        let place = ((shift as usize) << STEPS_LOG2) + (value >> shift) as usize;
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
    }

    /// The counted values, each as the middle of its counter's range.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut all = Histogram::new(3).expect("three digits are within what the type takes");
        for (place, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let shift = (place >> STEPS_LOG2).saturating_sub(1) as u32;
            let low = ((place - ((shift as usize) << STEPS_LOG2)) as u64) << shift;
            // It grows as needed; only a value beyond 2^63 would be refused.
            let _ = all.record_n(low + (1 << shift >> 1), *count);
        }
        all
    }
}

/// Tallies of several flows: one for each, or where they are many one for all, because each takes
/// memory.
#[derive(Debug)]
pub struct FlowTallies {
    tallies: Vec<Tally>,
}

impl FlowTallies {
    /// For so many flows.
    pub fn new(flows: usize) -> Self {
        let count = if flows <= MAX_OWN_TALLIES { flows.max(1) } else { 1 };
        Self { tallies: (0..count).map(|_| Tally::new()).collect() }
    }

    /// Of a flow that is not a connection of another.
    #[inline]
    pub fn of(&mut self, flow: usize) -> &mut Tally {
        let place = flow.min(self.tallies.len() - 1);
        &mut self.tallies[place]
    }

    /// One histogram per flow; with too many flows for that, one histogram of all together.
    pub fn histograms(&self) -> Vec<Histogram<u64>> {
        self.tallies.iter().map(Tally::histogram).collect()
    }

    /// The histogram of all flows together.
    pub fn histogram(&self) -> Histogram<u64> {
        let [one] = self.tallies.as_slice() else {
            let mut all = Tally::new();
            for tally in &self.tallies {
                let each = all.counts.iter_mut().zip(&tally.counts);
                each.for_each(|(sum, count)| *sum += count);
            }
            return all.histogram();
        };
        one.histogram()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_to_within_a_thousandth() {
        for value in [0, 1, 1023, 1024, 2047, 2048, 2049, 123_456_789, 1 << 40, u64::MAX / 4] {
            let mut tally = Tally::new();
            tally.record(value);
            let back = tally.histogram().max();
            assert!(back.abs_diff(value) <= value / 900, "{value} came back as {back}");
        }
        let mut tally = Tally::new();
        (1..=1000).for_each(|v| tally.record(v));
        let all = tally.histogram();
        assert_eq!((all.len(), all.value_at_quantile(0.5), all.max()), (1000, 500, 1000));
    }

    #[test]
    fn what_flows_counted_apart_is_what_one_counts_together() {
        for (flows, own) in [(1, 1), (5, 5), (MAX_OWN_TALLIES + 1, 1)] {
            let (mut apart, mut together) = (FlowTallies::new(flows), Tally::new());
            for i in 0..1000 {
                apart.of(i % flows).record(i as u64 * 12_345);
                together.record(i as u64 * 12_345);
            }
            assert_eq!(apart.histogram(), together.histogram());
            let each = apart.histograms();
            assert_eq!(each.len(), own);
            assert_eq!(each.iter().map(Histogram::len).sum::<u64>(), 1000);
        }
    }
}
