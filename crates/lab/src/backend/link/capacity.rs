//! The delays, rates and buffers of a path, and what it lets by.

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{ElementConfig, JitterConfig, MTU_BYTES, PathConfig, QueueLimit, RateConfig};

/// The longest delay of a packet that waits in no queue.
pub(super) fn longest_delay(path: &PathConfig) -> Duration {
    let of = |element: &ElementConfig| match element {
        ElementConfig::Delay(delay) | ElementConfig::Reordering { delay, .. } => *delay,
        ElementConfig::DelaySteps(steps) => longest(steps),
        ElementConfig::DelaySeries(series) => longest(series.steps()),
        ElementConfig::Jitter(jitter) => jitter.most(),
        ElementConfig::JitterSeries(series) => longest(series.map(JitterConfig::most).steps()),
        ElementConfig::Aggregation { interval, .. } => *interval,
        _ => Duration::ZERO,
    };
    path.row.iter().fold(Duration::ZERO, |sum, element| sum + of(element))
}

fn longest(steps: &[(Duration, Duration)]) -> Duration {
    steps.iter().map(|(_, delay)| *delay).max().unwrap_or_default()
}

/// The lowest rate above 0 that an element ever has; nothing without one.
pub(super) fn slowest(path: &PathConfig) -> Option<Rate> {
    path.row.iter().flat_map(rates).filter(|rate| *rate > Rate::ZERO).min()
}

/// Every rate that a bottleneck or a bucket has at some time; of a trace the mean.
fn rates(element: &ElementConfig) -> Vec<Rate> {
    let of = |steps: &[(Duration, Rate)]| steps.iter().map(|(_, rate)| *rate).collect();
    match element {
        ElementConfig::Policer { rate, .. } | ElementConfig::Shaper { rate, .. } => vec![*rate],
        ElementConfig::Bottleneck { rate, .. } => match rate {
            RateConfig::Steps(steps) => of(steps),
            RateConfig::Series(series) => of(series.steps()),
            _ => vec![rate.nominal()],
        },
        _ => Vec::new(),
    }
}

/// The most bytes that pass each of the elements in any such time; 0 where none has a rate.
pub(super) fn let_by(path: &PathConfig, time: Duration) -> u64 {
    let each = path.row.iter().filter_map(|element| match element {
        ElementConfig::Bottleneck { rate: RateConfig::Trace(times), .. } => {
            Some(most_opportunities(times, time).saturating_mul(u64::from(MTU_BYTES)))
        }
        _ => {
            let bucket = match element {
                ElementConfig::Policer { bucket_bytes, .. }
                | ElementConfig::Shaper { bucket_bytes, .. } => *bucket_bytes,
                _ => 0,
            };
            let fastest = rates(element).into_iter().max()?;
            Some(fastest.bytes_in(time).saturating_add(bucket))
        }
    });
    each.min().unwrap_or(0)
}

/// The most opportunities of a trace in such a time, both ends of it included.
fn most_opportunities(times: &[Duration], time: Duration) -> u64 {
    let n = times.len();
    let period = times.last().map_or(0, |last| last.as_nanos()).max(1);
    let (whole, part) = (time.as_nanos() / period, time.as_nanos() % period);
    let at = |i: usize| times[i % n].as_nanos().saturating_add((i / n) as u64 * period);
    let (mut most, mut end) = (0, 0);
    for start in 0..n {
        while end < start + n && at(end) - at(start) <= part {
            end += 1;
        }
        most = most.max(end - start);
    }
    whole.saturating_mul(n as u64).saturating_add(most as u64)
}

/// What all queues of the path together have room for, in bytes.
pub(super) fn buffers(path: &PathConfig) -> u64 {
    let queues = path.row.iter().filter_map(|element| match element {
        ElementConfig::Bottleneck { queue, .. } => {
            let fastest = rates(element).into_iter().max().unwrap_or_default();
            Some(queue.limit().at(fastest))
        }
        ElementConfig::Shaper { queue, .. } => Some(*queue),
        _ => None,
    });
    queues.map(bytes).fold(0, u64::saturating_add)
}

fn bytes(limit: QueueLimit) -> u64 {
    match limit {
        QueueLimit::Bytes(n) => n,
        QueueLimit::Packets(n) => n.saturating_mul(u64::from(MTU_BYTES)),
        QueueLimit::Time(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn bottleneck(rate: impl Into<RateConfig>) -> ElementConfig {
        ElementConfig::Bottleneck { rate: rate.into(), queue: QueueLimit::Bytes(1_000).into() }
    }

    fn bytes_per_sec(n: u64) -> Rate {
        Rate::from_bytes_per_sec(n)
    }

    fn row<const N: usize>(row: [ElementConfig; N]) -> PathConfig {
        PathConfig { row: row.into(), seed: 1 }
    }

    /// The slowest of a row is what lets by, each at its best.
    #[test]
    fn the_element_that_lets_by_least_counts() {
        let fast = bottleneck(bytes_per_sec(1_000_000));
        let steps = vec![(ms(0), bytes_per_sec(500)), (SECOND, bytes_per_sec(20_000))];
        let steps = bottleneck(RateConfig::Steps(steps));
        let path = row([fast.clone(), ElementConfig::Delay(ms(5)), steps]);
        assert_eq!((let_by(&path, SECOND), buffers(&path)), (20_000, 2_000));
        assert_eq!(slowest(&path), Some(bytes_per_sec(500)));
        let rate = bytes_per_sec(2_000);
        let path = row([
            fast,
            ElementConfig::Policer { rate, bucket_bytes: 30_000, initial_bytes: 30_000 },
        ]);
        assert_eq!((let_by(&path, SECOND), let_by(&path, ms(0))), (32_000, 0));
        assert_eq!(let_by(&row([ElementConfig::Delay(SECOND)]), SECOND), 0, "no rate");
    }

    /// A trace counts with its best stretch, also over its end, and not with its mean.
    #[test]
    fn a_trace_lets_by_what_its_best_stretch_does() {
        let times = [10, 20, 500, 980, 990, 1_000].map(ms);
        let known = [(0, 1), (10, 2), (29, 3), (30, 4), (39, 4), (40, 5), (519, 5), (520, 6)];
        for (time, packets) in known.into_iter().chain([(1_000, 7), (1_020, 9)]) {
            assert_eq!(most_opportunities(&times, ms(time)), packets, "{time} ms");
        }
        let path = row([bottleneck(RateConfig::Trace(times.into()))]);
        assert_eq!(let_by(&path, ms(30)), 6_000);
    }

    #[test]
    fn each_delay_counts_at_its_longest() {
        let path = row([
            ElementConfig::Delay(ms(1)),
            ElementConfig::DelaySteps(vec![(ms(0), ms(20)), (ms(500), ms(70)), (SECOND, ms(30))]),
            ElementConfig::Jitter(ms(400).into()),
        ]);
        assert_eq!(longest_delay(&path), ms(471));
    }
}
