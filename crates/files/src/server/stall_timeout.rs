//! A byte stream whose peer has to take or to send something now and then.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Ends with [`io::ErrorKind::TimedOut`] when the peer has taken nothing of what is written to it,
/// or has sent nothing while nothing was to be written, for too long.
pub(super) struct StallTimeout<S> {
    stream: S,
    /// The longest time in which nothing is taken, and in which nothing is sent.
    stall: Duration,
    idle: Duration,
    timer: Pin<Box<Sleep>>,
    /// The last write has to wait.
    stalled: bool,
}

impl<S> StallTimeout<S> {
    pub(super) fn new(stream: S, stall: Duration, idle: Duration) -> Self {
        Self { stream, stall, idle, timer: Box::pin(tokio::time::sleep(idle)), stalled: false }
    }

    fn wait_for(&mut self, time: Duration) {
        self.timer.as_mut().reset(Instant::now() + time);
    }

    /// An error when the time is over.
    fn poll_timer<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn after_write<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = false;
            self.wait_for(self.idle);
            return written;
        }
        if !self.stalled {
            self.stalled = true;
            self.wait_for(self.stall);
        }
        self.poll_timer(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Pending if this.stalled => Poll::Pending,
            Poll::Pending => this.poll_timer(cx),
            read => {
                if !this.stalled {
                    this.wait_for(this.idle);
                }
                read
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, data);
        this.after_write(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, data);
        this.after_write(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const STALL: Duration = Duration::from_millis(400);
    const IDLE: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_has_longer_than_one_that_sends_nothing() {
        let (near, _far) = duplex(10);
        let mut near = StallTimeout::new(near, STALL, IDLE);
        let begun = Instant::now();
        let silent = near.read(&mut [0; 1]).await.expect_err("nothing comes").kind();
        assert_eq!(silent, io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= IDLE);
        let begun = Instant::now();
        let stalled = near.write_all(&[0; 20]).await.expect_err("nothing is taken").kind();
        assert_eq!(stalled, io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= STALL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_a_little_at_a_time_stays() {
        let (near, mut far) = duplex(10);
        let mut near = StallTimeout::new(near, STALL, IDLE);
        let slow = tokio::spawn(async move {
            for _ in 0..10 {
                // Sleeps: in virtual time.
                tokio::time::sleep(STALL / 4).await;
                far.read_exact(&mut [0; 10]).await.expect("data");
            }
            far
        });
        near.write_all(&[0; 100]).await.expect("all is taken");
        slow.await.expect("no panic");
    }
}
