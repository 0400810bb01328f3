//! The whole of noq, both ends, sans-IO and under a virtual clock: a server sends to a client over
//! the path model. Nothing waits and nothing jitters, so a run repeats to the nanosecond but for
//! what TLS draws at random, and that changes no size and no time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::BytesMut;
use fullpipe_cc::{Algorithm, Duration, Instant, Rate, Snapshot};
use fullpipe_noq::{Controllers, NoqController, Unsent, Writer};
use fullpipe_path::{
    Event as PathEvent, IPV4_UDP_HEADER_BYTES, Link, Path, Probability, QueueLimit,
};
use noq_proto::congestion::{Bbr3Config, ControllerFactory, ControllerMetrics};
use noq_proto::crypto::rustls::QuicClientConfig;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, FourTuple, PathId, PathStats, ServerConfig, StreamEvent, StreamId, Transmit,
    TransportConfig, VarInt,
};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::crypto::ring;

use super::false_acks::{SharedClient, Tls};

type NoqInstant = std::time::Instant;

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000);

/// Streams that share the data: a noq receiver allows 2.5 MB on each.
const STREAMS: u64 = 4;

/// Whose congestion control the server runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cc {
    Ours(Algorithm),
    NoqBbr3,
}

impl Cc {
    fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Ours(algorithm) => Arc::new(Controllers::new(algorithm).with_seed(1)),
            Self::NoqBbr3 => Arc::new(Bbr3Config::default()),
        }
    }
}

/// A run's settings.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) cc: Cc,
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    pub(crate) buffer_bytes: u64,
    pub(crate) loss: f64,
    /// Bytes that the client lets the server have under way, on all streams.
    pub(crate) receive_window: u32,
    /// Bytes that the server sends; `None`: without an end.
    pub(crate) bytes: Option<u64>,
    /// True if the server begins by itself; else with [`World::write`].
    pub(crate) write_at_once: bool,
    /// A client that has its own ACK frames.
    pub(crate) client: Option<SharedClient>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            cc: Cc::Ours(Algorithm::BBR3),
            rate: Rate::from_bits_per_sec(100_000_000),
            rtt: Duration::from_millis(40),
            buffer_bytes: 500_000,
            loss: 0.0,
            receive_window: 64_000_000,
            bytes: None,
            write_at_once: true,
            client: None,
        }
    }
}

/// One end.
struct Peer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    config: Option<Arc<ServerConfig>>,
    remote: SocketAddr,
}

/// A running connection.
pub(crate) struct World {
    pub(crate) now: Instant,
    base: NoqInstant,
    server: Peer,
    client: Peer,
    downlink: Path<Vec<u8>>,
    uplink: Path<Vec<u8>>,
    unwritten: Option<u64>,
    streams: Vec<StreamId>,
    write_at_once: bool,
    unsent: Unsent,
    /// The server's application, while noq has not taken all that it has.
    writer: Option<Writer>,
    pub(crate) received: u64,
    /// Queueing delay of every packet that came through the bottleneck.
    pub(crate) queued: Vec<Duration>,
    /// Every datagram that reached the bottleneck, with its size without IP and UDP.
    pub(crate) arrivals: Vec<(Instant, u64)>,
}

fn transport(cc: Cc, receive_window: u32) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(2_500_000))
        .receive_window(VarInt::from_u32(receive_window))
        .send_window(64_000_000)
        .congestion_controller_factory(cc.factory());
    config
}

/// Signatures of Ed25519 have one length, so that no run is a byte longer than another.
fn tls(scenario: &Scenario) -> (Arc<ServerConfig>, ClientConfig) {
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a root");
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut server = ServerConfig::with_single_cert(vec![certificate.into()], key.into())
        .expect("a server configuration");
    let transport = || transport(scenario.cc, scenario.receive_window);
    server.transport_config(Arc::new(transport()));
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tls = Arc::new(QuicClientConfig::try_from(tls).expect("a cipher suite"));
    let mut of_client = transport();
    let mut client = match scenario.client.clone() {
        Some(client) => {
            // So that its frames have room.
            of_client.pad_to_mtu(true);
            ClientConfig::new(Arc::new(Tls { inner: tls, client }))
        }
        None => ClientConfig::new(tls),
    };
    client.transport_config(Arc::new(of_client));
    (Arc::new(server), client)
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let (server_config, client_config) = tls(scenario);
        let endpoint = |seed: u8, server: Option<Arc<ServerConfig>>| {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some([seed; 32]));
            Endpoint::new(Arc::new(config), server, true)
        };
        let base = NoqInstant::now();
        let half = Duration::from_nanos(scenario.rtt.as_nanos() / 2);
        let down = Link {
            rate: Some(scenario.rate),
            delay: half,
            queue: QueueLimit::Bytes(scenario.buffer_bytes),
            loss: Probability::new(scenario.loss).expect("a probability"),
            seed: 5,
        };
        let up = Link { delay: half, ..Link::default() };
        let mut client = endpoint(1, None);
        let connection =
            client.connect(base, client_config, SERVER, "localhost").expect("a connection");
        Self {
            now: Instant::default(),
            base,
            server: Peer {
                endpoint: endpoint(2, Some(server_config.clone())),
                connection: None,
                config: Some(server_config),
                remote: CLIENT,
            },
            client: Peer {
                endpoint: client,
                connection: Some(connection),
                config: None,
                remote: SERVER,
            },
            downlink: Path::new(&down.into()).expect("a path"),
            uplink: Path::new(&up.into()).expect("a path"),
            unwritten: scenario.bytes,
            streams: Vec::new(),
            write_at_once: scenario.write_at_once,
            unsent: Unsent::default(),
            writer: None,
            received: 0,
            queued: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    fn noq_now(&self) -> NoqInstant {
        self.base + std::time::Duration::from_nanos(self.now.as_nanos())
    }

    /// Lets everything happen until `time`.
    pub(crate) fn run_until(&mut self, time: Instant) {
        loop {
            self.drive();
            match self.next_event() {
                Some(at) if at <= time => self.now = self.now.max(at),
                _ => break,
            }
        }
        self.now = self.now.max(time);
    }

    fn next_event(&self) -> Option<Instant> {
        let timer = |peer: &Peer| {
            let (_, connection) = peer.connection.as_ref()?;
            let at = connection.poll_timeout()?;
            let since = at.saturating_duration_since(self.base);
            Some(Instant::default() + Duration::from(since))
        };
        [
            timer(&self.server),
            timer(&self.client),
            self.downlink.next_event(),
            self.uplink.next_event(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Everything that is due now, until nothing more comes of it.
    fn drive(&mut self) {
        let now = self.noq_now();
        while let Some(event) = self.downlink.poll(self.now) {
            if let PathEvent::Delivered(d) = event {
                self.queued.push(d.queued);
                self.client.take_in(now, &d.payload);
            }
        }
        while let Some(event) = self.uplink.poll(self.now) {
            if let PathEvent::Delivered(d) = event {
                self.server.take_in(now, &d.payload);
            }
        }
        for peer in [&mut self.server, &mut self.client] {
            if let Some((_, connection)) = &mut peer.connection
                && connection.poll_timeout().is_some_and(|at| at <= now)
            {
                connection.handle_timeout(now);
            }
            peer.exchange_events();
        }
        self.serve();
        self.read();
        self.transmit(now);
    }

    fn transmit(&mut self, now: NoqInstant) {
        let mut datagrams = Vec::new();
        self.server.send(now, &mut datagrams);
        for datagram in datagrams.drain(..) {
            self.arrivals.push((self.now, datagram.len() as u64));
            let wire = datagram.len() as u32 + IPV4_UDP_HEADER_BYTES;
            let _dropped = self.downlink.send(self.now, wire, datagram);
        }
        self.client.send(now, &mut datagrams);
        for datagram in datagrams {
            let wire = datagram.len() as u32 + IPV4_UDP_HEADER_BYTES;
            let _dropped = self.uplink.send(self.now, wire, datagram);
        }
    }

    /// The server's application.
    fn serve(&mut self) {
        let Some((_, connection)) = &mut self.server.connection else { return };
        let mut connected = false;
        while let Some(event) = connection.poll() {
            connected |= matches!(event, Event::Connected);
            if let Event::ConnectionLost { reason } = event {
                panic!("the server lost the connection: {reason}");
            }
        }
        if connected {
            self.streams =
                (0..STREAMS).filter_map(|_| connection.streams().open(Dir::Uni)).collect();
            self.tell_of_writers();
        }
        if self.write_at_once {
            self.write_some();
        }
    }

    /// The application writes `bytes` now.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.unwritten = Some(self.unwritten.unwrap_or(0) + bytes);
        self.write_some();
        let now = self.noq_now();
        self.transmit(now);
    }

    fn write_some(&mut self) {
        const BLOCK: [u8; 16_384] = [0; 16_384];
        let Some((_, connection)) = &mut self.server.connection else { return };
        for id in &self.streams {
            while self.unwritten != Some(0) {
                let most =
                    self.unwritten.map_or(BLOCK.len(), |left| BLOCK.len().min(left as usize));
                let Ok(written) = connection.send_stream(*id).write(&BLOCK[..most]) else { break };
                if let Some(left) = &mut self.unwritten {
                    *left -= written as u64;
                }
            }
        }
        self.writer = (self.unwritten != Some(0)).then(|| self.unsent.writer());
    }

    /// Has the server's controller know whether its application has data.
    fn tell_of_writers(&mut self) {
        let unsent = self.unsent.clone();
        let controller = self.connection().congestion_state(PathId::ZERO).expect("a path");
        if let Ok(ours) = controller.clone_box().into_any().downcast::<NoqController>() {
            ours.set_unsent(&unsent);
        }
    }

    /// The client's application.
    fn read(&mut self) {
        let Some((_, connection)) = &mut self.client.connection else { return };
        let mut readable = Vec::new();
        while let Some(event) = connection.poll() {
            match event {
                Event::Stream(StreamEvent::Readable { id }) => readable.push(id),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = connection.streams().accept(dir) {
                        readable.push(id);
                    }
                }
                Event::ConnectionLost { reason } => panic!("the client lost it: {reason}"),
                _ => {}
            }
        }
        for id in readable {
            let mut stream = connection.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.received += chunk.bytes.len() as u64;
            }
            let _window_update_goes_with_the_next_transmit = chunks.finalize();
        }
    }

    /// From now on the path loses this share of what the server sends.
    pub(crate) fn set_loss(&mut self, share: f64) {
        let share = Probability::new(share).expect("a probability");
        self.downlink.set_loss(self.now, share, 7);
    }

    /// The client's address changes, as when a NAT forgets it.
    pub(crate) fn migrate(&mut self) {
        self.server.remote.set_port(self.server.remote.port() + 1);
    }

    /// The next packet of the client comes from somewhere else, as if somebody had forwarded it,
    /// and those after it from the client again.
    pub(crate) fn forward_one(&mut self) {
        let (client, elsewhere) = (self.server.remote, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)));
        let packets = self.datagrams();
        self.server.remote.set_ip(elsewhere);
        while self.datagrams() == packets {
            self.now = self.next_event().expect("the client acknowledges");
            self.drive();
        }
        self.server.remote = client;
    }

    /// Datagrams that came to the server.
    fn datagrams(&mut self) -> u64 {
        self.connection().stats().udp_rx.datagrams
    }

    /// The window that the server's controller tells noq.
    pub(crate) fn metrics(&mut self) -> ControllerMetrics {
        self.connection().congestion_state(PathId::ZERO).expect("a path").metrics()
    }

    /// The queueing delay that a share `q` of all packets stayed under.
    pub(crate) fn queue_quantile(&self, q: f64) -> Duration {
        let mut sorted = self.queued.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * q) as usize]
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.server.connection.as_mut().expect("connected").1
    }

    /// The model of the server's controller.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let controller = self.connection().congestion_state(PathId::ZERO).expect("a path");
        let ours = controller.clone_box().into_any().downcast::<NoqController>();
        ours.expect("our controller").snapshot()
    }

    /// Counters that noq itself kept for the server.
    pub(crate) fn stats(&mut self) -> PathStats {
        self.connection().path_stats(PathId::ZERO).expect("a path")
    }

    /// The truth about the bottleneck.
    pub(crate) fn downlink(&self) -> fullpipe_path::PathStats {
        self.downlink.sample(self.now).stats
    }
}

impl Peer {
    fn take_in(&mut self, now: NoqInstant, datagram: &[u8]) {
        let mut reply = Vec::new();
        let path = FourTuple::from_remote(self.remote);
        let event = self.endpoint.handle(now, path, None, BytesMut::from(datagram), &mut reply);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut reply, self.config.clone());
                self.connection = Some(accepted.expect("accepted"));
            }
            _ => {}
        }
        self.exchange_events();
    }

    fn exchange_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }

    fn send(&mut self, now: NoqInstant, out: &mut Vec<Vec<u8>>) {
        let Some((_, connection)) = &mut self.connection else { return };
        let most = NonZeroUsize::new(10).expect("not zero");
        let mut buffer = Vec::new();
        while let Some(Transmit { size, segment_size, .. }) =
            connection.poll_transmit(now, most, &mut buffer)
        {
            let segment = segment_size.unwrap_or(size);
            out.extend(buffer[..size].chunks(segment).map(<[u8]>::to_vec));
            buffer.clear();
        }
    }
}
