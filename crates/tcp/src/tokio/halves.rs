//! The halves of a stream, and reading and writing for streams and halves.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::TcpStream;

/// The half of a stream that reads, of [`TcpStream::split`]. It points to the stream.
#[derive(Debug)]
pub struct ReadHalf<'s>(&'s TcpStream);

/// The half of a stream that writes, of [`TcpStream::split`]. It points to the stream. Dropping it
/// does nothing.
#[derive(Debug)]
pub struct WriteHalf<'s>(&'s TcpStream);

/// The half of a stream that reads, of [`TcpStream::into_split`]. It points to the stream.
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The half of a stream that writes, of [`TcpStream::into_split`]. It points to the stream.
/// Dropping it closes this end for writing.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
    closes: bool,
}

/// The halves are not of the same stream.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

pub(super) fn split(stream: &mut TcpStream) -> (ReadHalf<'_>, WriteHalf<'_>) {
    (ReadHalf(stream), WriteHalf(stream))
}

pub(super) fn into_split(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Arc::new(stream);
    (OwnedReadHalf(Arc::clone(&stream)), OwnedWriteHalf { stream, closes: true })
}

impl OwnedReadHalf {
    /// The stream that both halves are of.
    ///
    /// # Errors
    /// They are of different streams.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.forget();
        // There are no others than these two, so that this is the last.
        Arc::try_unwrap(self.0).map_err(|stream| {
            let other = OwnedWriteHalf { stream: Arc::clone(&stream), closes: true };
            ReuniteError(Self(stream), other)
        })
    }
}

impl OwnedWriteHalf {
    /// As [`OwnedReadHalf::reunite`].
    ///
    /// # Errors
    /// They are of different streams.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        other.reunite(self)
    }

    /// Drops this half and leaves its end open for writing until the other half is dropped.
    pub fn forget(mut self) {
        self.closes = false;
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.closes {
            // Of a stack that has ended there is nothing left to close.
            let _ = self.stream.shutdown_write();
        }
    }
}

impl Deref for ReadHalf<'_> {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        self.0
    }
}

impl Deref for WriteHalf<'_> {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        self.0
    }
}

impl Deref for OwnedReadHalf {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.0
    }
}

impl Deref for OwnedWriteHalf {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

macro_rules! reads {
    ($($half:ty),+) => {$(
        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_read_to(context, buffer)
            }
        }
    )+};
}

macro_rules! writes {
    ($($half:ty),+) => {$(
        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                data: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_from(context, data)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_vectored_from(context, parts)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                // What is written leaves by itself.
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.shutdown_write())
            }
        }
    )+};
}

reads!(TcpStream, ReadHalf<'_>, OwnedReadHalf);
writes!(TcpStream, WriteHalf<'_>, OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are not of the same stream")
    }
}

impl Error for ReuniteError {}
