//! Makes connections. Those of one connector resume each other's sessions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use fullpipe_cc::Duration;
use noq::{ConnectionError, Endpoint, EndpointConfig};
use tokio::task::JoinSet;

use super::error::handshake_error;
use super::{Client, ClientError, ClientOptions};
use crate::Verify;
use crate::runtime::FineRuntime;

/// How much later than the one before each further address is tried (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// What all connections to servers have in common. The second connection to a server resumes the session of the first:
/// the server proves who it is without its certificate, and requests can be in the first packets.
#[derive(Clone, Debug)]
pub struct Connector {
    config: noq::ClientConfig,
    options: ClientOptions,
}

impl Connector {
    /// # Errors
    ///
    /// [`ClientError::Tls`] if what should be verified against cannot be read.
    pub fn new(verify: &Verify, options: ClientOptions) -> Result<Self, ClientError> {
        let mut config = verify.config(options.cipher)?;
        let transport = options.transport.transport(options.congestion, options.seed);
        config.transport_config(Arc::new(transport));
        if let Some(id) = options.first_connection_id {
            config.initial_dst_cid_provider(Arc::new(move || noq::ConnectionId::new(&id)));
        }
        Ok(Self { config, options })
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
        let (endpoint, connecting) = self.begin(socket, server, server_name)?;
        self.complete(endpoint, connecting, server).await
    }

    /// Connects, and gives the connection at once when a session can be resumed: what is asked before the handshake is
    /// done goes in the first packets (0-RTT), which anybody who sees them can send again. When the server does
    /// not take them, the request ends with [`ClientError::EarlyDataRejected`] and can be made anew.
    pub async fn connect_early(
        &self,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<Client, ClientError> {
        let (endpoint, connecting) = self.begin(free_port(server)?, server, server_name)?;
        match connecting.into_0rtt() {
            Ok((connection, _accepted)) => Ok(Client { endpoint, connection }),
            Err(connecting) => self.complete(endpoint, connecting, server).await,
        }
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

    fn begin(
        &self,
        socket: UdpSocket,
        server: SocketAddr,
        server_name: &str,
    ) -> Result<(Endpoint, noq::Connecting), ClientError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ClientError::NoRuntime);
        }
        let runtime = FineRuntime::new(self.options.congestion);
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime)
            .map_err(ClientError::Socket)?;
        let connecting = endpoint
            .connect_with(self.config.clone(), server, server_name)
            .map_err(|source| ClientError::Connect { address: server, source })?;
        Ok((endpoint, connecting))
    }

    async fn complete(
        &self,
        endpoint: Endpoint,
        connecting: noq::Connecting,
        server: SocketAddr,
    ) -> Result<Client, ClientError> {
        let timeout = self.options.handshake_timeout;
        let no_answer = ClientError::NoAnswer { address: server, timeout };
        match tokio::time::timeout(timeout.into(), connecting).await {
            Ok(Ok(connection)) => Ok(Client { endpoint, connection }),
            Ok(Err(ConnectionError::TimedOut)) | Err(_) => Err(no_answer),
            Ok(Err(error)) => Err(handshake_error(server, error)),
        }
    }
}

fn free_port(server: SocketAddr) -> Result<UdpSocket, ClientError> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    crate::transport::udp_socket((any, 0).into()).map_err(ClientError::Socket)
}
