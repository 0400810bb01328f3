//! The open connections of a server, and how each is told that the server stops.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noq::{Connection, VarInt, WeakConnectionHandle};
use tokio::sync::watch;

use crate::http3;

/// Connections whose protocol is known.
#[derive(Clone, Default)]
pub(super) struct ConnectionSet(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// By noq's number of the connection: itself, and the code that says that nothing is wrong.
    connections: Mutex<HashMap<usize, (WeakConnectionHandle, VarInt)>>,
    /// Connections that a GOAWAY was not sent on yet: all of HTTP/3 and no other.
    without_goaway: watch::Sender<usize>,
}

/// A connection's entry, until it is dropped.
pub(crate) struct ConnectionGuard {
    open: ConnectionSet,
    id: usize,
    without_goaway: bool,
}

impl ConnectionSet {
    fn connections(&self) -> MutexGuard<'_, HashMap<usize, (WeakConnectionHandle, VarInt)>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, connection: &Connection, http3: bool) -> ConnectionGuard {
        let code = if http3 { http3::NO_ERROR } else { VarInt::from_u32(0) };
        let id = connection.stable_id();
        self.connections().insert(id, (connection.weak_handle(), code));
        if http3 {
            self.0.without_goaway.send_modify(|count| *count += 1);
        }
        ConnectionGuard { open: self.clone(), id, without_goaway: http3 }
    }

    /// Ends when a GOAWAY was sent on every connection of HTTP/3.
    pub(super) async fn all_told(&self) {
        // The sender is in `self`.
        let _ = self.0.without_goaway.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Closes all of them.
    pub(super) fn close(&self, reason: &[u8]) {
        for (connection, code) in self.connections().values() {
            if let Some(connection) = connection.upgrade() {
                connection.close(*code, reason);
            }
        }
    }
}

impl ConnectionGuard {
    /// A GOAWAY was sent.
    pub(crate) fn told(&mut self) {
        if std::mem::take(&mut self.without_goaway) {
            self.open.0.without_goaway.send_modify(|count| *count -= 1);
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.told();
        self.open.connections().remove(&self.id);
    }
}
