//! `fullpipe serve`: the files under a directory, to whoever asks for them.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fullpipe_cc::Duration;
use fullpipe_lab::units;
use fullpipe_quic::{
    ALPN, CongestionControl, Content, Limits, Secret, Server, ServerOptions, ServerTls,
    TransportSettings,
};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{INITIAL_RTT, parse_timeout};

/// Serve the files under a directory over QUIC (hq-interop)
///
/// Prints one line with the address once it listens, then logs each request on stderr. Only regular
/// files under DIR are given: paths with "..", and links that leave DIR, are refused. Ctrl-C ends
/// it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory
    dir: PathBuf,
    /// Address and UDP port; port 0 takes a free one, the IPv6 address :: takes IPv4 as well
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4433")]
    #[arg(value_parser = parse_address)]
    listen: SocketAddr,
    /// Congestion control of what is sent: bbr3, bbr3-linux, bbr1, cubic, reno, noq:bbr3, noq:cubic, noq:reno
    #[arg(long, value_name = "ALGORITHM", default_value = "bbr3")]
    cc: CongestionControl,
    /// The server's certificate chain, PEM; without it, one is made that signs itself
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of --cert, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Keep the secret behind resets and tokens in DIR, so that clients of a server that was killed hear of it from
    /// the one that is started after it; made if it is not there
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
}

/// The limits that a user can set; without one, it is as `Limits` has it.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Connections at one time; further ones are refused [default: 4096]
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<usize>,
    /// Handshakes at one time with clients whose address is not validated; further ones must first return a token
    /// (Retry), and with 0 all [default: 64]
    #[arg(long, value_name = "COUNT")]
    retry_above: Option<usize>,
    /// Requests that a client may have open on one connection [default: 100]
    #[arg(long, value_name = "COUNT")]
    max_requests: Option<u32>,
    /// Files open at one time; further requests wait, then get 503 [default: 1024, or less if the process may open
    /// less]
    #[arg(long, value_name = "COUNT")]
    max_files: Option<usize>,
    /// Bytes written and not acknowledged, of all connections together, beyond 256 kB of each [default: 1GiB]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    max_memory: Option<u64>,
    /// How long a handshake may take [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    handshake_timeout: Option<Duration>,
    /// How long a request may take to arrive [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    request_timeout: Option<Duration>,
    /// How long a client may take nothing of its answers [default: 2min]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    stall_timeout: Option<Duration>,
    /// Silence after which a connection is lost [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    idle_timeout: Option<Duration>,
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        set(&mut limits.connections, self.max_connections);
        set(&mut limits.unvalidated_handshakes, self.retry_above);
        set(&mut limits.requests, self.max_requests);
        set(&mut limits.open_files, self.max_files);
        set(&mut limits.send_memory, self.max_memory);
        set(&mut limits.handshake_timeout, self.handshake_timeout.map(Into::into));
        set(&mut limits.request_timeout, self.request_timeout.map(Into::into));
        set(&mut limits.stall_timeout, self.stall_timeout.map(Into::into));
        limits
    }

    fn transport(&self) -> TransportSettings {
        let mut transport =
            TransportSettings { initial_rtt: Some(INITIAL_RTT), ..TransportSettings::default() };
        set(&mut transport.idle_timeout, self.idle_timeout);
        transport
    }
}

fn set<T>(limit: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *limit = given;
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "it needs an IP address and a port, as 127.0.0.1:4433 or [::]:4433")
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (tls, certificate) = tls(args)?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::run(format!("cannot start: {error}")))?;
    let interrupt = Interrupt::install()?;
    let outcome = runtime.block_on(async {
        let options = ServerOptions {
            congestion: args.cc,
            transport: args.limits.transport(),
            limits: args.limits.limits(),
            secret: args.state.as_deref().map(secret).transpose()?,
            ..ServerOptions::default()
        };
        let content = Content::Dir(args.dir.clone());
        let server =
            Server::bind(args.listen, &tls, content, options).map_err(Failure::bad_input)?;
        announce(args, &server, &certificate)?;
        interrupt.wait().await;
        server.shutdown().await;
        Ok(())
    });
    // A read from a disk that does not answer holds its thread for ever.
    runtime.shutdown_background();
    outcome
}

fn secret(state: &Path) -> Result<Secret, Failure> {
    let path = state.join("secret");
    Secret::load_or_create(&path)
        .map_err(|error| Failure::bad_input(format!("cannot use {path:?}: {error}")))
}

/// The certificate, and what to call it.
fn tls(args: &Args) -> Result<(ServerTls, String), Failure> {
    if let (Some(certificate), Some(key)) = (&args.cert, &args.key) {
        let tls = ServerTls::from_pem_files(certificate, key).map_err(Failure::bad_input)?;
        return Ok((tls, certificate.display().to_string()));
    }
    let own = args.listen.ip().to_string();
    let mut names = vec!["localhost", "127.0.0.1", "::1"];
    if !args.listen.ip().is_unspecified() && !names.contains(&own.as_str()) {
        names.push(&own);
    }
    let tls = ServerTls::self_signed(&names).map_err(Failure::run)?;
    let certificate = format!("self-signed, SHA-256 fingerprint {}", tls.fingerprint());
    Ok((tls, certificate))
}

/// The line that says that it listens, for people and for scripts that wait for it.
fn announce(args: &Args, server: &Server, certificate: &str) -> Result<(), Failure> {
    let line = format!(
        "listening on {}, serving {} ({}, {}), certificate {certificate}",
        server.local_addr(),
        args.dir.display(),
        String::from_utf8_lossy(ALPN),
        args.cc,
    );
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::run(format!("cannot write to stdout: {error}")))
}
