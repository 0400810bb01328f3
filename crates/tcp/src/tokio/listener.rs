//! Listeners.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use ::tokio::sync::Notify;

use super::{Share, Stack, TcpStream};
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
    /// [`crate::Endpoint::listen`].
    ///
    /// # Errors
    /// There is a listener with this address ([`io::ErrorKind::AddrInUse`]), or the stack has
    /// ended.
    pub fn bind(
        stack: &Stack,
        address: SocketAddr,
        backlog: usize,
        config: &Config,
    ) -> io::Result<Self> {
        let mut state = stack.shared.lock();
        state.check()?;
        let handle = state.endpoint.listen(address, backlog, config)?;
        let queued = Arc::new(Notify::new());
        state.listeners.insert(handle, Arc::clone(&queued));
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

    fn take(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        let mut state = self.shared.lock();
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
        state.listeners.remove(&self.handle);
        state.endpoint.close_listener(self.handle);
        drop(state);
        self.shared.work.notify_one();
    }
}
