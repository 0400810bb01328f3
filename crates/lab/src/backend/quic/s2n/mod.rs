//! s2n-quic, as an application has it.

mod controller;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fullpipe_report::observe::FlowSample;
use fullpipe_s2n_quic::Unsent;
use fullpipe_scenario::{Cc, StackAlgorithm};
use s2n_quic::client::Connect;
use s2n_quic::connection::{Handle, StreamAcceptor};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::{io, tls};
use s2n_quic::stream::{BidirectionalStream, ReceiveStream};
use s2n_quic::{Client, Server};
use tokio::task::JoinHandle;

use super::source::{self, REQUEST_BYTES};
use super::stack::{self, FlowError, Flows, Id, Settings, Stack};
use crate::backend::RunError;
use controller::{Controller, EndpointSide, Slot, watched};

/// s2n-quic as a stack.
pub(in crate::backend) struct S2n;

impl Stack for S2n {
    const NAMED: fullpipe_scenario::Stack = fullpipe_scenario::Stack::S2n;
    type Server = JoinHandle<()>;
    type Endpoint = Client;
    type Connection = Connection;

    fn runs(cc: Cc) -> bool {
        use StackAlgorithm::{S2nBbr, S2nCubic};
        matches!(cc, Cc::Stack(S2nBbr | S2nCubic)) || cc.algorithm().is_some()
    }

    fn serve(
        socket: UdpSocket,
        flows: &Arc<Flows<Connection>>,
    ) -> Result<(JoinHandle<()>, SocketAddr), RunError> {
        let address = socket.local_addr().map_err(RunError::Socket)?;
        let server = server(socket, flows).map_err(RunError::Stack)?;
        Ok((tokio::spawn(accept_all(server, flows.clone())), address))
    }

    fn client(
        socket: UdpSocket,
        flow: u32,
        flows: &Arc<Flows<Connection>>,
    ) -> Result<Client, FlowError> {
        let (controllers, watch) = watched(flows, EndpointSide::Client { flow });
        let (chain, _) = flows.identity.chain_and_key();
        let trusts = chain.iter().try_fold(tls::rustls::Client::builder(), |builder, trusted| {
            builder.with_certificate(trusted.as_ref())
        });
        Ok(Client::builder()
            .with_tls(trusts?.build()?)?
            .with_io(io(socket)?)?
            .with_limits(limits(&flows.settings)?)?
            .with_congestion_controller(controllers)?
            .with_event(watch)?
            .start()?)
    }

    /// The server knows the flow by the client's address before it knows the name.
    async fn connect(
        over: &Client,
        server: SocketAddr,
        id: Id,
        _: &Flows<Connection>,
    ) -> Result<Connection, FlowError> {
        let name = id.server_name();
        let connection = over.connect(Connect::new(server).with_server_name(name)).await?;
        Connection::start(connection).ok_or_else(|| "it has no controller".into())
    }

    /// The server ends with what accepts its connections.
    fn shutdown(server: JoinHandle<()>) {
        server.abort();
    }
}

/// Flow control and patience, as s2n-quic takes them.
fn limits(settings: &Settings) -> Result<Limits, FlowError> {
    let of = &settings.transport;
    let stream_window = u64::from(of.stream_receive_window);
    Ok(Limits::new()
        .with_data_window(of.receive_window.into())?
        .with_bidirectional_local_data_window(stream_window)?
        .with_bidirectional_remote_data_window(stream_window)?
        // A stream has no more in flight than its window, and as much waits.
        .with_max_send_buffer_size(of.stream_receive_window.saturating_mul(2))?
        .with_max_idle_timeout(of.idle_timeout.into())?
        .with_max_handshake_duration(settings.handshake_timeout.into())?)
}

fn io(socket: UdpSocket) -> std::io::Result<io::tokio::Provider> {
    io::tokio::Builder::default().with_rx_socket(socket)?.build()
}

fn server(socket: UdpSocket, flows: &Arc<Flows<Connection>>) -> Result<Server, FlowError> {
    let (controllers, watch) = watched(flows, EndpointSide::Server);
    let (chain, key) = flows.identity.chain_and_key();
    let [certificate] = chain.as_slice() else { return Err("it is one certificate".into()) };
    let own = tls::rustls::Server::builder()
        .with_certificate(certificate.as_ref(), key.secret_der())?
        .build()?;
    Ok(Server::builder()
        .with_tls(own)?
        .with_io(io(socket)?)?
        .with_limits(limits(&flows.settings)?)?
        .with_congestion_controller(controllers)?
        .with_event(watch)?
        .start()?)
}

/// Accepts connections until this is dropped.
async fn accept_all(mut server: Server, flows: Arc<Flows<Connection>>) {
    while let Some(connection) = server.accept().await {
        let name = connection.server_name().ok().flatten();
        let Some(id) = name.and_then(|name| Id::named(&name)) else { continue };
        // A connection that fails is seen by its client.
        if let Some(connection) = Connection::start(connection) {
            flows.accept(id, connection);
        }
    }
}

/// Answers what the other end asks for, until the connection ends.
async fn answer_all(mut streams: StreamAcceptor, unsent: Unsent) {
    while let Ok(Some(stream)) = streams.accept_bidirectional_stream().await {
        tokio::spawn(answer(stream, unsent.clone()));
    }
}

/// Reads a request and answers it.
async fn answer(mut stream: BidirectionalStream, unsent: Unsent) -> Result<(), FlowError> {
    let mut request = Vec::new();
    while let Some(chunk) = stream.receive().await? {
        request.extend_from_slice(&chunk);
        if request.len() > REQUEST_BYTES {
            return Err("the request is too long".into());
        }
    }
    source::answer(&mut stream, request, &unsent).await?;
    Ok(stream.finish()?)
}

impl source::Stream for BidirectionalStream {
    async fn write(&mut self, bytes: Bytes) -> Result<(), FlowError> {
        Ok(self.send(bytes).await?)
    }
}

/// An end of a connection.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Connection {
    controller: Controller,
    is_open: Arc<AtomicBool>,
    handle: Handle,
}

impl Connection {
    /// Begins to answer on a connection that is there; nothing for one without a controller.
    fn start(connection: s2n_quic::Connection) -> Option<Self> {
        let slot = connection.query_event_context(Slot::clone).ok()?;
        let controller = slot.get()?.clone();
        let unsent = Unsent::default();
        controller.sender().set_unsent(&unsent);
        let (handle, streams) = connection.split();
        let is_open = Arc::new(AtomicBool::new(true));
        let until_its_end = is_open.clone();
        tokio::spawn(async move {
            answer_all(streams, unsent).await;
            until_its_end.store(false, Ordering::Relaxed);
        });
        Some(Self { controller, is_open, handle })
    }
}

impl stack::Connection for Connection {
    type Response = ReceiveStream;

    async fn get(&self, path: &str) -> Result<ReceiveStream, FlowError> {
        let mut handle = self.handle.clone();
        let (receive, mut send) = handle.open_bidirectional_stream().await?.split();
        send.send(Bytes::copy_from_slice(path.as_bytes())).await?;
        send.finish()?;
        Ok(receive)
    }

    fn close(&self) {
        self.handle.close(0_u32.into());
    }

    fn sample(&self) -> Option<FlowSample> {
        let mut sample = self.controller.sender().sample();
        if !self.is_open() {
            (sample.rtt, sample.srtt) = (None, None);
        }
        Some(sample)
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}

impl stack::Response for ReceiveStream {
    async fn read(&mut self, chunks: &mut [Bytes]) -> Result<Option<usize>, FlowError> {
        let (Some(place), Some(chunk)) = (chunks.first_mut(), self.receive().await?) else {
            return Ok(None);
        };
        *place = chunk;
        Ok(Some(1))
    }
}
