//! Trust in the results of a run in real time.

use fullpipe_cc::Duration;
use serde::{Deserialize, Serialize};

/// Timing accuracy of the emulator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmulatorRecord {
    /// Delay of packets that leave the link after the time given by the path, in microseconds.
    pub lateness_us: Lateness,
    /// True if the machine was quiet enough for the result to be trusted.
    pub trusted: bool,
    /// Reason why not, in one sentence; null when it is trusted.
    pub warning: Option<String>,
}

/// Percentiles of the emulator's lateness in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Lateness {
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

impl Lateness {
    /// Quantiles of a link's lateness, in microseconds with one digit; `at` has each of them, by a
    /// number from 0 to 1.
    pub fn of(at: impl Fn(f64) -> Duration) -> Self {
        let micros = |q| (at(q).as_nanos() as f64 / 100.0).round() / 10.0;
        Self { p50: micros(0.5), p99: micros(0.99), p999: micros(0.999) }
    }
}
