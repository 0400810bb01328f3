//! The connection to a server, over QUIC or over TCP.

use std::fmt;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use fullpipe_files::noq::PathId;
use fullpipe_files::{
    Client, ClientError, ClientOptions, Connector, Response, TlsError, TransportSettings, Verify,
};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, StatusCode};

use super::Args;
use super::http1::{self, Dialer};
use super::target::{Scheme, Target};
use super::transfer::Job;
use crate::failure::Failure;
use crate::{INITIAL_RTT, say};

/// A pipe that nobody reads for a while stops the flow; this keeps the connection. It is short,
/// because a client that only receives sends nothing when its server is gone, and hears of a server
/// that was started anew only by an answer to what it sends.
const KEEP_ALIVE: fullpipe_cc::Duration = fullpipe_cc::Duration::from_secs(2);

/// Pause before the first attempt that is made again, and the longest one; each is twice as long as
/// the one before. These are curl's.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Another connection to a server that was reached before.
#[derive(Clone, Copy)]
pub(super) struct Again {
    pub(super) address: SocketAddr,
    /// Requests go in the first packets.
    pub(super) early: bool,
}

/// The ways to the servers of some files.
#[derive(Clone)]
pub(super) struct Connectors {
    quic: Option<Connector>,
    tcp: Option<Dialer>,
    /// Attempts after the first that failed for now.
    retries: u32,
}

/// The reason why there is no connection.
pub(super) struct NotConnected {
    pub(super) failure: Failure,
    /// True if the same may succeed a little later.
    pub(super) may_pass: bool,
}

impl From<Failure> for NotConnected {
    fn from(failure: Failure) -> Self {
        Self { failure, may_pass: false }
    }
}

impl Connectors {
    /// Those that the files need.
    pub(super) fn new(args: &Args, jobs: &[Job]) -> Result<Self, Failure> {
        let needs = |scheme| jobs.iter().any(|job| job.target.scheme == scheme);
        let mut quic = needs(Scheme::Https).then(|| connector(args)).transpose()?;
        if quic.is_none() && args.location {
            // A redirect may lead there. Whom to trust is asked for then.
            quic = connector(args).ok();
        }
        Ok(Self {
            quic,
            retries: args.retry,
            tcp: needs(Scheme::Tcp).then(|| Dialer::new(args)).transpose()?,
        })
    }

    /// Connects to a server, again and again where it may help.
    pub(super) async fn connect(
        &self,
        target: &Target,
        again: Option<Again>,
    ) -> Result<Server, Failure> {
        let mut pause = FIRST_PAUSE;
        for left in (0..self.retries).rev() {
            match self.connect_once(target, again).await {
                Err(NotConnected { failure, may_pass: true }) => {
                    let seconds = pause.as_secs();
                    say(&format!("{failure}; again in {seconds} s, {left} more times after that"));
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
                outcome => return outcome.map_err(|error| error.failure),
            }
        }
        self.connect_once(target, again).await.map_err(|error| error.failure)
    }

    async fn connect_once(
        &self,
        target: &Target,
        again: Option<Again>,
    ) -> Result<Server, NotConnected> {
        match (&self.quic, &self.tcp, target.scheme) {
            (Some(quic), _, Scheme::Https) => {
                connect_quic(quic, target, again).await.map(Server::Quic)
            }
            (_, Some(tcp), Scheme::Tcp) => {
                let client = http1::Client::connect(tcp, target).await?;
                Ok(Server::Tcp(Box::new(client)))
            }
            _ => {
                let reason = format!("there is no way to {}; {WAYS_OUT}", target.authority());
                Err(Failure::run(reason).into())
            }
        }
    }

    /// Waits until a server has given a session, but not for long.
    pub(super) async fn wait_for_session(&self, most: fullpipe_cc::Duration) {
        if let Some(quic) = &self.quic {
            quic.wait_for_session(most).await;
        }
    }

    /// No more files come, and all connections are dropped.
    pub(super) async fn shutdown(&self) {
        if let Some(tcp) = &self.tcp {
            tcp.shutdown().await;
        }
    }
}

/// A server that was reached.
pub(super) enum Server {
    Quic(Client),
    Tcp(Box<http1::Client>),
}

impl Server {
    /// The answer to a GET with these fields, whatever its status.
    pub(super) async fn ask(&self, path: &str, fields: &HeaderMap) -> Result<Answer, FetchError> {
        match self {
            Self::Quic(client) => Ok(Answer::Quic(client.ask(path, fields).await?)),
            Self::Tcp(client) => Ok(Answer::Tcp(client.ask(path, fields).await?)),
        }
    }

    /// The address at which the server was reached over QUIC.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Quic(client) => client.connection().path(PathId::ZERO)?.remote_address().ok(),
            Self::Tcp(_) => None,
        }
    }

    /// Changes the keys of a connection over QUIC (RFC 9001 section 6).
    pub(super) fn update_keys(&self) {
        if let Self::Quic(client) = self {
            client.connection().force_key_update();
        }
    }

    pub(super) async fn close(self) {
        if let Self::Quic(client) = self {
            client.close().await;
        }
    }
}

/// An answer, whose body arrives.
pub(super) enum Answer {
    Quic(Response),
    Tcp(hyper::Response<Incoming>),
}

impl Answer {
    /// Status and fields; hq-interop has none.
    pub(super) fn head(&self) -> Option<(StatusCode, &HeaderMap)> {
        match self {
            Self::Quic(response) => response.status().zip(response.headers()),
            Self::Tcp(response) => Some((response.status(), response.headers())),
        }
    }

    /// The next bytes in order, never empty; `None` after the last.
    pub(super) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, FetchError>> {
        match self {
            Self::Quic(response) => response.poll_chunk(cx).map_err(FetchError::from),
            Self::Tcp(response) => http1::poll_chunk(response, cx),
        }
    }
}

/// The reason why a file was not fetched.
pub(super) enum FetchError {
    Quic(ClientError),
    Tcp(String),
}

impl FetchError {
    /// The server answers with a status that is no success.
    pub(super) fn status(code: u16) -> Self {
        // Told as over HTTP/3.
        Self::Quic(ClientError::Status { code })
    }
}

impl From<ClientError> for FetchError {
    fn from(error: ClientError) -> Self {
        Self::Quic(error)
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quic(error) => error.fmt(f),
            Self::Tcp(reason) => f.write_str(reason),
        }
    }
}

fn connector(args: &Args) -> Result<Connector, Failure> {
    let verify = match &args.ca {
        Some(file) => Verify::Ca(file.clone()),
        None if args.insecure => Verify::Insecure,
        None => args.fingerprint.map_or(Verify::SystemRoots, Verify::Fingerprint),
    };
    let options = ClientOptions {
        congestion: args.cc,
        transport: TransportSettings {
            keep_alive: Some(KEEP_ALIVE),
            initial_rtt: Some(INITIAL_RTT),
            ..TransportSettings::default()
        },
        handshake_timeout: args.connect_timeout,
        cipher: args.ciphers,
        versions: args.quic_versions,
        alpn: args.alpn,
        migration: !args.no_migration,
        ..ClientOptions::default()
    };
    let connector = Connector::new(&verify, options).map_err(refused)?;
    #[cfg(feature = "qlog")]
    if let Some(directory) = &args.qlog {
        return Ok(connector.with_qlog(directory));
    }
    Ok(connector)
}

async fn connect_quic(
    connector: &Connector,
    target: &Target,
    again: Option<Again>,
) -> Result<Client, NotConnected> {
    let host = &target.host;
    let client = match again {
        Some(Again { address, early: true }) => connector.connect_early(address, host).await,
        Some(Again { address, early: false }) => connector.connect(address, host).await,
        None => {
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), target.port))
                .await
                .map_err(|error| Failure::run(format!("cannot find {host}: {error}")))?
                .collect();
            connector.connect_to_any(&addresses, host).await
        }
    };
    client.map_err(|error| NotConnected { may_pass: error.may_pass(), failure: refused(error) })
}

const WAYS_OUT: &str = "--fingerprint or --ca says whom to trust, --insecure trusts anybody";

/// Bad input is what cannot work with any server.
fn refused(error: ClientError) -> Failure {
    match error {
        ClientError::Tls(error @ TlsError::NoSystemRoots) => {
            Failure::bad_input(format!("{error}; {WAYS_OUT}"))
        }
        ClientError::Tls(error) => Failure::bad_input(error),
        error @ ClientError::Untrusted { .. } => Failure::run(format!("{error}; {WAYS_OUT}")),
        error => Failure::run(error),
    }
}
