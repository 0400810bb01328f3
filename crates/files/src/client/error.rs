//! Errors of the client.

use std::net::SocketAddr;

use fullpipe_cc::Duration;
use noq::{ConnectError, ConnectionError, ReadError, TransportErrorCode, WriteError};
use rustls::{CertificateError, OtherError};

use crate::{Escaped, Refusal, TlsError};

/// The reason why a client has no connection, or no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The certificates to check the server's against.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The client's own socket.
    #[error("cannot open a UDP socket: {0}")]
    Socket(#[source] std::io::Error),
    /// There is no tokio runtime around the caller.
    #[error("a client needs to be started inside a tokio runtime")]
    NoRuntime,
    /// The address or the name is none to connect to.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server.
        address: SocketAddr,
        /// noq's error.
        source: ConnectError,
    },
    /// There is no address to connect to.
    #[error("the server has no address")]
    NoAddress,
    /// The server is not there, or drops what it gets.
    #[error("no answer from {address} within {timeout}")]
    NoAnswer {
        /// The server.
        address: SocketAddr,
        /// The time that the client waited.
        timeout: Duration,
    },
    /// There is a server, and its certificate does not show that it is the right one.
    #[error("the certificate of {address} is not trusted: {}", Escaped(.reason))]
    Untrusted {
        /// The server.
        address: SocketAddr,
        /// rustls' error.
        reason: String,
    },
    /// The two ends did not agree.
    #[error("no connection to {address}: {}", Escaped(.source))]
    Handshake {
        /// The server.
        address: SocketAddr,
        /// noq's error.
        source: ConnectionError,
    },
    /// The path has a space, a line end or something else that no request can carry.
    #[error("a request path begins with \"/\" and has visible ASCII only, unlike {0:?}")]
    Path(String),
    /// The connection ended before the answer did.
    #[error("the connection was lost: {}", Escaped(.0))]
    Lost(#[from] ConnectionError),
    /// The server gives no body, or no more of it.
    #[error("the server reset the stream with code {code}{}", meaning(*code))]
    Reset {
        /// The application error code; [`Refusal::from_code`] knows ours.
        code: u64,
    },
    /// The server answers with a status that is no success.
    #[error("the server answered with status {code}{}", meaning((*code).into()))]
    Status {
        /// The status of HTTP (RFC 9110 section 15).
        code: u16,
    },
    /// The body is shorter or longer than the server said.
    #[error("the body has not the length that the server said")]
    Incomplete,
    /// HTTP/3 on this connection came to an end, or the answer is malformed, which ends its stream
    /// alone.
    #[error("HTTP/3: {}", Escaped(.0))]
    Http3(String),
    /// The server did not take what was sent before the handshake was done.
    #[error("the server did not take the request before the handshake was done")]
    EarlyDataRejected,
    /// hq-interop carries a path and nothing else.
    #[error("the server speaks hq-interop, which has no fields; HTTP/3 has them")]
    NoFields,
    /// The stream was used after its end.
    #[error("the stream is closed")]
    Closed,
}

pub(super) fn handshake_error(address: SocketAddr, source: ConnectionError) -> ClientError {
    if let ConnectionError::TransportError(error) = &source
        && let Some(tls) = &error.crypto
        && let Some(rustls::Error::InvalidCertificate(reason)) = tls.downcast_ref()
    {
        // rustls shows an error that is not its own as a programmer would.
        let reason = match reason {
            CertificateError::Other(OtherError(other)) => other.to_string(),
            reason => reason.to_string(),
        };
        return ClientError::Untrusted { address, reason };
    }
    ClientError::Handshake { address, source }
}

fn meaning(code: u64) -> String {
    Refusal::from_code(code).map_or_else(String::new, |refusal| format!(" ({refusal})"))
}

impl ClientError {
    /// True if the same may succeed a little later: nobody answered, or the server is full.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoAnswer { .. } => true,
            Self::Handshake { source: ConnectionError::TimedOut, .. } => true,
            Self::Handshake { source: ConnectionError::ConnectionClosed(close), .. } => {
                close.error_code == TransportErrorCode::CONNECTION_REFUSED
            }
            _ => false,
        }
    }

    /// True if there is a server behind it.
    pub(super) fn is_an_answer(&self) -> bool {
        matches!(self, Self::Handshake { .. } | Self::Untrusted { .. })
    }
}

impl From<ReadError> for ClientError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(code) => Self::Reset { code: code.into_inner() },
            ReadError::ConnectionLost(error) => Self::Lost(error),
            ReadError::ClosedStream => Self::Closed,
            ReadError::ZeroRttRejected => Self::EarlyDataRejected,
        }
    }
}

impl From<WriteError> for ClientError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(code) => Self::Reset { code: code.into_inner() },
            WriteError::ConnectionLost(error) => Self::Lost(error),
            WriteError::ClosedStream => Self::Closed,
            WriteError::ZeroRttRejected => Self::EarlyDataRejected,
        }
    }
}
