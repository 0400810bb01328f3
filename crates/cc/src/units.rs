//! Time, rate and gain: the three quantities of congestion control, each its own type.
//!
//! All are integers. A [`Rate`] is bytes per second and cannot be taken for bits; an [`Instant`] is
//! a point on the caller's monotonic clock, which may start anywhere, also at 0 or near
//! `u64::MAX`; a [`Gain`] holds the draft's hundredths and Linux's 256ths exactly. Every operation
//! saturates: no input makes one of them panic or wrap.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A point in time, in nanoseconds of the caller's monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Instant(u64);

/// A span of time in nanoseconds; the longest is 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Duration(u64);

/// A data rate in bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rate(u64);

/// A dimensionless factor, in units of 1/25600: both hundredths (the draft) and 256ths (Linux) are
/// exact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Gain(u32);

impl Instant {
    /// The end of every clock.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's own zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's own zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, or zero when `earlier` is later: an elapsed time is never
    /// negative, whatever a transport's clock does.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self` times `n`.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<core::time::Duration> for Duration {
    fn from(d: core::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for core::time::Duration {
    fn from(d: Duration) -> Self {
        Self::from_nanos(d.0)
    }
}

/// `a * b / c`, saturating, with `c` of 0 read as 1. The common case stays in 64 bits, because a
/// 128-bit division costs more than the whole rest of an ACK.
#[inline]
pub(crate) const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let c = if c == 0 { 1 } else { c };
    match a.checked_mul(b) {
        Some(p) => p / c,
        None => wide_mul_div(a, b, c),
    }
}

#[cold]
const fn wide_mul_div(a: u64, b: u64, c: u64) -> u64 {
    let q = (a as u128 * b as u128) / c as u128;
    if q > u64::MAX as u128 { u64::MAX } else { q as u64 }
}

impl Rate {
    /// No data at all.
    pub const ZERO: Self = Self(0);
    /// Faster than any link.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate of `bytes` bytes per second.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A rate of `bits` bits per second, rounded down to whole bytes.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// The rate that carries `bytes` in `interval`; an interval of zero counts as 1 ns.
    #[inline]
    pub const fn from_volume(bytes: u64, interval: Duration) -> Self {
        Self(mul_div(bytes, NANOS_PER_SEC, interval.0))
    }

    /// Bytes per second.
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0
    }

    /// Bits per second.
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// Bytes that this rate carries in `interval`, rounded down.
    #[inline]
    pub const fn bytes_in(self, interval: Duration) -> u64 {
        mul_div(self.0, interval.0, NANOS_PER_SEC)
    }

    /// The time in which this rate carries `bytes`, rounded up so that a sender that waits for it
    /// never exceeds the rate. [`Duration::MAX`] for a rate of zero.
    pub const fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        match bytes.checked_mul(NANOS_PER_SEC) {
            Some(p) => Duration(p.div_ceil(self.0)),
            None => {
                let t = (bytes as u128 * NANOS_PER_SEC as u128).div_ceil(self.0 as u128);
                Duration(if t > u64::MAX as u128 { u64::MAX } else { t as u64 })
            }
        }
    }
}

impl Gain {
    const ONE_RAW: u32 = 25_600;
    /// A factor of one.
    pub const ONE: Self = Self(Self::ONE_RAW);

    /// `n` hundredths: `percent(277)` is 2.77.
    pub const fn percent(n: u32) -> Self {
        Self(n.saturating_mul(256))
    }

    /// `n` 256ths, the unit of the Linux sources: `per_256(739)` is 739/256.
    pub const fn per_256(n: u32) -> Self {
        Self(n.saturating_mul(100))
    }

    /// The factor `part / whole`, rounded down to 1/25600, and at most one; a whole of zero gives
    /// zero.
    pub const fn ratio(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self(0);
        }
        let raw = mul_div(part, Self::ONE_RAW as u64, whole);
        Self(if raw > Self::ONE_RAW as u64 { Self::ONE_RAW } else { raw as u32 })
    }

    /// The sum of both factors.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The factor in hundredths, rounded down.
    pub const fn as_percent(self) -> u32 {
        self.0 / 256
    }

    /// `bytes` times this factor, rounded down.
    #[inline]
    pub const fn of(self, bytes: u64) -> u64 {
        mul_div(bytes, self.0 as u64, Self::ONE_RAW as u64)
    }

    /// `rate` times this factor, rounded down.
    #[inline]
    pub const fn of_rate(self, rate: Rate) -> Rate {
        Rate(self.of(rate.0))
    }

    /// `rate` divided by this factor, rounded down.
    pub const fn divide_rate(self, rate: Rate) -> Rate {
        Rate(self.divide(rate.0))
    }

    /// One minus this factor; zero when the factor is above one.
    pub const fn complement(self) -> Self {
        Self(Self::ONE_RAW.saturating_sub(self.0))
    }

    /// `bytes` divided by this factor, rounded down; a factor of zero gives `u64::MAX`.
    pub const fn divide(self, bytes: u64) -> u64 {
        if self.0 == 0 { u64::MAX } else { mul_div(bytes, Self::ONE_RAW as u64, self.0 as u64) }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", core::time::Duration::from(*self))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.as_bits_per_sec())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
