//! `fullpipe get`: files from a server.

mod connect;
mod content_range;
mod fields;
mod http1;
mod names;
mod note;
mod output;
mod partial;
mod progress;
mod redirect;
mod target;
mod transfer;
mod validator;
mod writer;

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullpipe_files::{Alpn, Cipher, CongestionControl, Fingerprint, QuicVersions};
use fullpipe_report::Part;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::tun::Tun;
use crate::{parse_timeout, say};
use connect::Connectors;
use target::{Scheme, Target};
use transfer::{Job, Transfer};

/// Longest time for which --resume waits for a session. A server that gives one does so at the end
/// of the handshake.
const SESSION_TIMEOUT: fullpipe_cc::Duration = fullpipe_cc::Duration::from_secs(1);

/// Requests at one time on a connection: as many as most servers allow.
const REQUESTS: usize = 100;

/// Fetch files over QUIC (HTTP/3 or hq-interop) or over TCP (HTTP/1.1)
///
/// A file gets its name when it is complete; until then it has another one in the same directory,
/// and on any failure it is removed. A file that is there already is replaced. Progress and a
/// final line for each file go to stderr.
///
/// Files of one server come over one connection: over QUIC all at the same time, over TCP one after
/// the other.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// https://HOST[:PORT]/PATH, with port 443 by default, or tcp://HOST:PORT/PATH, which has no
    /// TLS
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Write to FILE instead of the last part of the URL's path, "-" for stdout; for one URL
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the files into DIR
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    output_dir: Option<PathBuf>,
    /// Follow redirects. From https:// they lead to https:// alone, and another server gets no
    /// Authorization and no Cookie of -H
    #[arg(short = 'L', long)]
    location: bool,
    /// Most redirects of one file, with -L
    #[arg(long, value_name = "N", default_value_t = 50, requires = "location")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    max_redirs: u32,
    /// Send this field with each request, like 'Accept: text/html'; may be given several times
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = fields::parse)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Continue what an earlier run with -C left of a file, unless the file was changed since; on a
    /// failure the part stays as FILE.part, with FILE.part.json beside it
    #[arg(short = 'C', long = "continue")]
    continues: bool,
    /// Connect again so many times when the server refuses or does not answer, after 1 s, 2 s, 4 s
    /// and so on
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry: u32,
    /// Fetch each file over a connection of its own, all at the same time
    #[arg(long)]
    parallel: bool,
    /// Fetch the first file over one connection and the others over a second one, which resumes the
    /// session of the first
    #[arg(long, conflicts_with = "parallel")]
    resume: bool,
    /// With --resume, send the requests in the first packets of the second connection (0-RTT)
    #[arg(long, requires = "resume")]
    early_data: bool,
    /// Change the keys once data arrives (RFC 9001 section 6)
    #[arg(long)]
    key_update: bool,
    /// Congestion control of this end, which sends little: the server's decides the speed. bbr3,
    /// bbr3x, bbr3-linux, bbr3x-linux, bbr-swift, prague, bbr1, cubic, reno, noq:bbr3, noq:cubic,
    /// noq:reno
    #[arg(long, value_name = "ALGORITHM", value_parser = crate::parse_cc, default_value = "bbr3")]
    cc: CongestionControl,
    /// Do not check the server's certificate: anybody on the path can read and change the file
    #[arg(long, conflicts_with_all = ["ca", "fingerprint"])]
    insecure: bool,
    /// Trust the one certificate with this SHA-256 fingerprint, which fullpipe serve prints
    #[arg(long, value_name = "HEX", conflicts_with = "ca")]
    fingerprint: Option<Fingerprint>,
    /// Trust the certificates in this PEM file, issuers or the server's own, instead of the
    /// system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The cipher suites of TLS: any, aes128, aes256 or chacha20
    #[arg(long, value_name = "SUITE", default_value = "any")]
    ciphers: Cipher,
    /// The versions of QUIC: v1, v2, or v1,v2, which begins with version 1 and offers the server
    /// version 2
    #[arg(long, value_name = "VERSIONS", default_value = "v1")]
    quic_versions: QuicVersions,
    /// The protocol of the requests: h3 (HTTP/3), hq-interop (HTTP/0.9), or any, and the server
    /// chooses
    #[arg(long, value_name = "PROTOCOL", default_value = "any")]
    alpn: Alpn,
    /// Stay at the server's address when the server prefers another one (RFC 9000 section 9.6)
    #[arg(long)]
    no_migration: bool,
    /// For tcp:// take this program's own TCP with --cc in place of the kernel's, behind this TUN
    /// device; with the kernel's address on it, the device is made (root)
    #[arg(long, value_name = "NAME[=ADDRESS/PREFIX]", requires = "from")]
    tun: Option<Tun>,
    /// The address of this program's own TCP: one of the device's network, and not the kernel's
    #[arg(long, value_name = "ADDRESS", requires = "tun")]
    from: Option<IpAddr>,
    /// Write the qlog of each connection into DIR
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Give up when the server does not answer for this long
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_timeout)]
    connect_timeout: fullpipe_cc::Duration,
    /// Give up when nothing of the file arrives for this long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_timeout)]
    stall_timeout: fullpipe_cc::Duration,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe get https://localhost:4433/file.bin --insecure
  fullpipe get https://localhost:4433/file.bin --fingerprint 5B:07:...:C4
  fullpipe get https://example.org:4433/file.bin --ca issuer.pem -o - | sha256sum
  fullpipe get https://localhost:4433/a https://localhost:4433/b --insecure --output-dir here
  fullpipe get -L -C --retry 5 https://example.org/file.bin
  fullpipe get tcp://localhost:8080/file.bin
  fullpipe get tcp://10.9.0.1:80/file.bin --tun fp0=10.9.0.1/24 --from 10.9.0.2 --cc bbr3";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.qlog.is_some() {
        Part::Qlog.check().map_err(Failure::bad_input)?;
    }
    let jobs = jobs(args)?;
    for directory in [&args.output_dir, &args.qlog].into_iter().flatten() {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::bad_input(format!("cannot write to {directory:?}: {error}"))
        })?;
    }
    // On one thread nothing of a connection wakes another. What may wait for a disk has threads of
    // its own.
    let runtime = match args.parallel {
        true => tokio::runtime::Runtime::new(),
        false => tokio::runtime::Builder::new_current_thread().enable_all().build(),
    };
    let runtime = runtime.map_err(|error| Failure::run(format!("cannot start: {error}")))?;
    let interrupt = Interrupt::install()?;
    let outcome = runtime.block_on(fetch_all(args, jobs, &interrupt));
    // A write to a pipe that nobody reads holds its thread for ever.
    runtime.shutdown_background();
    outcome
}

/// The files to fetch, and the place for them.
fn jobs(args: &Args) -> Result<Vec<Job>, Failure> {
    if args.output.is_some() && args.urls.len() > 1 {
        let reason = "--output is for one URL; --output-dir takes the files of several";
        return Err(Failure::bad_input(reason));
    }
    let mut paths = HashSet::new();
    let mut jobs = Vec::new();
    for url in &args.urls {
        let target = Target::parse(url).map_err(Failure::BadInput)?;
        let path = match &args.output {
            Some(path) => path.clone(),
            None => {
                let name = target.file_name().map_err(Failure::BadInput)?;
                args.output_dir.as_deref().unwrap_or(Path::new("")).join(name)
            }
        };
        if !paths.insert(path.clone()) {
            let reason = format!("two URLs would be written to {path:?}; fetch them one by one");
            return Err(Failure::bad_input(reason));
        }
        jobs.push(Job { target, path, continues: args.continues });
    }
    check_switches(args, &jobs)?;
    check_places(args, &jobs)?;
    Ok(jobs)
}

/// Switches that a URL's transport has nothing for.
fn check_switches(args: &Args, jobs: &[Job]) -> Result<(), Failure> {
    let of_quic = [
        ("--resume", args.resume),
        ("--key-update", args.key_update),
        ("--insecure", args.insecure),
        ("--fingerprint", args.fingerprint.is_some()),
        ("--ca", args.ca.is_some()),
        ("--qlog", args.qlog.is_some()),
    ];
    let has = |scheme| jobs.iter().any(|job| job.target.scheme == scheme);
    if let Some((switch, _)) = of_quic.iter().find(|(_, given)| *given && !has(Scheme::Https)) {
        return Err(Failure::bad_input(format!("{switch} is for https://, not for tcp://")));
    }
    if args.tun.is_some() && !has(Scheme::Tcp) {
        return Err(Failure::bad_input("--tun is for tcp://, not for https://"));
    }
    Ok(())
}

/// Outputs that a part cannot be left of.
fn check_places(args: &Args, jobs: &[Job]) -> Result<(), Failure> {
    let is_file = |job: &Job| {
        let is_other = std::fs::metadata(&job.path).is_ok_and(|found| !found.is_file());
        job.path != Path::new("-") && !is_other
    };
    if !args.continues {
        return Ok(());
    }
    if let Some(job) = jobs.iter().find(|job| !is_file(job)) {
        let reason = format!("--continue is for files, and {:?} is none", job.path);
        return Err(Failure::bad_input(reason));
    }
    let places: HashSet<&Path> = jobs.iter().map(|job| &*job.path).collect();
    let parts = jobs.iter().flat_map(|job| names::names_beside(&job.path));
    match parts.into_iter().find(|part| places.contains(part.as_path())) {
        Some(part) => {
            let reason = format!(
                "--continue would write a part and another file to {part:?}; fetch them one by one"
            );
            Err(Failure::bad_input(reason))
        }
        None => Ok(()),
    }
}

/// The files that one connection fetches. Those of one server are together, unless the user wants
/// them apart.
fn groups(args: &Args, jobs: Vec<Job>) -> Vec<Vec<Job>> {
    let mut groups: Vec<Vec<Job>> = Vec::new();
    for job in jobs {
        let same = |group: &&mut Vec<Job>| group[0].target.is_on_the_server_of(&job.target);
        match groups.iter_mut().find(same) {
            Some(group) if !args.parallel => group.push(job),
            _ => groups.push(vec![job]),
        }
    }
    groups
}

async fn fetch_all(args: &Args, jobs: Vec<Job>, interrupt: &Interrupt) -> Result<(), Failure> {
    let single = jobs.len() == 1;
    let ways = Connectors::new(args, &jobs)?;
    let transfer = Arc::new(Transfer::new(args, &jobs, ways.clone()));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut fetching = JoinSet::new();
    for group in groups(args, jobs) {
        let (ways, transfer, stopped) = (ways.clone(), transfer.clone(), stopped.clone());
        let (resume, early) = (args.resume, args.early_data);
        fetching.spawn(async move {
            let stop = transfer::Stop::new(stopped);
            if resume {
                fetch_resuming(&ways, &transfer, group, early, &stop).await
            } else {
                fetch_group(&ways, &transfer, group, None, false, &stop).await.1
            }
        });
    }
    let mut failures = Vec::new();
    let mut interrupted = false;
    loop {
        tokio::select! {
            ended = fetching.join_next() => match ended {
                None => break,
                Some(Ok(failed)) => failures.extend(failed),
                Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            },
            () = interrupt.wait(), if !interrupted => {
                interrupted = true;
                stop.send_replace(true);
            }
        }
    }
    transfer.end();
    ways.shutdown().await;
    if single && let Some(failure) = failures.pop() {
        return Err(failure);
    }
    for failure in &failures {
        say(&format!("error: {failure}"));
    }
    match failures.as_slice() {
        [] => Ok(()),
        _ if interrupted => Err(Failure::Interrupted("interrupted".to_owned())),
        _ => Err(Failure::run("not all files were fetched")),
    }
}

/// The first file over one connection, the others over another that resumes its session.
async fn fetch_resuming(
    ways: &Connectors,
    transfer: &Arc<Transfer>,
    mut group: Vec<Job>,
    early: bool,
    stop: &transfer::Stop,
) -> Vec<Failure> {
    let rest = group.split_off(1);
    let more = !rest.is_empty();
    let (reached, mut failures) = fetch_group(ways, transfer, group, None, more, stop).await;
    if !more {
        return failures;
    }
    let again = reached.map(|address| connect::Again { address, early });
    failures.extend(fetch_group(ways, transfer, rest, again, false, stop).await.1);
    failures
}

/// Fetches files over one connection. Ends with the address of the server, and what went wrong. A
/// connection that will be resumed is kept until the server has given a session.
async fn fetch_group(
    ways: &Connectors,
    transfer: &Arc<Transfer>,
    jobs: Vec<Job>,
    again: Option<connect::Again>,
    resumed_later: bool,
    stop: &transfer::Stop,
) -> (Option<std::net::SocketAddr>, Vec<Failure>) {
    let mut jobs = jobs.into_iter().peekable();
    let Some(first) = jobs.peek() else { return (None, Vec::new()) };
    let target = first.target.clone();
    // First, because it is the user's to put right, and the server need not hear of it.
    let output = match stop.unless(first.open()).await {
        Some(Ok(output)) => output,
        Some(Err(error)) => return (None, vec![transfer::cannot_open(&first.path, &error)]),
        None => return (None, vec![transfer::nothing_written()]),
    };
    let server = match stop.unless(ways.connect(&target, again)).await {
        Some(Ok(server)) => Arc::new(server),
        Some(Err(failure)) => return (None, vec![failure]),
        None => return (None, vec![transfer::nothing_written()]),
    };
    let reached = server.address();
    let mut output = Some(output);
    let at_once = if target.scheme == Scheme::Tcp { 1 } else { REQUESTS };
    let room = Arc::new(Semaphore::new(at_once));
    let mut running = JoinSet::new();
    for job in jobs {
        let permit = room.clone().acquire_owned().await;
        let (server, transfer, stop) = (server.clone(), transfer.clone(), stop.clone());
        let output = output.take();
        running.spawn(async move {
            let _permit = permit;
            transfer.fetch(&server, job, output, &stop).await
        });
    }
    let mut failures = Vec::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(outcome) => failures.extend(outcome.err()),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
    if resumed_later {
        stop.unless(ways.wait_for_session(SESSION_TIMEOUT)).await;
    }
    if let Ok(server) = Arc::try_unwrap(server) {
        server.close().await;
    }
    (reached, failures)
}
