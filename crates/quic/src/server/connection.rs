//! From a client's first packet to the end of its connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use noq::{Connection, ConnectionError, Endpoint, Incoming, VarInt, ZeroRttAccepted};
use tokio::sync::watch;

use super::admission::{Admission, HandshakeSlot, Slot, Verdict};
use super::answer::{answer, refuse};
use super::log::Log;
use super::window::{Budget, Window};
use super::{Choose, Limits, OnAccept};
use crate::TransportSettings;
use crate::content::Source;
use crate::hq::Refusal;
use crate::socket::Guard;

const FAILED: &str = "handshake failed";

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
    controllers: Option<Controllers>,
    /// Requests that are being answered.
    answers: watch::Sender<usize>,
    ending: AtomicBool,
}

/// Chooses a controller for some connections.
pub(super) struct Controllers {
    pub(super) choose: Choose,
    /// What all connections are accepted with.
    pub(super) server: noq::ServerConfig,
    pub(super) transport: TransportSettings,
    pub(super) limits: Limits,
}

impl Controllers {
    /// What this connection is accepted with, if not with what the others are.
    fn config_for(&self, incoming: &Incoming) -> Option<Arc<noq::ServerConfig>> {
        let (congestion, seed) = (self.choose)(&incoming.orig_dst_cid())?;
        let mut transport = self.transport.transport(congestion, seed);
        self.limits.apply_to(&mut transport);
        let mut config = self.server.clone();
        config.transport_config(Arc::new(transport));
        Some(Arc::new(config))
    }
}

/// A request that is being answered.
pub(super) struct Answering(Arc<Shared>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answers.send_modify(|answers| *answers -= 1);
    }
}

impl Shared {
    pub(super) fn new(
        source: Source,
        on_accept: Option<OnAccept>,
        limits: Limits,
        send_window: u64,
        guard: Guard,
        controllers: Option<Controllers>,
    ) -> Self {
        let (log, budget) = (Log::new(limits.log_lines), Budget::new(limits.send_memory));
        let (answers, ending) = (watch::Sender::new(0), AtomicBool::new(false));
        Self {
            source,
            limits,
            log,
            on_accept,
            budget,
            send_window,
            guard,
            controllers,
            answers,
            ending,
        }
    }

    /// No new connection, no new request from now on.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Ends when no request is being answered.
    pub(super) async fn idle(&self) {
        // The sender is in `self`, so there is always somebody to wait for.
        let _ = self.answers.subscribe().wait_for(|answers| *answers == 0).await;
    }

    fn answering(self: &Arc<Self>) -> Answering {
        self.answers.send_modify(|answers| *answers += 1);
        Answering(self.clone())
    }
}

/// Takes clients until the endpoint is closed.
pub(super) async fn accept(endpoint: Endpoint, admission: Arc<Admission>, shared: Arc<Shared>) {
    while let Some(incoming) = endpoint.accept().await {
        if shared.is_ending() {
            incoming.refuse();
            continue;
        }
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

/// Requests are taken at once, since a client that resumes a session sends them in its first packets.
async fn serve(
    incoming: Incoming,
    _slot: Slot,
    handshake: Option<HandshakeSlot>,
    shared: Arc<Shared>,
) {
    let peer = incoming.remote_address();
    let own = shared.controllers.as_ref().and_then(|c| c.config_for(&incoming));
    let accepted = match own {
        Some(config) => incoming.accept_with(config),
        None => incoming.accept(),
    };
    let connecting = match accepted {
        Ok(connecting) => connecting,
        Err(error) => return shared.log.connection(peer, FAILED, &error),
    };
    let Ok((connection, complete)) = connecting.into_0rtt() else {
        return tracing::error!("noq gives no server connection before its handshake is done");
    };
    let handshake = finish_handshake(peer, &connection, complete, handshake, &shared);
    tokio::join!(handshake, serve_requests(peer, &connection, &shared));
}

async fn finish_handshake(
    peer: SocketAddr,
    connection: &Connection,
    complete: ZeroRttAccepted,
    slot: Option<HandshakeSlot>,
    shared: &Shared,
) {
    let complete = tokio::time::timeout(shared.limits.handshake_timeout, complete).await;
    drop(slot);
    // What it gives is whether there was early data. That it failed stands in the connection; a close by the client's
    // application comes after the handshake.
    match (complete, connection.close_reason()) {
        (Ok(_), None | Some(ConnectionError::ApplicationClosed(_))) => {}
        (Ok(_), Some(error)) => return shared.log.connection(peer, FAILED, &error),
        (Err(_), _) => {
            connection.close(VarInt::from_u32(0), b"the handshake took too long");
            return shared.log.connection(peer, FAILED, &"it took too long");
        }
    }
    shared.guard.validated(peer);
    tracing::debug!(%peer, "connected");
    if let Some(on_accept) = &shared.on_accept {
        on_accept(connection.clone());
    }
}

async fn serve_requests(peer: SocketAddr, connection: &Connection, shared: &Arc<Shared>) {
    let window = Window::new(connection.clone(), shared.budget.clone(), shared.send_window);
    let window = Arc::new(window);
    loop {
        match connection.accept_bi().await {
            Ok((mut send, _)) if shared.is_ending() => refuse(&mut send, Refusal::Unavailable),
            Ok((send, recv)) => {
                let answering = shared.answering();
                let answer = answer(peer, send, recv, window.clone(), shared.clone());
                tokio::spawn(async move {
                    answer.await;
                    drop(answering);
                });
            }
            Err(error) => {
                let error = crate::log::Escaped(error);
                return tracing::debug!(%peer, %error, "disconnected");
            }
        }
    }
}
