//! The server: accepts connections within its limits, answers each stream with a body or a reset.

mod admission;
mod answer;
mod by_name;
mod conditions;
mod configs;
mod connection;
mod connection_set;
mod controller;
mod http;
mod http1;
mod known_paths;
mod lanes;
mod limits;
mod log;
mod network;
mod range;
mod record;
mod stall_timeout;
mod stats;
mod unacknowledged;
mod window;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullpipe_cc::Algorithm;
use fullpipe_noq_repairs::{AmplificationLimit, NegotiationTable, server_socket};
use noq::{AsyncUdpSocket, Connection, Endpoint, Runtime, VarInt};

pub use admission::{ClientPlace, ClientPlaces};
pub(crate) use answer::{Outcome, give};
pub use configs::Arrival;
pub(crate) use connection::Shared;
pub(crate) use connection_set::ConnectionGuard;
pub(crate) use http::{has_body, respond};
pub use limits::Limits;
pub(crate) use network::{Network, share_of};
pub(crate) use record::Asked;
pub use record::{OnRequest, RequestRecord};
pub use stats::ServerStats;
pub(crate) use window::Window;

use crate::content::Source;
use crate::{
    CongestionControl, Content, PreferredAddress, QuicVersions, Secret, ServerTls, TlsError,
    TransportSettings,
};
use admission::Admission;
use configs::{Configs, Transports};
use known_paths::KnownPaths;
use lanes::Lanes;

/// Longest time that [`Server::shutdown`] waits until the close of the connections was sent.
const GOODBYE: Duration = Duration::from_secs(1);
/// Clients that wait until the server looks at their first packet, which it does at once.
const MAX_INCOMING: usize = 1024;
/// Bytes of each such client that are kept meanwhile: its first packet and a few behind it.
const INCOMING_BYTES: u64 = 8 * 1024;

/// Called with every connection once its handshake is done. Whoever keeps the connection can read
/// its `path_stats` and `congestion_state`; it is not closed before the last handle is dropped.
pub type OnAccept = Arc<dyn Fn(Connection) + Send + Sync>;

/// Called with what a client's first packet shows: the controller of what is sent on that
/// connection and its seed, or `None` for the server's own.
pub type Choose = Arc<dyn Fn(&Arrival) -> Option<(CongestionControl, u64)> + Send + Sync>;

/// Called with what a client's first packet shows and the name by which it calls the server, once
/// the ClientHello is there: the controller and its seed, or `None` for the server's own.
pub type ChooseByName =
    Arc<dyn Fn(&Arrival, Option<&str>) -> Option<(CongestionControl, u64)> + Send + Sync>;

/// Options of a server, beyond its certificate and its content.
#[derive(Clone)]
pub struct ServerOptions {
    /// The controller of what the server sends.
    pub congestion: CongestionControl,
    /// Seed of the controller's randomised probe times.
    pub seed: u64,
    /// Flow control and timeouts.
    pub transport: TransportSettings,
    /// A look at every connection. Whoever keeps it keeps its place.
    pub on_accept: Option<OnAccept>,
    /// A look at every request that is over.
    pub on_request: Option<OnRequest>,
    /// Another controller for some connections.
    pub choose: Option<Choose>,
    /// Another controller for connections that `choose` has none for.
    pub choose_by_name: Option<ChooseByName>,
    /// Limits on the resources that clients can make the server hold.
    pub limits: Limits,
    /// Secret from which the keys of stateless resets and tokens are derived. `None` makes new keys
    /// at every start: clients of an earlier process then notice its end only when they time out.
    pub secret: Option<Secret>,
    /// The versions of QUIC. A server speaks version 1 in any case: [`QuicVersions::V2`] is both
    /// here.
    pub versions: QuicVersions,
    /// Other addresses of the server, at which it listens as well and to which clients move after
    /// the handshake (RFC 9000 section 9.6); port 0 takes a free one. Nobody begins a connection
    /// there.
    pub preferred_address: PreferredAddress,
    /// Other runtimes, of one thread each, that connections run on beside the one around
    /// [`Server::bind`]; each connection stays on one. None by default.
    pub lanes: Vec<tokio::runtime::Handle>,
    /// Connections begin with what an earlier one to the same address had, an IPv6 address by its
    /// first 64 bits, for so long after the end of that one: Careful Resume, RFC 9959. Not by
    /// default, and not with noq's own controllers.
    pub careful_resume: Option<Duration>,
    /// Directory in which each connection leaves its qlog, a file with a descriptor of its own as
    /// long as the connection is open. For a diagnosis, and not for a server that strangers reach.
    #[cfg(feature = "qlog")]
    pub qlog: Option<PathBuf>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            congestion: CongestionControl::Fullpipe(Algorithm::BBR3),
            seed: 1,
            transport: TransportSettings::default(),
            on_accept: None,
            on_request: None,
            choose: None,
            choose_by_name: None,
            limits: Limits::default(),
            secret: None,
            versions: QuicVersions::V1AndV2,
            preferred_address: PreferredAddress::default(),
            lanes: Vec::new(),
            careful_resume: None,
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }
}

/// The reason why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Not a directory that can be read.
    #[error("cannot serve {path:?}: {source}")]
    Directory {
        /// The directory, as it was given.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The address is not this machine's, or its port is taken.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address, as it was given.
        address: SocketAddr,
        /// The system's error.
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
    preferred_address: PreferredAddress,
    shared: Arc<Shared>,
    admission: Arc<Admission>,
    lanes: Arc<Lanes>,
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
        let runtime = fullpipe_noq::runtime(options.congestion);
        let (preferred_address, preferred) = bind_preferred(options.preferred_address)?;
        let wrap = |socket| runtime.wrap_udp_socket(socket).map_err(ServeError::Socket);
        let preferred = preferred_address.all().zip(preferred);
        let preferred = preferred.map(|(address, socket)| Ok((address, wrap(socket)?)));
        let preferred = preferred.collect::<Result<_, ServeError>>()?;
        let options = ServerOptions { preferred_address, ..options };
        Self::over(wrap(socket)?, preferred, runtime, tls, content, options)
    }

    /// Serves on whatever carries datagrams, to its own address and to the preferred ones.
    pub(crate) fn over(
        socket: Box<dyn AsyncUdpSocket>,
        preferred: Vec<(SocketAddr, Box<dyn AsyncUdpSocket>)>,
        runtime: Arc<dyn Runtime>,
        tls: &ServerTls,
        content: Content,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let limits = options.limits;
        let source = Source::new(content, &limits)?;
        let address = socket.local_addr().map_err(ServeError::Socket)?;
        let secret = options.secret.map_or_else(Secret::random, Ok).map_err(ServeError::Secret)?;
        let keys = secret.at(address);
        let guard = AmplificationLimit::default();
        let (versions, notes) = (options.versions.with_v1(), NegotiationTable::default());
        let crypto = tls.crypto(versions, &notes)?;
        let preferred_address = options.preferred_address;
        let mut config = noq::ServerConfig::with_crypto(crypto);
        config
            .token_key(keys.token_key())
            .preferred_address_v4(preferred_address.v4)
            .preferred_address_v6(preferred_address.v6)
            .max_incoming(MAX_INCOMING)
            .incoming_buffer_size(INCOMING_BYTES)
            .incoming_buffer_size_total(MAX_INCOMING as u64 * INCOMING_BYTES);
        let transports = Transports {
            congestion: options.congestion,
            seed: options.seed,
            settings: options.transport,
            limits,
            #[cfg(feature = "qlog")]
            qlog: options.qlog,
        };
        let known_paths = options.careful_resume.map(KnownPaths::new);
        let (choose, by_name) = (options.choose, options.choose_by_name);
        let configs = Configs::new(config, transports, choose, by_name, known_paths);
        let socket = server_socket(socket, preferred, Some(&guard), &notes, versions);
        let endpoint = Endpoint::new_with_abstract_socket(
            keys.endpoint_config(versions),
            Some(configs.first()),
            socket,
            runtime,
        )
        .map_err(ServeError::Socket)?;
        let shared = Arc::new(Shared::new(
            source,
            options.on_accept,
            options.on_request,
            limits,
            &options.transport,
            guard,
            configs,
        ));
        let admission = Admission::new(&limits);
        let own = tokio::runtime::Handle::try_current().map_err(|_| ServeError::NoRuntime)?;
        let lanes = Arc::new(Lanes::of(own, options.lanes));
        let accept =
            connection::accept(endpoint.clone(), admission.clone(), lanes.clone(), shared.clone());
        tokio::spawn(accept);
        Ok(Self { endpoint, address, preferred_address, shared, admission, lanes })
    }

    /// The address that it listens on, with the port that it has.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The addresses that clients move to, with the ports that they have.
    pub fn preferred_address(&self) -> PreferredAddress {
        self.preferred_address
    }

    /// noq's endpoint, for its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The server's counters.
    pub fn stats(&self) -> ServerStats {
        let (connections, handshakes) = self.admission.now();
        ServerStats {
            connections: connections as u64,
            unvalidated_handshakes: handshakes as u64,
            tasks: self.lanes.tasks(),
            ..self.shared.stats()
        }
    }

    /// Takes no new connection and no new request, lets the answers that are on their way end, but
    /// no longer than `grace`, and shuts down.
    pub async fn finish(&self, grace: Duration) {
        self.shared.end();
        if tokio::time::timeout(grace, self.shared.idle()).await.is_err() {
            tracing::info!("some answers were not done in time");
        }
        self.shutdown().await;
    }

    /// Closes all connections, whatever they carry, and waits until the peers were told, but no
    /// longer than two seconds. One of HTTP/3 gets a GOAWAY first (RFC 9114 section 5.2).
    pub async fn shutdown(&self) {
        self.shared.end();
        if tokio::time::timeout(GOODBYE, self.shared.open().all_told()).await.is_err() {
            tracing::debug!("some connections could not be sent a GOAWAY");
        }
        self.close();
        if tokio::time::timeout(GOODBYE, self.endpoint.wait_all_draining()).await.is_err() {
            tracing::debug!("some peers were not told that the server stops");
        }
    }

    fn close(&self) {
        let reason = b"the server stops";
        self.shared.open().close(reason);
        // Those whose handshake is not done.
        self.endpoint.close(VarInt::from_u32(0), reason);
    }
}

/// The sockets of the preferred addresses, and the addresses with the ports that they have.
fn bind_preferred(
    wanted: PreferredAddress,
) -> Result<(PreferredAddress, Vec<UdpSocket>), ServeError> {
    let (mut bound, mut sockets) = (PreferredAddress::default(), Vec::new());
    for address in wanted.all() {
        let socket = crate::transport::udp_socket(address)
            .map_err(|source| ServeError::Bind { address, source })?;
        match socket.local_addr().map_err(ServeError::Socket)? {
            SocketAddr::V4(v4) => bound.v4 = Some(v4),
            SocketAddr::V6(v6) => bound.v6 = Some(v6),
        }
        sockets.push(socket);
    }
    Ok((bound, sockets))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}
