//! Listeners.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use super::{Shared, Stack, TcpStream};
use crate::{Config, ListenerHandle};

/// Waits for connections.
#[derive(Debug)]
pub struct TcpListener {
    shared: Arc<Shared>,
    handle: ListenerHandle,
}

impl TcpListener {
    /// Listens at `address` for connections with this configuration; see
    /// [`crate::Endpoint::listen`].
    ///
    /// # Errors
    /// There is a listener with this address, or the stack has ended.
    pub fn bind(
        stack: &Stack,
        address: SocketAddr,
        backlog: usize,
        config: &Config,
    ) -> io::Result<Self> {
        let mut state = stack.shared.lock();
        state.check()?;
        let handle = state.endpoint.listen(address, backlog, config)?;
        drop(state);
        Ok(Self { shared: Arc::clone(&stack.shared), handle })
    }

    /// The next connection, and the peer's address.
    ///
    /// # Errors
    /// The stack has ended.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            state.check()?;
            let Some(handle) = state.endpoint.accept(self.handle) else {
                if !state.accepting.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.accepting.push(context.waker().clone());
                }
                return Poll::Pending;
            };
            let remote = state.endpoint.connection(handle).map(|c| c.remote());
            drop(state);
            let stream = TcpStream::new(Arc::clone(&self.shared), handle);
            let remote = remote.ok_or(io::ErrorKind::NotConnected)?;
            Poll::Ready(Ok((stream, remote)))
        })
        .await
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.shared.lock().endpoint.close_listener(self.handle);
        self.shared.work.notify_one();
    }
}
