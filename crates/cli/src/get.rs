//! `fullpipe get`: one file from a server.

mod output;
mod target;

use std::io::{IsTerminal, stdout};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fullpipe_quic::{
    Client, ClientError, ClientOptions, CongestionControl, Response, TlsError, TransportSettings,
    Verify,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{INITIAL_RTT, parse_timeout, say};
use output::Output;
use target::Target;

/// A pipe that nobody reads for a while stops the flow; this keeps the connection.
const KEEP_ALIVE: fullpipe_cc::Duration = fullpipe_cc::Duration::from_secs(10);
const REDRAW: Duration = Duration::from_millis(100);

/// Fetch one file over QUIC (hq-interop)
///
/// The file gets its name when it is complete; until then it has another one in the same directory,
/// and on any failure it is removed. A file that is there already is replaced. Progress and the
/// final line go to stderr.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// https://HOST:PORT/PATH
    url: String,
    /// Write to FILE instead of the last part of the URL's path, "-" for stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Congestion control of what is sent, which is little: the server's decides the speed. bbr3,
    /// bbr1, cubic, reno, noq:bbr3, noq:cubic, noq:reno
    #[arg(long, value_name = "ALGORITHM", default_value = "bbr3")]
    cc: CongestionControl,
    /// Do not check the server's certificate: anybody on the way can read and change the file
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Trust the certificates in this PEM file, issuers or the server's own, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
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
  fullpipe get https://example.org:4433/file.bin --ca issuer.pem -o - | sha256sum";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let target = Target::parse(&args.url).map_err(Failure::BadInput)?;
    let path = match &args.output {
        Some(path) => path.clone(),
        None => target.file_name().map_err(Failure::BadInput)?.into(),
    };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::run(format!("cannot start: {error}")))?;
    let interrupt = Interrupt::install()?;
    let outcome = runtime.block_on(fetch(args, &target, &path, &interrupt));
    // A write to a pipe that nobody reads holds its thread for ever.
    runtime.shutdown_background();
    say(&outcome?);
    Ok(())
}

/// Ends with the line that says what was fetched.
async fn fetch(
    args: &Args,
    target: &Target,
    path: &Path,
    interrupt: &Interrupt,
) -> Result<String, Failure> {
    let stop = || Failure::Interrupted("interrupted; nothing was written".to_owned());
    // First, because it is the user's to put right, and the server need not hear of it.
    let mut output = tokio::select! {
        output = Output::open(path) => output
            .map_err(|error| Failure::bad_input(format!("cannot write to {path:?}: {error}")))?,
        () = interrupt.wait() => return Err(stop()),
    };
    let client = tokio::select! {
        client = connect(args, target) => client?,
        () = interrupt.wait() => return Err(stop()),
    };
    let mut bytes = 0;
    let outcome = tokio::select! {
        outcome = receive(args, &client, target, &mut output, &mut bytes) => outcome,
        () = interrupt.wait() => Err(Failure::Interrupted("interrupted".to_owned())),
    };
    client.close().await;
    let seconds = outcome.map_err(|failure| add_what_is_left(failure, &output, bytes))?;
    let mbit = bytes as f64 * 8e-6 / seconds.max(1e-9);
    Ok(format!("{bytes} bytes in {seconds:.2} s, {mbit:.1} Mbit/s, to {}", output.name()))
}

async fn connect(args: &Args, target: &Target) -> Result<Client, Failure> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((target.host.as_str(), target.port))
        .await
        .map_err(|error| Failure::run(format!("cannot find {}: {error}", target.host)))?
        .collect();
    let verify = match &args.ca {
        Some(file) => Verify::Ca(file.clone()),
        None if args.insecure => Verify::Insecure,
        None => Verify::SystemRoots,
    };
    let options = ClientOptions {
        congestion: args.cc,
        transport: TransportSettings {
            keep_alive: Some(KEEP_ALIVE),
            initial_rtt: Some(INITIAL_RTT),
            ..TransportSettings::default()
        },
        handshake_timeout: args.connect_timeout,
        ..ClientOptions::default()
    };
    Client::connect_to_any(&addresses, &target.host, &verify, options).await.map_err(refused)
}

/// Bad input is what cannot work with any server.
fn refused(error: ClientError) -> Failure {
    const WAYS_OUT: &str = "--ca FILE names whom to trust, --insecure trusts anybody";
    match error {
        ClientError::Tls(error @ TlsError::NoSystemRoots) => {
            Failure::bad_input(format!("{error}; {WAYS_OUT}"))
        }
        ClientError::Tls(error) => Failure::bad_input(error),
        error @ ClientError::Untrusted { .. } => Failure::run(format!("{error}; {WAYS_OUT}")),
        error => Failure::run(error),
    }
}

/// Moves the body and counts it; ends with the seconds that this took.
async fn receive(
    args: &Args,
    client: &Client,
    target: &Target,
    output: &mut Output,
    bytes: &mut u64,
) -> Result<f64, Failure> {
    let bar = progress_bar(output);
    let start = Instant::now();
    let cannot_fetch = |error| Failure::run(format!("cannot fetch {}: {error}", target.path));
    let stalled = |_| {
        let (path, timeout) = (&target.path, args.stall_timeout);
        Failure::run(format!("cannot fetch {path}: nothing arrived for {timeout}"))
    };
    let stall = args.stall_timeout.into();
    let response = tokio::time::timeout(stall, client.get(&target.path)).await;
    let mut response: Response = response.map_err(stalled)?.map_err(cannot_fetch)?;
    loop {
        let chunk = tokio::time::timeout(stall, response.chunk()).await;
        let Some(chunk) = chunk.map_err(stalled)?.map_err(cannot_fetch)? else { break };
        output.write(&chunk).await.map_err(|error| cannot_write(output, &error))?;
        *bytes += chunk.len() as u64;
        bar.set_position(*bytes);
    }
    output.finish().await.map_err(|error| cannot_write(output, &error))?;
    Ok(start.elapsed().as_secs_f64())
}

fn cannot_write(output: &Output, error: &std::io::Error) -> Failure {
    Failure::run(format!("cannot write to {}: {error}", output.name()))
}

/// What there is of the file after a failure: nothing, or what went to a place that keeps it.
fn add_what_is_left(failure: Failure, output: &Output, bytes: u64) -> Failure {
    let left = match (bytes, output.vanishes()) {
        (0, _) => "nothing was written".to_owned(),
        (_, true) => format!("the {bytes} bytes that had arrived were removed"),
        (_, false) => format!("{bytes} bytes had arrived for {}", output.name()),
    };
    match failure {
        Failure::BadInput(reason) => Failure::BadInput(format!("{reason}; {left}")),
        Failure::Run(reason) => Failure::Run(format!("{reason}; {left}")),
        Failure::Interrupted(reason) => Failure::Interrupted(format!("{reason}; {left}")),
    }
}

/// hq-interop tells no length beforehand, so this is what has come and how fast. indicatif shows it
/// on a terminal only; on one that shows the file itself it would be in the way.
fn progress_bar(output: &Output) -> ProgressBar {
    let draw = if output.is_stdout() && stdout().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        // A bar that cannot be drawn is no reason to stop.
        let _ = write!(out, "{:.1} Mbit/s", state.per_sec() * 8e-6);
    };
    let style = ProgressStyle::default_spinner().with_key("mbit", rate);
    let style = style.template("{spinner} {decimal_bytes} in {elapsed}, {mbit}");
    let bar = ProgressBar::with_draw_target(None, draw).with_finish(ProgressFinish::AndClear);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(REDRAW);
    bar
}
