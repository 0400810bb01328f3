//! Writes a body to its stream. A stream that takes nothing holds one small piece of the body,
//! however large the file and the peer's windows are: a block is read only for a stream that took
//! the piece before it.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use noq::{SendStream, WriteError};
use tokio::time::{Instant, Sleep};

use super::{Body, Disk, OpenFile};
use crate::bulk::bulk_block;
use crate::server::Window;

/// One read from a file: large enough that the hand-over to the blocking pool costs little.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;
/// Bytes that are kept for a stream that takes nothing: about a packet.
const PIECE_BYTES: usize = 1200;

/// The reason why a body was not sent to its end.
pub(crate) enum SendError {
    /// The file could not be read.
    Read(std::io::Error),
    /// The file has fewer bytes than when it was opened.
    CutOff,
    /// The peer took nothing, on any stream of its connection, for as long as it may.
    Stalled,
    /// The peer stopped it, or is gone.
    Write(WriteError),
}

/// A body on its way: the stream, and what the connection allows.
pub(crate) struct Sending<'a> {
    stream: &'a mut SendStream,
    window: &'a Window,
    stall: Stall,
    /// Bytes that noq took.
    sent: &'a mut u64,
}

/// Ends a wait when nothing was taken of the whole connection for a time.
struct Stall {
    timer: Pin<Box<Sleep>>,
    timeout: Duration,
    /// Bytes that noq had taken of all streams when the timer was set.
    taken: u64,
}

impl Stall {
    fn new(timeout: Duration, window: &Window) -> Self {
        let timer = Box::pin(tokio::time::sleep(timeout));
        Self { timer, timeout, taken: window.taken() }
    }

    /// The result of `action`, or `None` if nothing was taken for a time of one to two timeouts.
    async fn unless<T>(&mut self, window: &Window, action: impl Future<Output = T>) -> Option<T> {
        let mut action = pin!(action);
        poll_fn(|cx| {
            if let Poll::Ready(output) = action.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                if window.taken() == self.taken {
                    return Poll::Ready(None);
                }
                self.taken = window.taken();
                self.timer.as_mut().reset(Instant::now() + self.timeout);
            }
            Poll::Pending
        })
        .await
    }
}

impl<'a> Sending<'a> {
    /// `stall_timeout` bounds the time in which the peer takes nothing at all.
    pub(crate) fn new(
        stream: &'a mut SendStream,
        window: &'a Window,
        stall_timeout: Duration,
        sent: &'a mut u64,
    ) -> Self {
        Self { stream, window, stall: Stall::new(stall_timeout, window), sent }
    }

    /// Writes the whole body. The stream is left open.
    pub(crate) async fn send(mut self, body: Body) -> Result<(), SendError> {
        match body {
            Body::File(file) => self.file(file).await,
            Body::Bulk { bytes } => self.bulk(bytes).await,
        }
    }

    async fn file(&mut self, file: OpenFile) -> Result<(), SendError> {
        let mut at = 0;
        while at < file.bytes {
            let most = (file.bytes - at).min(BLOCK_BYTES as u64) as usize;
            let block = read(&file.disk, file.file.clone(), file.from + at, most).await?;
            let mut taken = self.take_now(&block).await.map_err(SendError::Write)?;
            if taken < block.len() {
                let piece =
                    Bytes::copy_from_slice(&block[taken..block.len().min(taken + PIECE_BYTES)]);
                // The block goes before the wait, and what is left of it is read again after.
                drop(block);
                self.write(&piece).await?;
                taken += piece.len();
            }
            at += taken as u64;
        }
        Ok(())
    }

    async fn bulk(&mut self, bytes: u64) -> Result<(), SendError> {
        let block = bulk_block();
        let mut left = bytes;
        while left > 0 {
            let take = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            self.write_chunk(block.slice(..take)).await?;
            left -= take as u64;
        }
        Ok(())
    }

    /// Writes what the stream takes without waiting.
    async fn take_now(&mut self, mut bytes: &[u8]) -> Result<usize, WriteError> {
        let whole = bytes.len();
        while !bytes.is_empty() {
            let attempt = poll_fn(|cx| match Pin::new(&mut *self.stream).poll_write(cx, bytes) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending => Poll::Ready(None),
            });
            let Some(result) = attempt.await else { break };
            let taken = result?;
            self.count(taken);
            bytes = &bytes[taken..];
        }
        Ok(whole - bytes.len())
    }

    /// Writes all of it, and waits for that as long as the peer takes anything of the connection.
    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), SendError> {
        while !bytes.is_empty() {
            let (stall, window) = (&mut self.stall, self.window);
            let written = stall.unless(window, self.stream.write(bytes)).await;
            let taken = written.ok_or(SendError::Stalled)?.map_err(SendError::Write)?;
            self.count(taken);
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Writes a block that is shared by all streams, without a copy.
    async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), SendError> {
        let mut chunks = [chunk];
        let mut rest = &mut chunks[..];
        while !rest.is_empty() {
            let (stall, window) = (&mut self.stall, self.window);
            let written = stall.unless(window, self.stream.write_many_chunks(&mut rest)).await;
            let taken = written.ok_or(SendError::Stalled)?.map_err(SendError::Write)?;
            self.count(taken);
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) {
        *self.sent += bytes as u64;
        self.window.took(bytes as u64);
    }
}

pub(crate) async fn read(
    disk: &Disk,
    file: Arc<std::fs::File>,
    at: u64,
    bytes: usize,
) -> Result<Vec<u8>, SendError> {
    let read = move || {
        let mut block = vec![0; bytes];
        file.read_exact_at(&mut block, at).map(|()| block)
    };
    match disk.run(read).await {
        Some(Ok(block)) => Ok(block),
        Some(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => Err(SendError::CutOff),
        Some(Err(error)) => Err(SendError::Read(error)),
        None => Err(SendError::Read(std::io::Error::other("the read ended early"))),
    }
}
