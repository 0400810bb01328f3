//! One request and its answer.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use noq::{RecvStream, SendStream, StoppedError, VarInt, WriteError};

use super::Window;
use super::connection::Shared;
use super::record::Asked;
use crate::content::{Body, SendError, Sending};
use crate::hq::{Refusal, RequestError, read_request, request_path};

/// Answers one request. Its line in the log comes when the client has acknowledged every byte, or
/// when it is certain that it never will.
pub(super) async fn answer(
    peer: SocketAddr,
    mut send: SendStream,
    mut recv: RecvStream,
    window: Arc<Window>,
    shared: Arc<Shared>,
) {
    let mut asked = Asked::begin(peer, "HTTP/0.9");
    let request =
        tokio::time::timeout(shared.limits.request_timeout, read_request(&mut recv)).await;
    let request = match request {
        Ok(Ok(request)) => request,
        Ok(Err(RequestError::Refused(refusal))) => {
            shared.reset(&asked, refusal.status(), &"a request that is too long");
            return refuse(&mut send, refusal);
        }
        Ok(Err(RequestError::Lost(error))) => {
            return shared.log.connection(peer, "a request was not finished", &error);
        }
        Err(_) => {
            let late = "the request took too long to arrive";
            shared.reset(&asked, Refusal::Timeout.status(), &late);
            return refuse(&mut send, Refusal::Timeout);
        }
    };
    let line = String::from_utf8_lossy(&request);
    asked.read_line(line.trim_end());
    let body = match request_path(&request) {
        Ok(path) => shared.source.open(path, peer.ip()).await,
        Err(refusal) => Err(refusal),
    };
    let body = match body {
        Ok(body) => body,
        Err(refusal) => {
            shared.reset(&asked, refusal.status(), &refusal);
            return refuse(&mut send, refusal);
        }
    };
    let mut bytes = 0;
    let outcome = give(&mut send, body, &window, &shared, &mut bytes, Refusal::var_int).await;
    shared.answered(&asked, 200, bytes, &outcome);
}

/// Outcome of an answer.
pub(crate) enum Outcome {
    Complete,
    CutOff,
    Unreadable(std::io::Error),
    Stalled,
    Stopped,
    Lost(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::CutOff => f.write_str("reset: the file is shorter than when it was opened"),
            Self::Unreadable(error) => write!(f, "reset: the file cannot be read: {error}"),
            Self::Stalled => f.write_str("reset: the client took nothing for too long"),
            Self::Stopped => f.write_str("stopped by the client"),
            Self::Lost(reason) => write!(f, "incomplete: {reason}"),
        }
    }
}

/// Writes a body to its stream, finishes it, and waits until the client has it. `reset_code` gives
/// the code of the reset when it breaks off.
pub(crate) async fn give(
    send: &mut SendStream,
    body: Body,
    window: &Window,
    shared: &Shared,
    bytes: &mut u64,
    reset_code: fn(Refusal) -> VarInt,
) -> Outcome {
    // That it was closed before is no news.
    let reset = |send: &mut SendStream, refusal| drop(send.reset(reset_code(refusal)));
    let stall_timeout = shared.limits.stall_timeout;
    match Sending::new(send, window, stall_timeout, bytes).send(body).await {
        Ok(()) => {}
        Err(SendError::CutOff) => {
            reset(send, Refusal::Internal);
            return Outcome::CutOff;
        }
        Err(SendError::Read(error)) => {
            reset(send, Refusal::Internal);
            return Outcome::Unreadable(error);
        }
        Err(SendError::Stalled) => {
            reset(send, Refusal::Timeout);
            return Outcome::Stalled;
        }
        Err(SendError::Write(error)) => return error.into(),
    }
    if let Err(error) = send.finish() {
        return Outcome::Lost(error.to_string());
    }
    // Until the peer has all of it, which takes as long as its path does. Nothing more is written
    // then, so that only its ACKs tell that it takes something.
    loop {
        let acks = window.acks();
        match tokio::time::timeout(stall_timeout, send.stopped()).await {
            Ok(Ok(None)) => return Outcome::Complete,
            Ok(Ok(Some(_code))) => return Outcome::Stopped,
            Ok(Err(StoppedError::ConnectionLost(error))) => {
                return Outcome::Lost(error.to_string());
            }
            Ok(Err(error)) => return Outcome::Lost(error.to_string()),
            Err(_) if window.acks() > acks => {}
            Err(_) => {
                reset(send, Refusal::Timeout);
                return Outcome::Stalled;
            }
        }
    }
}

impl From<WriteError> for Outcome {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(_) => Self::Stopped,
            WriteError::ConnectionLost(error) => Self::Lost(error.to_string()),
            other => Self::Lost(other.to_string()),
        }
    }
}

/// Resets the stream; that it was closed before is no news.
pub(super) fn refuse(send: &mut SendStream, refusal: Refusal) {
    let _ = send.reset(refusal.var_int());
}
