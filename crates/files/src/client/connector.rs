//! Makes connections. Those of one connector resume each other's sessions.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
#[cfg(feature = "qlog")]
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fullpipe_cc::Duration;
use fullpipe_noq_repairs::{PreferredAddressMigration, client_socket};
use noq::{
    AsyncUdpSocket, ConnectionError, Endpoint, EndpointConfig, Runtime, TransportConfig, crypto,
};
use noq_proto::TokenMemoryCache;
use tokio::task::JoinSet;

use super::alpn::is_http3;
use super::early::early;
use super::error::handshake_error;
use super::{Client, ClientError, ClientOptions};
use crate::Verify;
use crate::http3::client::{Http3, Settings};
use crate::tls::Sessions;
#[cfg(feature = "qlog")]
use crate::transport::log_to;

/// Delay between the attempts at two successive addresses (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Handshakes that may be ended by a Version Negotiation packet before the server counts as one
/// without a version of the client's.
const ATTEMPTS: usize = 3;

/// Configuration and TLS sessions that all connections to servers share. The second connection to a
/// server resumes the session of the first: the server proves its identity without its certificate,
/// and requests can be in the first packets.
#[derive(Clone)]
pub struct Connector {
    tls: Arc<dyn crypto::ClientConfig>,
    transport: Arc<TransportConfig>,
    /// Tokens of servers, by which they know the client's address again.
    tokens: Arc<TokenMemoryCache>,
    options: ClientOptions,
    sessions: Arc<Sessions>,
    /// Servers that agreed on HTTP/3, by name as their sessions are.
    http3: Known,
}

impl Connector {
    /// # Errors
    ///
    /// [`ClientError::Tls`] if what should be verified against cannot be read.
    pub fn new(verify: &Verify, options: ClientOptions) -> Result<Self, ClientError> {
        let sessions = Arc::new(Sessions::new());
        let ClientOptions { cipher, alpn, versions, .. } = options;
        let tls = verify.config(cipher, alpn, versions, sessions.clone())?;
        let transport = Arc::new(transport(&options));
        let (tokens, http3) = (Arc::default(), Known::default());
        Ok(Self { tls, transport, tokens, options, sessions, http3 })
    }

    /// Lets each connection write its qlog into this directory, which must exist.
    #[cfg(feature = "qlog")]
    pub fn with_qlog(mut self, directory: &Path) -> Self {
        let mut transport = transport(&self.options);
        log_to(&mut transport, Some(directory));
        self.transport = Arc::new(transport);
        self
    }

    /// Waits until a server has given the first session that can be resumed, but no longer than
    /// `most`: it comes some time after the handshake, or never.
    pub async fn wait_for_session(&self, most: Duration) {
        let _ = tokio::time::timeout(most.into(), self.sessions.first()).await;
    }

    /// Connects from any free port. `server_name` is the DNS name or the IP address that the
    /// certificate must be for.
    pub async fn connect(
        &self,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Client, ClientError> {
        self.connect_from(free_port(server)?, server, server_name).await
    }

    /// Connects from a socket that is bound already, of the server's address family.
    pub async fn connect_from(
        &self,
        socket: UdpSocket,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Client, ClientError> {
        let begun = self.begin(socket, server, server_name)?;
        self.complete(begun, server, server_name).await
    }

    /// Connects, and gives the connection at once when a session can be resumed: what is asked
    /// before the handshake is done goes in the first packets (0-RTT), which anybody who sees them
    /// can send again. When the server does not take them, the request ends with
    /// [`ClientError::EarlyDataRejected`] and can be made anew. Requests of HTTP/3 wait for the
    /// handshake if the server's settings had not come when the session did.
    pub async fn connect_early(
        &self,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Client, ClientError> {
        let begun = self.begin(free_port(server)?, server, server_name)?;
        let known = self.known().get(server_name).cloned();
        if let Some(None) = known {
            return self.complete(begun, server, server_name).await;
        }
        let Begun { endpoint, connecting, moving } = begun;
        let (connection, accepted) = match connecting.into_0rtt() {
            Ok(early) => early,
            Err(connecting) => {
                let begun = Begun { endpoint, connecting, moving };
                return self.complete(begun, server, server_name).await;
            }
        };
        start_move(moving, &endpoint, &connection);
        let (mut verdict, requests) = early(accepted);
        let (http3, early) = match known.flatten() {
            None => {
                tokio::spawn(async move {
                    if !verdict.taken().await {
                        verdict.dropped().await;
                        verdict.over();
                    }
                });
                (None, Some(requests))
            }
            Some(settings) => {
                let authority = authority(server, server_name);
                let begun = (verdict, requests);
                (Some(Http3::start_early(&connection, authority, &settings, begun).await?), None)
            }
        };
        Ok(Client { connection, http3, early, known: self.remembering(server_name) })
    }

    /// Connects to whichever of a server's addresses answers first, as RFC 8305 does: the next is
    /// tried when the one before failed, or was silent for a quarter of a second. That somebody
    /// answered and the handshake failed ends it: that is the server, and this is its answer.
    pub async fn connect_to_any(
        &self,
        servers: &[SocketAddr],
        server_name: &str,
    ) -> Result<Client, ClientError> {
        let mut attempts = JoinSet::new();
        let mut waiting = servers.iter().copied();
        let mut failure = ClientError::NoAddress;
        loop {
            if let Some(server) = waiting.next() {
                let (name, connector) = (server_name.to_owned(), self.clone());
                attempts.spawn(async move { connector.connect(server, &name).await });
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

    /// An endpoint of several connections, for [`Self::connect_over`].
    ///
    /// # Errors
    /// There is no runtime, or the system refuses the socket.
    pub fn endpoint(&self, socket: UdpSocket) -> Result<Endpoint, ClientError> {
        self.endpoint_with(socket, None)
    }

    fn endpoint_with(
        &self,
        socket: UdpSocket,
        moving: Option<&PreferredAddressMigration>,
    ) -> Result<Endpoint, ClientError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ClientError::NoRuntime);
        }
        let runtime = fullpipe_noq::runtime(self.options.congestion);
        let socket = runtime.wrap_udp_socket(socket).map_err(ClientError::Socket)?;
        self.endpoint_over(socket, runtime, moving)
    }

    /// An endpoint on whatever carries datagrams.
    pub(crate) fn endpoint_over(
        &self,
        socket: Box<dyn AsyncUdpSocket>,
        runtime: Arc<dyn Runtime>,
        moving: Option<&PreferredAddressMigration>,
    ) -> Result<Endpoint, ClientError> {
        let socket = client_socket(socket, self.options.versions, moving);
        Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, runtime)
            .map_err(ClientError::Socket)
    }

    /// Connects over an endpoint that other connections may have as well.
    pub async fn connect_over(
        &self,
        endpoint: &Endpoint,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Client, ClientError> {
        let begun = self.begin_over(endpoint.clone(), None, server, server_name)?;
        self.complete(begun, server, server_name).await
    }

    fn config(&self, tls: Arc<dyn crypto::ClientConfig>) -> noq::ClientConfig {
        let mut config = noq::ClientConfig::new(tls);
        config.transport_config(self.transport.clone()).token_store(self.tokens.clone());
        config
    }

    fn begin(
        &self,
        socket: UdpSocket,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Begun, ClientError> {
        let moving = self.options.migration.then(|| PreferredAddressMigration::new(server));
        let endpoint = self.endpoint_with(socket, moving.as_ref())?;
        self.begin_over(endpoint, moving, server, server_name)
    }

    fn begin_over(
        &self,
        endpoint: Endpoint,
        moving: Option<PreferredAddressMigration>,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Begun, ClientError> {
        let tls = match &moving {
            Some(moving) => moving.watch(self.tls.clone()),
            None => self.tls.clone(),
        };
        let connecting = endpoint
            .connect_with(self.config(tls), server, server_name)
            .map_err(|source| ClientError::Connect { address: server, source })?;
        Ok(Begun { endpoint, connecting, moving })
    }

    async fn complete(
        &self,
        begun: Begun,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Client, ClientError> {
        let timeout = self.options.handshake_timeout;
        let no_answer = ClientError::NoAnswer { address: server, timeout };
        let handshake = self.handshake(begun, server, server_name);
        match tokio::time::timeout(timeout.into(), handshake).await {
            Ok(Ok((endpoint, connection, moving))) => {
                start_move(moving, &endpoint, &connection);
                let http3 = self.http3_on(&connection, server, server_name).await?;
                let known = self.remembering(server_name);
                Ok(Client { connection, http3, early: None, known })
            }
            Ok(Err(ClientError::Lost(ConnectionError::TimedOut))) | Err(_) => Err(no_answer),
            Ok(Err(ClientError::Lost(error))) => Err(handshake_error(server, error)),
            Ok(Err(error)) => Err(error),
        }
    }

    /// Waits for the handshake, and begins another one when a Version Negotiation packet ended it:
    /// nothing protects the packet, so it may have been changed on the path.
    async fn handshake(
        &self,
        mut begun: Begun,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<(Endpoint, noq::Connection, Option<PreferredAddressMigration>), ClientError> {
        let mut attempt = 1;
        loop {
            match begun.connecting.await {
                Ok(connection) => return Ok((begun.endpoint, connection, begun.moving)),
                Err(ConnectionError::VersionMismatch) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error.into()),
            }
            begun = self.begin_over(begun.endpoint, begun.moving, server, server_name)?;
        }
    }
}

impl Connector {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<Settings>>> {
        self.http3.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembering(&self, server_name: &str) -> Remembering {
        Remembering { name: server_name.to_owned(), known: self.http3.clone() }
    }

    /// HTTP/3 on a connection that agreed on it.
    async fn http3_on(
        &self,
        connection: &noq::Connection,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Option<Http3>, ClientError> {
        if !is_http3(connection) {
            self.known().remove(server_name);
            return Ok(None);
        }
        self.known().entry(server_name.to_owned()).or_default();
        Http3::start(connection, authority(server, server_name)).await.map(Some)
    }
}

/// Servers that agreed on HTTP/3, with the settings that they had, if those had come.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<HashMap<String, Option<Settings>>>>);

/// The store of the settings of a connection's server.
pub(super) struct Remembering {
    name: String,
    known: Known,
}

impl Remembering {
    pub(super) fn settings(&self, settings: Settings) {
        let mut known = self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(self.name.clone(), Some(settings));
    }
}

/// The server's name and port, as in a URL.
fn authority(server: SocketAddr, server_name: &str) -> String {
    match server_name.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]:{}", server.port()),
        Err(_) => format!("{server_name}:{}", server.port()),
    }
}

/// A connection whose handshake is not done.
struct Begun {
    endpoint: Endpoint,
    connecting: noq::Connecting,
    /// The move to the server's preferred address.
    moving: Option<PreferredAddressMigration>,
}

fn start_move(
    moving: Option<PreferredAddressMigration>,
    endpoint: &Endpoint,
    connection: &noq::Connection,
) {
    if let Some(moving) = moving {
        moving.start(endpoint.clone(), connection.clone());
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("options", &self.options).finish_non_exhaustive()
    }
}

fn transport(options: &ClientOptions) -> TransportConfig {
    let mut transport = options.transport.noq(options.congestion, options.seed);
    // A client sends requests and acknowledgements, which fit into the smallest packets: probes for
    // larger ones would be most of what it sends beside a few requests.
    transport.mtu_discovery_config(None);
    transport
}

fn free_port(server: SocketAddr) -> Result<UdpSocket, ClientError> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    crate::transport::client_udp_socket((any, 0).into()).map_err(ClientError::Socket)
}
