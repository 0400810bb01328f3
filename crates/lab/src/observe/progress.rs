//! Progress of a run.

use fullpipe_cc::Duration;
use fullpipe_path::PathStats;
use fullpipe_scenario::Scenario;
use fullpipe_scenario::formulas::{bits_per_sec, ratio};
use fullpipe_traffic::Application;
use web_time as time;

/// Time without arrivals after which a run without a duration counts as stalled.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// Real time between two calls of the watcher.
const WATCH_INTERVAL: time::Duration = time::Duration::from_millis(100);

/// Progress of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Progress {
    /// Time since the first request; 0 as long as it is waited for.
    pub elapsed: Duration,
    /// The share of the run that is done, from 0 to 1.
    pub done: f64,
    /// Application bits per second of each flow since the call before.
    pub flow_bps: Vec<u64>,
    /// Time in which the first link would carry what its buffer holds.
    pub queue: Duration,
    /// Smoothed round trip, the mean of the flows that have one.
    pub rtt: Option<Duration>,
    /// The share of the packets so far that the first link dropped, from 0 to 1; 0 where nobody
    /// looks.
    pub loss_rate: f64,
}

/// The path of a run at one moment.
pub(crate) struct PathNow {
    pub(crate) queue: Duration,
    pub(crate) stats: PathStats,
    pub(crate) rtt: Option<Duration>,
}

impl PathNow {
    pub(crate) fn new(
        queue: Duration,
        stats: PathStats,
        rtts: impl Iterator<Item = Duration>,
    ) -> Self {
        let (sum, n) = rtts.fold((0, 0), |(sum, n), rtt| (sum + rtt.as_nanos(), n + 1));
        let rtt = (n > 0).then(|| Duration::from_nanos(sum / n));
        Self { queue, stats, rtt }
    }
}

/// Size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    pub(crate) flows: usize,
    /// It ends after this time at the latest, counted from the first request.
    pub(crate) duration: Option<Duration>,
    /// Total volume for all flows to receive, for a run that ends with it.
    pub(crate) bytes: u64,
}

impl RunLimits {
    /// Those of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let bytes = scenario.config.flows.iter().map(|flow| match flow.application {
            Application::Bytes(n) => n,
            _ => 0,
        });
        let bytes = bytes.fold(0, u64::saturating_add);
        Self { flows: scenario.flows.len(), duration: scenario.duration, bytes }
    }

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
pub(crate) struct ProgressTicker {
    extent: RunLimits,
    told: Option<time::Instant>,
    /// Time of that call in the run, and the bytes that each flow had received by then.
    before: (Duration, Vec<u64>),
    /// The newest progress of all.
    arrived: (Duration, u64),
}

impl ProgressTicker {
    pub(crate) fn new(extent: RunLimits) -> Self {
        let before = (Duration::ZERO, vec![0; extent.flows]);
        Self { extent, told: None, before, arrived: (Duration::ZERO, 0) }
    }

    /// True if the watcher wants to hear something now.
    pub(crate) fn is_due(&self) -> bool {
        self.told.is_none_or(|told| told.elapsed() >= WATCH_INTERVAL)
    }

    /// Before the first request.
    pub(crate) fn connecting(&mut self) -> Progress {
        self.told = Some(time::Instant::now());
        let flow_bps = vec![0; self.extent.flows];
        Progress { flow_bps, ..Progress::default() }
    }

    pub(crate) fn now(&mut self, t: Duration, received: Vec<u64>, path: &PathNow) -> Progress {
        let (then, before) = &self.before;
        let each = received.iter().zip(before);
        let progress = Progress {
            elapsed: t,
            done: self.extent.done(t, received.iter().sum()),
            flow_bps: each.map(|(now, before)| bits_per_sec(now - before, t - *then)).collect(),
            queue: path.queue,
            rtt: path.rtt,
            // A copy that the link made can be dropped as well.
            loss_rate: ratio(
                path.stats.dropped().packets,
                path.stats.arrived.packets + path.stats.duplicated.packets,
            ),
        };
        (self.told, self.before) = (Some(time::Instant::now()), (t, received));
        progress
    }

    /// True if the run will not end: it has no duration, and nothing arrives any more.
    pub(crate) fn is_stalled(&mut self, t: Duration, received: u64) -> bool {
        if received > self.arrived.1 {
            self.arrived = (t, received);
        }
        self.extent.duration.is_none() && t - self.arrived.0 > STALL
    }
}
