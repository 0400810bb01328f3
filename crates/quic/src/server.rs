//! The server: accepts connections, answers each stream with a body or a reset.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullpipe_cc::Algorithm;
use noq::{
    Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, VarInt, WriteError,
};

use crate::content::{SendError, Source};
use crate::hq::{Refusal, RequestError, read_request, request_path};
use crate::runtime::runtime;
use crate::{CongestionControl, Content, ServerTls, TransportSettings};

/// How long [`Server::shutdown`] waits for its goodbye to be sent.
const GOODBYE: Duration = Duration::from_secs(1);

/// Called with every connection once its handshake is done. Whoever keeps the connection can read
/// its `path_stats` and `congestion_state`; it is not closed before the last handle is dropped.
pub type OnAccept = Arc<dyn Fn(Connection) + Send + Sync>;

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
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            congestion: CongestionControl::Fullpipe(Algorithm::Bbr3),
            seed: 1,
            transport: TransportSettings::default(),
            on_accept: None,
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
    /// There is no tokio runtime around the caller.
    #[error("a server needs to be started inside a tokio runtime")]
    NoRuntime,
}

/// A running server. Dropping it closes its connections; [`shutdown`](Self::shutdown) also waits
/// until the peers were told.
pub struct Server {
    endpoint: Endpoint,
    address: SocketAddr,
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
        let source = Arc::new(Source::new(content)?);
        let mut config = tls.config();
        config.transport_config(options.transport.config(options.congestion, options.seed));
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime())
            .map_err(ServeError::Socket)?;
        let address = endpoint.local_addr().map_err(ServeError::Socket)?;
        tokio::spawn(accept(endpoint.clone(), source, options.on_accept));
        Ok(Self { endpoint, address })
    }

    /// The address that it listens on, with the port that it has.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// noq's endpoint, for its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
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

async fn accept(endpoint: Endpoint, source: Arc<Source>, on_accept: Option<OnAccept>) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(serve_connection(incoming, source.clone(), on_accept.clone()));
    }
}

async fn serve_connection(incoming: Incoming, source: Arc<Source>, on_accept: Option<OnAccept>) {
    let peer = incoming.remote_address();
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => return tracing::info!(%peer, %error, "handshake failed"),
    };
    tracing::debug!(%peer, "connected");
    if let Some(on_accept) = on_accept {
        on_accept(connection.clone());
    }
    loop {
        match connection.accept_bi().await {
            Ok((send, recv)) => {
                tokio::spawn(answer(peer, send, recv, source.clone()));
            }
            Err(error) => return tracing::debug!(%peer, %error, "disconnected"),
        }
    }
}

/// One request. Its line in the log comes when the client has acknowledged every byte, or when it
/// is certain that it never will.
async fn answer(peer: SocketAddr, mut send: SendStream, mut recv: RecvStream, source: Arc<Source>) {
    let start = Instant::now();
    let request = match read_request(&mut recv).await {
        Ok(request) => request,
        Err(RequestError::Refused(refusal)) => {
            tracing::info!(%peer, %refusal, "a request that is too long");
            return refuse(&mut send, refusal);
        }
        Err(RequestError::Lost(error)) => {
            return tracing::debug!(%peer, %error, "a request was not finished");
        }
    };
    // Debug formatting escapes whatever a stranger may have put into it.
    let line = String::from_utf8_lossy(&request);
    let line = line.trim_end();
    let body = match request_path(&request) {
        Ok(path) => source.open(path).await,
        Err(refusal) => Err(refusal),
    };
    let body = match body {
        Ok(body) => body,
        Err(refusal) => {
            tracing::info!(%peer, request = ?line, code = refusal.code(), "refused: {refusal}");
            return refuse(&mut send, refusal);
        }
    };
    let mut bytes = 0;
    let outcome = match body.send(&mut send, &mut bytes).await {
        Ok(()) => finish(&mut send).await,
        Err(SendError::Read(error)) => {
            refuse(&mut send, Refusal::Internal);
            format!("the file broke off: {error}")
        }
        Err(SendError::Write(error)) => stop_reason(&error),
    };
    let seconds = start.elapsed().as_secs_f64();
    tracing::info!(%peer, request = ?line, bytes, seconds, "{outcome}");
}

/// Ends the stream and waits until the peer has all of it.
async fn finish(send: &mut SendStream) -> String {
    if let Err(error) = send.finish() {
        return error.to_string();
    }
    match send.stopped().await {
        Ok(None) => "complete".to_owned(),
        Ok(Some(code)) => stop_reason(&WriteError::Stopped(code)),
        Err(error) => stop_reason(&WriteError::from(error)),
    }
}

fn stop_reason(error: &WriteError) -> String {
    match error {
        WriteError::Stopped(_) => "stopped by the client".to_owned(),
        WriteError::ConnectionLost(error) => format!("incomplete: {error}"),
        other => other.to_string(),
    }
}

/// Resets the stream; that it was closed before is no news.
fn refuse(send: &mut SendStream, refusal: Refusal) {
    let _ = send.reset(refusal.var_int());
}
