//! The client: one connection, and any number of requests over it.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use fullpipe_cc::{Algorithm, Duration};
use noq::{
    ConnectError, Connection, ConnectionError, Endpoint, EndpointConfig, ReadError, RecvStream,
    VarInt, WriteError,
};
use tokio::task::JoinSet;

use crate::runtime::FineRuntime;
use crate::{CongestionControl, Escaped, Refusal, TlsError, TransportSettings, Verify};

/// How much later than the one before each further address is tried (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// How long [`Client::close`] waits for its goodbye to be sent.
const GOODBYE: Duration = Duration::from_secs(1);
/// Packets that one look at a stream takes, so that a fast stream is not locked for each of them.
const CHUNKS_AT_ONCE: usize = 64;

/// What a client may be told beyond the server and how to check it.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// The controller of what the client sends: requests, and no bulk.
    pub congestion: CongestionControl,
    /// Seed of the controller's randomised probe times.
    pub seed: u64,
    /// Flow control and timeouts.
    pub transport: TransportSettings,
    /// How long the handshake may take before the server counts as not there.
    pub handshake_timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            congestion: CongestionControl::Fullpipe(Algorithm::Bbr3),
            seed: 1,
            transport: TransportSettings::default(),
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

/// Why a client has no connection, or no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The certificates to check the server's against.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The client's own socket.
    #[error("cannot open a UDP socket: {0}")]
    Socket(#[source] std::io::Error),
    /// There is no tokio runtime around the caller.
    #[error("a client needs to be started inside a tokio runtime")]
    NoRuntime,
    /// The address or the name is none to connect to.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server.
        address: SocketAddr,
        /// What noq says.
        source: ConnectError,
    },
    /// There is no address to connect to.
    #[error("the server has no address")]
    NoAddress,
    /// The server is not there, or drops what it gets.
    #[error("no answer from {address} within {timeout}")]
    NoAnswer {
        /// The server.
        address: SocketAddr,
        /// How long the client waited.
        timeout: Duration,
    },
    /// There is a server, and its certificate does not show that it is the right one.
    #[error("the certificate of {address} is not trusted: {}", Escaped(.reason))]
    Untrusted {
        /// The server.
        address: SocketAddr,
        /// What rustls says.
        reason: String,
    },
    /// The two ends did not agree.
    #[error("no connection to {address}: {}", Escaped(.source))]
    Handshake {
        /// The server.
        address: SocketAddr,
        /// What noq says.
        source: ConnectionError,
    },
    /// The path has a space, a line end or something else that no request can carry.
    #[error("a request path begins with \"/\" and has visible ASCII only, unlike {0:?}")]
    Path(String),
    /// The connection ended before the answer did.
    #[error("the connection was lost: {}", Escaped(.0))]
    Lost(#[from] ConnectionError),
    /// The server gives no body, or no more of it.
    #[error("the server reset the stream with code {code}{}", meaning(*code))]
    Reset {
        /// The application error code; [`Refusal::from_code`] knows ours.
        code: u64,
    },
    /// The stream was used after its end.
    #[error("the stream is closed")]
    Closed,
}

fn handshake_error(address: SocketAddr, source: ConnectionError) -> ClientError {
    if let ConnectionError::TransportError(error) = &source
        && let Some(tls) = &error.crypto
        && let Some(rustls::Error::InvalidCertificate(reason)) = tls.downcast_ref()
    {
        return ClientError::Untrusted { address, reason: reason.to_string() };
    }
    ClientError::Handshake { address, source }
}

fn meaning(code: u64) -> String {
    Refusal::from_code(code).map_or_else(String::new, |refusal| format!(" ({refusal})"))
}

impl ClientError {
    /// Whether there is a server behind it.
    fn is_an_answer(&self) -> bool {
        matches!(self, Self::Handshake { .. } | Self::Untrusted { .. })
    }
}

impl From<ReadError> for ClientError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(code) => Self::Reset { code: code.into_inner() },
            ReadError::ConnectionLost(error) => Self::Lost(error),
            ReadError::ClosedStream | ReadError::ZeroRttRejected => Self::Closed,
        }
    }
}

impl From<WriteError> for ClientError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(code) => Self::Reset { code: code.into_inner() },
            WriteError::ConnectionLost(error) => Self::Lost(error),
            WriteError::ClosedStream | WriteError::ZeroRttRejected => Self::Closed,
        }
    }
}

/// A connection to a server.
pub struct Client {
    endpoint: Endpoint,
    connection: Connection,
}

impl Client {
    /// Connects from any free port. `server_name` is the DNS name or the IP address that the
    /// certificate must be for.
    pub async fn connect(
        server: SocketAddr,
        server_name: &str,
        verify: &Verify,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = crate::transport::udp_socket((any, 0).into()).map_err(ClientError::Socket)?;
        Self::connect_from(socket, server, server_name, verify, options).await
    }

    /// Connects from a socket that is bound already, of the server's address family.
    pub async fn connect_from(
        socket: UdpSocket,
        server: SocketAddr,
        server_name: &str,
        verify: &Verify,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ClientError::NoRuntime);
        }
        let mut config = verify.config()?;
        let transport = options.transport.transport(options.congestion, options.seed);
        config.transport_config(Arc::new(transport));
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, FineRuntime::new())
            .map_err(ClientError::Socket)?;
        let connecting = endpoint
            .connect_with(config, server, server_name)
            .map_err(|source| ClientError::Connect { address: server, source })?;
        let timeout = options.handshake_timeout;
        let no_answer = ClientError::NoAnswer { address: server, timeout };
        let connection = match tokio::time::timeout(timeout.into(), connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(ConnectionError::TimedOut)) | Err(_) => return Err(no_answer),
            Ok(Err(error)) => return Err(handshake_error(server, error)),
        };
        Ok(Self { endpoint, connection })
    }

    /// Connects to whichever of a server's addresses answers first, as RFC 8305 does: the next is
    /// tried when the one before failed, or was silent for a quarter of a second. That somebody
    /// answered and the handshake failed ends it: that is the server, and this is its answer.
    pub async fn connect_to_any(
        servers: &[SocketAddr],
        server_name: &str,
        verify: &Verify,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let mut attempts = JoinSet::new();
        let mut waiting = servers.iter().copied();
        let mut failure = ClientError::NoAddress;
        loop {
            if let Some(server) = waiting.next() {
                let (name, verify) = (server_name.to_owned(), verify.clone());
                attempts.spawn(async move { Self::connect(server, &name, &verify, options).await });
            }
            let more = if waiting.len() > 0 { ATTEMPT_DELAY } else { Duration::MAX };
            match tokio::time::timeout(more.into(), attempts.join_next()).await {
                Err(_silent) => {}
                Ok(None) => return Err(failure),
                Ok(Some(Ok(Err(error)))) if !error.is_an_answer() => failure = error,
                Ok(Some(Ok(verdict))) => return verdict,
                Ok(Some(Err(panic))) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
    }

    /// noq's connection, for its counters and its controller.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Asks for `path`, which begins with a slash and is percent-encoded as in a URL. The answer
    /// is there when its first bytes are; a refusal shows as a reset when they are read.
    pub async fn get(&self, path: &str) -> Result<Response, ClientError> {
        if !path.starts_with('/') || !path.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ClientError::Path(path.to_owned()));
        }
        let (mut send, recv) = self.connection.open_bi().await?;
        send.write_all(format!("GET {path}\r\n").as_bytes()).await?;
        send.finish().map_err(|_| ClientError::Closed)?;
        Ok(Response { recv, read_ahead: VecDeque::new() })
    }

    /// Tells the server that this was all, and waits until it was sent, but no longer than a
    /// second.
    pub async fn close(self) {
        self.connection.close(VarInt::from_u32(0), b"");
        if tokio::time::timeout(GOODBYE.into(), self.endpoint.wait_all_draining()).await.is_err() {
            tracing::debug!("the server was not told that the client is done");
        }
    }
}

/// The body of an answer, as it arrives. Dropping it before its end asks the server to stop.
pub struct Response {
    recv: RecvStream,
    read_ahead: VecDeque<Bytes>,
}

impl Response {
    /// The next bytes in order, never empty; `None` after the last.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(chunk) = self.read_ahead.pop_front() {
                return Ok(Some(chunk));
            }
            let mut chunks: [Bytes; CHUNKS_AT_ONCE] = [const { Bytes::new() }; CHUNKS_AT_ONCE];
            let Some(count) = self.recv.read_many_chunks(&mut chunks).await? else {
                return Ok(None);
            };
            let chunks = chunks.into_iter().take(count);
            self.read_ahead.extend(chunks.filter(|chunk| !chunk.is_empty()));
        }
    }
}
