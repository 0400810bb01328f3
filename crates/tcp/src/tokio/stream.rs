//! Streams.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use fullpipe_cc::{Algorithm, Snapshot};

use super::{Shared, Stack, State, Wakers};
use crate::{Config, Connection, Error, Handle, Info};

/// A connection. Dropping it closes it: what was written still arrives; what the peer sends from
/// then on resets it.
#[derive(Debug)]
pub struct TcpStream {
    shared: Arc<Shared>,
    handle: Handle,
}

impl TcpStream {
    pub(super) fn new(shared: Arc<Shared>, handle: Handle) -> Self {
        shared.lock().wakers.insert(handle, Wakers::default());
        Self { shared, handle }
    }

    /// Connects `local`, an address of the stack whose port may be 0 for any, to `remote`.
    ///
    /// # Errors
    /// The addresses are impossible or in use, the peer refuses or does not answer, or the stack
    /// has ended.
    pub async fn connect(
        stack: &Stack,
        local: SocketAddr,
        remote: SocketAddr,
        config: &Config,
    ) -> io::Result<Self> {
        let shared = Arc::clone(&stack.shared);
        let handle = {
            let mut state = shared.lock();
            state.check()?;
            state.endpoint.connect(shared.now(), local, remote, config)?
        };
        shared.work.notify_one();
        let stream = Self::new(shared, handle);
        poll_fn(|context| {
            let mut state = stream.shared.lock();
            if let Err(ended) = state.check() {
                return Poll::Ready(Err(ended));
            }
            let connection = state.endpoint.connection(handle);
            match connection.map(Connection::state) {
                Some(crate::State::SynSent | crate::State::SynReceived) => {
                    let waker = context.waker().clone();
                    state.wakers.entry(handle).or_default().write = Some(waker);
                    Poll::Pending
                }
                Some(crate::State::Closed) | None => {
                    let error = connection.and_then(Connection::error).unwrap_or(Error::Closed);
                    Poll::Ready(Err(io::Error::from(error)))
                }
                Some(_) => Poll::Ready(Ok(())),
            }
        })
        .await?;
        Ok(stream)
    }

    fn with<T>(&self, look: impl FnOnce(&Connection) -> T) -> io::Result<T> {
        let state = self.shared.lock();
        state.endpoint.connection(self.handle).map(look).ok_or(io::ErrorKind::NotConnected.into())
    }

    /// The state and the counters, by the names of Linux's TCP_INFO.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn info(&self) -> io::Result<Info> {
        self.with(Connection::info)
    }

    /// The model of the congestion control.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn congestion(&self) -> io::Result<Snapshot> {
        self.with(Connection::congestion)
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.with(Connection::remote)
    }

    /// This end's address.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.with(Connection::local)
    }

    /// Lets small segments leave at once, or not: TCP_NODELAY.
    pub fn set_nodelay(&self, nodelay: bool) {
        self.shared.lock().endpoint.set_nagle(self.handle, !nodelay);
        self.shared.work.notify_one();
    }

    /// Another congestion control from now on: TCP_CONGESTION.
    pub fn set_congestion(&self, algorithm: Algorithm) {
        self.shared.lock().endpoint.set_congestion(self.shared.now(), self.handle, algorithm);
        self.shared.work.notify_one();
    }

    /// Waits until there is something to read: data, the end, or an error.
    ///
    /// # Errors
    /// The stack has ended.
    pub async fn readable(&self) -> io::Result<()> {
        self.until(Connection::is_readable, |wakers| &mut wakers.read).await
    }

    /// Waits until there is room to write, as [`Connection::is_writable`] says, or an error.
    ///
    /// # Errors
    /// The stack has ended.
    pub async fn writable(&self) -> io::Result<()> {
        self.until(Connection::is_writable, |wakers| &mut wakers.write).await
    }

    async fn until(
        &self,
        is_so: fn(&Connection) -> bool,
        waker: fn(&mut Wakers) -> &mut Option<Waker>,
    ) -> io::Result<()> {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            state.check()?;
            if state.endpoint.connection(self.handle).is_none_or(is_so) {
                return Poll::Ready(Ok(()));
            }
            let wakers = state.wakers.entry(self.handle).or_default();
            *waker(wakers) = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Reads what there is, as [`Connection::read`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is nothing yet; the reason of the connection's end;
    /// the stack has ended.
    pub fn try_read(&self, to: &mut [u8]) -> io::Result<usize> {
        self.act(|state| state.endpoint.read(self.handle, to))
    }

    /// Writes what there is room for, as [`Connection::write`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no room; the reason of the connection's end; the
    /// stack has ended.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        let now = self.shared.now();
        self.act(|state| state.endpoint.write(now, self.handle, data))
    }

    fn act<T>(&self, act: impl FnOnce(&mut State) -> Result<T, Error>) -> io::Result<T> {
        let mut state = self.shared.lock();
        state.check()?;
        let done = act(&mut state)?;
        drop(state);
        self.shared.work.notify_one();
        Ok(done)
    }

    /// Does something with the endpoint that may have to wait.
    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        act: impl FnOnce(&mut State) -> Result<T, Error>,
        waker: impl FnOnce(&mut Wakers) -> &mut Option<Waker>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.shared.lock();
        state.check()?;
        match act(&mut state) {
            Err(Error::WouldBlock) => {
                let wakers = state.wakers.entry(self.handle).or_default();
                *waker(wakers) = Some(context.waker().clone());
                Poll::Pending
            }
            result => {
                drop(state);
                self.shared.work.notify_one();
                Poll::Ready(result.map_err(io::Error::from))
            }
        }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let handle = self.handle;
        let to = buffer.initialize_unfilled();
        let read = self.poll(context, |s| s.endpoint.read(handle, to), |wakers| &mut wakers.read);
        read.map_ok(|count| buffer.advance(count))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (handle, now) = (self.handle, self.shared.now());
        let write = |state: &mut State| state.endpoint.write(now, handle, data);
        self.poll(context, write, |wakers| &mut wakers.write)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What is written leaves by itself.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.lock().endpoint.close(self.shared.now(), self.handle);
        self.shared.work.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.wakers.remove(&self.handle);
        state.endpoint.release(self.shared.now(), self.handle);
        drop(state);
        self.shared.work.notify_one();
    }
}
