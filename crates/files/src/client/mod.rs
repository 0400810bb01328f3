//! The client: one connection, and any number of requests over it.

mod alpn;
mod connector;
mod early;
mod error;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::{SocketAddr, UdpSocket};
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fullpipe_cc::{Algorithm, Duration};
use http::{HeaderMap, StatusCode};
use noq::{Connection, RecvStream, VarInt};

pub use alpn::{Alpn, UnknownAlpn};
pub use connector::Connector;
use connector::Remembering;
use early::Guard;
pub(crate) use early::{Early, Judge};
pub use error::ClientError;

use crate::http3::client::{Answer, Http3};
use crate::{Cipher, CongestionControl, QuicVersions, TransportSettings, Verify, http3};

/// Longest time that [`Client::close`] waits until the close of the connection was sent.
const GOODBYE: Duration = Duration::from_secs(1);
/// Time between two looks whether it was.
const SHORT: Duration = Duration::from_millis(1);
/// Packets that one look at a stream takes, so that a fast stream is not locked for each of them.
pub(crate) const CHUNKS_AT_ONCE: usize = 64;

/// Options of a client, beyond the server and the check of its certificate.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// The controller of what the client sends: requests, and no bulk.
    pub congestion: CongestionControl,
    /// Seed of the controller's randomised probe times.
    pub seed: u64,
    /// Flow control and timeouts.
    pub transport: TransportSettings,
    /// Longest duration of the handshake; after it the server counts as not there.
    pub handshake_timeout: Duration,
    /// The cipher suites that are offered.
    pub cipher: Cipher,
    /// The protocols that are offered.
    pub alpn: Alpn,
    /// The versions of QUIC.
    pub versions: QuicVersions,
    /// True if a connection moves to the server's preferred address (RFC 9000 section 9.6) once the
    /// handshake is done. A connection of an endpoint that it shares with others stays in any case.
    pub migration: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            congestion: CongestionControl::Fullpipe(Algorithm::BBR3),
            seed: 1,
            transport: TransportSettings::default(),
            handshake_timeout: Duration::from_secs(10),
            cipher: Cipher::Any,
            alpn: Alpn::default(),
            versions: QuicVersions::default(),
            migration: true,
        }
    }
}

/// A connection to a server.
pub struct Client {
    connection: Connection,
    /// HTTP/3, if the two ends agreed on it.
    http3: Option<Http3>,
    /// Of a connection without HTTP/3 whose handshake was not done when it began.
    early: Option<Early>,
    known: Remembering,
}

impl Client {
    /// Connects once, from any free port; see [`Connector::connect`].
    pub async fn connect(
        server: SocketAddr,
        server_name: &str,
        verify: &Verify,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        Connector::new(verify, options)?.connect(server, server_name).await
    }

    /// Connects once, from a socket that is bound already; see [`Connector::connect_from`].
    pub async fn connect_from(
        socket: UdpSocket,
        server: SocketAddr,
        server_name: &str,
        verify: &Verify,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        Connector::new(verify, options)?.connect_from(socket, server, server_name).await
    }

    /// Connects once, to whichever address answers first; see [`Connector::connect_to_any`].
    pub async fn connect_to_any(
        servers: &[SocketAddr],
        server_name: &str,
        verify: &Verify,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        Connector::new(verify, options)?.connect_to_any(servers, server_name).await
    }

    /// noq's connection, for its counters and its controller.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Asks for `path`, which begins with a slash and is percent-encoded as in a URL. Over HTTP/3 a
    /// refusal is an error at once. hq-interop has no status: there it shows as a reset when the
    /// first bytes are read.
    pub async fn get(&self, path: &str) -> Result<Response, ClientError> {
        let response = self.ask(path, &HeaderMap::new()).await?;
        match response.status() {
            // A part is no answer to who did not ask for one (RFC 9110 section 15.3.7).
            Some(status) if !status.is_success() || status == StatusCode::PARTIAL_CONTENT => {
                Err(ClientError::Status { code: status.as_u16() })
            }
            _ => Ok(response),
        }
    }

    /// Asks for `path` as [`get`](Self::get) does, with these fields, and gives whatever answer
    /// comes. hq-interop has no fields: there they have to be none.
    pub async fn ask(&self, path: &str, fields: &HeaderMap) -> Result<Response, ClientError> {
        if !path.starts_with('/') || !path.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ClientError::Path(path.to_owned()));
        }
        if let Some(http3) = &self.http3 {
            let answer = http3.ask(path, fields).await?;
            self.remember_settings();
            return Ok(Response(Body::Http3(Box::new(answer))));
        }
        if !fields.is_empty() {
            return Err(ClientError::NoFields);
        }
        let guard = match &self.early {
            Some(early) => early.begin().await,
            None => None,
        };
        let (mut send, recv) = self.connection.open_bi().await?;
        send.write_all(format!("GET {path}\r\n").as_bytes()).await?;
        send.finish().map_err(|_| ClientError::Closed)?;
        let source = Some(Source { recv, _early: guard });
        Ok(Response(Body::Hq(Stream { source, read_ahead: VecDeque::new() })))
    }

    /// Keeps the server's settings, if they have come, for connections that resume this one's
    /// session.
    fn remember_settings(&self) {
        if let Some(settings) = self.http3.as_ref().and_then(Http3::settings) {
            self.known.settings(settings);
        }
    }

    /// Tells the server that this was all, and waits until that was sent, but no longer than a
    /// second. It does not stay to repeat it (RFC 9000 section 10.2.1): that goes on while the
    /// runtime does.
    pub async fn close(self) {
        // On a busy machine an answer may be read before the settings that came with it.
        self.remember_settings();
        let code = self.http3.as_ref().map_or(VarInt::from_u32(0), |_| http3::NO_ERROR);
        let is_open = self.connection.close_reason().is_none();
        let sent = || self.connection.stats().udp_tx.datagrams;
        let before = sent();
        self.connection.close(code, b"");
        // noq makes a datagram and hands it to the socket under one lock.
        let told = async {
            while is_open && sent() == before {
                tokio::time::sleep(SHORT.into()).await;
            }
        };
        if tokio::time::timeout(GOODBYE.into(), told).await.is_err() {
            tracing::debug!("the server was not told that the client is done");
        }
    }
}

/// An answer, whose body arrives. Dropping it before its end asks the server to stop.
pub struct Response(Body);

enum Body {
    Hq(Stream),
    Http3(Box<Answer>),
}

impl Response {
    /// The status; hq-interop has none.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.0 {
            Body::Hq(_) => None,
            Body::Http3(answer) => Some(answer.head.status()),
        }
    }

    /// The fields of the answer; hq-interop has none.
    pub fn headers(&self) -> Option<&HeaderMap> {
        match &self.0 {
            Body::Hq(_) => None,
            Body::Http3(answer) => Some(answer.head.headers()),
        }
    }

    /// The next bytes in order, never empty; `None` after the last.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// As [`chunk`](Self::chunk), for whoever takes many: a future for each packet of a fast
    /// transfer would be a part of the work.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ClientError>> {
        match &mut self.0 {
            Body::Hq(stream) => stream.poll_chunk(cx),
            Body::Http3(answer) => answer.poll_chunk(cx),
        }
    }
}

/// A stream that has nothing but the body.
struct Stream {
    /// `None` after an error or the last byte.
    source: Option<Source>,
    read_ahead: VecDeque<Bytes>,
}

/// A stream of noq; it is dropped before its guard.
struct Source {
    recv: RecvStream,
    _early: Option<Guard>,
}

impl Stream {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ClientError>> {
        loop {
            if let Some(chunk) = self.read_ahead.pop_front() {
                return Poll::Ready(Ok(Some(chunk)));
            }
            let Some(source) = &mut self.source else { return Poll::Ready(Ok(None)) };
            let mut chunks: [Bytes; CHUNKS_AT_ONCE] = [const { Bytes::new() }; CHUNKS_AT_ONCE];
            let read = ready!(pin!(source.recv.read_many_chunks(&mut chunks)).poll(cx));
            let Some(count) = read.inspect_err(|_| self.source = None)? else {
                self.source = None;
                return Poll::Ready(Ok(None));
            };
            let chunks = chunks.into_iter().take(count);
            self.read_ahead.extend(chunks.filter(|chunk| !chunk.is_empty()));
        }
    }
}
