//! A run that gave no result.

use fullpipe_cc::Duration;
#[cfg(feature = "transports")]
use fullpipe_emu::EmuError;
use fullpipe_scenario::{Cc, KernelCc};
use fullpipe_sim::SimError;

/// A run that gave no result: one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum RunError {
    /// A scenario that was not checked against the backend.
    #[error("{0}")]
    Scenario(String),
    #[error("a file cannot be written: {0}")]
    Store(Box<dyn std::error::Error + Send + Sync>),
    #[cfg(feature = "transports")]
    #[error("the emulated link failed: {0}")]
    Link(#[from] EmuError),
    #[cfg(feature = "transports")]
    #[error("stack linux cannot run here: {0}")]
    NotOverTcpHere(EmuError),
    #[cfg(feature = "transports")]
    #[error("--link tun cannot run here: {0}")]
    NotOverTunHere(EmuError),
    #[cfg(feature = "transports")]
    #[error("--link netem cannot run here: {0}, or write --link tun")]
    NotOverNetemHere(EmuError),
    #[error(
        "--link netem has a rate, a buffer, random loss and a delay alone; write --link tun for {0}"
    )]
    NotOverNetem(String),
    #[error(
        "{0} over linux is a program for the kernel that this fullpipe was built without; build it with \
         `--features kernel` (needs clang-19, libelf-dev and zlib1g-dev), or write linux:NAME for one that is loaded"
    )]
    BuiltWithoutKernel(Cc),
    #[error("this kernel has no {0}; it has {1}")]
    NotInKernel(KernelCc, String),
    #[cfg(all(feature = "kernel", target_os = "linux"))]
    #[error(transparent)]
    KernelProgram(#[from] fullpipe_bpf::kernel::Error),
    #[cfg(feature = "transports")]
    #[error("a command on a link cannot run here: {0}")]
    NoNamespace(EmuError),
    #[error("cannot start '{program}': {source}{}", what_was_meant(.program))]
    NoCommand { program: String, source: std::io::Error },
    #[error("the server '{line}' {why}{}", last_output(.output))]
    NoServer { line: String, why: String, output: String },
    #[error("flow {flow}: '{program}' is not there or cannot be run; write a program that can")]
    NoProgram { flow: usize, program: String },
    #[error("flow {flow}: {program} {how}{}", last_output(.output))]
    Program {
        flow: usize,
        program: String,
        how: String,
        output: String,
        /// True if it never was a flow, so that the command is to be written in another way.
        is_unfit: bool,
    },
    #[error("a program as a flow needs --link tun, which sees its packets; leave --link out")]
    ProgramOverNetem,
    #[error(
        "{{host6}} has no address here: it takes a kernel with IPv6 and a link without --udp; write {{host}}"
    )]
    NoHost6,
    #[error("lost the command: {0}")]
    LostCommand(std::io::Error),
    #[error("no socket: {0}")]
    Socket(std::io::Error),
    #[error("no such simulation: {0}")]
    Sim(#[from] SimError),
    #[error("the server failed: {0}")]
    Stack(Box<dyn std::error::Error + Send + Sync>),
    #[error("the server has no certificate: {0}")]
    Certificate(Box<dyn std::error::Error + Send + Sync>),
    #[error("no threads to run on: {0}")]
    Runtime(std::io::Error),
    #[error("flow {flow} failed: {source}")]
    Flow { flow: usize, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("flow {flow} failed: {source}")]
    TcpFlow { flow: usize, source: std::io::Error },
    #[error("no flow received anything for {0}")]
    Stalled(Duration),
    #[error(
        "the handshake took longer than the {0} that come before the times of the path; run it \
         again on a quieter machine"
    )]
    LateStart(Duration),
    #[cfg(feature = "transports")]
    #[error("the text of {controller} has no readable field {field}")]
    Unreadable { controller: &'static str, field: &'static str },
    #[error("stopped before there was a result")]
    StoppedEarly,
    #[error("internal error: a part of the run ended without a report")]
    Lost,
}

impl RunError {
    /// True if what was asked for cannot be right.
    pub fn is_of_input(&self) -> bool {
        matches!(
            self,
            Self::NoCommand { .. } | Self::NoProgram { .. } | Self::Program { is_unfit: true, .. }
        )
    }

    /// True if nothing is wrong but the moment: the same run may give a result a little later. Of
    /// such an error nothing was observed yet.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::LateStart(_))
    }
}

/// Advice in place of a program that is not there.
fn what_was_meant(program: &str) -> String {
    match program.split_whitespace().collect::<Vec<_>>().as_slice() {
        [first, _, ..] => format!(
            "; write the program and its arguments as words of their own, like -- {first} …, or sh -c '…'"
        ),
        _ => "; write a command that is there and can be run".to_owned(),
    }
}

/// The end of a message about a program.
fn last_output(output: &str) -> String {
    match output {
        "" => "; it wrote nothing".to_owned(),
        some => format!("; it last wrote: {some}"),
    }
}
