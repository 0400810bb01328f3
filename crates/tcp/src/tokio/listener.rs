//! Listeners.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::sync::Notify;

use super::wakers::Accepting;
use super::{Share, Stack, State, TcpStream};
use crate::{Config, ListenerHandle};

/// Waits for connections. Dropping it resets those that nobody has accepted.
pub struct TcpListener {
    shared: Share,
    handle: ListenerHandle,
    address: SocketAddr,
    /// Tells one task for each connection.
    queued: Arc<Notify>,
}

impl TcpListener {
    /// Listens at `address` for connections with this configuration; see
    /// [`crate::Endpoint::listen`]. With port 0 a free one is chosen.
    ///
    /// # Errors
    /// There is a listener with this address, or no port is left ([`io::ErrorKind::AddrInUse`]); or
    /// the stack has ended.
    pub fn bind(
        stack: &Stack,
        address: SocketAddr,
        backlog: usize,
        config: &Config,
    ) -> io::Result<Self> {
        let mut state = stack.shared.lock();
        state.check()?;
        let handle = state.endpoint.listen(address, backlog, config)?;
        let address = state.endpoint.listener_address(handle).unwrap_or(address);
        let accepting = Accepting::default();
        let queued = accepting.waiting();
        state.listeners.insert(handle, accepting);
        drop(state);
        Ok(Self { shared: stack.shared.clone(), handle, address, queued })
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The next connection, and the peer's address. Any number of tasks may wait: each connection
    /// wakes one of them. Dropping the future loses no connection.
    ///
    /// # Errors
    /// The stack has ended.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            // It is registered before it looks, so that it misses no connection.
            let mut queued = pin!(self.queued.notified());
            queued.as_mut().enable();
            if let Some(accepted) = self.take()? {
                return Ok(accepted);
            }
            queued.await;
        }
    }

    /// As [`Self::accept`]. Of the tasks that poll the last one is woken, beside one of those that
    /// wait in a future.
    ///
    /// # Errors
    /// The stack has ended.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let mut state = self.shared.lock();
        let old = match self.take_from(&mut state) {
            Err(error) => return Poll::Ready(Err(error)),
            Ok(Some(accepted)) => return Poll::Ready(Ok(accepted)),
            Ok(None) => {
                let accepting = state.listeners.get_mut(&self.handle);
                accepting.and_then(|accepting| accepting.on_poll(context.waker()))
            }
        };
        drop(state);
        // Without the lock: a waker's end may run code of an application's.
        drop(old);
        Poll::Pending
    }

    fn take(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        self.take_from(&mut self.shared.lock())
    }

    fn take_from(&self, state: &mut State) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        state.check()?;
        while let Some(handle) = state.endpoint.accept(self.handle) {
            if let Some(remote) = state.endpoint.connection(handle).map(|c| c.remote()) {
                return Ok(Some((TcpStream::new(self.shared.clone(), handle), remote)));
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("local", &self.address).finish_non_exhaustive()
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let accepting = state.listeners.remove(&self.handle);
        state.endpoint.close_listener(self.handle);
        drop(state);
        drop(accepting);
        self.shared.work.notify_one();
    }
}
