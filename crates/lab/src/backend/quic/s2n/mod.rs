//! s2n-quic, as an application has it: a server that answers each stream, and a client that reads
//! it.

mod controller;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::connection::Handle;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::{io, tls};
use s2n_quic::stream::{BidirectionalStream, ReceiveStream};
use s2n_quic::{Client, Server};
use tokio::task::JoinHandle;

use super::source::{self, REQUEST_BYTES, no_answer};
use super::stack::{self, FlowError, Flows, Sending, Settings, Stack};
use crate::backend::RunError;
use crate::observe::FlowSample;
use crate::scenario::{Cc, StackAlgorithm};
use controller::{Controller, Slot, watched};

/// s2n-quic as a stack.
pub(in crate::backend) struct S2n;

/// A self-signed certificate and its key, in PEM.
pub(in crate::backend) struct Identity {
    certificate: String,
    key: String,
}

impl Stack for S2n {
    const NAME: &'static str = "quic:s2n";
    type Identity = Identity;
    type Server = JoinHandle<()>;
    type Connection = Connection;
    type Dialer = Dialer;

    fn runs(cc: Cc) -> bool {
        use StackAlgorithm::{S2nBbr, S2nCubic};
        matches!(cc, Cc::Stack(S2nBbr | S2nCubic)) || cc.algorithm().is_some()
    }

    fn identity(names: &[&str]) -> Result<Identity, RunError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let own = rcgen::generate_simple_self_signed(names)
            .map_err(|error| RunError::Certificate(Box::new(error)))?;
        Ok(Identity { certificate: own.cert.pem(), key: own.signing_key.serialize_pem() })
    }

    fn serve(
        socket: UdpSocket,
        identity: &Identity,
        flows: &Arc<Flows<Connection>>,
    ) -> Result<(JoinHandle<()>, SocketAddr), RunError> {
        let address = socket.local_addr().map_err(RunError::Socket)?;
        let server = server(socket, identity, flows).map_err(RunError::Stack)?;
        Ok((tokio::spawn(accept_all(server, flows.clone())), address))
    }

    fn dialer(identity: &Identity, settings: Settings) -> Dialer {
        Dialer { certificate: identity.certificate.clone(), settings }
    }

    /// The server ends with what accepts its connections.
    async fn shutdown(server: JoinHandle<()>) {
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

fn server(
    socket: UdpSocket,
    identity: &Identity,
    flows: &Arc<Flows<Connection>>,
) -> Result<Server, FlowError> {
    let (controllers, watch) = watched(flows);
    let own = tls::rustls::Server::builder()
        .with_certificate(identity.certificate.as_str(), identity.key.as_str())?
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
        let slot = connection.query_event_context(Slot::clone);
        let Some((flow, controller)) = slot.ok().and_then(|slot| slot.get().cloned()) else {
            continue;
        };
        let seen = Connection { controller, is_open: Arc::new(AtomicBool::new(true)) };
        flows.accept(flow, seen.clone());
        tokio::spawn(async move {
            // A connection that fails is seen by its client.
            answer_all(connection).await.ok();
            seen.is_open.store(false, Ordering::Relaxed);
        });
    }
}

async fn answer_all(mut connection: s2n_quic::Connection) -> Result<(), FlowError> {
    while let Some(stream) = connection.accept_bidirectional_stream().await? {
        tokio::spawn(answer(stream));
    }
    Ok(())
}

/// Reads a request and answers it.
async fn answer(mut stream: BidirectionalStream) -> Result<(), FlowError> {
    let mut request = Vec::new();
    while let Some(chunk) = stream.receive().await? {
        request.extend_from_slice(&chunk);
        if request.len() > REQUEST_BYTES {
            return Err("the request is too long".into());
        }
    }
    source::answer(&mut stream, request).await?;
    Ok(stream.finish()?)
}

impl source::Stream for BidirectionalStream {
    async fn write(&mut self, bytes: Bytes) -> Result<(), FlowError> {
        Ok(self.send(bytes).await?)
    }
}

/// The server's end of a connection.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Connection {
    controller: Controller,
    is_open: Arc<AtomicBool>,
}

impl Sending for Connection {
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

#[derive(Clone)]
pub(in crate::backend) struct Dialer {
    certificate: String,
    settings: Settings,
}

impl stack::Dialer for Dialer {
    type Endpoint = Client;
    type Client = Handle;

    fn endpoint(&self, socket: UdpSocket) -> Result<Client, FlowError> {
        let trusts =
            tls::rustls::Client::builder().with_certificate(self.certificate.as_str())?.build()?;
        Ok(Client::builder()
            .with_tls(trusts)?
            .with_io(io(socket)?)?
            .with_limits(limits(&self.settings)?)?
            .start()?)
    }

    /// The server knows the flow by the client's address, and counts its connections.
    async fn connect(
        &self,
        over: &Client,
        server: SocketAddr,
        server_name: &str,
        _first_connection_id: [u8; 8],
    ) -> Result<Handle, FlowError> {
        let connecting = over.connect(Connect::new(server).with_server_name(server_name));
        let timeout = self.settings.handshake_timeout;
        match tokio::time::timeout(timeout.into(), connecting).await {
            Ok(connection) => Ok(connection?.handle()),
            Err(_) => Err(no_answer(server, timeout)),
        }
    }
}

impl stack::Client for Handle {
    type Response = ReceiveStream;

    async fn get(&self, path: &str) -> Result<ReceiveStream, FlowError> {
        let (receive, mut send) = self.clone().open_bidirectional_stream().await?.split();
        send.send(Bytes::copy_from_slice(path.as_bytes())).await?;
        send.finish()?;
        Ok(receive)
    }

    /// s2n-quic sends the close while the runtime lives, and does not say when.
    async fn close(self) {
        self.leave();
    }

    fn leave(self) {
        Handle::close(&self, 0_u32.into());
    }
}

impl stack::Response for ReceiveStream {
    async fn chunk(&mut self) -> Result<Option<Bytes>, FlowError> {
        Ok(self.receive().await?)
    }
}
