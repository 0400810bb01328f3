//! The streams that live as long as their connection (RFC 9114 section 6.2.1, RFC 9204 section
//! 4.2): h3 reads the peer's control stream, and neither its QPACK streams nor what becomes of the
//! own ones.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use noq::{ReadError, SendStream, StoppedError, VarInt};

use super::NO_ERROR;
use super::qpack::Instructions;
use super::rules::{Code, Violation};

/// The control stream and those of QPACK: h3 opens them first.
const OWN_STREAMS: usize = 3;

const CLOSED: Violation =
    Violation::new(Code::ClosedCriticalStream, "a stream ended that the connection needs");

type Stop = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync>>;

/// Those streams of a connection.
#[derive(Clone, Default)]
pub(super) struct Critical(Arc<Mutex<Streams>>);

#[derive(Default)]
struct Streams {
    of_peer: Vec<Qpack>,
    own: Vec<Stop>,
    opened: usize,
}

impl Critical {
    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream that this end opened.
    pub(super) fn opened(&self, stream: &SendStream) {
        let mut streams = self.lock();
        streams.opened += 1;
        // One behind them is there to be ignored.
        if streams.opened <= OWN_STREAMS {
            streams.own.push(Box::pin(stream.stopped()));
        }
    }

    pub(super) fn add(&self, stream: Qpack) {
        self.lock().of_peer.push(stream);
    }

    /// Reads what has come, and wakes the task when there is more.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Result<(), Violation> {
        let mut streams = self.lock();
        streams.of_peer.iter_mut().try_for_each(|stream| stream.poll(cx))?;
        let mut is_stopped = false;
        streams.own.retain_mut(|stop| match stop.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(stopped) => {
                // Without a code it has ended with its connection, or with early data.
                is_stopped |= matches!(stopped, Ok(Some(_)));
                false
            }
        });
        if is_stopped { Err(CLOSED) } else { Ok(()) }
    }
}

/// A QPACK stream of the peer's.
pub(super) struct Qpack {
    stream: noq::RecvStream,
    instructions: Instructions,
    /// Bytes that were read before its type was known.
    begun: VecDeque<Bytes>,
    /// Bytes that may still be read.
    left: Option<u64>,
    ended: bool,
}

impl Qpack {
    pub(super) fn new(
        stream: noq::RecvStream,
        instructions: Instructions,
        begun: VecDeque<Bytes>,
        left: Option<u64>,
    ) -> Self {
        Self { stream, instructions, begun, left, ended: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        for bytes in std::mem::take(&mut self.begun) {
            self.instructions.take(&bytes)?;
        }
        while !self.ended {
            match pin!(self.stream.read_chunk(usize::MAX)).poll(cx) {
                Poll::Ready(Ok(Some(bytes))) => {
                    if let Some(left) = &mut self.left {
                        let rest = left.checked_sub(bytes.len() as u64);
                        *left = rest.ok_or(Violation::too_much("too much on one stream"))?;
                    }
                    self.instructions.take(&bytes)?;
                }
                Poll::Ready(Ok(None) | Err(ReadError::Reset(_))) => {
                    self.ended = true;
                    return Err(CLOSED);
                }
                // The connection is lost, or the stream with early data.
                Poll::Ready(Err(_)) => self.ended = true,
                Poll::Pending => break,
            }
        }
        Ok(())
    }
}

impl Drop for Qpack {
    /// noq itself would say code 0, which is none of HTTP/3's.
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.stream.stop(NO_ERROR);
        }
    }
}
