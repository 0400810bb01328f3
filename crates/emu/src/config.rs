//! What a link is made from, and what can go wrong.

use std::io;
use std::net::SocketAddr;
use std::time;

use fullpipe_path::{ConfigError, PathConfig};

/// How many flows a link carries. Packets of further clients are counted as refused.
pub const MAX_FLOWS: usize = 256;

/// A link between the clients that send to it and one target.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// From the clients to the target.
    pub uplink: PathConfig,
    /// From the target to the clients: where the bulk data and the bottleneck usually are.
    pub downlink: PathConfig,
    /// The server's UDP address, on loopback. Nothing has to listen there yet.
    pub target: SocketAddr,
    /// Whether to keep the time and size of every packet that arrives from the target, for tests of
    /// pacing: 16 bytes a packet.
    pub record_arrivals: bool,
    /// The zero of all times that the link gives; `None` for its start. Several sources of samples
    /// that share one zero can be plotted together.
    pub epoch: Option<time::Instant>,
    /// Whether to ask for the real-time class SCHED_FIFO.
    pub realtime: bool,
}

impl EmulatorConfig {
    /// A perfect wire in both directions to `target`.
    pub fn new(target: SocketAddr) -> Self {
        Self {
            uplink: PathConfig::default(),
            downlink: PathConfig::default(),
            target,
            record_arrivals: false,
            epoch: None,
            realtime: true,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), EmuError> {
        if !self.target.ip().is_loopback() {
            return Err(EmuError::NotLoopback(self.target));
        }
        let wrong = |direction| move |source| EmuError::Path { direction, source };
        self.uplink.validate().map_err(wrong("uplink"))?;
        self.downlink.validate().map_err(wrong("downlink"))
    }
}

/// Why a link could not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum EmuError {
    /// One direction makes no sense.
    #[error("{direction}: {source}")]
    Path {
        /// `uplink` or `downlink`.
        direction: &'static str,
        /// What was wrong.
        source: ConfigError,
    },
    /// The target is another machine.
    #[error("{0} is not on this machine: the link carries packets to a loopback address only")]
    NotLoopback(SocketAddr),
    /// The system refused a socket, a thread or a wait.
    #[error("the link could not {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// This process may not make network namespaces.
    #[error(
        "network namespaces and their devices need root; run it as root, for example with sudo"
    )]
    NeedsRoot,
    /// The kernel has no TUN devices.
    #[error("there is no /dev/net/tun; load the kernel's module for it: modprobe tun")]
    NoTun,
    /// The kernel has no netem.
    #[error(
        "this kernel has no netem; install its module sch_netem, often in a package like \
         linux-modules-extra or kernel-modules-extra"
    )]
    NoNetem,
    /// The kernel has no pairs of virtual devices.
    #[error("this kernel has no veth devices; install its module veth")]
    NoVeth,
    /// The link's thread panicked: a bug, please report it.
    #[error("the link's thread panicked; this is a bug, please report it")]
    Panicked,
}

impl EmuError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}
