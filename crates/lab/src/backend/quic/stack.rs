//! Interface of a QUIC stack, as both ends of a run use it.

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
#[cfg(feature = "s2n")]
use std::sync::OnceLock;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use fullpipe_cc::Duration;
use fullpipe_noq::TransportSettings;
use fullpipe_traffic::{Stream, stream_seed};

use super::accepted::Accepted;
#[cfg(feature = "s2n")]
use super::clients::Clients;
use crate::backend::RunError;
use crate::observe::FlowSample;
use crate::scenario::Cc;

/// The reason why a flow's client failed.
pub(in crate::backend) type FlowError = Box<dyn std::error::Error + Send + Sync>;

/// A QUIC stack.
pub(in crate::backend) trait Stack: Send + Sync + 'static {
    /// The backend's name on the command line.
    const NAME: &'static str;
    /// A certificate with its key, and what a client needs to trust it.
    type Identity;
    type Server: Send;
    /// The server's end of a connection.
    type Connection: Sending;
    type Dialer: Dialer;

    /// True if it runs this congestion control.
    fn runs(cc: Cc) -> bool;
    /// An identity for these DNS names.
    fn identity(names: &[&str]) -> Result<Self::Identity, RunError>;
    /// A server on this socket, with its address. Called inside its runtime.
    fn serve(
        socket: UdpSocket,
        identity: &Self::Identity,
        flows: &Arc<Flows<Self::Connection>>,
    ) -> Result<(Self::Server, SocketAddr), RunError>;
    /// A client of such a server.
    fn dialer(identity: &Self::Identity, settings: Settings) -> Self::Dialer;
    /// Ends a server and its connections.
    fn shutdown(server: Self::Server) -> impl Future<Output = ()> + Send;
}

/// The server's end of a connection.
pub(in crate::backend) trait Sending: Clone + Send + Sync + 'static {
    /// The sender now. The counters of a connection that is closed stay what they were; its round
    /// trips are no samples any more.
    fn sample(&self) -> Option<FlowSample>;
    fn is_open(&self) -> bool;
}

/// Makes a client's connections.
pub(in crate::backend) trait Dialer: Clone + Send + Sync + 'static {
    type Endpoint: Clone + Send + Sync + 'static;
    type Client: Client;

    /// An endpoint of any number of connections. Called inside its runtime.
    fn endpoint(&self, socket: UdpSocket) -> Result<Self::Endpoint, FlowError>;
    /// Connects. The server knows the connection by the ID of its first packet.
    fn connect(
        &self,
        over: &Self::Endpoint,
        server: SocketAddr,
        server_name: &str,
        first_connection_id: [u8; 8],
    ) -> impl Future<Output = Result<Self::Client, FlowError>> + Send;
}

/// A client's connection.
pub(in crate::backend) trait Client: Send + Sync + 'static {
    type Response: Response;

    /// Asks for a path of [`source::path`](super::source::path).
    fn get(&self, path: &str) -> impl Future<Output = Result<Self::Response, FlowError>> + Send;
    /// Closes the connection, and waits until that was sent where the stack says so.
    fn close(self) -> impl Future<Output = ()> + Send;
    /// Closes the connection of an endpoint that goes on.
    fn leave(self);
}

/// The body of an answer.
pub(in crate::backend) trait Response: Send + 'static {
    /// The next bytes in order; `None` after the last.
    fn chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, FlowError>> + Send;
}

/// Flow control and patience of both ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Settings {
    pub(in crate::backend) transport: TransportSettings,
    pub(super) handshake_timeout: Duration,
}

/// The flows of a run, as the server knows them.
#[derive(Debug)]
pub(in crate::backend) struct Flows<C> {
    pub(super) settings: Settings,
    /// The algorithm and the seed of each.
    pub(super) controllers: Vec<(Cc, u64)>,
    /// Their clients, once the link is there.
    #[cfg(feature = "s2n")]
    pub(super) clients: OnceLock<Clients>,
    /// The connections that were accepted for each.
    pub(super) accepted: Mutex<Vec<Accepted<C>>>,
}

impl<C: Sending> Flows<C> {
    /// The flow of a connection, with its algorithm and seed, by the connection ID of its first
    /// packet.
    pub(super) fn of(&self, first_connection_id: &[u8]) -> Option<(usize, Cc, u64)> {
        let id = u64::from_be_bytes(first_connection_id.try_into().ok()?);
        let flow = (id >> 32) as usize;
        let (cc, seed) = self.connection(flow, id as u32)?;
        Some((flow, cc, seed))
    }

    /// Algorithm and seed of a connection, by its flow and its number among the flow's.
    pub(super) fn connection(&self, flow: usize, number: u32) -> Option<(Cc, u64)> {
        let (cc, seed) = *self.controllers.get(flow)?;
        Some(match number {
            0 => (cc, seed),
            number => (cc, stream_seed(seed, Stream::Connection, u64::from(number))),
        })
    }

    /// The flow of a client, by the address under which the server sees it.
    #[cfg(feature = "s2n")]
    pub(super) fn behind(&self, address: SocketAddr) -> Option<usize> {
        self.clients.get()?.flow(address)
    }

    /// A connection of a flow was accepted.
    pub(super) fn accept(&self, flow: usize, connection: C) {
        let mut all = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(accepted) = all.get_mut(flow) {
            accepted.add(connection);
        }
    }
}

/// The connection ID of a connection's first packet: its flow, and its number among the flow's.
pub(super) fn first_connection_id(flow: usize, connection: u32) -> [u8; 8] {
    ((flow as u64) << 32 | u64::from(connection)).to_be_bytes()
}

/// The name by which a flow calls the server, and by which the server knows the flow.
pub(super) fn server_name(flow: usize) -> String {
    format!("{flow}.flow.localhost")
}
