//! Counts values by size: a histogram that costs a packet a dozen instructions.
//!
//! hdrhistogram's own `record` costs five times that, which is felt when three values of each
//! packet are kept; so values are counted here. A counter is for the values that a histogram of
//! three digits holds to be equal, so that its figures and those made of the counters are the same.

use hdrhistogram::Histogram;

/// Up to so many flows have distributions of their own: each is 8 kB for each power of two that
/// its values come to.
pub const MAX_OWN_TALLIES: usize = 64;

/// Counters of one power of two: a value is kept to within one part in 1024.
const STEPS_LOG2: u32 = 10;
const STEPS: usize = 1 << STEPS_LOG2;
/// The values below [`STEPS`], and the powers of two from there on.
const OCTAVES: usize = (u64::BITS - STEPS_LOG2) as usize + 1;

/// Counters that are looked at together.
const CHUNK: usize = 16;

/// Counters of values by their size.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Only those in which a value was counted: a short run should not pay for all.
    octaves: [Option<Box<[u64; STEPS]>>; OCTAVES],
}

/// Values that are counted as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The least of these values.
    pub least: u64,
    /// The largest of them.
    pub most: u64,
    /// The number of times that one of them was counted.
    pub count: u64,
}

impl Counted {
    /// The value in the middle, which stands for all of them.
    pub fn middle(&self) -> u64 {
        self.least + (self.most - self.least).div_ceil(2)
    }
}

impl Tally {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { octaves: [const { None }; OCTAVES] }
    }

    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value so many times.
    #[inline]
    pub fn record_n(&mut self, value: u64, times: u64) {
        let shift = (value | STEPS as u64).ilog2() - STEPS_LOG2;
        let place = ((shift as usize) << STEPS_LOG2) + (value >> shift) as usize;
        let octave = &mut self.octaves[place / STEPS];
        match octave {
            Some(counts) => counts[place % STEPS] += times,
            None => counters(octave)[place % STEPS] += times,
        }
    }

    /// The counters above zero, by rising values.
    pub fn counted(&self) -> Vec<Counted> {
        let mut all = Vec::new();
        for (i, counts) in self.octaves.iter().enumerate() {
            let Some(counts) = counts else { continue };
            let shift = i.saturating_sub(1) as u32;
            // The first value of the octave, in steps.
            let start = if i == 0 { 0 } else { STEPS };
            for (j, some) in counts.chunks(CHUNK).enumerate() {
                // Most counters are zero.
                if some.iter().fold(0, |all, count| all | count) == 0 {
                    continue;
                }
                for (step, count) in (start + CHUNK * j..).zip(some).filter(|(_, n)| **n > 0) {
                    let least = (step as u64) << shift;
                    all.push(Counted { least, most: least + ((1 << shift) - 1), count: *count });
                }
            }
        }
        all
    }

    /// The number of values.
    pub fn len(&self) -> u64 {
        self.octaves.iter().flatten().flat_map(|counts| counts.iter()).sum()
    }

    /// True if no value was counted.
    pub fn is_empty(&self) -> bool {
        self.octaves.iter().all(Option::is_none)
    }

    /// Counts the values of another one as well.
    pub fn add(&mut self, other: &Self) {
        for (octave, more) in self.octaves.iter_mut().zip(&other.octaves) {
            if let Some(more) = more {
                counters(octave).iter_mut().zip(more.iter()).for_each(|(sum, n)| *sum += n);
            }
        }
    }

    /// Counts what is in `after` and was not yet in `before`, which was that one earlier.
    pub fn add_between(&mut self, before: &Self, after: &Self) {
        self.add(after);
        for (octave, less) in self.octaves.iter_mut().zip(&before.octaves) {
            if let (Some(octave), Some(less)) = (octave, less) {
                octave.iter_mut().zip(less.iter()).for_each(|(sum, n)| *sum -= n);
            }
        }
    }

    /// The counted values as a histogram of three digits.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut all = Histogram::new(3).expect("three digits are within what the type takes");
        for values in self.counted() {
            // It grows as needed; only a value beyond 2^63 would be refused.
            let _ = all.record_n(values.middle(), values.count);
        }
        all
    }
}

#[cold]
fn counters(octave: &mut Option<Box<[u64; STEPS]>>) -> &mut [u64; STEPS] {
    octave.get_or_insert_with(|| Box::new([0; STEPS]))
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&Histogram<u64>> for Tally {
    fn from(histogram: &Histogram<u64>) -> Self {
        let mut all = Self::new();
        for values in histogram.iter_recorded() {
            all.record_n(
                histogram.median_equivalent(values.value_iterated_to()),
                values.count_at_value(),
            );
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

    /// One for each flow; with too many flows for that, one of all together.
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// The histogram of all flows together.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut all = Tally::new();
        self.tallies.iter().for_each(|tally| all.add(tally));
        all.histogram()
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

    /// Every counter is for the values that the histogram holds to be equal, and no others.
    #[test]
    fn a_counter_has_the_bounds_of_the_histograms() {
        let histogram = Histogram::<u64>::new(3).expect("three digits");
        for shift in 0..62 {
            for value in [1u64 << shift, (1 << shift) + 1, (3 << shift) - 1, (3 << shift) + 7] {
                let mut tally = Tally::new();
                tally.record_n(value, 3);
                let counted = tally.counted();
                let least = histogram.lowest_equivalent(value);
                let most = histogram.highest_equivalent(value);
                assert_eq!(counted, [Counted { least, most, count: 3 }], "{value}");
                assert_eq!(counted[0].middle(), histogram.median_equivalent(value));
            }
        }
    }

    #[test]
    fn what_was_counted_between_two_moments_is_the_difference() {
        let (mut before, mut later) = (Tally::new(), Tally::new());
        for value in [5, 5, 70_000, 1 << 40] {
            before.record(value);
        }
        let mut after = before.clone();
        for value in [5, 9, 70_000, 1 << 50] {
            after.record(value);
            later.record(value);
        }
        let mut between = Tally::new();
        between.add_between(&before, &after);
        assert_eq!(between.histogram(), later.histogram());
        assert_eq!((between.len(), before.len(), after.len()), (4, 4, 8));
        assert_eq!(Tally::from(&after.histogram()).histogram(), after.histogram());
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
            let each = apart.tallies();
            assert_eq!(each.len(), own);
            assert_eq!(each.iter().map(Tally::len).sum::<u64>(), 1000);
        }
    }
}
