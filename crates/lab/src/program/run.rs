//! The run of a command: in a namespace behind a link, or beside a relay.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{self, Instant};

use fullpipe_cc::Duration;
#[cfg(target_os = "linux")]
use fullpipe_emu::tun::{TunConfig, TunLink};
use fullpipe_emu::{Emulator, EmulatorConfig, LinkReport, LinkSample};
use nix::sys::signal::Signal;

use super::path::ProgramPath;
use super::result::{Ended, ProgramResult, RelayResult};
use super::{HOST_PLACE, HOST_VARIABLE, PORT_PLACE};
use crate::backend::RunError;
use crate::formulas::bits_per_sec;
use crate::observe::Progress;
use crate::process::Process;

/// Time between two looks at the command, and between two calls of the watcher.
const NAP: time::Duration = time::Duration::from_millis(5);
const WATCH_INTERVAL: time::Duration = time::Duration::from_millis(100);

/// Time beyond a round trip without packets after which the connections of a command are over, and the longest
/// wait for that: a sender whose peer is gone goes on for minutes.
const SILENCE: time::Duration = time::Duration::from_millis(20);
const LONGEST_SETTLE: time::Duration = time::Duration::from_secs(3);

/// Parameters of a run.
pub struct ProgramRequest<'a> {
    /// The path.
    pub path: &'a ProgramPath,
    /// Where the path is.
    pub place: ProgramPlace,
    /// The times, after the start, at which each client of a relay appears to the server with another port.
    pub rebind: &'a [Duration],
    /// The file for the packets at both ends, in the format of pcapng.
    pub capture: Option<&'a Path>,
    /// The program and its arguments, in which `{host}` and `{port}` stand for the address behind the path. A
    /// relay needs none.
    pub command: &'a [OsString],
    /// Whether its output goes to stderr, so that stdout is for the results.
    pub output_on_stderr: bool,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    /// Called with the address that clients use, before the command starts; the port is 0 where all are there.
    pub address: &'a mut dyn FnMut(SocketAddr),
    /// Called about ten times a second, with the rates of what was delivered to the command and from it.
    pub watch: &'a mut dyn FnMut(Progress),
}

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

/// Whether this machine lets this process have the path there.
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

/// Runs a command to its end, or until `stop` is set. When this returns, everything that it started has ended.
///
/// # Errors
/// The link or the command cannot be started.
pub fn run(request: ProgramRequest<'_>) -> Result<ProgramResult, RunError> {
    let link = Link::start(&request)?;
    let ProgramRequest { path, place, command, output_on_stderr, stop, address, watch, .. } =
        request;
    let host = link.address();
    address(host);
    let words: Vec<OsString> = command.iter().map(|word| with_address(word, host)).collect();
    let begun = Instant::now();
    let mut process = match words.split_first() {
        None => None,
        Some((program, arguments)) => {
            let mut made = Command::new(program);
            made.args(arguments).env(HOST_VARIABLE, host.ip().to_string());
            let started = link.enter(|| Process::start(made, output_on_stderr))?;
            Some(started.map_err(|source| RunError::NoCommand {
                program: program.to_string_lossy().escape_debug().to_string(),
                source,
            })?)
        }
    };
    let mut pace = Pace { told: begun, before: [0, 0] };
    let (status, interrupted) = loop {
        if let Some(process) = &mut process
            && let Some(status) = process.poll().map_err(RunError::LostCommand)?
        {
            break (Some(status), false);
        }
        if stop.load(Ordering::Relaxed) {
            break match &mut process {
                Some(process) => (process.end().map_err(RunError::LostCommand)?, true),
                // Nothing else ends a relay.
                None => (None, false),
            };
        }
        pace.tell(begun, watch, || {
            let now = link.sample();
            let queue = now.downlink.queue.delay.max(now.uplink.queue.delay);
            ([now.downlink, now.uplink].map(|way| way.stats.delivered.bytes), queue)
        });
        thread::sleep(NAP);
    };
    // Ctrl-C on a terminal is the command's.
    let is_by_ctrl_c = status.and_then(|status| status.signal()) == Some(Signal::SIGINT as i32);
    let interrupted = interrupted || is_by_ctrl_c;
    let elapsed = begun.elapsed();
    drop(process);
    link.end_processes()?;
    // A server that never hears of the end of a connection waits for more.
    settle(path.rtt, || {
        let now = link.sample();
        (now.downlink.stats.arrived.packets, now.uplink.stats.arrived.packets)
    });
    let report = link.finish()?;
    let shown = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let result = ProgramResult::of(path, shown, status.map(Ended::from), elapsed.into(), &report);
    let relay = match place {
        ProgramPlace::Namespace => None,
        ProgramPlace::Relay { server, .. } => Some(RelayResult::of(host, server, &report)),
    };
    Ok(ProgramResult { relay, interrupted, ..result })
}

/// A running link.
enum Link {
    #[cfg(target_os = "linux")]
    Tun(TunLink),
    Udp(Emulator),
}

impl Link {
    fn start(request: &ProgramRequest<'_>) -> Result<Self, RunError> {
        let (uplink, downlink) = (request.path.up.clone(), request.path.down.clone());
        let cross = request.path.cross.clone();
        let capture = request.capture.map(Path::to_owned);
        match request.place {
            #[cfg(target_os = "linux")]
            ProgramPlace::Namespace => {
                let config = TunConfig { cross, capture, ..TunConfig::new(uplink, downlink) };
                Ok(Self::Tun(TunLink::from_here(&config)?))
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
                    rebind: request.rebind.to_vec(),
                    ..EmulatorConfig::new(server)
                };
                Ok(Self::Udp(Emulator::start(config)?))
            }
        }
    }

    /// The address behind the path, as a client uses it.
    fn address(&self) -> SocketAddr {
        match self {
            // Inside another link the outermost machine has the servers, and the way there passes all links.
            #[cfg(target_os = "linux")]
            Self::Tun(link) => {
                let outer = std::env::var(HOST_VARIABLE).ok().filter(|_| link.is_nested());
                let outer = outer.and_then(|outer| outer.parse::<IpAddr>().ok());
                (outer.unwrap_or_else(|| link.server_address().into()), 0).into()
            }
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

    /// Does something where the command is.
    fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, RunError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => Ok(link.client().enter(work)?),
            Self::Udp(_) => Ok(work()),
        }
    }

    fn sample(&self) -> LinkSample {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => link.sample(),
            Self::Udp(link) => link.sample(),
        }
    }

    /// Ends what the command has left in its namespace.
    fn end_processes(&self) -> Result<(), RunError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => Ok(link.client().kill_processes().map(drop)?),
            Self::Udp(_) => Ok(()),
        }
    }

    fn finish(self) -> Result<LinkReport, RunError> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::Tun(link) => link.finish()?,
            Self::Udp(link) => link.finish()?,
        })
    }
}

/// Waits until nobody has sent anything for a round trip.
fn settle(rtt: Duration, mut sent: impl FnMut() -> (u64, u64)) {
    let silence = time::Duration::from(rtt) + SILENCE;
    let begun = Instant::now();
    let (mut last, mut since) = (sent(), begun);
    while since.elapsed() < silence && begun.elapsed() < LONGEST_SETTLE {
        thread::sleep(NAP);
        let now = sent();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// Interval of the watcher's calls.
struct Pace {
    told: Instant,
    before: [u64; 2],
}

impl Pace {
    fn tell(
        &mut self,
        begun: Instant,
        watch: &mut dyn FnMut(Progress),
        look: impl FnOnce() -> ([u64; 2], Duration),
    ) {
        if self.told.elapsed() < WATCH_INTERVAL {
            return;
        }
        let (bytes, queue) = look();
        let now = Instant::now();
        let passed = (now - self.told).into();
        let rate = |way: usize| bits_per_sec(bytes[way] - self.before[way], passed);
        watch(Progress {
            elapsed: (now - begun).into(),
            done: 0.0,
            flow_bps: vec![rate(0), rate(1)],
            queue,
            ..Progress::default()
        });
        (self.told, self.before) = (now, bytes);
    }
}

/// A word of the command with the address in the places of it.
fn with_address(word: &OsString, address: SocketAddr) -> OsString {
    let Some(text) = word.to_str().filter(|text| text.contains('{')) else { return word.clone() };
    let text = text.replace(HOST_PLACE, &address.ip().to_string());
    match address.port() {
        0 => text.into(),
        port => text.replace(PORT_PLACE, &port.to_string()).into(),
    }
}
