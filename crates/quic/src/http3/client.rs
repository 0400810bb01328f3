//! Requests over HTTP/3 from the client's side.

use std::fmt;
use std::future::poll_fn;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::StreamError;
use http::Request;
use http::header::CONTENT_LENGTH;

use super::adapter::{BidiStream, Connection, Opener};
use crate::ClientError;

/// HTTP/3 on a connection.
pub(crate) struct Http3 {
    requests: SendRequest<Opener, Bytes>,
    connection: noq::Connection,
    authority: String,
}

impl Http3 {
    /// `authority` is the server's name and port, as in a URL.
    pub(crate) async fn start(
        connection: &noq::Connection,
        authority: String,
    ) -> Result<Self, ClientError> {
        let adapter = Connection::of_client(connection.clone());
        let mut builder = h3::client::builder();
        // Without a stream of nonsense: when the server allows none, h3 0.0.8 loses the frames of the control stream, and so a
        // GOAWAY, while it waits for one (connection.rs, `poll_control`).
        builder.send_grease(false);
        let (mut driver, requests) =
            builder.build(adapter).await.map_err(|error| of_connection(connection, &error))?;
        tokio::spawn(async move {
            let error = crate::log::Escaped(poll_fn(|cx| driver.poll_close(cx)).await);
            tracing::debug!(%error, "the end of HTTP/3 on a connection");
        });
        Ok(Self { requests, connection: connection.clone(), authority })
    }

    /// The answer to a GET, once its header is there.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, ClientError> {
        let uri = format!("https://{}{path}", self.authority);
        let request = Request::get(uri).body(()).map_err(|_| ClientError::Path(path.to_owned()))?;
        let lost = |error| of_stream(&self.connection, error);
        let mut stream = self.requests.clone().send_request(request).await.map_err(lost)?;
        stream.finish().await.map_err(lost)?;
        let response = stream.recv_response().await.map_err(lost)?;
        let status = response.status();
        if !status.is_success() {
            return Err(ClientError::Status { code: status.as_u16() });
        }
        let length = response.headers().get(CONTENT_LENGTH);
        let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
        Ok(Answer { stream, connection: self.connection.clone(), left })
    }
}

/// The body of an answer.
pub(crate) struct Answer {
    stream: RequestStream<BidiStream<Bytes>, Bytes>,
    connection: noq::Connection,
    /// Bytes that are still to come, if the server said how many there are.
    left: Option<u64>,
}

impl Answer {
    /// The next bytes, never empty; `None` after the last.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let received = self.stream.recv_data().await;
            let received = received.map_err(|error| of_stream(&self.connection, error))?;
            let Some(mut data) = received else {
                return if self.left.is_none_or(|left| left == 0) {
                    Ok(None)
                } else {
                    Err(ClientError::Incomplete)
                };
            };
            // It is one piece, so this copies nothing.
            let chunk = data.copy_to_bytes(data.remaining());
            if let Some(left) = &mut self.left {
                *left = left.checked_sub(chunk.len() as u64).ok_or(ClientError::Incomplete)?;
            }
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
    }
}

/// The end of the connection says more than what HTTP/3 makes of it.
fn of_connection(connection: &noq::Connection, error: &dyn fmt::Display) -> ClientError {
    connection
        .close_reason()
        .map_or_else(|| ClientError::Http3(error.to_string()), ClientError::Lost)
}

fn of_stream(connection: &noq::Connection, error: StreamError) -> ClientError {
    match error {
        StreamError::RemoteTerminate { code, .. } => ClientError::Reset { code: code.value() },
        error => of_connection(connection, &error),
    }
}
