//! A bottleneck's rate over time.

use std::cell::Cell;
use std::sync::Arc;

use fullpipe_units::{Duration, NANOS_PER_SEC, Rate};

use crate::config::validate_steps;
use crate::schedule::Schedule;
use crate::{ConfigError, MTU_BYTES, Series};

/// A bottleneck's rate. Times count from the zero of the caller's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RateConfig {
    /// This many wire bytes per second, above 0.
    Constant(Rate),
    /// From each of these times on this rate; the first time is 0. A packet on the wire is carried
    /// at the one and then at the other. A rate of 0 is an outage in which the wire stands still;
    /// the last cannot be.
    Steps(Vec<(Duration, Rate)>),
    /// At each of these times 1500 bytes ([`crate::MTU_BYTES`]) can leave at once, of as many
    /// packets as they are; what is left over when nothing waits is lost. After the last time the
    /// trace begins again. [`Self::mahimahi`] reads one.
    Trace(Arc<[Duration]>),
    /// As [`Self::Steps`], of a series, which may begin again and again. Rates of 0 may stand
    /// anywhere in one that does; not all can be 0.
    Series(Series<Rate>),
}

impl From<Rate> for RateConfig {
    fn from(rate: Rate) -> Self {
        Self::Constant(rate)
    }
}

impl RateConfig {
    /// A trace in Mahimahi's format: in each line the time in milliseconds at which a full packet
    /// can be delivered, never decreasing; several equal lines are several packets. Empty lines and
    /// those that begin with `#` are passed by.
    ///
    /// # Errors
    /// [`TraceError`], with the line that is not a time or goes back; when nothing is ever
    /// delivered.
    pub fn mahimahi(text: &str) -> Result<Self, TraceError> {
        let mut reader = MahimahiReader::default();
        text.lines().try_for_each(|line| reader.line(line))?;
        reader.finish()
    }

    /// Bytes that it can carry from one moment to another.
    ///
    /// ```
    /// use fullpipe_units::{Duration, Rate};
    /// use fullpipe_path::RateConfig;
    ///
    /// let rate = RateConfig::from(Rate::from_bits_per_sec(8_000_000));
    /// let second = Duration::from_secs(1);
    /// assert_eq!(rate.bytes_between(second, second.times(3)), 2_000_000);
    /// ```
    pub fn bytes_between(&self, from: Duration, to: Duration) -> u64 {
        match self {
            Self::Constant(rate) => rate.bytes_in(to - from),
            Self::Steps(steps) => {
                let ends = steps.iter().skip(1).map(|s| s.0).chain([to]);
                let parts = steps.iter().zip(ends).map(|(&(start, rate), end)| {
                    let (start, end) = (start.max(from), end.min(to));
                    if start < end { rate.bytes_in(end - start) } else { 0 }
                });
                parts.sum()
            }
            Self::Trace(times) => {
                let period = times.last().map_or(0, |t| t.as_nanos()).max(1);
                let until = |t: Duration| {
                    let rest = Duration::from_nanos(t.as_nanos() % period);
                    let started = times.partition_point(|at| *at <= rest) as u64;
                    t.as_nanos() / period * times.len() as u64 + started
                };
                // Those at the very start of a run are in it.
                let before = if from == Duration::ZERO { 0 } else { until(from) };
                (until(to) - before) * u64::from(MTU_BYTES)
            }
            Self::Series(series) => {
                let until = |t| {
                    series.integral(t, |rate, nanos| {
                        u128::from(rate.as_bytes_per_sec()) * u128::from(nanos)
                    })
                };
                let bytes = (until(to) - until(from)) / u128::from(NANOS_PER_SEC);
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }

    /// Bytes that it can carry from 0 to each of these times, which ascend: what
    /// [`Self::bytes_between`] says, and a long series is passed once for all of them.
    pub fn bytes_until(&self, times: &[Duration]) -> Vec<u64> {
        match self {
            Self::Series(series) => {
                let work = |rate: &Rate, nanos: u64| {
                    u128::from(rate.as_bytes_per_sec()) * u128::from(nanos)
                };
                let each = series.integrals(times.iter().copied(), work);
                let bytes = |work: u128| u64::try_from(work / u128::from(NANOS_PER_SEC));
                each.map(|work| bytes(work).unwrap_or(u64::MAX)).collect()
            }
            _ => times.iter().map(|to| self.bytes_between(Duration::ZERO, *to)).collect(),
        }
    }

    /// The constant rate, the first of steps, or the mean of a trace or a series over its period.
    pub fn nominal(&self) -> Rate {
        match self {
            Self::Constant(rate) => *rate,
            Self::Steps(steps) => steps.first().map_or(Rate::ZERO, |(_, rate)| *rate),
            Self::Trace(times) => {
                let bytes = times.len() as u128 * u128::from(MTU_BYTES) * u128::from(NANOS_PER_SEC);
                let period = times.last().map_or(1, |t| t.as_nanos()).max(1);
                let rate = bytes / u128::from(period);
                Rate::from_bytes_per_sec(u64::try_from(rate).unwrap_or(u64::MAX))
            }
            Self::Series(series) => match (series.steps(), series.period()) {
                ([(_, only)], None) => *only,
                _ => Rate::from_bytes_per_sec(series.mean(|rate| rate.as_bytes_per_sec())),
            },
        }
    }

    /// Serialisation time of [`crate::MTU_BYTES`]: at the first rate above 0, or the average of a
    /// trace or a series.
    pub fn packet_time(&self) -> Duration {
        let at = |rate: Rate| rate.time_for(u64::from(crate::MTU_BYTES));
        match self {
            Self::Constant(rate) => at(*rate),
            Self::Steps(steps) => {
                let first = steps.iter().map(|(_, rate)| *rate).find(|rate| *rate > Rate::ZERO);
                at(first.unwrap_or(Rate::ZERO))
            }
            Self::Series(_) => at(self.nominal().max(Rate::from_bytes_per_sec(1))),
            Self::Trace(times) => {
                let period = times.last().map_or(Duration::MAX, |last| *last);
                Duration::from_nanos((period.as_nanos() / times.len().max(1) as u64).max(1))
            }
        }
    }

    /// The lowest rate above 0 that it ever has; of a trace the mean.
    pub(crate) fn slowest(&self) -> Rate {
        let of = |steps: &[(Duration, Rate)]| {
            let rates = steps.iter().map(|(_, rate)| *rate).filter(|rate| *rate > Rate::ZERO);
            rates.min().unwrap_or(Rate::ZERO)
        };
        match self {
            Self::Constant(_) | Self::Trace(_) => self.nominal(),
            Self::Steps(steps) => of(steps),
            Self::Series(series) => of(series.steps()),
        }
    }

    /// The rate over time, but in an outage that of before it, or of after one at the start; of a
    /// trace the mean.
    pub(crate) fn through_outages(&self) -> Schedule<Rate> {
        let first = |steps: &[(Duration, Rate)]| {
            steps.iter().map(|(_, rate)| *rate).find(|rate| *rate > Rate::ZERO)
        };
        match self {
            Self::Constant(_) | Self::Trace(_) => {
                Schedule::new(&[(Duration::ZERO, self.nominal())])
            }
            Self::Steps(steps) => {
                let mut before = first(steps).unwrap_or(Rate::ZERO);
                let mut steps = steps.clone();
                for (_, rate) in &mut steps {
                    before = if *rate > Rate::ZERO { *rate } else { before };
                    *rate = before;
                }
                Schedule::new(&steps)
            }
            Self::Series(series) => {
                let before = Cell::new(first(series.steps()).unwrap_or(Rate::ZERO));
                let through = |rate: &Rate| {
                    let rate = if *rate > Rate::ZERO { *rate } else { before.get() };
                    before.set(rate);
                    rate
                };
                Schedule::of(&series.map(through))
            }
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Constant(Rate::ZERO) => Err(ConfigError::ZeroRate),
            Self::Constant(_) => Ok(()),
            Self::Steps(steps) => {
                validate_steps(steps)?;
                let ends = steps.last().is_some_and(|(_, rate)| *rate == Rate::ZERO);
                if ends { Err(ConfigError::EndlessOutage) } else { Ok(()) }
            }
            Self::Series(series) => {
                let steps = series.steps();
                let is_outage = |(_, rate): &(Duration, Rate)| *rate == Rate::ZERO;
                let ends = series.period().is_none() && steps.last().is_some_and(is_outage);
                if ends || steps.iter().all(is_outage) {
                    return Err(ConfigError::EndlessOutage);
                }
                Ok(())
            }
            Self::Trace(times) if !times.is_sorted() => {
                Err(ConfigError::Unordered("a trace's times"))
            }
            Self::Trace(times) if times.last().is_none_or(|last| *last == Duration::ZERO) => {
                Err(ConfigError::EmptyTrace)
            }
            Self::Trace(_) => Ok(()),
        }
    }
}

/// Reads a trace in Mahimahi's format line by line, as [`RateConfig::mahimahi`] does a whole text.
#[derive(Clone, Debug, Default)]
pub struct MahimahiReader {
    times: Vec<Duration>,
    /// Lines so far.
    lines: usize,
}

impl MahimahiReader {
    /// Reads what comes behind so many lines, which errors count.
    pub fn after(lines: usize) -> Self {
        Self { times: Vec::new(), lines }
    }

    /// Takes the next line.
    ///
    /// # Errors
    /// It is no time, or one before the line above.
    pub fn line(&mut self, line: &str) -> Result<(), TraceError> {
        self.lines += 1;
        let (number, line) = (self.lines, line.trim());
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let Ok(ms) = line.parse::<u32>() else {
            return Err(TraceError::NoTime { number, line: line.to_owned() });
        };
        let time = Duration::from_millis(u64::from(ms));
        if self.times.last().is_some_and(|before| time < *before) {
            return Err(TraceError::GoesBack { number, ms });
        }
        self.times.push(time);
        Ok(())
    }

    /// Opportunities so far.
    pub fn opportunities(&self) -> usize {
        self.times.len()
    }

    /// The trace of these lines.
    ///
    /// # Errors
    /// Nothing is ever delivered.
    pub fn finish(self) -> Result<RateConfig, TraceError> {
        let trace = RateConfig::Trace(self.times.into());
        trace.validate()?;
        Ok(trace)
    }
}

/// A line on one line, whatever is in it.
fn printable(line: &str) -> String {
    let start: String = line.chars().take(40).flat_map(char::escape_debug).collect();
    if line.chars().nth(40).is_some() { start + "…" } else { start }
}

/// A text that is no trace.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line that is no time.
    #[error(
        "line {number}: \"{}\" is no time: give whole milliseconds, one time a line",
        printable(line)
    )]
    NoTime {
        /// From 1.
        number: usize,
        /// The text of that line.
        line: String,
    },
    /// A time before the one in front of it.
    #[error("line {number}: {ms} ms is before the line above: times never decrease")]
    GoesBack {
        /// From 1.
        number: usize,
        /// The time given there, in milliseconds.
        ms: u32,
    },
    /// It is empty, or all of it at 0.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_time_is_that_of_the_first_rate_or_of_the_trace_on_average() {
        let rate = Rate::from_bytes_per_sec(1_500_000);
        let ms = Duration::from_millis;
        assert_eq!(RateConfig::Constant(rate).packet_time(), ms(1));
        let steps = vec![(ms(0), Rate::ZERO), (ms(5), rate), (ms(9), Rate::ZERO)];
        assert_eq!(RateConfig::Steps(steps).packet_time(), ms(1));
        assert_eq!(RateConfig::Trace([ms(0), ms(9), ms(30)].into()).packet_time(), ms(10));
    }
}
