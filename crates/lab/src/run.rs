//! What every backend takes and gives.

use std::sync::atomic::AtomicBool;

use fullpipe_cc::Duration;
use fullpipe_emu::EmuError;
use fullpipe_quic::{ClientError, ServeError, TlsError};
use fullpipe_sim::SimError;

use crate::cc::Cc;
#[cfg(target_os = "linux")]
use crate::over_tcp;
use crate::results::AlgorithmResult;
use crate::scenario::{LinkKind, Over, Scenario, ScenarioError};
use crate::{over_quic, over_sim};

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

/// A run that gave no result: one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum RunError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("{0}")]
    NotOverQuic(String),
    #[error("the emulated link failed: {0}")]
    Link(#[from] EmuError),
    #[error("--over tcp cannot run here: {0}")]
    NotOverTcpHere(EmuError),
    #[error("--link tun cannot run here: {0}")]
    NotOverTunHere(EmuError),
    #[error("--link netem cannot run here: {0}, or write --link tun")]
    NotOverNetemHere(EmuError),
    #[cfg(all(feature = "kernel", target_os = "linux"))]
    #[error(transparent)]
    Program(#[from] fullpipe_bpf::kernel::Error),
    #[error("no socket: {0}")]
    Socket(std::io::Error),
    #[error("no such simulation: {0}")]
    Sim(#[from] SimError),
    #[error("the server failed: {0}")]
    Server(#[from] ServeError),
    #[error("the server has no certificate: {0}")]
    Tls(#[from] TlsError),
    #[error("no threads to run on: {0}")]
    Runtime(std::io::Error),
    #[error("flow {flow} failed: {source}")]
    Flow { flow: usize, source: ClientError },
    #[error("flow {flow} failed: {source}")]
    TcpFlow { flow: usize, source: std::io::Error },
    #[error("no flow received anything for {0}")]
    Stalled(Duration),
    #[error(
        "the handshake took longer than the {0} that come before the times of the path; run it \
         again on a quieter machine"
    )]
    LateStart(Duration),
    #[error("stopped before the first request")]
    StoppedEarly,
    #[error("a thread ended without a word")]
    Lost,
}

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
        Over::Tcp => over_tcp::check(scenario),
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
        (Over::Quic, Cc::Program(cc)) => over_quic::run(scenario, cc, stop, watch),
        (Over::Sim, Cc::Program(cc)) => over_sim::run(scenario, cc, stop, watch),
        #[cfg(target_os = "linux")]
        (Over::Tcp, cc) => over_tcp::run(scenario, cc, stop, watch),
        (over, cc) => Err(ScenarioError::wrong_backend(cc, over).into()),
    }
}
