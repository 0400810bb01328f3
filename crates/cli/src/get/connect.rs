//! The connection to a server, over QUIC or over TCP.

use std::fmt;
use std::net::SocketAddr;

use fullpipe_files::noq::PathId;
use fullpipe_files::{
    Client, ClientError, ClientOptions, Connector, Response, TlsError, TransportSettings, Verify,
};
use hyper::body::{Bytes, Incoming};

use super::Args;
use super::http1::{self, Dialer};
use super::target::{Scheme, Target};
use super::transfer::Job;
use crate::INITIAL_RTT;
use crate::failure::Failure;

/// A pipe that nobody reads for a while stops the flow; this keeps the connection. It is short,
/// because a client that only receives sends nothing when its server is gone, and hears of a server
/// that was started anew only by an answer to what it sends.
const KEEP_ALIVE: fullpipe_cc::Duration = fullpipe_cc::Duration::from_secs(2);

/// Another connection to a server that was reached before.
#[derive(Clone, Copy)]
pub(super) struct Again {
    pub(super) address: SocketAddr,
    /// Requests go in the first packets.
    pub(super) early: bool,
}

/// The ways to the servers of some files.
#[derive(Clone)]
pub(super) struct Ways {
    quic: Option<Connector>,
    tcp: Option<Dialer>,
}

impl Ways {
    /// Those that the files need.
    pub(super) fn new(args: &Args, jobs: &[Job]) -> Result<Self, Failure> {
        let needs = |scheme| jobs.iter().any(|job| job.target.scheme == scheme);
        Ok(Self {
            quic: needs(Scheme::Https).then(|| connector(args)).transpose()?,
            tcp: needs(Scheme::Tcp).then(|| Dialer::new(args)).transpose()?,
        })
    }

    pub(super) async fn connect(
        &self,
        target: &Target,
        again: Option<Again>,
    ) -> Result<Server, Failure> {
        match (&self.quic, &self.tcp, target.scheme) {
            (Some(quic), _, Scheme::Https) => {
                connect_quic(quic, target, again).await.map(Server::Quic)
            }
            (_, Some(tcp), Scheme::Tcp) => {
                let client = http1::Client::connect(tcp, target).await.map_err(Failure::run)?;
                Ok(Server::Tcp(Box::new(client)))
            }
            _ => Err(Failure::run(format!("there is no way to {}", target.authority()))),
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
    pub(super) async fn get(&self, path: &str) -> Result<Answer, FetchError> {
        match self {
            Self::Quic(client) => Ok(Answer::Quic(client.get(path).await?)),
            Self::Tcp(client) => Ok(Answer::Tcp(client.get(path).await?)),
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

/// The body of an answer, as it arrives.
pub(super) enum Answer {
    Quic(Response),
    Tcp(hyper::Response<Incoming>),
}

impl Answer {
    /// The next bytes in order, never empty; `None` after the last.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        match self {
            Self::Quic(response) => Ok(response.chunk().await?),
            Self::Tcp(response) => http1::chunk(response).await,
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
) -> Result<Client, Failure> {
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
    client.map_err(refused)
}

/// Bad input is what cannot work with any server.
fn refused(error: ClientError) -> Failure {
    const WAYS_OUT: &str = "--fingerprint or --ca says whom to trust, --insecure trusts anybody";
    match error {
        ClientError::Tls(error @ TlsError::NoSystemRoots) => {
            Failure::bad_input(format!("{error}; {WAYS_OUT}"))
        }
        ClientError::Tls(error) => Failure::bad_input(error),
        error @ ClientError::Untrusted { .. } => Failure::run(format!("{error}; {WAYS_OUT}")),
        error => Failure::run(error),
    }
}
