//! Runs flows over real QUIC: a server, clients, and an emulated link between them, all in this process
//! and on loopback.
//!
//! The link has its own thread. The server and the clients have a runtime each, with one worker, so
//! that neither waits for the other; the calling thread looks at all of them every few milliseconds.

mod bench;
mod carrier;
mod flow;
mod job;
mod sender;
mod socket;

use std::sync::atomic::AtomicBool;

use fullpipe_quic::CongestionControl;

use crate::backend::RunError;
use crate::backend::realtime;
use crate::backend::series;
use crate::observe::Tick;
use crate::output::results::AlgorithmResult;
use crate::scenario::Cc;
use crate::scenario::Scenario;

pub(crate) use bench::Bench;
pub(crate) use job::{FlowJob, Job};
pub(crate) use sender::Sender;

/// Runs one algorithm on a fresh link.
pub(crate) fn run(
    scenario: &Scenario,
    cc: CongestionControl,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<AlgorithmResult, RunError> {
    let bench = Bench::start(&Job::of(scenario, cc))?;
    realtime::measure(scenario, Cc::Program(cc), bench, series::INTERVAL, stop, watch)
}
