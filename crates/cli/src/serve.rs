//! `fullpipe serve`: the files under a directory, to whoever asks for them.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use fullpipe_quic::{ALPN, CongestionControl, Content, Server, ServerOptions, ServerTls};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

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
        let options = ServerOptions { congestion: args.cc, ..ServerOptions::default() };
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
