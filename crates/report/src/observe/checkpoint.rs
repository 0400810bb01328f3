//! Counters and distributions at one moment: the counts between two moments are the difference.

use fullpipe_cc::Duration;
use fullpipe_path::{Arrival, PathStats};
use fullpipe_traffic::{MediaStats, SenderStats, Tally};
use hdrhistogram::Histogram;

use super::{EmulatorRecord, SeriesRow};

/// Everything that was counted until one moment.
pub struct Checkpoint {
    /// The moment that was asked for.
    pub at: Duration,
    /// The actual time: later, if a thread has to wake for it.
    pub taken: Duration,
    /// Application bytes that each flow received.
    pub received: Vec<u64>,
    /// Counters of each flow's sender. Over tcp every retransmission counts as a loss.
    pub sent: Vec<SenderStats>,
    /// The links, in the order in which packets pass them.
    pub links: Vec<PathStats>,
    /// Queueing delay at each link.
    pub queue_ns: Vec<Tally>,
    /// The same of each flow at the first link, under a virtual clock and where the queue tells
    /// flows apart.
    pub queue_ns_by_flow: Option<ByFlow>,
    /// Round-trip times.
    pub rtt_ns: ByFlow,
    /// Times from writes to reads of applications.
    pub latency_ns: ByFlow,
    /// Completion times by flow; none for applications without requests.
    pub completion_ns: Vec<Option<Tally>>,
    /// Requests and connections of each flow that had begun and were not complete, where it has
    /// such.
    pub incomplete: Vec<Option<u64>>,
    /// Counters of each flow's encoder and player, where it has them.
    pub media: Vec<Option<MediaStats>>,
    /// Record of each flow's data by a link that looks at each packet; empty for one that does not.
    pub on_link: Vec<FlowOnLink>,
}

/// A flow's data as the link saw it.
#[derive(Clone, Debug)]
pub struct FlowOnLink {
    /// Packets that entered the link.
    pub sent_packets: u64,
    /// Those of them that it dropped.
    pub dropped_packets: u64,
    /// Queueing delay of each packet that arrived.
    pub queue_ns: Tally,
    /// Packets of each burst.
    pub burst_packets: Tally,
}

/// Up to so many flows have distributions of their own: each takes up to 140 kB a mark.
pub const MAX_OWN_DISTRIBUTIONS: usize = fullpipe_traffic::MAX_OWN_TALLIES;

/// A distribution of each flow, or where they are more than [`MAX_OWN_DISTRIBUTIONS`] one of all
/// together.
#[derive(Clone, Debug)]
pub struct ByFlow(Vec<Tally>);

impl ByFlow {
    /// As the simulator has them.
    pub fn of(tallies: &[Tally]) -> Self {
        Self(tallies.to_vec())
    }

    /// Empty, for so many flows.
    pub fn new(flows: usize) -> Self {
        let count = if flows <= MAX_OWN_DISTRIBUTIONS { flows.max(1) } else { 1 };
        Self(vec![Tally::new(); count])
    }

    /// The one in which a flow is counted.
    pub fn flow_mut(&mut self, flow: usize) -> &mut Tally {
        let place = flow.min(self.0.len() - 1);
        &mut self.0[place]
    }

    /// Those of some of `all` flows; nothing where these are not counted by themselves.
    pub fn of_flows(&self, flows: &[usize], all: usize) -> Option<Vec<&Tally>> {
        if flows.len() == all {
            return Some(self.0.iter().collect());
        }
        (self.0.len() == all).then(|| flows.iter().filter_map(|i| self.0.get(*i)).collect())
    }
}

/// Start and end of a flow, from the run's first request on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowTimes {
    /// Its start.
    pub start: Duration,
    /// Its end.
    pub end: Duration,
}

/// A run that is over.
pub struct Observations {
    /// The first is the start, the last the end.
    pub marks: Vec<Checkpoint>,
    /// Start and end of each flow.
    pub times: Vec<FlowTimes>,
    /// The end of the run.
    pub end: Duration,
    /// The rows of its series, in the order of time.
    pub series: Vec<SeriesRow>,
    /// Timing accuracy of an emulated link; `None` for a virtual clock, and for netem, which
    /// does not report it.
    pub emulator: Option<EmulatorRecord>,
    /// True if it was stopped before its end.
    pub interrupted: bool,
    /// Starts before this one that came too late.
    pub late_starts: usize,
    /// Packets that entered the first link and the way back, where it was asked for and there is
    /// one that sees it.
    pub arrivals: Option<[Vec<Arrival>; 2]>,
}

/// A histogram of times in nanoseconds, from a microsecond to a minute in three digits.
pub fn histogram() -> Histogram<u64> {
    let times = Histogram::new_with_bounds(1_000, 60_000_000_000, 3);
    #[expect(clippy::expect_used, reason = "constants, covered by every run")]
    times.expect("1 us to 60 s in 3 digits")
}
