//! The sessions of a client, which come from the server in tickets some time after the handshake.

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls_pki_types::ServerName;
use tokio::sync::watch;

/// Sessions that are kept; of more than these the oldest are forgotten.
const MOST: usize = 256;

/// rustls's store in memory, and the number of tickets that came.
#[derive(Debug)]
pub(crate) struct Sessions {
    memory: ClientSessionMemoryCache,
    came: watch::Sender<u64>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Self { memory: ClientSessionMemoryCache::new(MOST), came: watch::Sender::new(0) }
    }

    /// Waits for the first ticket.
    pub(crate) async fn first(&self) {
        // The sender lives as long as this does.
        let _ = self.came.subscribe().wait_for(|count| *count > 0).await;
    }
}

impl ClientSessionStore for Sessions {
    fn insert_tls13_ticket(&self, server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.memory.insert_tls13_ticket(server, ticket);
        self.came.send_modify(|count| *count += 1);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.memory.take_tls13_ticket(server)
    }

    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.memory.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.memory.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.memory.set_tls12_session(server, session);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.memory.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.memory.remove_tls12_session(server);
    }
}
