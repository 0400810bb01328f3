//! Trust in the results of a run in real time.

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

#[cfg(feature = "transports")]
impl From<&fullpipe_emu::LinkReport> for EmulatorRecord {
    fn from(link: &fullpipe_emu::LinkReport) -> Self {
        let micros = |d: fullpipe_cc::Duration| (d.as_nanos() as f64 / 100.0).round() / 10.0;
        let at = |q| micros(link.lateness_at(q));
        Self {
            lateness_us: Lateness { p50: at(0.5), p99: at(0.99), p999: at(0.999) },
            trusted: link.trusted,
            warning: link.warning.clone(),
        }
    }
}
