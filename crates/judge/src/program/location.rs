//! The place of a path: between namespaces, or between UDP clients and a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

#[cfg(target_os = "linux")]
use fullpipe_emu::EmuError;
#[cfg(target_os = "linux")]
use fullpipe_emu::tun::{HeldLink, TunConfig, TunLink};
use fullpipe_emu::{Emulator, EmulatorConfig, LinkReport, LinkSample};

use super::run::ProgramRequest;
use super::{HOST_VARIABLE, HOST6_VARIABLE};
use fullpipe_lab::backend::RunError;

/// The place of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramPlace {
    /// Between a namespace of the command's own and this one.
    Namespace,
    /// Between UDP clients and a server.
    Relay {
        /// The address to which clients send; port 0 for a free one.
        listen: SocketAddr,
        /// The server's.
        server: SocketAddr,
    },
}

/// Tells if this machine lets this process have the path there.
///
/// # Errors
/// The first requirement that is missing.
pub fn check(place: ProgramPlace) -> Result<(), RunError> {
    match place {
        ProgramPlace::Relay { .. } => Ok(()),
        #[cfg(target_os = "linux")]
        ProgramPlace::Namespace => fullpipe_emu::tun::available().map_err(RunError::NoNamespace),
        #[cfg(not(target_os = "linux"))]
        ProgramPlace::Namespace => Err(RunError::Scenario(
            "a command in a namespace needs Linux; write --udp LISTEN=SERVER".to_owned(),
        )),
    }
}

/// The same for a path with both ends in namespaces: without root this process moves into a user
/// namespace for that, for good. It must have one thread.
///
/// # Errors
/// The first requirement that is missing.
pub fn check_inside() -> Result<(), RunError> {
    #[cfg(target_os = "linux")]
    {
        match fullpipe_emu::tun::available() {
            Err(EmuError::NeedsRoot) => {}
            done => return done.map_err(RunError::NoNamespace),
        }
        let entered = fullpipe_emu::user_namespace::enter();
        entered.and_then(|()| fullpipe_emu::tun::available()).map_err(RunError::NoNamespace)
    }
    #[cfg(not(target_os = "linux"))]
    check(ProgramPlace::Namespace)
}

/// A running link.
pub enum Link {
    /// Between namespaces.
    #[cfg(target_os = "linux")]
    Tun(TunLink),
    /// Both ends are there, and no packet crosses the path yet.
    #[cfg(target_os = "linux")]
    Held(Box<HeldLink>),
    /// Between UDP clients and a server.
    Udp(Emulator),
}

impl Link {
    pub(super) fn start(request: &ProgramRequest<'_>) -> Result<Self, RunError> {
        let (uplink, downlink) = (request.path.up.clone(), request.path.down.clone());
        let cross = request.path.cross.clone();
        let capture = request.capture.map(Path::to_owned);
        match request.place {
            #[cfg(target_os = "linux")]
            ProgramPlace::Namespace => {
                let config = TunConfig {
                    cross,
                    capture,
                    record_arrivals: request.record,
                    rebind: request.rebind.to_vec(),
                    ipv6: true,
                    ..TunConfig::new(uplink, downlink)
                };
                if request.server.is_none() {
                    return Ok(Self::Tun(TunLink::from_here(&config)?));
                }
                let held = TunLink::hold(config)?;
                held.client().enable_loopback()?;
                held.server().enable_loopback()?;
                Ok(Self::Held(held))
            }
            #[cfg(not(target_os = "linux"))]
            ProgramPlace::Namespace => check(request.place).and(Err(RunError::Lost)),
            ProgramPlace::Relay { listen, server } => {
                let config = EmulatorConfig {
                    uplink,
                    downlink,
                    cross,
                    listen: Some(listen),
                    capture,
                    record_arrivals: request.record,
                    rebind: request.rebind.to_vec(),
                    ..EmulatorConfig::new(server)
                };
                Ok(Self::Udp(Emulator::start(config)?))
            }
        }
    }

    /// Lets packets cross, if they do not yet.
    ///
    /// # Errors
    /// The link cannot begin.
    pub fn go(self) -> Result<Self, RunError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Held(held) => Ok(Self::Tun(held.start()?)),
            running => Ok(running),
        }
    }

    /// The address behind the path, as a client uses it.
    pub fn address(&self) -> SocketAddr {
        match self {
            // Inside another link the outermost machine has the servers, and the way there passes
            // all links.
            #[cfg(target_os = "linux")]
            Self::Tun(link) => {
                let outer = std::env::var(HOST_VARIABLE).ok().filter(|_| link.is_nested());
                let outer = outer.and_then(|outer| outer.parse::<IpAddr>().ok());
                (outer.unwrap_or_else(|| link.server_address().into()), 0).into()
            }
            #[cfg(target_os = "linux")]
            Self::Held(_) => (HeldLink::SERVER, 0).into(),
            Self::Udp(link) => {
                let mut address = link.addr();
                match address.ip() {
                    IpAddr::V4(ip) if ip.is_unspecified() => {
                        address.set_ip(Ipv4Addr::LOCALHOST.into());
                    }
                    IpAddr::V6(ip) if ip.is_unspecified() => {
                        address.set_ip(Ipv6Addr::LOCALHOST.into());
                    }
                    _ => {}
                }
                address
            }
        }
    }

    /// The same of IPv6, where it has another one.
    pub fn address6(&self) -> Option<Ipv6Addr> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => {
                let outer = std::env::var(HOST6_VARIABLE).ok().filter(|_| link.is_nested());
                let outer = outer.and_then(|outer| outer.parse().ok());
                link.server_address6().map(|own| outer.unwrap_or(own))
            }
            #[cfg(target_os = "linux")]
            Self::Held(held) => held.server_address6(),
            Self::Udp(_) => None,
        }
    }

    /// Does something where the command is.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, RunError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => Ok(link.client().enter(work)?),
            #[cfg(target_os = "linux")]
            Self::Held(held) => Ok(held.client().enter(work)?),
            Self::Udp(_) => Ok(work()),
        }
    }

    /// Does something at the other end of the path.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn enter_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, RunError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => match link.server() {
                Some(server) => Ok(server.enter(work)?),
                None => Ok(work()),
            },
            #[cfg(target_os = "linux")]
            Self::Held(held) => Ok(held.server().enter(work)?),
            Self::Udp(_) => Ok(work()),
        }
    }

    /// The link now: empty before packets cross.
    pub fn sample(&self) -> LinkSample {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => link.sample(),
            #[cfg(target_os = "linux")]
            Self::Held(_) => LinkSample::default(),
            Self::Udp(link) => link.sample(),
        }
    }

    /// Ends what the command and the server have left in their namespaces.
    ///
    /// # Errors
    /// The namespaces cannot be looked at.
    pub fn end_processes(&self) -> Result<(), RunError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => {
                let inside = [Some(link.client()), link.server()];
                Ok(inside.into_iter().flatten().try_for_each(|n| n.kill_processes().map(drop))?)
            }
            #[cfg(target_os = "linux")]
            Self::Held(_) => Ok(()),
            Self::Udp(_) => Ok(()),
        }
    }

    /// Ends it, and says what it carried.
    ///
    /// # Errors
    /// The link failed while it ran.
    pub fn finish(self) -> Result<LinkReport, RunError> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => link.finish()?,
            #[cfg(target_os = "linux")]
            Self::Held(held) => held.start()?.finish()?,
            Self::Udp(link) => link.finish()?,
        })
    }
}
