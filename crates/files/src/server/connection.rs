//! From a client's first packet to the end of its connection.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullpipe_noq_repairs::AmplificationLimit;
use noq::{Connecting, Connection, ConnectionError, Endpoint, Incoming, VarInt, ZeroRttAccepted};
use tokio::sync::watch;

use super::admission::{Admission, AdmissionDecision, Kept, Slot};
use super::answer::{answer, refuse};
use super::configs::Configs;
use super::connection_set::ConnectionSet;
use super::lanes::Lanes;
use super::log::Log;
use super::stats::{Counters, ServerStats};
use super::window::{Budget, Window};
use super::{Limits, OnAccept, OnRequest};
use crate::content::Source;
use crate::hq::Refusal;
use crate::http3;
use crate::{Handshake, TransportSettings};

/// State shared by all connections of a server.
pub(crate) struct Shared {
    pub(crate) source: Source,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    pub(super) counters: Counters,
    on_accept: Option<OnAccept>,
    pub(super) on_request: Option<OnRequest>,
    budget: Arc<Budget>,
    /// The most that one connection may have written and not acknowledged.
    send_window: u64,
    guard: AmplificationLimit,
    configs: Configs,
    /// The time after which a silent connection over TCP is closed.
    pub(super) idle_timeout: Duration,
    /// Requests that are being answered.
    answers: watch::Sender<usize>,
    /// Connections of HTTP/1.1.
    conversations: watch::Sender<usize>,
    ending: watch::Sender<bool>,
    open: ConnectionSet,
}

/// Something that is counted as long as it lasts.
pub(crate) struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Shared {
    pub(super) fn new(
        source: Source,
        on_accept: Option<OnAccept>,
        on_request: Option<OnRequest>,
        limits: Limits,
        transport: &TransportSettings,
        guard: AmplificationLimit,
        configs: Configs,
    ) -> Self {
        let (log, budget) = (Log::new(limits.log_lines), Budget::new(limits.send_memory));
        let (answers, conversations) = (watch::Sender::new(0), watch::Sender::new(0));
        Self {
            source,
            limits,
            log,
            counters: Counters::default(),
            on_accept,
            on_request,
            budget,
            send_window: transport.send_window,
            guard,
            configs,
            idle_timeout: transport.idle_timeout.into(),
            answers,
            conversations,
            ending: watch::Sender::new(false),
            open: ConnectionSet::default(),
        }
    }

    /// The counters, but for those that the admission has.
    pub(super) fn stats(&self) -> ServerStats {
        ServerStats {
            answers: *self.answers.borrow() as u64,
            open_files: self.source.open_files() as u64,
            ..self.counters.read()
        }
    }

    /// No new connection, no new request from now on.
    pub(super) fn end(&self) {
        self.ending.send_replace(true);
    }

    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Ends when there are no new requests any more.
    pub(crate) async fn ending(&self) {
        // The sender is in `self`.
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// The connections whose protocol is known.
    pub(super) fn open(&self) -> &ConnectionSet {
        &self.open
    }

    /// Ends when no request is being answered, and no connection of HTTP/1.1 is left.
    pub(super) async fn idle(&self) {
        for count in [&self.answers, &self.conversations] {
            // The sender is in `self`, so there is always somebody to wait for.
            let _ = count.subscribe().wait_for(|count| *count == 0).await;
        }
    }

    /// A new connection's send window.
    pub(crate) fn window(&self, connection: &Connection) -> Window {
        Window::new(connection.clone(), self.budget.clone(), self.send_window)
    }

    /// A handshake came to nothing.
    fn failed(&self, peer: SocketAddr, reason: &dyn fmt::Display) {
        self.counters.failed_handshakes.add(1);
        self.log.connection(peer, "handshake failed", reason);
    }

    /// The server has closed a connection behind its handshake, because the client broke a rule.
    fn violated(&self, peer: SocketAddr, reason: &dyn fmt::Display) {
        self.counters.violations.add(1);
        self.log.connection(peer, "connection closed", reason);
    }

    /// The server has closed a connection, because the client broke a rule of HTTP/3.
    pub(crate) fn broke_http3(&self, peer: SocketAddr, reason: &dyn fmt::Display) {
        self.counters.http3_violations.add(1);
        self.log.connection(peer, "connection closed", reason);
    }

    /// A request that is being answered.
    pub(crate) fn answering(&self) -> Counted {
        Counted::new(&self.answers)
    }

    /// A connection of HTTP/1.1.
    pub(super) fn conversing(&self) -> Counted {
        Counted::new(&self.conversations)
    }
}

/// Takes clients until the endpoint is closed.
pub(super) async fn accept(
    endpoint: Endpoint,
    admission: Arc<Admission>,
    lanes: Arc<Lanes>,
    shared: Arc<Shared>,
) {
    while let Some(incoming) = endpoint.accept().await {
        if shared.is_ending() {
            incoming.refuse();
            continue;
        }
        let validated = incoming.remote_address_validated();
        match admission.decide(incoming.remote_address().ip(), validated) {
            AdmissionDecision::Accept(slot, kept) => {
                shared.counters.admitted.add(1);
                lanes.enter().spawn(serve(incoming, slot, Arc::new(kept), shared.clone()));
            }
            AdmissionDecision::Retry => {
                shared.counters.retries.add(1);
                if let Err(error) = incoming.retry() {
                    error.into_incoming().refuse();
                }
            }
            AdmissionDecision::Refuse => {
                shared.counters.refused.add(1);
                incoming.refuse();
            }
        }
    }
}

/// Requests are taken at once, since a client that resumes a session sends them in its first
/// packets.
async fn serve(incoming: Incoming, _slot: Slot, kept: Arc<Kept>, shared: Arc<Shared>) {
    let peer = incoming.remote_address();
    let (config, path, acknowledged) = shared.configs.of(&incoming, &kept);
    let (config, guarded) = shared.guard.admit(&config, peer, incoming.remote_address_validated());
    let mut connecting = match incoming.accept_with(config) {
        Ok(connecting) => connecting,
        Err(error) => return shared.failed(peer, &error),
    };
    let protocol = is_http3(&mut connecting);
    let http3 = match tokio::time::timeout(shared.limits.handshake_timeout, protocol).await {
        Ok(Ok(http3)) => http3,
        Ok(Err(error)) => return shared.failed(peer, &error),
        Err(_) => return shared.failed(peer, &"it took too long"),
    };
    let Ok((connection, complete)) = connecting.into_0rtt() else {
        return tracing::error!("noq gives no server connection before its handshake is done");
    };
    let entry = shared.open.enter(&connection, http3);
    let (done, is_done) = watch::channel(false);
    let is_over = is_done.clone();
    let handshake = async {
        if finish_handshake(peer, &connection, complete, &shared).await {
            kept.validated();
            guarded.handshake_done();
            done.send_replace(true);
        }
    };
    let requests = async {
        if http3 {
            http3::server::serve(peer, &connection, &shared, entry, is_done).await;
        } else {
            serve_requests(peer, &connection, &shared).await;
        }
    };
    let bounded = async {
        acknowledged.fails(&connection, shared.send_window).await;
        let code = if http3 { http3::EXCESSIVE_LOAD } else { VarInt::from_u32(0) };
        connection.close(code, b"too many packets without an ACK");
        shared.violated(peer, &"too many packets without an ACK");
        // The close ends the others.
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        _ = async { tokio::join!(handshake, requests) } => {}
        never = bounded => match never {},
    }
    if *is_over.borrow()
        && let Some(ConnectionError::TransportError(error)) = connection.close_reason()
    {
        shared.violated(peer, &error);
    }
    shared.counters.ended(&connection);
    if let Some(path) = path {
        path.end(&connection, Instant::now());
    }
}

/// Tells if client and server agree on HTTP/3, once the client's part of the handshake says so.
async fn is_http3(connecting: &mut Connecting) -> Result<bool, ConnectionError> {
    let data = connecting.handshake_data().await?.downcast::<Handshake>();
    Ok(data.is_ok_and(|data| data.protocol.as_deref() == Some(http3::ALPN)))
}

/// True if the handshake came to its end.
async fn finish_handshake(
    peer: SocketAddr,
    connection: &Connection,
    complete: ZeroRttAccepted,
    shared: &Shared,
) -> bool {
    let complete = tokio::time::timeout(shared.limits.handshake_timeout, complete).await;
    // The future's value says only whether there was early data. The connection says whether the
    // handshake failed; a close by the client's application comes after the handshake.
    match (complete, connection.close_reason()) {
        (Ok(_), None | Some(ConnectionError::ApplicationClosed(_))) => {}
        (Ok(_), Some(error)) => {
            shared.failed(peer, &error);
            return false;
        }
        (Err(_), _) => {
            connection.close(VarInt::from_u32(0), b"the handshake took too long");
            shared.failed(peer, &"it took too long");
            return false;
        }
    }
    tracing::debug!(%peer, "connected");
    if let Some(on_accept) = &shared.on_accept {
        on_accept(connection.clone());
    }
    true
}

async fn serve_requests(peer: SocketAddr, connection: &Connection, shared: &Arc<Shared>) {
    let window = Arc::new(shared.window(connection));
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
