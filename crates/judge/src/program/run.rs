//! The run of a command: in a namespace behind a link, or beside a relay.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{self, Instant};

use fullpipe_cc::Duration;
use fullpipe_emu::Rebinding;
use nix::sys::signal::Signal;

#[cfg(target_os = "linux")]
use super::competing_flow::CompetingFlow;
use super::location::{Link, ProgramPlace};
use super::packet_log::WireRecord;
use super::path::ProgramPath;
use super::result::{Ended, ProgramResult, RelayResult};
use super::sampler::Watch;
use super::server::Server;
use super::{HOST_PLACE, HOST_VARIABLE, HOST6_PLACE, HOST6_VARIABLE, PORT_PLACE, SERVER_PORT};
use fullpipe_lab::Progress;
use fullpipe_lab::backend::RunError;
use fullpipe_lab::process::Process;

/// Time between two looks at the command.
const NAP: time::Duration = time::Duration::from_millis(5);

/// Time beyond a round trip without packets after which the connections of a command are over, and
/// the longest wait for that: a sender whose peer is gone goes on for minutes.
const SILENCE: time::Duration = time::Duration::from_millis(20);
const LONGEST_SETTLE: time::Duration = time::Duration::from_secs(3);

/// Parameters of a run.
pub struct ProgramRequest<'a> {
    /// The path.
    pub path: &'a ProgramPath,
    /// The place of the path.
    pub place: ProgramPlace,
    /// The times, after the start, at which clients appear to the server with another port or
    /// address.
    pub rebind: &'a [Rebinding],
    /// The file for the packets at both ends, in the format of pcapng.
    pub capture: Option<&'a Path>,
    /// The program and its arguments, in which `{host}` and `{port}` stand for the address behind
    /// the path, and `{host6}` for that of IPv6. A relay needs none. Of the server's command line
    /// the same holds.
    pub command: &'a [OsString],
    /// A command line for `sh` that is started first, at the other end of the path: this machine's
    /// servers are not reached then. For a path between namespaces.
    pub server: Option<&'a OsStr>,
    /// Others that run there from the start of that one to its end.
    pub beside: &'a [Beside],
    /// A flow of the kernel's CUBIC beside the command, in this direction; a relay has none.
    pub rival: Option<CompetingDirection>,
    /// The number of packets of each direction that are recorded, from the first on.
    pub record: usize,
    /// True if its output goes to stderr, so that stdout is for the results.
    pub output_on_stderr: bool,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    /// Called with the address that clients use, before the command starts; the port is 0 where all
    /// are there.
    pub address: &'a mut dyn FnMut(SocketAddr),
    /// Called about ten times a second, with the rates of what was delivered to the command and
    /// from it.
    pub watch: &'a mut dyn FnMut(Progress),
}

/// A command beside the one that a run is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beside {
    /// It and its arguments.
    pub command: Vec<OsString>,
    /// Its server's command line, where it needs one of its own.
    pub server: Option<OsString>,
}

/// The direction of a rival's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompetingDirection {
    /// As what the command sends.
    Up,
    /// As what the command receives.
    Down,
}

/// Runs a command to its end, or until `stop` is set. When this returns, everything that it started
/// has ended.
///
/// # Errors
/// The link or the command cannot be started.
pub fn run(request: ProgramRequest<'_>) -> Result<ProgramResult, RunError> {
    let link = Link::start(&request)?;
    let ProgramRequest {
        path,
        place,
        command,
        server,
        beside,
        rival,
        record,
        output_on_stderr,
        stop,
        address,
        watch,
        ..
    } = request;
    let (host, host6) = (link.address(), link.address6());
    let has_place = |word: &OsStr| word.to_str().is_some_and(|word| word.contains(HOST6_PLACE));
    if host6.is_none() && command.iter().map(OsString::as_os_str).chain(server).any(has_place) {
        return Err(RunError::NoHost6);
    }
    let port = port_place(host, server.is_some());
    let with_address = |word: &OsStr| with_address(word, host.ip(), host6, port);
    address(host);
    let mut server = match server {
        None => None,
        Some(line) => Some(Server::start(&with_address(line), &link, stop)?),
    };
    let mut servers = Vec::new();
    for line in beside.iter().filter_map(|beside| beside.server.as_ref()) {
        servers.push(Server::start(&with_address(line), &link, stop)?);
    }
    // Times of the path count from here, and not from a server that takes long to listen.
    let link = link.go()?;
    let words: Vec<OsString> = command.iter().map(|word| with_address(word)).collect();
    #[cfg(target_os = "linux")]
    let rival = rival.map(|way| CompetingFlow::start(&link, way)).transpose()?;
    let begun = Instant::now();
    let mut process = start(&link, &words, output_on_stderr)?;
    let mut others = Vec::new();
    for Beside { command, .. } in beside {
        let words: Vec<OsString> = command.iter().map(|word| with_address(word)).collect();
        others.extend(start(&link, &words, output_on_stderr)?);
    }
    let mut sampler = Watch::new(begun);
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
        sampler.look(|| link.sample(), watch);
        thread::sleep(NAP);
    };
    // Ctrl-C on a terminal is the command's.
    let is_by_ctrl_c = status.and_then(|status| status.signal()) == Some(Signal::SIGINT as i32);
    let interrupted = interrupted || is_by_ctrl_c;
    let elapsed = begun.elapsed();
    drop(process);
    drop(others);
    drop(rival);
    let server = server.as_mut().map(Server::end).transpose()?;
    drop(servers);
    link.end_processes()?;
    // A server that never hears of the end of a connection waits for more.
    settle(path.rtt, || {
        let now = link.sample();
        (now.downlink.stats.arrived.packets, now.uplink.stats.arrived.packets)
    });
    let mut report = link.finish()?;
    let wire = (record > 0).then(|| {
        let arrivals = [&mut report.downlink.arrivals, &mut report.uplink.arrivals];
        let [down, up] = arrivals.map(std::mem::take);
        Box::new(WireRecord::of(&path.down, &path.up, [&down, &up]))
    });
    let shown = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let result = ProgramResult::of(path, shown, status.map(Ended::from), elapsed.into(), &report);
    let relay = match place {
        ProgramPlace::Namespace => None,
        ProgramPlace::Relay { server, .. } => Some(RelayResult::of(host, server, &report)),
    };
    let series = sampler.into_rows(path);
    Ok(ProgramResult { relay, server, interrupted, series, wire, ..result })
}

/// Starts a command where the link is; nothing where there is none.
fn start(
    link: &Link,
    words: &[OsString],
    output_on_stderr: bool,
) -> Result<Option<Process>, RunError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(None) };
    let mut made = Command::new(program);
    made.args(arguments);
    surround(&mut made, link)?;
    let started = link.enter(|| Process::start(made, output_on_stderr))?;
    let started = started.map_err(|source| RunError::NoCommand {
        program: program.to_string_lossy().escape_debug().to_string(),
        source,
    })?;
    Ok(Some(started))
}

/// The environment of the command and of the server.
///
/// # Errors
/// This process cannot be told from others.
pub fn surround(command: &mut Command, link: &Link) -> Result<(), RunError> {
    command.env(HOST_VARIABLE, link.address().ip().to_string());
    command.envs(link.address6().map(|host6| (HOST6_VARIABLE, host6.to_string())));
    #[cfg(target_os = "linux")]
    command.env(fullpipe_emu::namespace::OWNER_VARIABLE, fullpipe_emu::namespace::owner()?);
    Ok(())
}

/// Waits until nobody has sent anything for a round trip.
pub fn settle(rtt: Duration, mut sent: impl FnMut() -> (u64, u64)) {
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

/// A word of the command with the address in the places of it.
fn with_address(
    word: &OsStr,
    address: IpAddr,
    address6: Option<Ipv6Addr>,
    port: Option<u16>,
) -> OsString {
    let Some(text) = word.to_str().filter(|text| text.contains('{')) else {
        return word.to_owned();
    };
    let text = text.replace(HOST_PLACE, &address.to_string());
    let text = match address6 {
        Some(address6) => text.replace(HOST6_PLACE, &address6.to_string()),
        None => text,
    };
    match port {
        Some(port) => text.replace(PORT_PLACE, &port.to_string()).into(),
        None => text.into(),
    }
}

/// The port for `{port}`: the relay's, or that of a server of the run's own. `None` where the
/// command reaches all ports of a machine.
fn port_place(address: SocketAddr, has_server: bool) -> Option<u16> {
    match address.port() {
        0 => has_server.then_some(SERVER_PORT),
        port => Some(port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_the_run_and_the_command_get_the_same_port() {
        let filled = |word: &str, address: &str, has_server| {
            let address: SocketAddr = address.parse().expect("an address");
            let port = port_place(address, has_server);
            with_address(OsStr::new(word), address.ip(), Some(Ipv6Addr::LOCALHOST), port)
        };
        for word in ["my-server -p {port}", "https://{host}:{port}/"] {
            let of_server = filled(word, "198.18.0.1:0", true);
            assert!(of_server.to_str().expect("UTF-8").contains("5201"), "{of_server:?}");
        }
        assert_eq!(filled("{host}:{port}", "127.0.0.1:4433", false), "127.0.0.1:4433");
        assert_eq!(filled("{host6} {port}", "198.18.0.1:0", false), "::1 {port}");
    }
}
