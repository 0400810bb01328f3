//! `fullpipe serve`: the files under a directory, to whoever asks for them.

mod access_log;
mod congestion;
mod limits;
mod memory;
mod metrics;
mod tcp;
mod threads;

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullpipe_files::{
    Cipher, CongestionControl, Content, PreferredAddress, QuicVersions, Secret, Server,
    ServerOptions, ServerTls,
};
use fullpipe_report::Part;

use crate::failure::Failure;
use crate::signals::{Signal, Signals};
use access_log::AccessLog;
use congestion::Rule;
use limits::LimitArgs;
use metrics::Metrics;
use tcp::{TcpArgs, TcpServer};
use threads::Threads;

/// Serve the files under a directory over QUIC (HTTP/3 and hq-interop), and over TCP (HTTP/1.1) if
/// it is asked for
///
/// Prints one line with the address once it listens, then logs each request on stderr. Only regular
/// files under DIR are given: paths with "..", and links that leave DIR, are refused.
///
/// SIGTERM lets the answers end that are on their way, Ctrl-C does not. SIGHUP reads --cert and
/// --key again, and opens the file of --access-log again.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory
    #[arg(required_unless_present = "bulk")]
    dir: Option<PathBuf>,
    /// Serve no files: /bulk/BYTES gives so many bytes from memory, for measurements
    #[arg(long, conflicts_with = "dir")]
    bulk: bool,
    /// Threads for connections, each of which stays on one [default: as many as there are
    /// processors, at most 16]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Address and UDP port; port 0 takes a free one, the IPv6 address :: takes IPv4 as well
    #[arg(long, short = 'l', value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4433")]
    #[arg(value_parser = crate::parse_address)]
    listen: SocketAddr,
    /// Another address of this machine, to which clients move after the handshake; one of IPv4, of
    /// IPv6, or both
    #[arg(long, value_name = "ADDRESS:PORT[,ADDRESS:PORT]")]
    preferred_address: Option<PreferredAddress>,
    /// Congestion control of the server: bbr3, bbr3x, bbr3-linux, bbr3x-linux, bbr-swift, prague,
    /// bbr1, cubic, reno, noq:bbr3, noq:cubic, noq:reno
    #[arg(long, value_name = "ALGORITHM", value_parser = crate::parse_cc, default_value = "bbr3")]
    cc: CongestionControl,
    /// Another congestion control for the clients of a network, or for those that call the server
    /// by a name; the first that fits counts
    #[arg(long, value_name = "NETWORK|NAME=ALGORITHM")]
    cc_for: Vec<Rule>,
    /// The server's certificate chain, PEM; without it, one is made that signs itself
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of --cert, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Keep the secret behind resets and tokens in DIR, so that a server that is started after a
    /// killed one resets the connections of its clients; made if it does not exist
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The cipher suites of TLS: any, aes128, aes256 or chacha20
    #[arg(long, value_name = "SUITE", default_value = "any")]
    ciphers: Cipher,
    /// The versions of QUIC: v1, or v1,v2, which moves a client that offers version 2 to it
    #[arg(long, value_name = "VERSIONS", default_value = "v1,v2", value_parser = server_versions)]
    quic_versions: QuicVersions,
    /// Take requests in the first packets of a client that resumes a session (0-RTT)
    #[arg(long, conflicts_with = "no_resumption")]
    early_data: bool,
    /// Give no session tickets: every connection proves the server's identity with its certificate
    #[arg(long)]
    no_resumption: bool,
    /// Begin a connection over QUIC with what an earlier one to the same address had, for so long
    /// after its end: Careful Resume (RFC 9959); not with noq's own algorithms. A client that moves
    /// to --preferred-address begins as usual there
    #[arg(long, value_name = "TIME", value_parser = crate::parse_timeout)]
    careful_resume: Option<fullpipe_cc::Duration>,
    /// Write the qlog of each connection into DIR; each takes a descriptor
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Append a line of JSON to FILE for each request: time, address, version, method, authority,
    /// path, status, body_bytes, duration_s, complete
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Give counters in Prometheus' format over HTTP at this address: everybody who reaches it can
    /// read them
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::parse_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    tcp: TcpArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe serve .
  fullpipe serve /srv/files --listen [::]:4433 --cert cert.pem --key key.pem
  fullpipe serve . --tcp 10.9.0.2:80 --tun fp0=10.9.0.1/24
  fullpipe serve . --cc bbr3 --cc-for 192.0.2.0/24=cubic --metrics 127.0.0.1:9090";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.qlog.is_some() {
        Part::Qlog.check().map_err(Failure::bad_input)?;
    }
    if args.careful_resume.is_some() && matches!(args.cc, CongestionControl::Noq(_)) {
        return Err(Failure::bad_input(format!(
            "--careful-resume is for this program's own congestion controls, not for {}",
            args.cc
        )));
    }
    let (tls, certificate) = tls(args)?;
    if let Some(directory) = &args.qlog {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::bad_input(format!("cannot write qlogs to {directory:?}: {error}"))
        })?;
    }
    let runtime = threads::runtime()?;
    let threads = Threads::start(args.threads)?;
    let outcome = runtime.block_on(serve(args, &threads, &tls, &certificate));
    // A read from a disk that does not answer holds its thread for ever.
    runtime.shutdown_background();
    outcome
}

async fn serve(
    args: &Args,
    threads: &Threads,
    tls: &ServerTls,
    certificate: &str,
) -> Result<(), Failure> {
    let mut signals = Signals::install()?;
    let (choose, choose_by_name) = congestion::choose(&args.cc_for);
    let limits = args.limits.limits(args.tcp.is_the_kernels(), threads.descriptors());
    let access_log = args.access_log.as_deref().map(AccessLog::open).transpose()?;
    let options = ServerOptions {
        congestion: args.cc,
        choose,
        choose_by_name,
        on_request: access_log.as_ref().map(AccessLog::on_request),
        transport: args.limits.transport(),
        limits,
        secret: args.state.as_deref().map(secret).transpose()?,
        versions: args.quic_versions,
        preferred_address: args.preferred_address.unwrap_or_default(),
        lanes: threads.handles(),
        careful_resume: args.careful_resume.map(Into::into),
        #[cfg(feature = "qlog")]
        qlog: args.qlog.clone(),
        ..ServerOptions::default()
    };
    let content = args.dir.clone().map_or(Content::Bulk, Content::Dir);
    let server = Server::bind(args.listen, tls, content, options).map_err(Failure::bad_input)?;
    let server = Arc::new(server);
    let tcp = args.tcp.start(&server, &limits, args.cc, &args.cc_for).await?;
    memory::give_back_after_peaks(server.clone());
    let metrics = match args.metrics {
        Some(address) => Some(Metrics::start(address, server.clone()).await?),
        None => None,
    };
    let end = async |grace| {
        if let Some(tcp) = &tcp {
            tcp.shutdown(grace).await;
        }
    };
    announce(args, &server, tcp.as_ref(), metrics.as_ref(), certificate)?;
    loop {
        match signals.next().await {
            Signal::Reload => reload(args, tls, access_log.as_ref()),
            Signal::Stop => {
                server.shutdown().await;
                end(std::time::Duration::ZERO).await;
                break;
            }
            Signal::Finish => {
                tracing::info!("no new requests; what is on its way may end");
                let grace = args.limits.shutdown_timeout();
                let finish = async {
                    server.finish(grace).await;
                    end(grace).await;
                };
                tokio::select! {
                    () = finish => {}
                    () = signals.end() => {
                        server.shutdown().await;
                        end(std::time::Duration::ZERO).await;
                    }
                }
                break;
            }
        }
    }
    if let Some(access_log) = &access_log {
        access_log.finish();
    }
    Ok(())
}

/// Reads the certificate and its key again, and opens the access log again. On an error the server
/// goes on with those that it has. The main thread, which receives for all, waits for no disk.
fn reload(args: &Args, tls: &ServerTls, access_log: Option<&AccessLog>) {
    if let Some(access_log) = access_log {
        access_log.reopen();
    }
    let (Some(certificate), Some(key)) = (&args.cert, &args.key) else {
        return tracing::info!("SIGHUP: the certificate signs itself, and there is none to read");
    };
    let (tls, certificate, key) = (tls.clone(), certificate.clone(), key.clone());
    tokio::task::spawn_blocking(move || match tls.reload(&certificate, &key) {
        Ok(()) => {
            let fingerprint = tls.fingerprint();
            tracing::info!(
                "SIGHUP: new connections get the certificate with fingerprint {fingerprint}"
            );
        }
        Err(error) => tracing::error!("SIGHUP: {error}; the certificate stays as it was"),
    });
}

fn secret(state: &Path) -> Result<Secret, Failure> {
    let path = state.join("secret");
    Secret::load_or_create(&path)
        .map_err(|error| Failure::bad_input(format!("cannot use {path:?}: {error}")))
}

fn server_versions(text: &str) -> Result<QuicVersions, String> {
    match text.parse() {
        Ok(QuicVersions::V2) => Err("a server speaks version 1 in any case: v1 or v1,v2".into()),
        Ok(versions) => Ok(versions),
        Err(error) => Err(error.to_string()),
    }
}

/// TLS as the arguments ask for it, and what to call its certificate.
fn tls(args: &Args) -> Result<(ServerTls, String), Failure> {
    let (mut tls, certificate) = certificate(args)?;
    tls = tls.with_cipher(args.ciphers);
    if args.early_data {
        tls = tls.with_early_data();
    }
    if args.no_resumption {
        tls = tls.without_resumption();
    }
    Ok((tls, certificate))
}

fn certificate(args: &Args) -> Result<(ServerTls, String), Failure> {
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
fn announce(
    args: &Args,
    server: &Server,
    tcp: Option<&TcpServer>,
    metrics: Option<&Metrics>,
    certificate: &str,
) -> Result<(), Failure> {
    let metrics = metrics.map_or_else(String::new, |m| format!(", metrics on {}", m.url()));
    let preferred = match server.preferred_address() {
        none if none == PreferredAddress::default() => String::new(),
        address => format!(", preferred address {address}"),
    };
    let tcp = tcp.map_or_else(String::new, |tcp| format!(" and {}", tcp.name()));
    let content = match &args.dir {
        Some(dir) => dir.display().to_string(),
        None => "data from memory".to_owned(),
    };
    let line = format!(
        "listening on {}{tcp}{preferred}, serving {content} (h3 and hq-interop, {}){metrics}, certificate {certificate}",
        server.local_addr(),
        args.cc,
    );
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::run(format!("cannot write to stdout: {error}")))
}
