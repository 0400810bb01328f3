//! Units of times and rates, as a column's name or an option says them.

use super::header::{Column, Role};
use super::{TraceFileError, wrong};

/// Unit of a time.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Deserialize, serde::Serialize,
)]
pub enum TimeUnit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
}

impl TimeUnit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Seconds, Self::Millis, Self::Micros, Self::Nanos];

    /// Its sign.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
        }
    }

    pub(super) const fn nanos(self) -> f64 {
        match self {
            Self::Seconds => 1e9,
            Self::Millis => 1e6,
            Self::Micros => 1e3,
            Self::Nanos => 1.0,
        }
    }

    pub(super) fn of_words(words: &[String]) -> Option<Self> {
        let is = |word: &str, unit: Self| match unit {
            Self::Seconds => matches!(word, "s" | "sec" | "secs" | "second" | "seconds"),
            Self::Millis => {
                matches!(word, "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds")
            }
            Self::Micros => {
                let short = matches!(word, "us" | "µs" | "μs" | "usec" | "usecs" | "micros");
                short || matches!(word, "microsecond" | "microseconds")
            }
            Self::Nanos => {
                matches!(word, "ns" | "nsec" | "nsecs" | "nanos" | "nanosecond" | "nanoseconds")
            }
        };
        words.iter().find_map(|word| Self::ALL.into_iter().find(|unit| is(word, *unit)))
    }

    /// The unit of a time since 1970, by its size; seconds for one that is none.
    pub(super) fn of_epoch(value: f64) -> Self {
        match value {
            v if v >= 1e17 => Self::Nanos,
            v if v >= 1e14 => Self::Micros,
            v if v >= 1e11 => Self::Millis,
            _ => Self::Seconds,
        }
    }
}

/// Unit of a rate, for a column whose name does not say it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Deserialize, serde::Serialize,
)]
pub enum RateUnit {
    /// Bits per second.
    #[serde(rename = "bit/s")]
    Bits,
    /// Thousands of bits per second.
    #[serde(rename = "kbit/s")]
    Kbits,
    /// Millions of bits per second.
    #[serde(rename = "mbit/s")]
    Mbits,
    /// Thousands of millions of bits per second.
    #[serde(rename = "gbit/s")]
    Gbits,
    /// Bytes per second.
    #[serde(rename = "B/s")]
    Bytes,
    /// Thousands of bytes per second.
    #[serde(rename = "kB/s")]
    Kbytes,
    /// Millions of bytes per second.
    #[serde(rename = "MB/s")]
    Mbytes,
    /// Bytes that were delivered since the row before.
    #[serde(rename = "B/row")]
    BytesPerRow,
}

impl RateUnit {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Bits,
        Self::Kbits,
        Self::Mbits,
        Self::Gbits,
        Self::Bytes,
        Self::Kbytes,
        Self::Mbytes,
        Self::BytesPerRow,
    ];

    /// Its sign, as it is written in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bits => "bit/s",
            Self::Kbits => "kbit/s",
            Self::Mbits => "mbit/s",
            Self::Gbits => "gbit/s",
            Self::Bytes => "B/s",
            Self::Kbytes => "kB/s",
            Self::Mbytes => "MB/s",
            Self::BytesPerRow => "B/row",
        }
    }

    /// Bytes per second, or those of a row.
    pub(super) const fn bytes(self) -> f64 {
        match self {
            Self::Bits => 1.0 / 8.0,
            Self::Kbits => 1e3 / 8.0,
            Self::Mbits => 1e6 / 8.0,
            Self::Gbits => 1e9 / 8.0,
            Self::Bytes | Self::BytesPerRow => 1.0,
            Self::Kbytes => 1e3,
            Self::Mbytes => 1e6,
        }
    }
}

/// No link is faster: bytes per second of 1 Tbit/s.
pub(super) const FASTEST: f64 = 1e12 / 8.0;

/// No path is longer: a minute in nanoseconds.
const LONGEST: f64 = 60e9;

/// Refuses a value that no link has, and names the units in which the number would be one.
pub(super) fn plausible(column: &Column, number: f64) -> Result<f64, TraceFileError> {
    let value = number * column.scale.unwrap_or(1.0);
    let (most, what, field, units): (f64, &str, &str, Vec<(&str, f64)>) = match column.role {
        Role::Rate if value > FASTEST => {
            let of_time = RateUnit::ALL.into_iter().filter(|unit| *unit != RateUnit::BytesPerRow);
            let units = of_time.map(|unit| (unit.name(), unit.bytes())).collect();
            (FASTEST, "a rate of more than 1 Tbit/s", "rate_unit", units)
        }
        Role::Rtt | Role::Delay if value > LONGEST => {
            let units = TimeUnit::ALL.map(|unit| (unit.name(), unit.nanos())).into();
            let what = match column.role {
                Role::Delay => "a delay of more than half a minute",
                _ => "an RTT of more than a minute",
            };
            (LONGEST, what, "rtt_unit", units)
        }
        Role::Loss if value > 1.0 => {
            return wrong(format!(
                "a loss of {number} in column '{}' is more than 1, which is everything; if these are percent, call \
                 the column loss_percent",
                column.name.escape_debug()
            ));
        }
        _ => return Ok(value),
    };
    let told =
        format!("{number} {} in column '{}' is {what}", column.unit, column.name.escape_debug());
    // A delay counts for both directions.
    let number = if column.role == Role::Delay { 2.0 * number } else { number };
    let fit: Vec<&str> =
        units.iter().filter(|(_, factor)| number * factor <= most).map(|(name, _)| *name).collect();
    match fit.first() {
        Some(first) if !column.says_unit => wrong(format!(
            "{told}; its unit may be {}: write {field} = \"{first}\", as an option --{} {first}",
            fit.join(", "),
            field.replace('_', "-")
        )),
        Some(_) => wrong(format!(
            "{told}; its unit may be {}: write that in its name, or correct the row",
            fit.join(", ")
        )),
        None => wrong(format!("{told}, and in every other unit too; correct the row")),
    }
}
