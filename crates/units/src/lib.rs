//! Time, rate and gain: the three quantities of congestion control, each its own type.
//!
//! All are integers. A [`Rate`] is bytes per second and cannot be taken for bits; an [`Instant`] is
//! a point on the caller's monotonic clock, which may start anywhere, also at 0 or near
//! `u64::MAX`; a [`Gain`] holds the hundredths of BBR's draft and Linux's 256ths exactly. Every
//! operation saturates: no input makes one of them panic or wrap.
//!
//! # Features
//!
//! - `serde`: serialisation. An [`Instant`] and a [`Duration`] are nanoseconds, a [`Rate`] is bytes
//!   per second, a [`Gain`] is in 1/25600.
//! - `defmt`: `defmt::Format`, for logs on microcontrollers.
#![no_std]
#![forbid(unsafe_code)]

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

/// A dimensionless factor, in units of 1/25600: both hundredths (BBR's draft) and 256ths (Linux)
/// are exact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Gain(u32);

impl Instant {
    /// The end of every clock.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's own zero.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's own zero.
    #[inline]
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
    #[inline]
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    #[inline]
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
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds.
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds.
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// The span in nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self` times `n`.
    #[inline]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add for Duration {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<core::time::Duration> for Duration {
    #[inline]
    fn from(d: core::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for core::time::Duration {
    #[inline]
    fn from(d: Duration) -> Self {
        Self::from_nanos(d.0)
    }
}

/// `a * b / c`, saturating, with `c` of 0 read as 1. The common case stays in 64 bits, because a
/// 128-bit division costs more than the whole rest of an ACK.
#[inline]
pub const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
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
    #[inline]
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A rate of `bits` bits per second, rounded down to whole bytes.
    #[inline]
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// The rate that carries `bytes` in `interval`; an interval of zero counts as 1 ns.
    #[inline]
    pub const fn from_volume(bytes: u64, interval: Duration) -> Self {
        Self(mul_div(bytes, NANOS_PER_SEC, interval.0))
    }

    /// Bytes per second.
    #[inline]
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0
    }

    /// Bits per second.
    #[inline]
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
    #[inline]
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
    #[inline]
    pub const fn percent(n: u32) -> Self {
        Self(n.saturating_mul(256))
    }

    /// `n` 256ths, the unit of the Linux sources: `per_256(739)` is 739/256.
    #[inline]
    pub const fn per_256(n: u32) -> Self {
        Self(n.saturating_mul(100))
    }

    /// The factor `part / whole`, rounded down to 1/25600, and at most one; a whole of zero gives
    /// zero.
    #[inline]
    pub const fn ratio(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self(0);
        }
        let raw = mul_div(part, Self::ONE_RAW as u64, whole);
        Self(if raw > Self::ONE_RAW as u64 { Self::ONE_RAW } else { raw as u32 })
    }

    /// The sum of both factors.
    #[inline]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The factor in hundredths, rounded down.
    #[inline]
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
    #[inline]
    pub const fn divide_rate(self, rate: Rate) -> Rate {
        Rate(self.divide(rate.0))
    }

    /// One minus this factor; zero when the factor is above one.
    #[inline]
    pub const fn complement(self) -> Self {
        Self(Self::ONE_RAW.saturating_sub(self.0))
    }

    /// `bytes` divided by this factor, rounded down; a factor of zero gives `u64::MAX`.
    #[inline]
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

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
