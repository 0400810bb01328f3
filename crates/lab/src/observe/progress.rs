//! How far a run is.

use std::time;

use fullpipe_cc::Duration;

use crate::formulas::{bits_per_sec, ratio};

/// When nothing has arrived for this long, a run without a duration will not end.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// Real time between two calls of the watcher.
const WATCH_INTERVAL: time::Duration = time::Duration::from_millis(100);

/// Where a run stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// Time since the first request; 0 as long as it is waited for.
    pub elapsed: Duration,
    /// The share of the run that is done, from 0 to 1.
    pub done: f64,
    /// Application bits per second of each flow since the call before.
    pub flow_bps: Vec<u64>,
    /// Time in which the first link would carry what its buffer holds.
    pub queue: Duration,
}

/// How much there is of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) flows: usize,
    /// It ends after this time at the latest, counted from the first request.
    pub(crate) duration: Option<Duration>,
    /// What all flows together are to receive, where that is what ends it.
    pub(crate) bytes: u64,
}

impl Extent {
    /// The share of the run that is done, from 0 to 1.
    fn done(&self, elapsed: Duration, received: u64) -> f64 {
        let (part, whole) = match self.duration {
            Some(d) => (elapsed.as_nanos(), d.as_nanos()),
            None => (received, self.bytes),
        };
        ratio(part, whole).min(1.0)
    }
}

/// Tells a watcher about ten times a second where a run stands, and notices when nothing arrives.
pub(crate) struct Pace {
    extent: Extent,
    told: Option<time::Instant>,
    /// When that was in the run, and what each flow had received.
    before: (Duration, Vec<u64>),
    /// The newest progress of all.
    arrived: (Duration, u64),
}

impl Pace {
    pub(crate) fn new(extent: Extent) -> Self {
        let before = (Duration::ZERO, vec![0; extent.flows]);
        Self { extent, told: None, before, arrived: (Duration::ZERO, 0) }
    }

    /// Whether the watcher wants to hear something now.
    pub(crate) fn is_due(&self) -> bool {
        self.told.is_none_or(|told| told.elapsed() >= WATCH_INTERVAL)
    }

    /// Before the first request.
    pub(crate) fn connecting(&mut self) -> Progress {
        self.told = Some(time::Instant::now());
        let flow_bps = vec![0; self.extent.flows];
        Progress { elapsed: Duration::ZERO, done: 0.0, flow_bps, queue: Duration::ZERO }
    }

    pub(crate) fn now(&mut self, t: Duration, received: Vec<u64>, queue: Duration) -> Progress {
        let (then, before) = &self.before;
        let each = received.iter().zip(before);
        let progress = Progress {
            elapsed: t,
            done: self.extent.done(t, received.iter().sum()),
            flow_bps: each.map(|(now, before)| bits_per_sec(now - before, t - *then)).collect(),
            queue,
        };
        (self.told, self.before) = (Some(time::Instant::now()), (t, received));
        progress
    }

    /// Whether the run will not end: it has no duration, and nothing arrives any more.
    pub(crate) fn is_stalled(&mut self, t: Duration, received: u64) -> bool {
        if received > self.arrived.1 {
            self.arrived = (t, received);
        }
        self.extent.duration.is_none() && t - self.arrived.0 > STALL
    }
}
