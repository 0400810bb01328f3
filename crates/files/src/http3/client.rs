//! Requests over HTTP/3 from the client's side.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::ConnectionState;
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, StreamError};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::task::JoinHandle;

use super::adapter::{BidiStream, Connection, Opener};
use super::message::{content_length, of_a_connection};
use super::whole::{Load, MOST_OF_A_FRAME};
use crate::ClientError;
use crate::client::{Early, Judge};

/// Interim responses (1xx) before the one that counts.
const MOST_INTERIM: usize = 16;

type Requests = SendRequest<Opener, Bytes>;

/// A server's settings, which a client that sends requests before the handshake is done has to
/// comply with (RFC 9114 section 7.2.4.2). It gives them to another connection; h3 has no public
/// name for them.
pub(crate) type Settings = Arc<dyn Fn(&Requests) + Send + Sync>;

/// HTTP/3 on a connection.
pub(crate) struct Http3 {
    running: Arc<Mutex<Running>>,
    connection: noq::Connection,
    authority: String,
    /// Of a connection whose handshake is not done when it begins.
    early: Option<Early>,
}

struct Running {
    requests: Requests,
    driver: JoinHandle<()>,
    load: Load,
}

impl Running {
    async fn start(
        connection: &noq::Connection,
        early: Option<Early>,
    ) -> Result<Self, ClientError> {
        let adapter = Connection::of_client(connection.clone(), early);
        let load = adapter.load();
        let end = CloseReason { connection: connection.clone(), load: load.clone() };
        let mut builder = h3::client::builder();
        // Without a stream of nonsense: when the server allows none, h3 0.0.8 loses the frames of
        // the control stream, and so a GOAWAY, while it waits for one (connection.rs,
        // `poll_control`).
        builder.send_grease(false);
        builder.max_field_section_size(MOST_OF_A_FRAME as u64);
        let (mut driver, requests) =
            builder.build(adapter).await.map_err(|error| end.of_connection(&error))?;
        let driver = tokio::spawn(async move {
            let error = crate::log::Escaped(poll_fn(|cx| driver.poll_close(cx)).await);
            tracing::debug!(%error, "the end of HTTP/3 on a connection");
        });
        Ok(Self { requests, driver, load })
    }
}

fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Http3 {
    /// `authority` is the server's name and port, as in a URL.
    pub(crate) async fn start(
        connection: &noq::Connection,
        authority: String,
    ) -> Result<Self, ClientError> {
        let running = Running::start(connection, None).await?;
        let running = Arc::new(Mutex::new(running));
        Ok(Self { running, connection: connection.clone(), authority, early: None })
    }

    /// On a connection whose handshake is not done, with the settings that the server had before.
    pub(crate) async fn start_early(
        connection: &noq::Connection,
        authority: String,
        settings: &Settings,
        (verdict, early): (Judge, Early),
    ) -> Result<Self, ClientError> {
        let running = Running::start(connection, Some(early.clone())).await?;
        settings(&running.requests);
        let running = Arc::new(Mutex::new(running));
        tokio::spawn(judge(verdict, Arc::downgrade(&running), connection.clone()));
        Ok(Self { running, connection: connection.clone(), authority, early: Some(early) })
    }

    /// The server's settings, if they have arrived.
    pub(crate) fn settings(&self) -> Option<Settings> {
        match lock(&self.running).requests.settings() {
            Cow::Borrowed(settings) => {
                let settings = *settings;
                Some(Arc::new(move |requests| requests.set_settings(settings)))
            }
            Cow::Owned(_unknown) => None,
        }
    }

    /// The answer to a GET with these fields, once its header is there.
    pub(crate) async fn ask(&self, path: &str, fields: &HeaderMap) -> Result<Answer, ClientError> {
        let uri = format!("https://{}{path}", self.authority);
        let request = Request::get(uri).body(());
        let mut request = request.map_err(|_| ClientError::Path(path.to_owned()))?;
        request.headers_mut().extend(fields.clone());
        let guard = match &self.early {
            Some(early) => early.begin().await,
            None => None,
        };
        let (requests, end) = {
            let running = lock(&self.running);
            let end =
                CloseReason { connection: self.connection.clone(), load: running.load.clone() };
            (running.requests.clone(), end)
        };
        let answer = ask(requests, request, end).await;
        match (answer, &self.early, guard) {
            (Err(error), Some(early), Some(guard)) => {
                drop(guard);
                Err(if early.is_over().await { ClientError::EarlyDataRejected } else { error })
            }
            // What was answered was taken.
            (answer, ..) => answer,
        }
    }
}

async fn ask(
    mut requests: Requests,
    request: Request<()>,
    end: CloseReason,
) -> Result<Answer, ClientError> {
    let lost = |error| end.of_stream(error);
    let mut stream = requests.send_request(request).await.map_err(lost)?;
    stream.finish().await.map_err(lost)?;
    let head = final_response(&mut stream, lost).await?;
    if let Some(name) = of_a_connection(head.headers()) {
        let reason = format!("the answer has {name}, which is about a connection");
        return Err(malformed(&mut stream, reason));
    }
    let left = match head.status() {
        // It says the length of another answer (RFC 9110 section 8.6).
        StatusCode::NOT_MODIFIED => None,
        _ => content_length(head.headers()).map_err(|value| {
            malformed(&mut stream, format!("content-length {value:?} is no length"))
        })?,
    };
    Ok(Answer { head, stream, end, left, in_trailers: false })
}

/// Stops an answer that is malformed (RFC 9114 section 4.1.2).
fn malformed(
    stream: &mut RequestStream<BidiStream<Bytes>, Bytes>,
    reason: impl Into<String>,
) -> ClientError {
    stream.stop_sending(Code::H3_MESSAGE_ERROR);
    ClientError::Http3(reason.into())
}

/// The response behind any number of interim ones (RFC 9114 section 4.1), but for a server that
/// sends nothing else.
async fn final_response(
    stream: &mut RequestStream<BidiStream<Bytes>, Bytes>,
    lost: impl Fn(StreamError) -> ClientError,
) -> Result<Response<()>, ClientError> {
    for _ in 0..=MOST_INTERIM {
        let response = stream.recv_response().await.map_err(&lost)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // RFC 9114 section 4.5.
            return Err(malformed(stream, "the answer has status 101"));
        }
        if !response.status().is_informational() {
            return Ok(response);
        }
    }
    Err(ClientError::Http3(format!("more than {MOST_INTERIM} interim answers")))
}

/// Begins HTTP/3 anew if the server did not take what was sent before the handshake was done.
async fn judge(mut verdict: Judge, running: Weak<Mutex<Running>>, connection: noq::Connection) {
    if verdict.taken().await {
        return;
    }
    let Some(running) = running.upgrade() else { return };
    let driver = {
        let mut running = lock(&running);
        std::mem::replace(&mut running.driver, tokio::spawn(async {}))
    };
    driver.abort();
    // An error is that it was ended.
    let _ = driver.await;
    verdict.dropped().await;
    match Running::start(&connection, None).await {
        Ok(new) => {
            *lock(&running) = new;
            verdict.over();
        }
        // The connection is lost, which a request tells.
        Err(error) => tracing::debug!(%error, "HTTP/3 could not begin anew"),
    }
}

/// An answer, whose body is still to come.
pub(crate) struct Answer {
    pub(crate) head: Response<()>,
    stream: RequestStream<BidiStream<Bytes>, Bytes>,
    end: CloseReason,
    /// Bytes that are still to come, if the server said how many there are.
    left: Option<u64>,
    /// The body is over, and the end of the stream may be still to come.
    in_trailers: bool,
}

impl Answer {
    /// The next bytes, never empty; `None` after the last.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ClientError>> {
        while !self.in_trailers {
            let received = ready!(self.stream.poll_recv_data(cx));
            let received = received.map_err(|error| self.end.of_stream(error))?;
            let Some(mut data) = received else {
                self.in_trailers = true;
                break;
            };
            // It is one piece, so this copies nothing.
            let chunk = data.copy_to_bytes(data.remaining());
            if let Some(left) = &mut self.left {
                *left = left.checked_sub(chunk.len() as u64).ok_or_else(|| {
                    // Malformed as well.
                    self.stream.stop_sending(Code::H3_MESSAGE_ERROR);
                    ClientError::Incomplete
                })?;
            }
            if !chunk.is_empty() {
                return Poll::Ready(Ok(Some(chunk)));
            }
        }
        // DATA behind trailers is an error, and no more of the body.
        let end = ready!(self.stream.poll_recv_trailers(cx));
        end.map_err(|error| self.end.of_stream(error))?;
        let is_whole = self.left.is_none_or(|left| left == 0);
        Poll::Ready(if is_whole { Ok(None) } else { Err(ClientError::Incomplete) })
    }
}

/// The reason of a connection's end.
struct CloseReason {
    connection: noq::Connection,
    load: Load,
}

impl CloseReason {
    /// The end of the connection says more than what HTTP/3 makes of it.
    fn of_connection(&self, error: &dyn fmt::Display) -> ClientError {
        if let Some(violation) = self.load.violation() {
            return ClientError::Http3(violation.reason.to_owned());
        }
        let reason = self.connection.close_reason();
        reason.map_or_else(|| ClientError::Http3(error.to_string()), ClientError::Lost)
    }

    fn of_stream(&self, error: StreamError) -> ClientError {
        match error {
            StreamError::RemoteTerminate { code, .. } => ClientError::Reset { code: code.value() },
            // What the adapter says of the stream.
            StreamError::Undefined(error) => self.of_connection(&error),
            error => self.of_connection(&error),
        }
    }
}
