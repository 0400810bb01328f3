//! HTTP/1.1 on a byte stream, such as a TCP connection. Requests mean what they mean over HTTP/3.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::HOST;
use ::http::uri::Authority;
use ::http::{Request, Response, StatusCode, Version};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::answer::Outcome;
use super::connection::Shared;
use super::stall_timeout::StallTimeout;
use super::{Asked, Server, has_body, respond};
use crate::bulk::bulk_block;
use crate::content::{BLOCK_BYTES, Body, SendError, read};

/// Bytes of a request's header, or of answers that wait to be written: the least that hyper takes.
const BUFFER_BYTES: usize = 8192;

/// The longest time for which a client may go on sending after the last answer.
const LINGER: Duration = Duration::from_secs(2);

type Answer = Response<Either<Empty<Bytes>, Channel<Bytes, io::Error>>>;

impl Server {
    /// Answers the requests of a stream that `peer` has opened, as [`converse`](Self::converse), on
    /// the thread with the fewest connections. `open` is called there, because a socket belongs to
    /// the runtime in which it was made; its error ends the connection.
    pub fn converse_apart<S>(
        self: &Arc<Self>,
        open: impl FnOnce() -> io::Result<S> + Send + 'static,
        peer: SocketAddr,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let server = self.clone();
        self.lanes.enter().spawn(async move {
            match open() {
                Ok(stream) => server.converse(stream, peer).await,
                Err(error) => tracing::debug!(%error, "no connection over TCP"),
            }
        });
    }

    /// Answers the requests that come on `stream`, which `peer` has opened, until it ends. The
    /// limits are those of connections over QUIC, but for the number
    /// [`Limits::tcp_connections`](crate::Limits::tcp_connections); beyond it the stream is closed.
    pub async fn converse<S>(&self, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shared = &self.shared;
        let Some(_slot) = self.admission.admit_tcp(peer.ip()) else {
            return shared.counters.refused.add(1);
        };
        shared.counters.admitted.add(1);
        let _conversation = shared.conversing();
        let limits = &shared.limits;
        let mut stream = StallTimeout::new(stream, limits.stall_timeout, shared.idle_timeout);
        let service =
            service_fn(async |request| Ok::<_, Infallible>(answer(peer, &request, shared).await));
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request_timeout)
            .half_close(true)
            .max_buf_size(BUFFER_BYTES);
        let ended = {
            let connection = builder.serve_connection(TokioIo::new(&mut stream), service);
            let mut connection = pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = shared.ending() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        };
        if let Err(error) = ended {
            // hyper answers what it cannot read with these.
            let status = match () {
                () if error.is_parse_too_large() => Some(431),
                () if error.is_parse() => Some(400),
                () => None,
            };
            if let Some(status) = status {
                shared.refused(&Asked::begin(peer, "HTTP/1.1"), status, &error);
            }
            let error = crate::log::Escaped(error);
            tracing::debug!(%peer, %error, "disconnected");
        }
        linger(&mut stream).await;
    }
}

/// Reads what still comes. TCP resets a connection that is closed with unread data, and the last
/// answer would be lost (RFC 9112 section 9.6).
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let rest = async {
        stream.shutdown().await?;
        tokio::io::copy(stream, &mut tokio::io::sink()).await
    };
    // Whatever it is, the connection is over.
    let _ = tokio::time::timeout(LINGER, rest).await;
}

async fn answer(peer: SocketAddr, request: &Request<Incoming>, shared: &Arc<Shared>) -> Answer {
    let mut asked = Asked::begin(peer, "HTTP/1.1");
    asked.read(request);
    let answering = shared.answering();
    if !has_host(request) {
        let mut head = Response::new(Either::Left(Empty::new()));
        *head.status_mut() = StatusCode::BAD_REQUEST;
        shared.refused(&asked, head.status().as_u16(), &"no Host, or more than one");
        return head;
    }
    let (head, body) = respond(request, peer.ip(), shared).await;
    let status = head.status();
    if !has_body(status) {
        shared.refused(&asked, status.as_u16(), &status);
        return head.map(|()| Either::Left(Empty::new()));
    }
    let (mut sender, channel) = Channel::new(1);
    let shared = shared.clone();
    tokio::spawn(async move {
        let mut given = 0;
        let outcome = give(body, &mut sender, &mut given).await;
        if matches!(outcome, Outcome::CutOff | Outcome::Unreadable(_)) {
            // Not the end that the header promised: the connection is closed.
            sender.abort(io::ErrorKind::UnexpectedEof.into());
        }
        shared.answered(&asked, status.as_u16(), given, &outcome);
        drop(answering);
    });
    head.map(|()| Either::Right(channel))
}

/// True if a request says which host it is for, as one of HTTP/1.1 has to (RFC 9112 section 3.2).
fn has_host<T>(request: &Request<T>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        // Empty where the target has no authority, and never with userinfo.
        (Some(host), None) => host.to_str().is_ok_and(|host| {
            host.is_empty() || !host.contains('@') && host.parse::<Authority>().is_ok()
        }),
        (None, None) => request.version() < Version::HTTP_11,
        _ => false,
    }
}

/// Hands a body over to the connection, a block at a time as it is taken.
async fn give(body: Body, to: &mut Sender<Bytes, io::Error>, given: &mut u64) -> Outcome {
    let length = body.length().unwrap_or(u64::MAX);
    while *given < length {
        let most = (length - *given).min(BLOCK_BYTES as u64) as usize;
        let block = match &body {
            Body::File(file) => {
                match read(&file.disk, &file.file, file.from + *given, most).await {
                    Ok(block) => block,
                    Err(SendError::CutOff) => return Outcome::CutOff,
                    Err(SendError::Read(error)) => return Outcome::Unreadable(error),
                    Err(SendError::Stalled | SendError::Write(_)) => return Outcome::Stalled,
                }
            }
            _ => {
                let block = bulk_block();
                let at = (*given % block.len() as u64) as usize;
                block.slice(at..block.len().min(at + most))
            }
        };
        let bytes = block.len() as u64;
        if to.send_data(block).await.is_err() {
            return Outcome::Lost("the connection has ended".to_owned());
        }
        *given += bytes;
    }
    Outcome::Complete
}
