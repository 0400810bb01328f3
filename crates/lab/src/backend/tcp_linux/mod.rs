//! Runs a scenario over the kernel's own TCP: senders in one network namespace, receivers in another,
//! and between them an emulated link with TUN devices, or the kernel's netem.
//!
//! Each flow has a thread at either end; the calling thread looks at the senders' sockets (TCP_INFO)
//! every ten milliseconds. Needs Linux and root.

mod bench;
mod carrier;
mod control;
mod flow;
mod info;
mod latency;

use std::sync::atomic::AtomicBool;

use fullpipe_cc::Duration;

use crate::backend::RunError;
use crate::backend::realtime;
use crate::observe::Tick;
use crate::output::results::AlgorithmResult;
use crate::scenario::Cc;
use crate::scenario::{Scenario, ScenarioError};
use bench::Bench;
use control::Control;

/// Between two looks at the senders.
const LOOK: Duration = Duration::from_millis(10);

/// What the kernel has.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Runs an algorithm on a fresh link.
pub(crate) fn run(
    scenario: &Scenario,
    cc: Cc,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<AlgorithmResult, RunError> {
    let bench = Bench::start(scenario, vec![Control::of(cc)?])?;
    realtime::measure(scenario, cc, bench, LOOK, stop, watch)
}

/// The same with another algorithm for all flows but the first.
pub(crate) fn run_beside(
    scenario: &Scenario,
    cc: Cc,
    others: Cc,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<AlgorithmResult, RunError> {
    let bench = Bench::start(scenario, vec![Control::of(cc)?, Control::of(others)?])?;
    realtime::measure(scenario, cc, bench, LOOK, stop, watch)
}

/// Whether this machine can run the scenario: its kernel has the algorithms or takes them, and this
/// process may make namespaces and devices.
pub(crate) fn check(scenario: &Scenario) -> Result<(), RunError> {
    let text = std::fs::read_to_string(AVAILABLE).map_err(RunError::Socket)?;
    let available: Vec<&str> = text.split_ascii_whitespace().collect();
    for cc in &scenario.cc {
        match cc {
            Cc::Kernel(kernel) if !available.contains(&kernel.name()) => {
                let there_are: Vec<_> =
                    available.iter().map(|name| format!("linux:{name}")).collect();
                return Err(ScenarioError::NotInKernel(*kernel, there_are.join(", ")).into());
            }
            Cc::Kernel(_) => {}
            Cc::Program(_) => control::check(*cc)?,
        }
    }
    carrier::check(scenario)
}
