//! The figures of what was counted between two moments.

use fullpipe_traffic::Tally;

use super::Stat;

/// The usual figures of a distribution, in its own unit: all of them from one walk over the
/// counters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Distribution {
    min: f64,
    mean: f64,
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

impl Distribution {
    /// Of all these together, each counted between a moment and a later one; nothing where nothing
    /// was counted. The figures are those of an HDR histogram of three digits: a quantile and the
    /// maximum are the largest value of a counter, the minimum is the least.
    pub(super) fn between(pairs: &[(&Tally, &Tally)]) -> Option<Self> {
        let mut sum;
        let all = match pairs {
            // Most windows are the whole run.
            [(before, after)] if before.is_empty() => *after,
            _ => {
                sum = Tally::new();
                pairs.iter().for_each(|(before, after)| sum.add_between(before, after));
                &sum
            }
        };
        let all = all.counted();
        let values = all.iter().map(|each| each.count).sum::<u64>() as f64;
        // So many values are not above a quantile.
        let ranks = [0.5, 0.95, 0.99].map(|q| (q * values).ceil() as u64);
        let mut quantiles = ranks.map(|_| None);
        let (mut min, mut mean, mut max, mut counted) = (None, 0.0, 0.0, 0);
        for each in &all {
            counted += each.count;
            max = each.most as f64;
            min.get_or_insert(each.least as f64);
            mean += each.middle() as f64 * each.count as f64 / values;
            for (quantile, rank) in quantiles.iter_mut().zip(ranks) {
                if quantile.is_none() && counted >= rank {
                    *quantile = Some(max);
                }
            }
        }
        let [p50, p95, p99] = quantiles;
        Some(Self { min: min?, mean, p50: p50?, p95: p95?, p99: p99?, max })
    }

    pub(super) fn stat(&self, stat: Stat) -> Option<f64> {
        match stat {
            Stat::Min => Some(self.min),
            Stat::Mean => Some(self.mean),
            Stat::P50 => Some(self.p50),
            Stat::P95 => Some(self.p95),
            Stat::P99 => Some(self.p99),
            Stat::Max => Some(self.max),
            Stat::Last => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    use super::*;

    /// To the last bit: results of one file are compared as text.
    #[test]
    fn the_figures_are_those_of_a_histogram_of_three_digits() {
        let mut chance = Pcg64Mcg::seed_from_u64(1);
        for case in 0..200 {
            // Up to here all are counted before the window.
            let (before, all) = (case % 3 * 20, 1 + case % 40 * 3);
            let (mut earlier, mut later) = (Tally::new(), Tally::new());
            let mut histogram = Histogram::<u64>::new(3).expect("three digits");
            for i in 0..before + all {
                let value = chance.next_u64() >> (chance.next_u64() % 62 + 2);
                later.record(value);
                match i < before {
                    true => earlier.record(value),
                    false => histogram.record(value).expect("a value below 2^63"),
                }
            }
            let found = Distribution::between(&[(&earlier, &later)]).expect("some values");
            let at = |q| histogram.value_at_quantile(q) as f64;
            let wanted = Distribution {
                min: histogram.min() as f64,
                mean: histogram.mean(),
                p50: at(0.5),
                p95: at(0.95),
                p99: at(0.99),
                max: histogram.max() as f64,
            };
            assert_eq!(found, wanted, "case {case}");
        }
    }

    #[test]
    fn nothing_between_two_moments_has_no_figures() {
        let mut tally = Tally::new();
        tally.record(7);
        assert_eq!(Distribution::between(&[(&tally, &tally)]), None);
        assert_eq!(Distribution::between(&[]), None);
        let twice = Distribution::between(&[(&Tally::new(), &tally), (&Tally::new(), &tally)]);
        assert_eq!(twice.and_then(|d| d.stat(Stat::Mean)), Some(7.0));
        assert_eq!(twice.and_then(|d| d.stat(Stat::Last)), None);
    }
}
