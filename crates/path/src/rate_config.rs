//! How fast a bottleneck is, and when.

use fullpipe_cc::{Duration, Rate};

use crate::ConfigError;
use crate::config::validate_steps;

/// A bottleneck's rate. Times count from the zero of the caller's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RateConfig {
    /// This many wire bytes per second, above 0.
    Constant(Rate),
    /// From each of these times on this rate; the first time is 0. A packet on the wire is carried at
    /// the one and then at the other. A rate of 0 is an outage in which the wire stands still; the
    /// last cannot be.
    Steps(Vec<(Duration, Rate)>),
    /// At each of these times 1500 bytes ([`crate::MTU_BYTES`]) can leave at once, of as many packets
    /// as they are; what is left over when nothing waits is lost. After the last time the trace begins
    /// again. [`Self::mahimahi`] reads one.
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
    /// [`TraceError`], with the line that is not a time or goes back; when nothing is ever delivered.
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
pub enum TraceError {
    /// A line that is no time.
    #[error("line {number}: \"{line}\" is no time: give whole milliseconds, one time a line")]
    NoTime {
        /// From 1.
        number: usize,
        /// What stands there.
        line: String,
    },
    /// A time before the one in front of it.
    #[error("line {number}: {ms} ms is before the line above: times never decrease")]
    GoesBack {
        /// From 1.
        number: usize,
        /// What stands there.
        ms: u32,
    },
    /// It is empty, or all of it at 0.
    #[error(transparent)]
    Config(#[from] ConfigError),
}
