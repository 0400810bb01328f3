//! The arithmetic against that of whole numbers, and its extremes.

use fullpipe_units::{Duration, Gain, Instant, Rate, mul_div};
use proptest::prelude::*;

/// Values of every size.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(n, shift)| n >> shift)
}

fn saturated(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

proptest! {
    /// Products and quotients are those of whole numbers, rounded as is said, at most what 64
    /// bits hold.
    #[test]
    fn the_arithmetic_is_that_of_whole_numbers((a, b, c) in (number(), number(), number())) {
        let (wide_a, wide_b) = (u128::from(a), u128::from(b));
        let second = 1_000_000_000;
        let expected = saturated(wide_a * wide_b / u128::from(c.max(1)));
        prop_assert_eq!(mul_div(a, b, c), expected);
        let (rate, time) = (Rate::from_bytes_per_sec(a), Duration::from_nanos(b));
        prop_assert_eq!(rate.as_bytes_per_sec(), a);
        prop_assert_eq!(rate.as_bits_per_sec(), saturated(8 * wide_a));
        prop_assert_eq!(rate.bytes_in(time), saturated(wide_a * wide_b / second));
        let wait = (wide_b * second).checked_div(wide_a).map_or(u64::MAX, |whole| {
            let is_over = whole * wide_a >= wide_b * second;
            saturated(whole + u128::from(!is_over))
        });
        prop_assert_eq!(rate.time_for(b).as_nanos(), wait);
        let ratio = Gain::ratio(a, b);
        let expected = (wide_a * 25_600).checked_div(wide_b).map_or(0, |part| part.min(25_600));
        prop_assert_eq!(u128::from(ratio.of(25_600)), expected);
        prop_assert_eq!(u128::from(ratio.as_percent()), expected / 256);
    }

    /// Times are added and subtracted as their nanoseconds, between nothing and all there is.
    #[test]
    fn times_are_numbers_of_nanoseconds((a, b) in (number(), number())) {
        let (at, first, second) =
            (Instant::from_nanos(a), Duration::from_nanos(a), Duration::from_nanos(b));
        let (sum, difference) = (a.saturating_add(b), a.saturating_sub(b));
        let mut later = at;
        later += second;
        prop_assert_eq!((later.as_nanos(), (at + second).as_nanos()), (sum, sum));
        prop_assert_eq!((at - second).as_nanos(), difference);
        prop_assert_eq!((first + second).as_nanos(), sum);
        prop_assert_eq!((first - second).as_nanos(), difference);
        prop_assert_eq!(at.since(Instant::from_nanos(b)).as_nanos(), difference);
        let std = core::time::Duration::from_nanos(a);
        prop_assert_eq!((std.into(), first.into()), (first, std));
    }
}

#[test]
fn what_64_bits_do_not_hold_is_the_longest_time() {
    assert_eq!(Duration::from(core::time::Duration::MAX), Duration::MAX);
}

#[test]
fn a_wait_for_n_bytes_never_gives_more_than_n() {
    for rate in [1, 3, 7, 8_000, 12_500_000, 49_999_999_999] {
        for bytes in [1, 2, 1_199, 1_452, 65_536, 1 << 30] {
            let r = Rate::from_bytes_per_sec(rate);
            let t = r.time_for(bytes);
            assert!(r.bytes_in(t) >= bytes, "{rate} {bytes}: too early");
            let before = r.bytes_in(t - Duration::from_nanos(1));
            assert!(before < bytes, "{rate} {bytes}: {before} already a nanosecond before");
        }
    }
}

#[test]
fn gains_hold_hundredths_and_256ths_exactly() {
    assert_eq!(Gain::percent(277).of(100), 277);
    assert_eq!(Gain::per_256(739).of(256), 739);
    assert_eq!(Gain::percent(2).complement(), Gain::percent(98));
    assert_eq!(Gain::percent(98).divide(98), 100);
}

#[test]
fn extremes_saturate() {
    let far = Instant::from_nanos(u64::MAX);
    assert_eq!(far + Duration::from_secs(1), far);
    assert_eq!(Instant::default().since(far), Duration::ZERO);
    assert_eq!(Rate::MAX.bytes_in(Duration::MAX), u64::MAX);
    assert_eq!(Rate::ZERO.time_for(1), Duration::MAX);
    assert_eq!(Gain::percent(200).of(u64::MAX), u64::MAX);
    // 2 s at 10 Gbit/s, the product that overflowed 32 bits elsewhere.
    let bdp = Rate::from_bits_per_sec(10_000_000_000).bytes_in(Duration::from_secs(2));
    assert_eq!(bdp, 2_500_000_000);
}
