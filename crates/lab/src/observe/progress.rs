//! How far a run is.

use fullpipe_cc::Duration;

use crate::metrics::ratio;

/// When nothing has arrived for this long, a run will not end.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// Where a run stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// Time since the first request; 0 as long as it is waited for.
    pub elapsed: Duration,
    /// The share of the run that is done, from 0 to 1.
    pub done: f64,
    /// Application bits per second of each flow since the tick before.
    pub flow_bps: Vec<u64>,
    /// Time in which the link would carry what its buffer holds.
    pub queue: Duration,
}

impl Tick {
    /// Before the first request.
    pub(crate) fn connecting(flows: usize) -> Self {
        Self { elapsed: Duration::ZERO, done: 0.0, flow_bps: vec![0; flows], queue: Duration::ZERO }
    }
}

/// How much there is of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) flows: usize,
    /// It ends after this time at the latest, counted from the first request.
    pub(crate) duration: Option<Duration>,
    /// How much each flow is to receive, where that is what ends it.
    pub(crate) bytes: Option<u64>,
}

impl Extent {
    /// The share of the run that is done, from 0 to 1.
    pub(crate) fn done(&self, elapsed: Duration, received: u64) -> f64 {
        let (part, whole) = match (self.duration, self.bytes) {
            (Some(d), _) => (elapsed.as_nanos(), d.as_nanos()),
            (None, bytes) => (received, bytes.unwrap_or(0).saturating_mul(self.flows as u64)),
        };
        ratio(part, whole).min(1.0)
    }
}
