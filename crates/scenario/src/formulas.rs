//! The formulas behind the results, each on its own.

use fullpipe_cc::{Duration, Rate};

/// Bits per second that make `bytes` in `time`; 0 in no time.
pub fn bits_per_sec(bytes: u64, time: Duration) -> u64 {
    if time == Duration::ZERO {
        0
    } else {
        Rate::from_volume(bytes.saturating_mul(8), time).as_bytes_per_sec()
    }
}

/// `part / whole`, and 0 of nothing.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { round(part as f64 / whole as f64, 6) }
}

/// Jain's fairness index, (Σx)² / (n Σx²): 1 when all are equal, 1/n when one has everything. Flows
/// that all got nothing were treated alike.
pub fn jain(goodputs: impl IntoIterator<Item = u64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in goodputs {
        let x = x as f64;
        n += 1.0;
        sum += x;
        squares += x * x;
    }
    if squares == 0.0 { 1.0 } else { round(sum * sum / (n * squares), 6) }
}

/// The least value that `percent` of all do not exceed (nearest rank: the one at place `percent` ×
/// n ÷ 100, rounded up, counted from 1); the least of all for 0, nothing of none. Sorts the values.
pub fn percentile(values: &mut [f64], percent: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied()
}

/// Milliseconds, to the microsecond.
pub fn millis(d: Duration) -> f64 {
    millis_of(d.as_nanos() as f64)
}

/// Nanoseconds as milliseconds, to the microsecond.
pub fn millis_of(nanos: f64) -> f64 {
    round(nanos / 1e6, 3)
}

/// Seconds, to the tenth of a millisecond.
pub fn seconds(d: Duration) -> f64 {
    round(d.as_nanos() as f64 / 1e9, 4)
}

/// Digits beyond what was measured only make the JSON longer.
fn round(x: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (x * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_bits_over_time() {
        assert_eq!(bits_per_sec(12_500_000, Duration::from_secs(1)), 100_000_000);
        assert_eq!(bits_per_sec(12_500_000, Duration::from_secs(4)), 25_000_000);
        assert_eq!(bits_per_sec(1, Duration::ZERO), 0);
        assert_eq!(bits_per_sec(0, Duration::from_secs(1)), 0);
    }

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_a_monopoly() {
        assert_eq!(jain([5, 5, 5, 5]), 1.0);
        assert_eq!(jain([8, 0, 0, 0]), 0.25);
        assert_eq!(jain([3, 1]), 0.8);
        assert_eq!(jain([7]), 1.0);
        assert_eq!(jain([0, 0]), 1.0);
    }

    #[test]
    fn a_percentile_is_the_value_of_the_nearest_rank() {
        let of = |n: u32, percent| {
            percentile(&mut (1..=n).rev().map(f64::from).collect::<Vec<_>>(), percent)
        };
        // The known answers of the definition: the 2nd of 4, the 19th of 20, the 99th of 100.
        assert_eq!((of(4, 50), of(20, 95), of(100, 99)), (Some(2.0), Some(19.0), Some(99.0)));
        assert_eq!((of(5, 50), of(10, 95), of(3, 99)), (Some(3.0), Some(10.0), Some(3.0)));
        assert_eq!((of(7, 0), of(7, 100), of(1, 50)), (Some(1.0), Some(7.0), Some(1.0)));
        assert_eq!(of(0, 50), None);
    }

    #[test]
    fn times_keep_the_digits_that_were_measured() {
        assert_eq!(millis(Duration::from_nanos(40_123_456)), 40.123);
        assert_eq!(seconds(Duration::from_nanos(9_999_949_999)), 9.9999);
    }
}
