//! A run that gave no result.

use fullpipe_cc::Duration;
use fullpipe_emu::EmuError;
use fullpipe_quic::{ClientError, ServeError, TlsError};
use fullpipe_sim::SimError;

use crate::output::StoreError;
use crate::scenario::ScenarioError;

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

/// A simulation that gave no outcome: one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ExperimentError {
    #[error("{0}")]
    Setup(String),
    #[error("no such simulation: {0}")]
    Sim(#[from] SimError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("interrupted")]
    Interrupted,
}
