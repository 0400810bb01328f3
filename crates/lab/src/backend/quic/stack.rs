//! Interface of a QUIC stack, as both ends of a run use it. quinn and noq, which is a fork of it,
//! have most of it under the same names, and [`alike`] is that part; a stack's file is the rest.

use std::collections::HashMap;
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
#[cfg(feature = "s2n")]
use std::sync::OnceLock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fullpipe_cc::Duration;
use fullpipe_noq::TransportSettings;
use fullpipe_report::observe::FlowSample;
use fullpipe_scenario::Cc;
use fullpipe_traffic::{Direction, Stream, stream_seed};
use tokio::sync::oneshot;

#[cfg(feature = "s2n")]
use super::clients::Clients;
use super::identity::Identity;
use super::senders::Senders;
use crate::backend::RunError;

/// The reason why a flow's connection failed.
pub(in crate::backend) type FlowError = Box<dyn std::error::Error + Send + Sync>;

/// A QUIC stack. Each end of a connection answers what the other asks for, so that data takes
/// either direction.
pub(in crate::backend) trait Stack: Send + Sync + 'static {
    /// Its name on the command line.
    const NAMED: fullpipe_scenario::Stack;
    type Server: Send;
    /// A client's endpoint of any number of connections.
    type Endpoint: Clone + Send + Sync + 'static;
    type Connection: Connection;

    /// True if it runs this congestion control.
    fn runs(cc: Cc) -> bool;
    /// A server on this socket, with its address. Called inside its runtime.
    fn serve(
        socket: UdpSocket,
        flows: &Arc<Flows<Self::Connection>>,
    ) -> Result<(Self::Server, SocketAddr), RunError>;
    /// The endpoint of a flow's client. Called inside its runtime.
    fn client(
        socket: UdpSocket,
        flow: u32,
        flows: &Arc<Flows<Self::Connection>>,
    ) -> Result<Self::Endpoint, FlowError>;
    /// Connects. The server knows the connection by the ID of its first packet, or by the name that
    /// the client gives it.
    fn connect(
        over: &Self::Endpoint,
        server: SocketAddr,
        id: Id,
        flows: &Flows<Self::Connection>,
    ) -> impl Future<Output = Result<Self::Connection, FlowError>> + Send;
    /// Ends a server and its connections. Its clients have ended: nobody is left to hear of it.
    fn shutdown(server: Self::Server);
}

/// An end of a connection.
pub(in crate::backend) trait Connection: Clone + Send + Sync + 'static {
    type Response: Response;

    /// Asks the other end for a path of [`source::path`](super::source::path).
    fn get(&self, path: &str) -> impl Future<Output = Result<Self::Response, FlowError>> + Send;
    /// Closes it. The stacks send that while their runtime lives, and do not say when.
    fn close(&self);
    /// The sender now. The counters of a connection that is closed stay what they were; its round
    /// trips are no samples any more.
    fn sample(&self) -> Option<FlowSample>;
    fn is_open(&self) -> bool;
}

/// The body of an answer.
pub(in crate::backend) trait Response: Send + 'static {
    /// The next bytes in order, and the number of the chunks that they fill; `None` after the last.
    fn read(
        &mut self,
        chunks: &mut [Bytes],
    ) -> impl Future<Output = Result<Option<usize>, FlowError>> + Send;
}

/// A connection of a run: its flow, and its number among the flow's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::backend) struct Id {
    pub(super) flow: u32,
    pub(super) number: u32,
}

impl Id {
    /// The names that clients give servers.
    pub(super) const SERVER_NAMES: &'static str = "*.flow.localhost";

    /// The connection ID of its first packet.
    pub(super) fn first_connection_id(self) -> [u8; 8] {
        (u64::from(self.flow) << 32 | u64::from(self.number)).to_be_bytes()
    }

    /// Back.
    pub(super) fn of(first_connection_id: &[u8]) -> Option<Self> {
        let id = u64::from_be_bytes(first_connection_id.try_into().ok()?);
        Some(Self { flow: (id >> 32) as u32, number: id as u32 })
    }

    /// One of [`Self::SERVER_NAMES`].
    pub(super) fn server_name(self) -> String {
        format!("{}-{}.flow.localhost", self.flow, self.number)
    }

    /// Back.
    #[cfg(feature = "s2n")]
    pub(super) fn named(server_name: &str) -> Option<Self> {
        let (flow, number) = server_name.split_once('.')?.0.split_once('-')?;
        Some(Self { flow: flow.parse().ok()?, number: number.parse().ok()? })
    }
}

/// Flow control and patience of both ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Settings {
    pub(in crate::backend) transport: TransportSettings,
    pub(super) handshake_timeout: Duration,
}

/// The sender of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderConfig {
    pub(super) direction: Direction,
    pub(super) cc: Cc,
    pub(super) seed: u64,
}

/// The flows of a run, as both of their ends know them.
#[derive(Debug)]
pub(in crate::backend) struct Flows<C> {
    pub(super) settings: Settings,
    pub(super) identity: Identity,
    pub(super) senders: Vec<SenderConfig>,
    /// Their clients, once the link is there.
    #[cfg(feature = "s2n")]
    pub(super) clients: OnceLock<Clients>,
    /// The sender's ends of the connections of each.
    pub(super) sending: Mutex<Vec<Senders<C>>>,
    /// Channels to those that wait for the server's end of a connection.
    waiting: Mutex<HashMap<Id, oneshot::Sender<C>>>,
}

impl<C: Connection> Flows<C> {
    pub(super) fn new(settings: Settings, senders: Vec<SenderConfig>) -> Result<Self, RunError> {
        let flows = senders.len();
        Ok(Self {
            settings,
            identity: Identity::new(Id::SERVER_NAMES)?,
            senders,
            #[cfg(feature = "s2n")]
            clients: OnceLock::new(),
            sending: Mutex::new(vec![Senders::default(); flows]),
            waiting: Mutex::default(),
        })
    }

    /// Algorithm and seed of a connection at the end whose data goes in this direction; nothing for
    /// an end that receives, and for a connection of no flow.
    pub(super) fn control(&self, id: Id, direction: Direction) -> Option<(Cc, u64)> {
        let sender = self.senders.get(id.flow as usize)?;
        let seed = match id.number {
            0 => sender.seed,
            number => stream_seed(sender.seed, Stream::Connection, u64::from(number)),
        };
        (sender.direction == direction).then_some((sender.cc, seed))
    }

    /// The flow of a client, by the address under which the server sees it.
    #[cfg(feature = "s2n")]
    pub(super) fn behind(&self, address: SocketAddr) -> Option<u32> {
        self.clients.get()?.flow(address)
    }

    /// A sender's end of a connection is there.
    pub(super) fn add_sender(&self, flow: u32, connection: C) {
        if let Some(sending) = self.sending().get_mut(flow as usize) {
            sending.add(connection);
        }
    }

    pub(super) fn sending(&self) -> MutexGuard<'_, Vec<Senders<C>>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's end of a connection, once it is accepted.
    pub(super) fn accepted(&self, id: Id) -> oneshot::Receiver<C> {
        let (here, there) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, here);
        there
    }

    /// The server accepted a connection: it sends, or somebody waits for it.
    pub(super) fn accept(&self, id: Id, connection: C) {
        match self.senders.get(id.flow as usize).map(|sender| sender.direction) {
            Some(Direction::Down) => self.add_sender(id.flow, connection),
            Some(Direction::Up) => {
                let waiting =
                    self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                // Whoever does not wait any more has ended.
                let _ = waiting.map(|waiting| waiting.send(connection));
            }
            None => {}
        }
    }
}

/// The part of a stack that is the same for noq and quinn. Its file has the functions `runs`,
/// `runtime`, `transport`, `set_unsent`, `sample` and `read`.
macro_rules! alike {
    ($stack:ident) => {
        impl Stack for $stack {
            const NAMED: fullpipe_scenario::Stack = fullpipe_scenario::Stack::$stack;
            type Server = Endpoint;
            type Endpoint = Endpoint;
            type Connection = Connection;

            fn runs(cc: Cc) -> bool {
                runs(cc)
            }

            fn serve(
                socket: UdpSocket,
                flows: &Arc<Flows<Connection>>,
            ) -> Result<(Endpoint, SocketAddr), RunError> {
                let (chain, key) = flows.identity.chain_and_key();
                let config = ServerConfig::with_single_cert(chain, key).map_err(certificate)?;
                let endpoint = EndpointConfig::default();
                let runtime = runtime(flows.senders.iter().map(|sender| sender.cc));
                let endpoint = Endpoint::new(endpoint, Some(config.clone()), socket, runtime)
                    .map_err(RunError::Socket)?;
                let address = endpoint.local_addr().map_err(RunError::Socket)?;
                tokio::spawn(accept_all(endpoint.clone(), config, flows.clone()));
                Ok((endpoint, address))
            }

            fn client(
                socket: UdpSocket,
                flow: u32,
                flows: &Arc<Flows<Connection>>,
            ) -> Result<Endpoint, FlowError> {
                let control = flows.control(Id { flow, number: 0 }, Direction::Up);
                let runtime = runtime(control.map(|(cc, _)| cc).into_iter());
                Ok(Endpoint::new(EndpointConfig::default(), None, socket, runtime)?)
            }

            async fn connect(
                over: &Endpoint,
                server: SocketAddr,
                id: Id,
                flows: &Flows<Connection>,
            ) -> Result<Connection, FlowError> {
                let mut config = ClientConfig::with_root_certificates(flows.identity.roots())?;
                let control = flows.control(id, Direction::Up);
                let transport = transport(&flows.settings.transport, control);
                config.transport_config(Arc::new(transport));
                let first = id.first_connection_id();
                config.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&first)));
                let connection = over.connect_with(config, server, &id.server_name())?.await?;
                tokio::spawn(answer_all(connection.clone()));
                Ok(connection)
            }

            fn shutdown(server: Endpoint) {
                server.close(0_u32.into(), b"");
            }
        }

        /// Accepts connections until the endpoint is closed.
        async fn accept_all(
            endpoint: Endpoint,
            config: ServerConfig,
            flows: Arc<Flows<Connection>>,
        ) {
            while let Some(incoming) = endpoint.accept().await {
                let Some(id) = Id::of(&incoming.orig_dst_cid()) else { continue };
                let control = flows.control(id, Direction::Down);
                let mut config = config.clone();
                config.transport_config(Arc::new(transport(&flows.settings.transport, control)));
                let flows = flows.clone();
                tokio::spawn(async move {
                    // A connection that fails is seen by its client.
                    let connection = incoming.accept_with(Arc::new(config)).ok()?.await.ok()?;
                    flows.accept(id, connection.clone());
                    answer_all(connection).await;
                    Some(())
                });
            }
        }

        /// Answers what the other end asks for, until the connection ends.
        async fn answer_all(connection: Connection) {
            let unsent = Unsent::default();
            set_unsent(&connection, &unsent);
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let unsent = unsent.clone();
                tokio::spawn(async move {
                    let request = receive.read_to_end(REQUEST_BYTES).await?;
                    source::answer(&mut send, request, &unsent).await?;
                    Ok::<(), FlowError>(send.finish()?)
                });
            }
        }

        impl stack::Connection for Connection {
            type Response = RecvStream;

            async fn get(&self, path: &str) -> Result<RecvStream, FlowError> {
                let (mut send, receive) = self.open_bi().await?;
                send.write_all(path.as_bytes()).await?;
                send.finish()?;
                Ok(receive)
            }

            fn close(&self) {
                Connection::close(self, 0_u32.into(), b"");
            }

            fn sample(&self) -> Option<FlowSample> {
                let mut sample = sample(self)?;
                if !self.is_open() {
                    (sample.rtt, sample.srtt) = (None, None);
                }
                Some(sample)
            }

            fn is_open(&self) -> bool {
                self.close_reason().is_none()
            }
        }

        impl stack::Response for RecvStream {
            async fn read(&mut self, chunks: &mut [Bytes]) -> Result<Option<usize>, FlowError> {
                Ok(read(self, chunks).await?)
            }
        }

        impl source::Stream for SendStream {
            async fn write(&mut self, bytes: Bytes) -> Result<(), FlowError> {
                Ok(self.write_chunk(bytes).await?)
            }
        }
    };
}
pub(super) use alike;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_by_its_first_packet_and_by_its_server_name() {
        let id = Id { flow: 17, number: u32::MAX };
        assert_eq!(Id::of(&id.first_connection_id()), Some(id));
        assert_eq!(Id::of(&[0; 7]), None);
        #[cfg(feature = "s2n")]
        {
            assert_eq!(Id::named(&id.server_name()), Some(id));
            assert_eq!(["", "1.flow", "a-1.flow", "1-1"].map(Id::named), [None; 4]);
        }
    }
}
