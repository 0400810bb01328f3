//! A bottleneck's rate over time.

use fullpipe_cc::{Duration, Rate};

use crate::ConfigError;
use crate::config::validate_steps;

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
    Trace(Vec<Duration>),
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
        let mut times: Vec<Duration> = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let (number, line) = (i + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Ok(ms) = line.parse::<u32>() else {
                return Err(TraceError::NoTime { number, line: line.to_owned() });
            };
            let time = Duration::from_millis(u64::from(ms));
            if times.last().is_some_and(|before| time < *before) {
                return Err(TraceError::GoesBack { number, ms });
            }
            times.push(time);
        }
        let trace = Self::Trace(times);
        trace.validate()?;
        Ok(trace)
    }

    /// Serialisation time of [`crate::MTU_BYTES`]: at the first rate above 0, or the average of a
    /// trace.
    pub fn packet_time(&self) -> Duration {
        let at = |rate: Rate| rate.time_for(u64::from(crate::MTU_BYTES));
        match self {
            Self::Constant(rate) => at(*rate),
            Self::Steps(steps) => {
                let first = steps.iter().map(|(_, rate)| *rate).find(|rate| *rate > Rate::ZERO);
                at(first.unwrap_or(Rate::ZERO))
            }
            Self::Trace(times) => {
                let period = times.last().map_or(Duration::MAX, |last| *last);
                Duration::from_nanos((period.as_nanos() / times.len().max(1) as u64).max(1))
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

/// A text that is no trace.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line that is no time.
    #[error("line {number}: \"{line}\" is no time: give whole milliseconds, one time a line")]
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
        assert_eq!(RateConfig::Trace(vec![ms(0), ms(9), ms(30)]).packet_time(), ms(10));
    }
}
