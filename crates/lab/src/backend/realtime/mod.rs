//! Runs in real time: the flows work on threads of their own, and the calling thread looks at all
//! of them every few milliseconds until the end.

mod observer;
mod run;

use std::sync::mpsc;

use fullpipe_cc::Duration;
use fullpipe_report::observe::{ByFlow, EmulatorRecord, FlowOnLink, FlowSample};
use fullpipe_traffic::{SentPacket, Tally};

use super::RunError;
use super::link::Link;

pub(super) use run::run;

/// Event that a flow reports. Times are since the epoch.
pub(super) enum Event {
    /// The first request was sent.
    Started { flow: usize, at: Duration },
    /// Everything that was asked for has arrived, or the flow stopped as it was to.
    Finished { flow: usize, at: Duration },
    /// A flow ended before its time.
    Failed(RunError),
}

/// Everything that a run starts, and that ends when this is dropped.
pub(super) trait Testbed {
    /// Time since the epoch.
    fn now(&self) -> Duration;
    /// Events that the flows report.
    fn events(&self) -> &mpsc::Receiver<Event>;
    /// Starts the flows after the first, each at its time after `zero`.
    fn start_the_others(&mut self, zero: Duration) -> Result<(), RunError>;
    /// Application bytes that each flow received.
    fn received(&self) -> Vec<u64>;
    /// Current sample of each flow's sender; `None` for a flow without one.
    fn senders(&self) -> Vec<Option<FlowSample>>;
    /// The newest packet of each flow, at times since the epoch; `None` of those that nobody looks
    /// at.
    fn newest_packets(&self) -> Vec<Option<SentPacket>> {
        Vec::new()
    }
    /// The link; nothing after its end.
    fn link(&self) -> Result<&Link, RunError>;
    /// Times from each application's writes to their reads, in nanoseconds.
    fn latency_ns(&self) -> ByFlow;
    /// Times from each flow's requests to the ends of their answers, where it has such.
    fn completion_ns(&self) -> Vec<Option<Tally>>;
    /// Requests of each flow that are not answered yet, where it has such.
    fn incomplete(&self) -> Vec<Option<u64>>;
    /// The link's record of each flow, where it looks at them.
    fn on_link(&self) -> Vec<FlowOnLink> {
        Vec::new()
    }
    /// Ends the link. First the link: what the two ends still say to each other is no part of the
    /// run.
    fn finish_link(&mut self) -> Result<Option<EmulatorRecord>, RunError>;
}
