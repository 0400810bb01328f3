//! Counters and distributions at one moment: what lies between two moments is their difference.

use fullpipe_cc::Duration;
use fullpipe_path::PathStats;
use fullpipe_sim::SenderStats;
use hdrhistogram::Histogram;

use super::{EmulatorRecord, SeriesRow};

/// Everything that was counted until one moment.
pub(crate) struct Mark {
    /// The moment that was asked for.
    pub(crate) at: Duration,
    /// When it really was: later, where a thread has to wake for it.
    pub(crate) taken: Duration,
    /// Application bytes that each flow received.
    pub(crate) received: Vec<u64>,
    /// What each flow's sender counted. Over tcp what was sent again counts as lost.
    pub(crate) sent: Vec<SenderStats>,
    /// The links, in the order in which packets pass them.
    pub(crate) links: Vec<PathStats>,
    /// Queueing delay at each link.
    pub(crate) queue_ns: Vec<Histogram<u64>>,
    pub(crate) rtt_ns: Histogram<u64>,
    pub(crate) latency_ns: Histogram<u64>,
    /// Of each flow whose application has an end of something.
    pub(crate) completion_ns: Vec<Option<Histogram<u64>>>,
    /// Requests and connections of each flow that had begun and were not complete, where it has such.
    pub(crate) incomplete: Vec<Option<u64>>,
}

/// When a flow was there, from the run's first request on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowTimes {
    pub(crate) start: Duration,
    pub(crate) end: Duration,
}

/// A run that is over.
pub(crate) struct Observations {
    /// The first is the start, the last the end.
    pub(crate) marks: Vec<Mark>,
    pub(crate) times: Vec<FlowTimes>,
    pub(crate) end: Duration,
    pub(crate) series: Vec<SeriesRow>,
    /// How well an emulated link kept its own time; nothing where the clock is virtual, and of netem, which
    /// does not say.
    pub(crate) emulator: Option<EmulatorRecord>,
    pub(crate) interrupted: bool,
}

/// A histogram of times in nanoseconds, from a microsecond to a minute in three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    let times = Histogram::new_with_bounds(1_000, 60_000_000_000, 3);
    #[expect(clippy::expect_used, reason = "constants, covered by every run")]
    times.expect("1 us to 60 s in 3 digits")
}
