//! A run of a case: both ends in their namespaces, the link between them, and the checks when they
//! are done.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fullpipe_cc::Duration as PathTime;
use fullpipe_emu::LinkReport;
use fullpipe_emu::namespace::SERVER;
use fullpipe_emu::tun::TunLink;

use super::capture::Capture;
use super::cases::{Case, Kind};
use super::check::{Ground, check};
use super::files::{compare, write_certificates, write_files};
use super::report::{Grade, Run};
use super::{path, tshark};
use fullpipe_judge::peers::OWN;
use fullpipe_judge::program::CompetingDirection;
use fullpipe_judge::program::CompetingFlow;
use fullpipe_judge::program::Link;
use fullpipe_judge::program::Watch;
use fullpipe_judge::program::listening;
use fullpipe_judge::program::{settle, surround};
use fullpipe_judge::quic::{KeyLog, Trace};
use fullpipe_lab::Progress;
use fullpipe_lab::backend::RunError;
use fullpipe_lab::process::Process;

/// The port of the server.
const PORT: u16 = 443;

/// The port of its preferred address, which is another port of the same host.
const PREFERRED_PORT: u16 = 4443;

/// The exit code of an end that has no such case.
const UNSUPPORTED: i32 = 127;

/// Longest time until a server listens.
const PATIENCE: Duration = Duration::from_secs(30);

const NAP: Duration = Duration::from_millis(5);

/// Bytes of the end of an output that are looked at for a message.
const LAST_BYTES: usize = 300;

/// Folders and files of a run.
const WWW: &str = "www";
const DOWNLOADS: &str = "downloads";
const CERTS: &str = "certs";
const LINK: &str = "link";
const OUTPUT: &str = "output.txt";
const KEYS: &str = "keys.log";

/// The commands of both ends, each with its name.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The server's.
    pub server: (&'a str, &'a str),
    /// The client's.
    pub client: (&'a str, &'a str),
}

/// Parameters of a run.
pub struct Request<'a> {
    /// The case.
    pub case: &'a Case,
    /// The commands.
    pub ends: Ends<'a>,
    /// An empty folder for all that the run writes.
    pub dir: &'a Path,
    /// Of everything random: what is lost, and the files.
    pub seed: u64,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    /// Called about ten times a second.
    pub watch: &'a mut dyn FnMut(Progress),
}

/// One end while it runs.
struct RunningEnd<'a> {
    name: &'a str,
    dir: PathBuf,
    process: Process,
}

/// Runs a case. When this returns, everything that it started has ended, and its namespaces are
/// gone.
///
/// # Errors
/// The link cannot be made, or the folder cannot be written; or it was stopped. What the ends do
/// wrong is a result.
pub fn run_case(request: Request<'_>) -> Result<Run, RunError> {
    let Request { case, ends, dir, seed, stop, watch } = request;
    let file = |source: io::Error| RunError::Store(format!("{}: {source}", dir.display()).into());
    for name in [WWW, DOWNLOADS, CERTS, LINK, "server/qlog", "client/qlog"] {
        fs::create_dir_all(dir.join(name)).map_err(file)?;
    }
    let names = write_files(case, &dir.join(WWW), seed).map_err(file)?;
    let both = dir.join(LINK).join("both.pcapng");
    let held = TunLink::hold(path::link(case, seed, &both))?;
    held.client().enable_loopback()?;
    held.server().enable_loopback()?;
    let link = Link::Held(held);
    let addresses: Vec<IpAddr> =
        [Some(IpAddr::V4(SERVER)), link.address6().map(IpAddr::V6)].into_iter().flatten().collect();
    let hosts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    write_certificates(case, &dir.join(CERTS), &hosts).map_err(file)?;
    let host = match (case.kind, link.address6()) {
        (Kind::Ipv6, Some(six)) => bracketed(six),
        (Kind::Ipv6, None) => {
            return Ok(without_packets(Grade::NotChecked, "this kernel has no IPv6".to_owned()));
        }
        _ => SERVER.to_string(),
    };

    let mut server = match start_server(case, ends.server, dir, &host, &link, stop)? {
        Ok(server) => server,
        Err(run) => return Ok(run),
    };
    let link = link.go()?;
    let rival = (case.kind == Kind::CrossTraffic)
        .then(|| CompetingFlow::start(&link, CompetingDirection::Down));
    let rival = rival.transpose()?;
    let urls: Vec<String> =
        names.iter().map(|name| format!("https://{host}:{PORT}/{name}")).collect();
    let mut command = end_command(ends.client, case, "client", case.told.1, dir, &link)?;
    command.env("REQUESTS", urls.join(" ")).env("DOWNLOADS", dir.join(DOWNLOADS));
    let begun = Instant::now();
    let mut client = match start(command, ends.client.0, &dir.join("client"), |command, log| {
        link.enter(|| Process::start_logged(command, log))
    })? {
        Ok(client) => client,
        Err(run) => return Ok(run),
    };
    let mut sampler = Watch::new(begun);
    let status = loop {
        if let Some(status) = client.process.poll().map_err(RunError::LostCommand)? {
            break Some(status);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::StoppedEarly);
        }
        if begun.elapsed() > case.timeout {
            client.process.end().map_err(RunError::LostCommand)?;
            break None;
        }
        let sample = || link.sample();
        sampler.look(sample, &mut |progress| {
            let delivered = link.sample().downlink.stats.delivered.bytes;
            let done = (delivered as f64 / case.bytes() as f64).min(1.0);
            watch(Progress { done, ..progress });
        });
        thread::sleep(NAP);
    };
    let elapsed_s = begun.elapsed().as_secs_f64();
    // The client's last packets still have to reach the server; a server may answer for long.
    let rtt = PathTime::from_millis(if case.kind == Kind::LongRtt { 1500 } else { 30 });
    drop(rival);
    settle(rtt, || {
        let now = link.sample();
        (now.downlink.stats.arrived.packets, now.uplink.stats.arrived.packets)
    });
    server.process.end().map_err(RunError::LostCommand)?;
    link.end_processes()?;
    let report = link.finish()?;

    let is_own = ends.server.0 == OWN;
    let mut run = match status.map(|status| status.code()) {
        Some(Some(0)) => {
            let wrong = compare(&dir.join(WWW), &dir.join(DOWNLOADS), &names).map_err(file)?;
            let mut run = look(case, is_own, dir, &addresses, &both).map_err(file)?;
            for wrong in wrong {
                run.grade = Grade::Failed;
                run.notes.insert(0, wrong);
            }
            run
        }
        Some(Some(UNSUPPORTED)) => unsupported(client.name),
        other => {
            let how = match (other, status) {
                (None, _) => format!("was not done after {} s", case.timeout.as_secs()),
                (Some(_), status) => status.map_or_else(String::new, |s| format!("ended with {s}")),
            };
            let said = last_words(&client.dir);
            // The packets help to see why.
            let _ = look(case, is_own, dir, &addresses, &both);
            without_packets(Grade::Failed, format!("the client {} {how}{said}", client.name))
        }
    };
    let _ = fs::remove_file(&both);
    run.elapsed_s = elapsed_s;
    run.notes.extend(warning(&report));
    Ok(run)
}

/// Starts the server and waits until it listens; or says why it does not.
fn start_server<'a>(
    case: &Case,
    end: (&'a str, &str),
    dir: &Path,
    host: &str,
    link: &Link,
    stop: &AtomicBool,
) -> Result<Result<RunningEnd<'a>, Run>, RunError> {
    let mut command = end_command(end, case, "server", case.told.0, dir, link)?;
    command.env("LISTEN", format!("{host}:{PORT}"));
    command.env("WWW", dir.join(WWW)).env("CERTS", dir.join(CERTS));
    if case.kind == Kind::ConnectionMigration {
        let six = link.address6().map(|six| format!(",{}:{PREFERRED_PORT}", bracketed(six)));
        let preferred = format!("{SERVER}:{PREFERRED_PORT}{}", six.unwrap_or_default());
        command.env("PREFERRED_ADDRESS", preferred);
    }
    let before = link.enter_server(listening)?;
    let started = start(command, end.0, &dir.join("server"), |command, log| {
        link.enter_server(|| Process::start_logged(command, log))
    })?;
    let mut server = match started {
        Ok(server) => server,
        failed => return Ok(failed),
    };
    let begun = Instant::now();
    while link.enter_server(listening)? <= before {
        if let Some(status) = server.process.poll().map_err(RunError::LostCommand)? {
            let said = last_words(&server.dir);
            return Ok(Err(match status.code() {
                Some(UNSUPPORTED) => unsupported(end.0),
                _ => failed(format!(
                    "the server {} ended with {status} before it listened{said}",
                    end.0
                )),
            }));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::StoppedEarly);
        }
        if begun.elapsed() > PATIENCE {
            let said = last_words(&server.dir);
            return Ok(Err(failed(format!(
                "the server {} listens on no port after {} s{said}",
                end.0,
                PATIENCE.as_secs()
            ))));
        }
        thread::sleep(NAP);
    }
    Ok(Ok(server))
}

/// The command of an end, with the environment that both have.
fn end_command(
    (_, line): (&str, &str),
    case: &Case,
    role: &str,
    told: &str,
    dir: &Path,
    link: &Link,
) -> Result<Command, RunError> {
    let words = shlex::split(line).unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else {
        return Err(RunError::Scenario(format!("'{line}' is no command")));
    };
    let mut command = Command::new(program);
    let own = dir.join(role);
    command.args(arguments).current_dir(&own);
    for name in ["RUST_LOG", "SERVER_PARAMS", "CLIENT_PARAMS"] {
        command.env_remove(name);
    }
    command.env("ROLE", role).env("TESTCASE", told).env("CASE", case.name);
    command.env("SSLKEYLOGFILE", own.join(KEYS)).env("QLOGDIR", own.join("qlog"));
    surround(&mut command, link)?;
    Ok(command)
}

/// Starts an end; the inner error is its own.
fn start<'a>(
    command: Command,
    name: &'a str,
    dir: &Path,
    inside: impl FnOnce(Command, File) -> Result<io::Result<Process>, RunError>,
) -> Result<Result<RunningEnd<'a>, Run>, RunError> {
    let file = dir.join(OUTPUT);
    let log = File::create(&file)
        .map_err(|e| RunError::Store(format!("{}: {e}", file.display()).into()))?;
    let program = command.get_program().to_string_lossy().into_owned();
    Ok(match inside(command, log)? {
        Ok(process) => Ok(RunningEnd { name, dir: dir.to_owned(), process }),
        Err(e) => Err(failed(format!("cannot start '{program}' of {name}: {e}"))),
    })
}

/// Reads the packets and checks them.
fn look(
    case: &Case,
    is_own_server: bool,
    dir: &Path,
    servers: &[IpAddr],
    both: &Path,
) -> io::Result<Run> {
    let files = ["client", "server"].map(|end| dir.join(LINK).join(format!("{end}.pcapng")));
    let capture = Capture::split(both, [&files[0], &files[1]])?;
    // An end may write no secrets, or not all: what one of the two has is enough.
    let secrets = ["client", "server"].map(|end| {
        fs::read(dir.join(end).join(KEYS))
            .map_or_else(|_| String::new(), |s| String::from_utf8_lossy(&s).into_owned())
    });
    let keys = dir.join(LINK).join(KEYS);
    fs::write(&keys, secrets.join("\n"))?;
    let log = KeyLog::read(&secrets.join("\n"));
    let ground = Ground {
        case,
        client: Trace::read(&capture.client, servers, &log),
        server: Trace::read(&capture.server, servers, &log),
        has_keys: !log.is_empty(),
        is_own_server,
    };
    let mut verdict = check(&ground);
    let traces = [&ground.client, &ground.server];
    let compared = tshark::compare(traces, [&files[0], &files[1]], servers, &keys);
    let tshark_agrees = compared.as_ref().map(|differences| differences.is_empty());
    verdict.unchecked.extend(compared.into_iter().flatten());
    let (grade, notes) = verdict.into_parts();
    Ok(Run { grade, notes, elapsed_s: 0.0, kbps: ground.kbps(), tshark_agrees, logs: None })
}

fn without_packets(grade: Grade, note: String) -> Run {
    Run { grade, notes: vec![note], elapsed_s: 0.0, kbps: None, tshark_agrees: None, logs: None }
}

fn failed(note: String) -> Run {
    without_packets(Grade::Failed, note)
}

fn unsupported(name: &str) -> Run {
    without_packets(Grade::Unsupported, format!("{name} has no such case"))
}

/// The end of an end's output, behind what is said of it.
fn last_words(dir: &Path) -> String {
    let output = fs::read(dir.join(OUTPUT)).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let shown = lines[lines.len().saturating_sub(2)..].join(" / ");
    let shown: String = shown.chars().filter(|c| !c.is_control()).collect();
    let surplus = shown.chars().count().saturating_sub(LAST_BYTES);
    match shown.chars().skip(surplus).collect::<String>() {
        none if none.is_empty() => none,
        some => format!(": {some}"),
    }
}

/// A link that was late changes what is measured.
fn warning(report: &LinkReport) -> Option<String> {
    let capture = report.capture.as_ref();
    let missing = capture
        .filter(|c| c.missing > 0)
        .map(|c| format!("{} packets are not in the capture", c.missing));
    missing.or_else(|| report.warning.as_ref().map(|warning| format!("the link: {warning}")))
}

fn bracketed(address: Ipv6Addr) -> String {
    format!("[{address}]")
}
