//! Configuration of a link, and its errors.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time;

use fullpipe_cc::Duration;
use fullpipe_path::{ConfigError, CrossSource, PathConfig};

/// Largest number of flows of a link. Packets of further clients are counted as refused.
pub const MAX_FLOWS: usize = 256;

/// Change of a client at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rebound {
    /// Its port.
    Port,
    /// Its address, and with a relay its port as well.
    Address,
}

/// A time after which a client appears to the server as somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rebinding {
    /// The time after the zero of the link's clock.
    pub at: Duration,
    /// The change.
    pub what: Rebound,
}

/// A link between the clients that send to it and one target.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// From the clients to the target.
    pub uplink: PathConfig,
    /// From the target to the clients: where the bulk data and the bottleneck usually are.
    pub downlink: PathConfig,
    /// Traffic that shares the downlink with the target's, with its times after [`Self::epoch`].
    pub cross: Vec<CrossSource>,
    /// The server's UDP address, on loopback unless `listen` is given. Nothing has to listen there
    /// yet.
    pub target: SocketAddr,
    /// The address to which clients send, of the same family as the target's; `None` for a free
    /// port on loopback.
    pub listen: Option<SocketAddr>,
    /// The file for the packets at both ends, in the format of pcapng; `None` for none.
    pub capture: Option<PathBuf>,
    /// The times after [`Self::epoch`] at which every client appears to the target with another
    /// port or address.
    pub rebind: Vec<Rebinding>,
    /// The number of packets of each direction whose time and header are kept, from the first on:
    /// 24 bytes a packet.
    pub record_arrivals: usize,
    /// The zero of all times that the link gives; `None` for its start. Several sources of samples
    /// that share one zero can be plotted together.
    pub epoch: Option<time::Instant>,
    /// True to ask for the real-time class SCHED_FIFO.
    pub realtime: bool,
}

impl EmulatorConfig {
    /// A perfect wire in both directions to `target`.
    pub fn new(target: SocketAddr) -> Self {
        Self {
            uplink: PathConfig::default(),
            downlink: PathConfig::default(),
            cross: Vec::new(),
            target,
            listen: None,
            capture: None,
            rebind: Vec::new(),
            record_arrivals: 0,
            epoch: None,
            realtime: true,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), EmuError> {
        match self.listen {
            None if !self.target.ip().is_loopback() => {
                return Err(EmuError::NotLoopback(self.target));
            }
            Some(listen) if listen.is_ipv4() != self.target.is_ipv4() => {
                return Err(EmuError::TwoFamilies { listen, target: self.target });
            }
            _ => {}
        }
        let is_local = |ip: std::net::IpAddr| ip.is_ipv4() && ip.is_loopback();
        let moves = self.rebind.iter().any(|rebinding| rebinding.what == Rebound::Address);
        if moves && !is_local(self.target.ip()) {
            return Err(EmuError::OneAddress(self.target));
        }
        let wrong = |direction| move |source| EmuError::Path { direction, source };
        self.uplink.validate().map_err(wrong("uplink"))?;
        self.downlink.validate().map_err(wrong("downlink"))
    }
}

/// Errors of starting and of ending a link.
#[derive(Debug, thiserror::Error)]
pub enum EmuError {
    /// One direction makes no sense.
    #[error("{direction}: {source}")]
    Path {
        /// `uplink` or `downlink`.
        direction: &'static str,
        /// The configuration error.
        source: ConfigError,
    },
    /// The target is another machine.
    #[error("{0} is not on this machine: the link carries packets to a loopback address only")]
    NotLoopback(SocketAddr),
    /// A relay between IPv4 and IPv6.
    #[error("{listen} and {target} are of two families; give both as IPv4 or both as IPv6")]
    TwoFamilies {
        /// The address for clients.
        listen: SocketAddr,
        /// The server's.
        target: SocketAddr,
    },
    /// Clients that are to have several addresses towards a server to which this machine has one.
    #[error(
        "towards {0} the clients have one address alone: another one needs a server on 127.0.0.1, or a link without \
         --udp; change the port instead"
    )]
    OneAddress(SocketAddr),
    /// The address for clients cannot be had.
    #[error("cannot listen on {listen}: {source}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The file of the packets cannot be made.
    #[error("cannot write {}: {source}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused a socket, a thread or a wait.
    #[error("the link could not {action}: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// This process may not make network namespaces.
    #[error(
        "network namespaces and their devices need root; run it as root, for example with sudo"
    )]
    NeedsRoot,
    /// The kernel lets only root make namespaces.
    #[error(
        "this system lets only root make network namespaces: user namespaces are off here ({0}); run it with sudo, \
         or carry UDP with --udp LISTEN=SERVER"
    )]
    NoUserNamespace(io::Error),
    /// The kernel has no TUN devices.
    #[error("there is no /dev/net/tun; load the kernel's module for it: modprobe tun")]
    NoTun,
    /// The file of the TUN devices is not open to this user.
    #[error(
        "this user may not open /dev/net/tun; let root make it readable and writable: chmod 0666 /dev/net/tun, \
         or run it with sudo"
    )]
    TunDenied,
    /// Links inside each other.
    #[error("this is inside {0} links already, and no more go inside each other; end one of them")]
    NestedTooDeep(usize),
    /// Every address for links is in use.
    #[error(
        "all addresses for links, 198.18.0.0/15, are in use here; end another link, or a program that has \
         them"
    )]
    NoAddresses,
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
