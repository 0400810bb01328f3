//! Quantities as people write them: `100mbit`, `40ms`, `1bdp`, `0.1%`, `100MB`.
//!
//! The conventions are those of tc and iperf3 where the two agree, and a refusal where they do not:
//! - Rates are bits per second and their prefixes are powers of 1000: `100mbit` (tc) and `100M`
//!   (iperf3) are the same. `100mbps` is refused, because tc reads it as bytes, and `100`, because
//!   who writes that rarely means 100 bit/s.
//! - Times need their unit: tc reads a bare number as microseconds, iperf3 as seconds.
//! - Volumes: MB is 10^6 bytes, MiB is 2^20. A bare prefix (`6M`) is refused: tc reads it as 2^20.
//! - Losses: `0.1%` and `0.001` are the same.
//!
//! Every function here that prints gives a text that the function beside it reads back.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{Probability, QueueLimit};

/// A quantity that cannot be understood: one line that says what is wrong and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

pub(crate) fn wrong(text: &str, why: &str, examples: &str) -> ParseError {
    ParseError(format!("'{}' {why}; write {examples}", printable(text)))
}

/// Keeps an error on its one line, whatever was typed.
fn printable(text: &str) -> String {
    let mut out: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        out.push('…');
    }
    out
}

/// Splits `12.5mbit` into 12.5 and `mbit`. Signs, exponents, `inf` and `nan` are no numbers here.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// `number * scale` as an integer, or nothing when it does not fit.
fn scaled(number: f64, scale: f64) -> Option<u64> {
    let v = (number * scale).round();
    // Above 2^63 the numbers are beyond any network, and sums of them would overflow.
    (v < 9.2e18).then_some(v as u64)
}

/// Reads a rate: `100mbit`, `1.5gbit`, `500kbit`, `100M`, `0`.
pub fn parse_rate(text: &str) -> Result<Rate, ParseError> {
    const LIKE: &str = "a rate like 100mbit, 1gbit, 500kbit or 100M";
    let (number, unit) = split(text).ok_or_else(|| wrong(text, "is not a rate", LIKE))?;
    let unit = unit.to_ascii_lowercase();
    let scale = match unit.strip_suffix("/s").unwrap_or(&unit) {
        "bit" => 1e0,
        "k" | "kbit" => 1e3,
        "m" | "mbit" => 1e6,
        "g" | "gbit" => 1e9,
        "t" | "tbit" => 1e12,
        "" if number == 0.0 => 0.0,
        "" => return Err(wrong(text, "has no unit", LIKE)),
        "bps" | "kbps" | "mbps" | "gbps" | "tbps" => {
            return Err(wrong(text, "could mean bits or, as in tc, bytes", LIKE));
        }
        _ => return Err(wrong(text, "is not a rate", LIKE)),
    };
    let bits = scaled(number, scale).ok_or_else(|| wrong(text, "is too fast", LIKE))?;
    Ok(Rate::from_bits_per_sec(bits))
}

/// Prints a rate in the largest unit that leaves it exact: `100mbit`.
pub fn show_rate(rate: Rate) -> String {
    let bits = rate.as_bits_per_sec();
    show_scaled(bits, &[(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit"), (1, "bit")])
}

/// Reads a time: `40ms`, `1.5s`, `200us`, `2min`, `0`.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    const LIKE: &str = "a time like 40ms, 1s or 200us";
    let (number, unit) = split(text).ok_or_else(|| wrong(text, "is not a time", LIKE))?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "ns" => 1e0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" | "sec" => 1e9,
        "min" => 60e9,
        "m" => return Err(wrong(text, "could mean minutes (min) or milliseconds (ms)", LIKE)),
        "" if number == 0.0 => 0.0,
        "" => return Err(wrong(text, "has no unit", LIKE)),
        _ => return Err(wrong(text, "is not a time", LIKE)),
    };
    let nanos = scaled(number, scale).ok_or_else(|| wrong(text, "is too long", LIKE))?;
    Ok(Duration::from_nanos(nanos))
}

/// Prints a time in the largest unit that leaves it exact: `40ms`.
pub fn show_duration(d: Duration) -> String {
    show_scaled(d.as_nanos(), &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")])
}

/// Reads a volume: `100MB` (10^8 bytes), `1GiB` (2^30), `512kB`, `1500`.
pub fn parse_bytes(text: &str) -> Result<u64, ParseError> {
    const LIKE: &str = "a volume like 100MB, 512kB or 1GiB";
    let (number, unit) = split(text).ok_or_else(|| wrong(text, "is not a volume", LIKE))?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1e0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "k" | "m" | "g" | "t" => {
            return Err(wrong(text, "could mean powers of 1000 or of 1024", LIKE));
        }
        _ => return Err(wrong(text, "is not a volume", LIKE)),
    };
    scaled(number, scale).ok_or_else(|| wrong(text, "is too large", LIKE))
}

/// Prints a volume in the largest unit that leaves it exact, a power of 1000 if there is one:
/// `100MB`, `1GiB`.
pub fn show_bytes(bytes: u64) -> String {
    const DECIMAL: &[(u64, &str)] = &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    const BINARY: &[(u64, &str)] =
        &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
    show_scaled(bytes, &[DECIMAL, BINARY].concat())
}

fn show_scaled(value: u64, units: &[(u64, &str)]) -> String {
    let fits = |&&(scale, _): &&(u64, &str)| value >= scale && value.is_multiple_of(scale);
    // One decimal place would be as exact for 1.5 Gbit/s; whole numbers are read faster.
    let (scale, unit) = units.iter().find(fits).or(units.last()).copied().unwrap_or((1, ""));
    format!("{}{unit}", value / scale)
}

/// The size of the queue in front of the bottleneck.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Buffer {
    /// This many bytes, headers included.
    Bytes(u64),
    /// This many packets, whatever their size.
    Packets(u64),
    /// This many times rate x rtt.
    Bdp(f64),
    /// As much as the rate carries in this time.
    Time(Duration),
}

impl FromStr for Buffer {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const LIKE: &str = "a buffer like 1bdp, 6MB, 700pkts or 100ms";
        let (number, unit) = split(text).ok_or_else(|| wrong(text, "is not a buffer", LIKE))?;
        match unit.to_ascii_lowercase().as_str() {
            "bdp" => Ok(Self::Bdp(number)),
            "p" | "pkt" | "pkts" | "packet" | "packets" => {
                if number.fract() != 0.0 {
                    return Err(wrong(text, "is no whole number of packets", LIKE));
                }
                let n = scaled(number, 1.0).ok_or_else(|| wrong(text, "is too large", LIKE))?;
                Ok(Self::Packets(n))
            }
            "k" | "m" | "g" | "t" => Err(wrong(text, "could mean powers of 1000 or of 1024", LIKE)),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "sec" | "min" => {
                parse_duration(text).map(Self::Time)
            }
            // Packets, bytes and BDP are all usual.
            "" if number != 0.0 => Err(wrong(text, "has no unit", LIKE)),
            _ => {
                parse_bytes(text).map(Self::Bytes).map_err(|_| wrong(text, "is not a buffer", LIKE))
            }
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(n) => f.write_str(&show_bytes(*n)),
            Self::Packets(n) => write!(f, "{n}pkts"),
            Self::Bdp(x) => write!(f, "{x}bdp"),
            Self::Time(time) => f.write_str(&show_duration(*time)),
        }
    }
}

impl Buffer {
    /// The buffer in bytes on a path of this rate and round-trip time; nothing when it is counted
    /// in packets.
    pub fn bytes_on(self, rate: Rate, rtt: Duration) -> Option<u64> {
        match self {
            Self::Bytes(n) => Some(n),
            Self::Packets(_) => None,
            Self::Bdp(x) => Some((rate.bytes_in(rtt) as f64 * x).round() as u64),
            Self::Time(time) => Some(rate.bytes_in(time)),
        }
    }

    /// Factors of a computed size, for people: ` (100mbit x 40ms)`; empty for a size that is
    /// counted itself.
    pub(crate) fn origin(self, rate: Rate, rtt: Duration) -> String {
        match self {
            Self::Bdp(_) => format!(" ({} x {})", show_rate(rate), show_duration(rtt)),
            Self::Time(_) => format!(" (of {})", show_rate(rate)),
            Self::Bytes(_) | Self::Packets(_) => String::new(),
        }
    }

    /// The buffer as the path takes it.
    pub fn limit_on(self, rate: Rate, rtt: Duration) -> QueueLimit {
        match (self, self.bytes_on(rate, rtt)) {
            (Self::Packets(n), _) => QueueLimit::Packets(n),
            (_, bytes) => QueueLimit::Bytes(bytes.unwrap_or(0)),
        }
    }
}

/// Reads a whole number, like a seed or how many there are of something.
pub fn parse_count<T: TryFrom<u64>>(text: &str) -> Result<T, ParseError> {
    const LIKE: &str = "a whole number like 2";
    let number = text.trim();
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let why = match number.strip_prefix('-').map(str::parse::<f64>) {
        Some(Ok(_)) => "is below 0",
        _ if !is_number => "is no whole number",
        _ => "is too large",
    };
    let value = number.parse::<u64>().ok().filter(|_| is_number);
    value.and_then(|n| T::try_from(n).ok()).ok_or_else(|| wrong(text, why, LIKE))
}

/// Like [`parse_count`], but rejects 0.
pub fn parse_count_above_0(text: &str) -> Result<NonZeroUsize, ParseError> {
    let count = parse_count(text)?;
    NonZeroUsize::new(count).ok_or_else(|| wrong(text, "is too few", "a whole number like 2"))
}

/// Reads the probability of a random loss: `0.1%`, `0.001`. A path that loses everything is none.
pub fn parse_loss(text: &str) -> Result<Probability, ParseError> {
    const LIKE: &str = "a loss like 0.1% or 0.001";
    let (number, unit) = split(text).ok_or_else(|| wrong(text, "is not a loss", LIKE))?;
    let p = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => return Err(wrong(text, "is not a loss", LIKE)),
    };
    if p < 1.0 {
        return Probability::new(p).map_err(|_| wrong(text, "is not a loss", LIKE));
    }
    let why = if unit.is_empty() && number < 100.0 {
        let percent = number * 100.0;
        format!("is a loss of {percent}% and nothing would arrive; if you meant {number}%, say so")
    } else {
        "loses everything: a loss is from 0% to below 100%".to_owned()
    };
    Err(wrong(text, &why, LIKE))
}

/// Prints the probability of a loss: `0.1%`.
pub fn show_loss(p: f64) -> String {
    // Ten digits hide what the binary fraction adds to a decimal percentage.
    format!("{}%", (p * 1e12).round() / 1e10)
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
