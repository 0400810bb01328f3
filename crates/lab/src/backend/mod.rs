//! What carries the flows of a run.

mod error;
pub(crate) mod quic_noq;
pub(crate) mod realtime;
mod series;
pub(crate) mod sim;
#[cfg(target_os = "linux")]
pub(crate) mod tcp_linux;

use std::sync::atomic::AtomicBool;

use crate::observe::Tick;
use crate::output::results::AlgorithmResult;
use crate::scenario::{Cc, LinkKind, Over, Scenario, ScenarioError};

pub use error::{ExperimentError, RunError};
pub use realtime::log::run_over_quic;
pub use sim::{Series, run as run_simulated, run_watched};

/// Whether a scenario can be run, and on this machine.
///
/// # Errors
/// What is wrong with it, or what the machine lacks, in one line.
pub fn check(scenario: &Scenario) -> Result<(), RunError> {
    scenario.validate()?;
    match scenario.over {
        #[cfg(target_os = "linux")]
        Over::Quic if scenario.link == Some(LinkKind::Tun) => {
            fullpipe_emu::tun::available().map_err(RunError::NotOverTunHere)
        }
        #[cfg(not(target_os = "linux"))]
        Over::Quic if scenario.link == Some(LinkKind::Tun) => {
            Err(ScenarioError::TunOnlyOnLinux.into())
        }
        Over::Quic | Over::Sim => Ok(()),
        #[cfg(target_os = "linux")]
        Over::Tcp => tcp_linux::check(scenario),
        #[cfg(not(target_os = "linux"))]
        Over::Tcp => Err(ScenarioError::OnlyOnLinux.into()),
    }
}

/// Removes what killed runs left on this machine, and puts back the default of TCP's that they changed;
/// what was done, each in one line.
///
/// # Errors
/// When something is left that this process may not remove.
pub fn clean() -> Result<Vec<String>, RunError> {
    #[allow(unused_mut, reason = "nothing is left by what does not run here")]
    let mut done = Vec::new();
    #[cfg(all(feature = "kernel", target_os = "linux"))]
    if let Some(back) = fullpipe_bpf::kernel::put_back_left_over()? {
        done.push(format!(
            "put back {} as the default of new connections: {} is gone",
            back.default, back.gone
        ));
    }
    #[cfg(target_os = "linux")]
    for name in fullpipe_emu::namespace::clean()? {
        done.push(format!("removed namespace {name}"));
    }
    Ok(done)
}

/// Runs one algorithm of a scenario on a fresh path, until it is done or `stop` is set; then the
/// result is what there is so far, and says so. `watch` is called on this thread about ten times a
/// second of a real-time run.
///
/// When this returns, everything that it started has ended.
///
/// # Errors
/// The scenario is none, or there is nothing that could be called a result.
pub fn run(
    scenario: &Scenario,
    cc: Cc,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<AlgorithmResult, RunError> {
    check(scenario)?;
    match (scenario.over, cc) {
        (Over::Quic, Cc::Program(cc)) => quic_noq::run(scenario, cc, stop, watch),
        (Over::Sim, Cc::Program(cc)) => sim::comparison::run(scenario, cc, stop, watch),
        #[cfg(target_os = "linux")]
        (Over::Tcp, cc) => tcp_linux::run(scenario, cc, stop, watch),
        (over, cc) => Err(ScenarioError::wrong_backend(cc, over).into()),
    }
}
