//! Requests over HTTP/3, and their answers.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h3::error::{Code, ConnectionError, StreamError};
use h3::proto::frame::Frame;
use h3::server::{RequestResolver, RequestStream};
use http::{Method, Request, Response};
use noq::{PathId, VarInt};
use tokio::sync::watch;

use super::adapter::{BidiStream, Connection, Streams};
use super::fields::Pseudo;
use super::message;
use super::rules::{self, Violation};
use crate::hq::{MAX_REQUEST_BYTES, Refusal};
use crate::server::{Asked, ConnectionGuard, Outcome, Shared, Window, give, has_body, respond};

/// Unidirectional streams that a client of HTTP/3 must be allowed (RFC 9114 section 6.2).
pub(crate) const UNI_STREAMS: u32 = 3;

/// The longest DATA frame there is: of data that ends when the client has enough.
const ENDLESS: u64 = (1 << 62) - 1;

/// More than a GOAWAY has.
const GOAWAY_BYTES: u64 = 64;
/// Longest time for a GOAWAY to arrive before the connection may be closed behind it.
const MOST_OF_GOAWAY: Duration = Duration::from_millis(250);

/// Answers the requests of a connection until it ends. Early ones come before the handshake is
/// done.
pub(crate) async fn serve(
    peer: SocketAddr,
    connection: &noq::Connection,
    shared: &Arc<Shared>,
    mut entry: ConnectionGuard,
    mut handshake_is_done: watch::Receiver<bool>,
) {
    let window = Arc::new(shared.window(connection));
    let adapter = Connection::of_server(connection.clone());
    let (streams, load) = (adapter.streams(), adapter.load());
    let mut builder = h3::server::builder();
    builder.max_field_section_size(MAX_REQUEST_BYTES as u64);
    let ended = async {
        let mut http = builder.build::<_, Bytes>(adapter).await?;
        let mut ending = pin!(shared.ending());
        let mut goes_away = false;
        loop {
            let request = tokio::select! {
                request = http.accept() => match request? {
                    Some(request) => request,
                    None => break,
                },
                () = &mut ending, if !goes_away => {
                    goes_away = true;
                    window.widen(GOAWAY_BYTES);
                    // The first request that is not answered any more is the one behind the last
                    // that came.
                    http.shutdown(1).await?;
                    let rtt = connection.rtt(PathId::ZERO).unwrap_or(MOST_OF_GOAWAY);
                    tokio::time::sleep(rtt.min(MOST_OF_GOAWAY)).await;
                    entry.told();
                    continue;
                }
            };
            let answering = shared.answering();
            let (streams, window, shared) = (streams.clone(), window.clone(), shared.clone());
            tokio::spawn(async move {
                answer(peer, request, &streams, &window, &shared).await;
                drop(answering);
            });
        }
        Ok::<(), ConnectionError>(())
    };
    // A client sends them first (RFC 9114 section 6.2.1); one that does not could leave them half
    // sent for as long as it keeps the connection.
    let late = async {
        // One that fails closes the connection.
        let _ = handshake_is_done.wait_for(|is_done| *is_done).await;
        let settings = tokio::time::timeout(shared.limits.request_timeout, load.has_settings());
        if settings.await.is_err() {
            load.close(&Violation::new(
                rules::Code::MissingSettings,
                "the settings took too long to arrive",
            ));
        }
        // The close ends the other.
        std::future::pending::<Infallible>().await
    };
    let ended = tokio::select! {
        ended = ended => ended,
        never = late => match never {},
    };
    if let Err(error) = ended {
        if load.is_broken() {
            shared.broke_http3(peer, &error);
        }
        let error = crate::log::Escaped(error);
        tracing::debug!(%peer, %error, "disconnected");
    }
}

async fn answer(
    peer: SocketAddr,
    request: RequestResolver<Connection, Bytes>,
    streams: &Streams,
    window: &Window,
    shared: &Arc<Shared>,
) {
    let mut asked = Asked::begin(peer, "HTTP/3");
    let limit = shared.limits.request_timeout;
    let (request, pseudo, mut stream) = match tokio::time::timeout(limit, resolve(request)).await {
        Ok(Ok(resolved)) => resolved,
        // h3 has answered with it.
        Ok(Err(error @ StreamError::HeaderTooBig { .. })) => {
            return shared.refused(&asked, 431, &error);
        }
        Ok(Err(error @ StreamError::StreamError { .. })) => {
            return shared.reset(&asked, 400, &error);
        }
        Ok(Err(error)) => {
            return shared.log.connection(peer, "a request was not finished", &error);
        }
        Err(_) => {
            let late = "the request took too long to arrive";
            return shared.reset(&asked, Refusal::Timeout.status(), &late);
        }
    };
    asked.read(&request);
    let is_connect = request.method() == Method::CONNECT;
    let malformed = pseudo.and_then(|pseudo| pseudo.malformed(is_connect));
    if let Some(malformed) = malformed.or_else(|| message::malformed(&request)) {
        stream.stop_stream(Code::H3_MESSAGE_ERROR);
        stream.stop_sending(Code::H3_MESSAGE_ERROR);
        return shared.reset(&asked, 400, &malformed);
    }
    let (response, body) = respond(&request, peer.ip(), shared).await;
    let (code, sent) = (response.status(), send_head(&mut stream, response));
    let status = code.as_u16();
    match tokio::time::timeout(shared.limits.stall_timeout, sent).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            return shared.answered(&asked, status, 0, &Outcome::Lost(error.to_string()));
        }
        Err(_) => return shared.answered(&asked, status, 0, &Outcome::Stalled),
    }
    let Some(mut send) = streams.take(stream.send_id()) else { return };
    let bytes = body.length().unwrap_or(ENDLESS);
    if bytes > 0 {
        // One DATA frame holds all of it (RFC 9114 section 7.2.1).
        let header = [&[0][..], &var_int(bytes)].concat();
        let written = send.write_all(&header);
        let outcome = match tokio::time::timeout(shared.limits.stall_timeout, written).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.into()),
            Err(_) => Some(Outcome::Stalled),
        };
        if let Some(outcome) = outcome {
            // That it was closed before is no news.
            let _ = send.reset(reset_code(Refusal::Timeout));
            return shared.answered(&asked, status, 0, &outcome);
        }
    }
    if has_body(code) {
        let mut given = 0;
        let outcome = give(&mut send, body, window, shared, &mut given, reset_code).await;
        shared.answered(&asked, status, given, &outcome);
    } else {
        // That the stream is closed already is no news.
        let _ = send.finish();
        shared.refused(&asked, status, &code);
    }
}

/// The request, and the pseudo-header fields that it has if its field section could be read here.
async fn resolve(
    mut request: RequestResolver<Connection, Bytes>,
) -> Result<(Request<()>, Option<Pseudo>, RequestStream<BidiStream<Bytes>, Bytes>), StreamError> {
    let frame = poll_fn(|cx| request.frame_stream.poll_next(cx)).await;
    let pseudo = match &frame {
        Ok(Some(Frame::Headers(section))) => Pseudo::read(section),
        _ => None,
    };
    let (request, stream) = request.accept_with_frame(frame)?.resolve().await?;
    Ok((request, pseudo, stream))
}

async fn send_head(
    stream: &mut RequestStream<BidiStream<Bytes>, Bytes>,
    response: Response<()>,
) -> Result<(), StreamError> {
    stream.send_response(response).await
}

/// The code of the reset of a body that breaks off.
fn reset_code(refusal: Refusal) -> VarInt {
    match refusal {
        Refusal::Timeout => rules::Code::RequestCancelled.var_int(),
        _ => rules::Code::InternalError.var_int(),
    }
}

/// A variable-length integer of eight bytes (RFC 9000 section 16).
fn var_int(value: u64) -> [u8; 8] {
    (value | 3 << 62).to_be_bytes()
}
