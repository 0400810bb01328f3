//! The server: accepts connections within its limits, answers each stream with a body or a reset.

mod admission;
mod answer;
mod connection;
mod limits;
mod log;
mod window;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullpipe_cc::Algorithm;
use noq::{Connection, Endpoint, Runtime, VarInt};

pub use limits::Limits;
pub(crate) use window::Window;

use crate::content::Source;
use crate::runtime::FineRuntime;
use crate::socket::Guard;
use crate::{CongestionControl, Content, Secret, ServerTls, TlsError, TransportSettings};
use admission::Admission;
use connection::{Controllers, Shared};

/// How long [`Server::shutdown`] waits for its goodbye to be sent.
const GOODBYE: Duration = Duration::from_secs(1);
/// Clients that wait until the server looks at their first packet, which it does at once.
const MAX_INCOMING: usize = 1024;
/// Bytes of each such client that are kept meanwhile: its first packet and a few behind it.
const INCOMING_BYTES: u64 = 8 * 1024;

/// Called with every connection once its handshake is done. Whoever keeps the connection can read
/// its `path_stats` and `congestion_state`; it is not closed before the last handle is dropped.
pub type OnAccept = Arc<dyn Fn(Connection) + Send + Sync>;

/// Called with the connection ID that a client chose for its first packet (RFC 9000 section 7.2): the
/// controller of what is sent on that connection and its seed, or `None` for the server's own. Both ends
/// have to agree on the ID beforehand ([`ClientOptions::first_connection_id`](crate::ClientOptions)).
pub type Choose = Arc<dyn Fn(&[u8]) -> Option<(CongestionControl, u64)> + Send + Sync>;

/// What a server may be told beyond its certificate and its content.
#[derive(Clone)]
pub struct ServerOptions {
    /// The controller of what the server sends.
    pub congestion: CongestionControl,
    /// Seed of the controller's randomised probe times.
    pub seed: u64,
    /// Flow control and timeouts.
    pub transport: TransportSettings,
    /// A look at every connection.
    pub on_accept: Option<OnAccept>,
    /// Another controller for some connections.
    pub choose: Option<Choose>,
    /// What clients can make the server hold.
    pub limits: Limits,
    /// What the keys of stateless resets and tokens are made of. `None` makes new ones at every start: clients of
    /// an earlier process then hear of its end only when they time out.
    pub secret: Option<Secret>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            congestion: CongestionControl::Fullpipe(Algorithm::Bbr3),
            seed: 1,
            transport: TransportSettings::default(),
            on_accept: None,
            choose: None,
            limits: Limits::default(),
            secret: None,
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Not a directory that can be read.
    #[error("cannot serve {path:?}: {source}")]
    Directory {
        /// The directory, as it was given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The address is not this machine's, or its port is taken.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address, as it was given.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The socket cannot carry QUIC.
    #[error("cannot use the socket: {0}")]
    Socket(#[source] std::io::Error),
    /// The TLS that it was given.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is nothing to make keys of.
    #[error("cannot make a secret: {0}")]
    Secret(#[source] std::io::Error),
    /// There is no tokio runtime around the caller.
    #[error("a server needs to be started inside a tokio runtime")]
    NoRuntime,
}

/// A running server. Dropping it closes its connections; [`shutdown`](Self::shutdown) also waits
/// until the peers were told.
pub struct Server {
    endpoint: Endpoint,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens on `address`; port 0 takes a free one, which [`local_addr`](Self::local_addr) tells.
    /// On the IPv6 wildcard it answers IPv4 too, where the system allows that.
    pub fn bind(
        address: SocketAddr,
        tls: &ServerTls,
        content: Content,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let socket = crate::transport::udp_socket(address)
            .map_err(|source| ServeError::Bind { address, source })?;
        Self::with_socket(socket, tls, content, options)
    }

    /// Serves on a socket that is bound already.
    pub fn with_socket(
        socket: UdpSocket,
        tls: &ServerTls,
        content: Content,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ServeError::NoRuntime);
        }
        let limits = options.limits;
        let source = Source::new(content, limits.open_files)?;
        let address = socket.local_addr().map_err(ServeError::Socket)?;
        let secret = options.secret.map_or_else(Secret::random, Ok).map_err(ServeError::Secret)?;
        let keys = secret.at(address);
        let guard = Guard::new(options.transport.idle_timeout.into());
        let mut transport = options.transport.transport(options.congestion, options.seed);
        limits.apply_to(&mut transport);
        let mut config = tls.config()?;
        config.crypto = guard.watch(config.crypto.clone());
        config
            .transport_config(Arc::new(transport))
            .token_key(keys.token_key())
            .max_incoming(MAX_INCOMING)
            .incoming_buffer_size(INCOMING_BYTES)
            .incoming_buffer_size_total(MAX_INCOMING as u64 * INCOMING_BYTES);
        let controllers = options.choose.map(|choose| Controllers {
            choose,
            server: config.clone(),
            transport: options.transport,
            limits,
        });
        let runtime = FineRuntime::new(options.congestion);
        let socket = guard.wrap(runtime.wrap_udp_socket(socket).map_err(ServeError::Socket)?);
        let endpoint = Endpoint::new_with_abstract_socket(
            keys.endpoint_config(),
            Some(config),
            socket,
            runtime,
        )
        .map_err(ServeError::Socket)?;
        let shared = Arc::new(Shared::new(
            source,
            options.on_accept,
            limits,
            options.transport.send_window,
            guard,
            controllers,
        ));
        tokio::spawn(connection::accept(endpoint.clone(), Admission::new(&limits), shared.clone()));
        Ok(Self { endpoint, address, shared })
    }

    /// The address that it listens on, with the port that it has.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// noq's endpoint, for its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Takes no new connection and no new request, lets the answers that are on their way end, but no longer than
    /// `grace`, and shuts down.
    pub async fn finish(self, grace: Duration) {
        self.shared.end();
        if tokio::time::timeout(grace, self.shared.idle()).await.is_err() {
            tracing::info!("some answers were not done in time");
        }
        self.shutdown().await;
    }

    /// Closes all connections, whatever they carry, and waits until the peers were told, but no
    /// longer than a second.
    pub async fn shutdown(self) {
        self.close();
        if tokio::time::timeout(GOODBYE, self.endpoint.wait_all_draining()).await.is_err() {
            tracing::debug!("some peers were not told that the server stops");
        }
    }

    fn close(&self) {
        self.endpoint.close(VarInt::from_u32(0), b"the server stops");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}
