//! Writes a body to its stream. A stream that takes nothing holds one small piece of the body,
//! however large the file and the peer's windows are: a block is read only for a stream that took
//! the piece before it.
//!
//! The first block is copied into noq's buffer, so that a stream that takes little holds little. A
//! stream that took that much gets pieces without a copy.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fullpipe_noq::Writer;
use noq::{SendStream, WriteError};
use tokio::time::{Instant, Sleep};

use super::read::{PIECE_BYTES, read, read_pieces};
use super::{Body, OpenFile};
use crate::bulk::bulk_block;
use crate::server::Window;

/// The first read from a file, and each for a connection over TCP.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;
/// The largest read from a file, for a stream that takes as much at once.
const MOST_AT_ONCE: usize = 256 * 1024;
/// Bytes that are kept for a stream that takes nothing: about a packet.
const KEPT_BYTES: usize = 1200;

/// The reason why a body was not sent to its end.
pub(crate) enum SendError {
    /// The file could not be read.
    Read(std::io::Error),
    /// The file has fewer bytes than when it was opened.
    CutOff,
    /// The peer took nothing of it for as long as it may.
    Stalled,
    /// The peer stopped it, or is gone.
    Write(WriteError),
}

/// A body on its way: the stream, and what the connection allows.
pub(crate) struct Sending<'a> {
    stream: &'a mut SendStream,
    window: &'a Window,
    writer: Writer,
    stall: Stall,
    /// Bytes that noq took.
    sent: &'a mut u64,
}

/// Ends a wait when nothing of a stream was taken for a time. A stream without credit of its own is
/// not woken. One that waits for room on its connection is, together with all others there, which
/// may take the room before it; so it goes on as long as the peer takes a packet for each of them.
struct Stall {
    timer: Pin<Box<Sleep>>,
    timeout: Duration,
    since: Taken,
    /// It was woken since then, and found no room.
    in_vain: bool,
}

/// Bytes that noq had taken at one moment.
#[derive(Clone, Copy)]
struct Taken {
    of_stream: u64,
    of_all: u64,
}

impl Stall {
    fn new(timeout: Duration, since: Taken) -> Self {
        let timer = Box::pin(tokio::time::sleep(timeout));
        Self { timer, timeout, since, in_vain: false }
    }

    fn begin(&mut self, now: Taken) {
        (self.since, self.in_vain) = (now, false);
        self.timer.as_mut().reset(Instant::now() + self.timeout);
    }

    /// True if the stream may wait for another timeout.
    fn goes_on(&self, now: Taken, streams: u64) -> bool {
        let of_all = now.of_all - self.since.of_all;
        now.of_stream > self.since.of_stream
            || self.in_vain && of_all >= streams * KEPT_BYTES as u64
    }

    /// The result of `action`, or `None` if nothing was taken for a time of one to two timeouts.
    /// `of_stream` is what was taken of the stream, which only the action changes.
    async fn unless<T>(
        &mut self,
        of_stream: u64,
        window: &Window,
        action: impl Future<Output = T>,
    ) -> Option<T> {
        let taken = || Taken { of_stream, of_all: window.taken() };
        let mut action = pin!(action);
        let mut waits = false;
        poll_fn(|cx| {
            if let Poll::Ready(output) = action.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if !waits && self.timer.deadline() <= Instant::now() {
                // The time before the wait was not the peer's.
                self.begin(taken());
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                if !self.goes_on(taken(), window.bodies()) {
                    return Poll::Ready(None);
                }
                self.begin(taken());
                waits = false;
            }
            self.in_vain |= waits;
            waits = true;
            Poll::Pending
        })
        .await
    }
}

impl<'a> Sending<'a> {
    /// `stall_timeout` bounds the time in which the peer takes nothing of it.
    pub(crate) fn new(
        stream: &'a mut SendStream,
        window: &'a Window,
        stall_timeout: Duration,
        sent: &'a mut u64,
    ) -> Self {
        let since = Taken { of_stream: *sent, of_all: window.taken() };
        let stall = Stall::new(stall_timeout, since);
        Self { stream, window, writer: window.writer(), stall, sent }
    }

    /// Writes the whole body. The stream is left open.
    pub(crate) async fn send(mut self, body: Body) -> Result<(), SendError> {
        match body {
            Body::File(file) => self.file(file).await,
            Body::Bulk { bytes } => self.bulk(bytes).await,
        }
    }

    async fn file(&mut self, file: OpenFile) -> Result<(), SendError> {
        let (mut at, mut wanted) = (0, BLOCK_BYTES);
        while at < file.bytes {
            let most = (file.bytes - at).min(wanted as u64) as usize;
            let from = file.from + at;
            let taken = if at < BLOCK_BYTES as u64 {
                let block = read(&file.disk, &file.file, from, most);
                let block = self.writer.source(block).await?;
                self.copy(block).await?
            } else {
                let pieces = read_pieces(&file.disk, &file.file, from, most, PIECE_BYTES);
                let pieces = self.writer.source(pieces).await?;
                let taken = self.pieces(pieces).await?;
                // As much as it takes at a time, or what is left is read again.
                let more = if taken < most { taken } else { 2 * most };
                wanted = more.next_multiple_of(PIECE_BYTES).min(MOST_AT_ONCE);
                taken
            };
            at += taken as u64;
        }
        Ok(())
    }

    /// Writes a part of a block, which noq copies.
    async fn copy(&mut self, block: Bytes) -> Result<usize, SendError> {
        let taken = self.take_now(&block).await.map_err(SendError::Write)?;
        if taken == block.len() {
            return Ok(taken);
        }
        let kept = Bytes::copy_from_slice(&block[taken..block.len().min(taken + KEPT_BYTES)]);
        // The block goes before the wait, and what is left of it is read again after.
        drop(block);
        self.write(&kept).await?;
        Ok(taken + kept.len())
    }

    /// Writes a part of these pieces without a copy.
    async fn pieces(&mut self, mut pieces: Vec<Bytes>) -> Result<usize, SendError> {
        let lengths = |pieces: &[Bytes]| pieces.iter().map(Bytes::len).sum::<usize>();
        let whole = lengths(&pieces);
        let mut rest = &mut pieces[..];
        let attempt = poll_fn(|cx| match pin!(self.stream.write_many_chunks(&mut rest)).poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => Poll::Ready(None),
        });
        let taken = attempt.await.unwrap_or(Ok(0)).map_err(SendError::Write)?;
        self.count(taken);
        let Some(next) = rest.first() else { return Ok(taken) };
        let is_begun = !(whole - lengths(rest)).is_multiple_of(PIECE_BYTES);
        let kept = match is_begun {
            // noq has a part of it, and so all of it is in memory in any case.
            true => next.clone(),
            false => Bytes::copy_from_slice(&next[..next.len().min(KEPT_BYTES)]),
        };
        // They go before the wait, and what is left of them is read again after.
        drop(pieces);
        let waits = kept.len();
        self.write_chunk(kept).await?;
        Ok(taken + waits)
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

    /// Writes all of it, and waits for that as long as the peer may let it wait.
    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), SendError> {
        while !bytes.is_empty() {
            let (stall, window, sent) = (&mut self.stall, self.window, *self.sent);
            let written = stall.unless(sent, window, self.stream.write(bytes)).await;
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
            let (stall, window, sent) = (&mut self.stall, self.window, *self.sent);
            let written =
                stall.unless(sent, window, self.stream.write_many_chunks(&mut rest)).await;
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
