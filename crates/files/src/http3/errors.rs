//! Errors of noq as h3 has them.

use std::sync::Arc;

use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};
use noq::{ConnectionError, ReadError, WriteError};

use super::rules::Violation;

/// The stream has been stopped for this.
pub(super) fn of_message(violation: &Violation) -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown(violation.reason.into())
}

/// The connection has been closed for this.
pub(super) fn of_violation(violation: &Violation) -> ConnectionErrorIncoming {
    ConnectionErrorIncoming::InternalError(violation.reason.to_owned())
}

pub(super) fn of_connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into_inner() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

pub(super) fn of_stream(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: of_connection(error) }
}

pub(super) fn of_read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => {
            StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() }
        }
        ReadError::ConnectionLost(error) => of_stream(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

pub(super) fn of_write(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => {
            StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() }
        }
        WriteError::ConnectionLost(error) => of_stream(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}
