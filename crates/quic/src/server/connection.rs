//! From a client's first packet to the end of its connection.

use std::net::SocketAddr;
use std::sync::Arc;

use noq::{Connection, Endpoint, Incoming};

use super::admission::{Admission, HandshakeSlot, Slot, Verdict};
use super::answer::answer;
use super::log::Log;
use super::window::{Budget, Window};
use super::{Limits, OnAccept};
use crate::content::Source;
use crate::socket::Guard;

/// What all connections of a server share.
pub(super) struct Shared {
    pub(super) source: Source,
    pub(super) limits: Limits,
    pub(super) log: Log,
    on_accept: Option<OnAccept>,
    budget: Arc<Budget>,
    /// The most that one connection may have written and not acknowledged.
    send_window: u64,
    guard: Guard,
}

impl Shared {
    pub(super) fn new(
        source: Source,
        on_accept: Option<OnAccept>,
        limits: Limits,
        send_window: u64,
        guard: Guard,
    ) -> Self {
        let (log, budget) = (Log::new(limits.log_lines), Budget::new(limits.send_memory));
        Self { source, limits, log, on_accept, budget, send_window, guard }
    }
}

/// Takes clients until the endpoint is closed.
pub(super) async fn accept(endpoint: Endpoint, admission: Arc<Admission>, shared: Arc<Shared>) {
    while let Some(incoming) = endpoint.accept().await {
        let validated = incoming.remote_address_validated();
        match admission.decide(validated) {
            Verdict::Accept(slot, handshake) => {
                if validated {
                    shared.guard.validated(incoming.remote_address());
                }
                tokio::spawn(serve(incoming, slot, handshake, shared.clone()));
            }
            Verdict::Retry => {
                if let Err(error) = incoming.retry() {
                    error.into_incoming().refuse();
                }
            }
            Verdict::Refuse => incoming.refuse(),
        }
    }
}

async fn serve(
    incoming: Incoming,
    _slot: Slot,
    handshake: Option<HandshakeSlot>,
    shared: Arc<Shared>,
) {
    let peer = incoming.remote_address();
    let connecting = async { incoming.await };
    let connection = match tokio::time::timeout(shared.limits.handshake_timeout, connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return shared.log.connection(peer, "handshake failed", &error),
        Err(_) => return shared.log.connection(peer, "handshake failed", &"it took too long"),
    };
    drop(handshake);
    shared.guard.validated(peer);
    tracing::debug!(%peer, "connected");
    if let Some(on_accept) = &shared.on_accept {
        on_accept(connection.clone());
    }
    serve_requests(peer, &connection, &shared).await;
}

async fn serve_requests(peer: SocketAddr, connection: &Connection, shared: &Arc<Shared>) {
    let window = Window::new(connection.clone(), shared.budget.clone(), shared.send_window);
    let window = Arc::new(window);
    loop {
        match connection.accept_bi().await {
            Ok((send, recv)) => {
                tokio::spawn(answer(peer, send, recv, window.clone(), shared.clone()));
            }
            Err(error) => {
                let error = crate::log::Escaped(error);
                return tracing::debug!(%peer, %error, "disconnected");
            }
        }
    }
}
