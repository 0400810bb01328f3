//! quinn, as an application has it: a server that answers each stream, and a client that reads it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use fullpipe_noq::TransportSettings;
use fullpipe_quinn::{QuinnController, controllers_with_seed};
use fullpipe_traffic::SenderStats;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, Connection, ConnectionId, Endpoint, EndpointConfig, IdleTimeout, Incoming,
    RecvStream, Runtime, SendStream, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};

use super::source::{self, REQUEST_BYTES, no_answer};
use super::stack::{self, FlowError, Flows, Sending, Settings, Stack};
use crate::backend::RunError;
use crate::observe::FlowSample;
use crate::scenario::{Cc, StackAlgorithm};

/// quinn as a stack.
pub(in crate::backend) struct Quinn;

/// A self-signed certificate and its key.
pub(in crate::backend) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Stack for Quinn {
    const NAME: &'static str = "quic:quinn";
    type Identity = Identity;
    type Server = Endpoint;
    type Connection = Connection;
    type Dialer = Dialer;

    fn runs(cc: Cc) -> bool {
        use StackAlgorithm::{QuinnBbr, QuinnCubic, QuinnReno};
        matches!(cc, Cc::Stack(QuinnBbr | QuinnCubic | QuinnReno)) || cc.algorithm().is_some()
    }

    fn identity(names: &[&str]) -> Result<Identity, RunError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let own = rcgen::generate_simple_self_signed(names).map_err(certificate)?;
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        Ok(Identity { certificate: own.cert.into(), key })
    }

    fn serve(
        socket: UdpSocket,
        identity: &Identity,
        flows: &Arc<Flows<Connection>>,
    ) -> Result<(Endpoint, SocketAddr), RunError> {
        let chain = vec![identity.certificate.clone()];
        let config = ServerConfig::with_single_cert(chain, identity.key.clone_key().into())
            .map_err(certificate)?;
        let is_ours = |(cc, _): &(Cc, u64)| cc.algorithm().is_some();
        // quinn's own algorithms run as they do in an application that has never heard of ours.
        let runtime: Arc<dyn Runtime> = match flows.controllers.iter().any(is_ours) {
            true => fullpipe_quinn::runtime(),
            false => Arc::new(TokioRuntime),
        };
        let endpoint =
            Endpoint::new(EndpointConfig::default(), Some(config.clone()), socket, runtime)
                .map_err(RunError::Socket)?;
        let address = endpoint.local_addr().map_err(RunError::Socket)?;
        tokio::spawn(accept_all(endpoint.clone(), config, flows.clone()));
        Ok((endpoint, address))
    }

    fn dialer(identity: &Identity, settings: Settings) -> Dialer {
        Dialer { certificate: identity.certificate.clone(), settings }
    }

    async fn shutdown(server: Endpoint) {
        // Its clients have ended: nobody is left to hear of it.
        server.close(VarInt::from_u32(0), b"");
    }
}

fn certificate(error: impl std::error::Error + Send + Sync + 'static) -> RunError {
    RunError::Certificate(Box::new(error))
}

/// quinn's configuration with these settings.
pub(in crate::backend) fn transport(
    of: &TransportSettings,
    controllers: Arc<dyn ControllerFactory + Send + Sync>,
) -> TransportConfig {
    let idle_ms = VarInt::from_u64(of.idle_timeout.as_nanos() / 1_000_000);
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(of.stream_receive_window))
        .receive_window(VarInt::from_u32(of.receive_window))
        .send_window(of.send_window)
        .max_idle_timeout(Some(IdleTimeout::from(idle_ms.unwrap_or(VarInt::MAX))))
        .congestion_controller_factory(controllers);
    if let Some(bytes) = of.datagram_bytes {
        // Nor after losses that quinn takes for those of a smaller path.
        config.min_mtu(bytes).initial_mtu(bytes).mtu_discovery_config(None);
    }
    if let Some(rtt) = of.initial_rtt {
        config.initial_rtt(rtt.into());
    }
    config
}

/// As [`transport`], for an end that sends requests and acknowledgements: probes for larger packets
/// would be most of it.
pub(in crate::backend) fn receiving(of: &TransportSettings) -> TransportConfig {
    let mut config = transport(of, Arc::new(CubicConfig::default()));
    config.mtu_discovery_config(None);
    config
}

/// The factory of a congestion control; nothing for one that does not run over quinn.
pub(in crate::backend) fn controllers(
    cc: Cc,
    seed: u64,
) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    match cc {
        Cc::Stack(StackAlgorithm::QuinnBbr) => Some(Arc::new(BbrConfig::default())),
        Cc::Stack(StackAlgorithm::QuinnCubic) => Some(Arc::new(CubicConfig::default())),
        Cc::Stack(StackAlgorithm::QuinnReno) => Some(Arc::new(NewRenoConfig::default())),
        ours => Some(controllers_with_seed(ours.algorithm()?, seed)),
    }
}

/// Accepts connections until the endpoint is closed.
async fn accept_all(endpoint: Endpoint, config: ServerConfig, flows: Arc<Flows<Connection>>) {
    while let Some(incoming) = endpoint.accept().await {
        let Some((flow, cc, seed)) = flows.of(&incoming.orig_dst_cid()) else { continue };
        let Some(controllers) = controllers(cc, seed) else { continue };
        let mut config = config.clone();
        config.transport_config(Arc::new(transport(&flows.settings.transport, controllers)));
        let flows = flows.clone();
        // A connection that fails is seen by its client.
        tokio::spawn(async move { answer_all(incoming, config, flow, &flows).await.ok() });
    }
}

async fn answer_all(
    incoming: Incoming,
    config: ServerConfig,
    flow: usize,
    flows: &Flows<Connection>,
) -> Result<(), FlowError> {
    let connection = incoming.accept_with(Arc::new(config))?.await?;
    flows.accept(flow, connection.clone());
    loop {
        let (mut send, mut receive) = connection.accept_bi().await?;
        tokio::spawn(async move {
            let request = receive.read_to_end(REQUEST_BYTES).await?;
            source::answer(&mut send, request).await?;
            Ok::<(), FlowError>(send.finish()?)
        });
    }
}

impl source::Stream for SendStream {
    async fn write(&mut self, bytes: Bytes) -> Result<(), FlowError> {
        Ok(self.write_chunk(bytes).await?)
    }
}

#[derive(Clone)]
pub(in crate::backend) struct Dialer {
    certificate: CertificateDer<'static>,
    settings: Settings,
}

impl stack::Dialer for Dialer {
    type Endpoint = Endpoint;
    type Client = Connection;

    fn endpoint(&self, socket: UdpSocket) -> Result<Endpoint, FlowError> {
        Ok(Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?)
    }

    async fn connect(
        &self,
        over: &Endpoint,
        server: SocketAddr,
        server_name: &str,
        first_connection_id: [u8; 8],
    ) -> Result<Connection, FlowError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
        config.transport_config(Arc::new(receiving(&self.settings.transport)));
        config.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&first_connection_id)));
        let connecting = over.connect_with(config, server, server_name)?;
        let timeout = self.settings.handshake_timeout;
        match tokio::time::timeout(timeout.into(), connecting).await {
            Ok(connection) => Ok(connection?),
            Err(_) => Err(no_answer(server, timeout)),
        }
    }
}

impl stack::Client for Connection {
    type Response = RecvStream;

    async fn get(&self, path: &str) -> Result<RecvStream, FlowError> {
        let (mut send, receive) = self.open_bi().await?;
        send.write_all(path.as_bytes()).await?;
        send.finish()?;
        Ok(receive)
    }

    /// quinn sends the close while the runtime lives, and does not say when.
    async fn close(self) {
        self.leave();
    }

    fn leave(self) {
        Connection::close(&self, VarInt::from_u32(0), b"");
    }
}

impl stack::Response for RecvStream {
    async fn chunk(&mut self) -> Result<Option<Bytes>, FlowError> {
        Ok(self.read_chunk(usize::MAX, true).await?.map(|chunk| chunk.bytes))
    }
}

impl Sending for Connection {
    fn sample(&self) -> Option<FlowSample> {
        let stats = self.stats();
        let ours = self.congestion_state().into_any().downcast::<QuinnController>().ok();
        let mut sample =
            ours.map_or_else(FlowSample::default, |c| FlowSample::of_model(c.snapshot()));
        sample.cwnd = stats.path.cwnd;
        sample.srtt = Some(stats.path.rtt.into());
        sample.sender = SenderStats {
            sent_packets: stats.path.sent_packets,
            sent_bytes: stats.udp_tx.bytes,
            lost_packets: stats.path.lost_packets,
            lost_bytes: stats.path.lost_bytes,
        };
        if !self.is_open() {
            (sample.rtt, sample.srtt) = (None, None);
        }
        Some(sample)
    }

    fn is_open(&self) -> bool {
        self.close_reason().is_none()
    }
}
