//! Two ends of a connection and the path between them under a virtual clock.

use std::cell::RefCell;
use std::sync::Arc;

use fullpipe_cc::{Duration, Instant};
use fullpipe_judge::program::{MOST_PACKETS, ProgramPath, WireRecord};
use fullpipe_path::{Arrival, Event, Header, IPV4_UDP_HEADER_BYTES, Path, PathConfig};

std::thread_local! {
    /// The log that takes the secrets of the connections that are made.
    pub(crate) static KEY_LOG: RefCell<Arc<dyn rustls::KeyLog>> =
        RefCell::new(Arc::new(rustls::NoKeyLog));
}

/// One end of a connection of some stack. Times count from the start.
pub(crate) trait Peer {
    /// A datagram arrives.
    fn take_in(&mut self, now: Instant, datagram: &[u8]);
    /// The time at which it wants to be called though nothing arrives.
    fn next_timer(&mut self) -> Option<Instant>;
    /// Timers that are due, and the application: a server writes, a client reads.
    fn work(&mut self, now: Instant);
    /// Datagrams that it sends now.
    fn send(&mut self, now: Instant, out: &mut Vec<Vec<u8>>);
}

/// A direction of the path, and what entered it.
struct Way {
    path: Path<Vec<u8>>,
    arrivals: Vec<Arrival>,
}

impl Way {
    fn new(config: &PathConfig) -> Self {
        Self { path: Path::new(config).expect("a path that was checked"), arrivals: Vec::new() }
    }

    fn send(&mut self, at: Instant, datagram: Vec<u8>) {
        let header = Header::from(datagram.len() as u32 + IPV4_UDP_HEADER_BYTES);
        if self.arrivals.len() < MOST_PACKETS {
            self.arrivals.push(Arrival { at, header });
        }
        let _dropped = self.path.send(at, header, datagram);
    }
}

/// Lets a server send to a client for so many seconds; what was on the wire.
pub(crate) fn run(
    path: &ProgramPath,
    seconds: u64,
    (mut server, mut client): (impl Peer, impl Peer),
) -> WireRecord {
    let (mut down, mut up) = (Way::new(&path.down), Way::new(&path.up));
    let end = Instant::default() + Duration::from_secs(seconds);
    let (mut now, mut out) = (Instant::default(), Vec::new());
    while now < end {
        while let Some(event) = down.path.poll(now) {
            if let Event::Delivered(packet) = event {
                client.take_in(now, &packet.payload);
            }
        }
        while let Some(event) = up.path.poll(now) {
            if let Event::Delivered(packet) = event {
                server.take_in(now, &packet.payload);
            }
        }
        server.work(now);
        server.send(now, &mut out);
        out.drain(..).for_each(|datagram| down.send(now, datagram));
        client.work(now);
        client.send(now, &mut out);
        out.drain(..).for_each(|datagram| up.send(now, datagram));
        let events = [down.path.next_event(), up.path.next_event()];
        let timers = [server.next_timer(), client.next_timer()];
        // A timer that is due already is worked off in the next turn.
        now = events.into_iter().chain(timers).flatten().min().unwrap_or(end).max(now);
    }
    WireRecord::of(&path.down, &path.up, [&down.arrivals, &up.arrivals])
}

/// The two ends of a stack like noq-proto or quinn-proto, whose interfaces are alike: what differs
/// is given.
macro_rules! quic_peer {
    ($proto:ident, { $($different:item)* }) => {
        use std::net::{IpAddr, Ipv4Addr, SocketAddr};
        use std::sync::Arc;

        use $proto::{
            ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
            Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
        };
        use bytes::BytesMut;
        use fullpipe_cc::{Duration, Instant};

        $($different)*

        type StdInstant = std::time::Instant;

        const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);
        const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000);

        /// Streams that share the data, so that no stream's window bounds it.
        const STREAMS: u64 = 4;

        pub(crate) struct Peer {
            base: StdInstant,
            endpoint: Endpoint,
            connection: Option<(ConnectionHandle, Connection)>,
            config: Option<Arc<ServerConfig>>,
            remote: SocketAddr,
            streams: Vec<StreamId>,
            replies: Vec<Vec<u8>>,
        }

        /// A server that sends without an end with this congestion control, and its client.
        pub(crate) fn pair(cc: &str) -> (Peer, Peer) {
            let mut transport = TransportConfig::default();
            transport
                .stream_receive_window(VarInt::from_u32(2_500_000))
                .receive_window(VarInt::from_u32(64_000_000))
                .send_window(64_000_000);
            set_congestion_control(&mut transport, cc);
            let transport = Arc::new(transport);
            // Signatures of Ed25519 have one length, so that no run is a byte longer than another.
            let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
            let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
            let certificate = params.self_signed(&key).expect("a certificate");
            let mut roots = rustls::RootCertStore::empty();
            roots.add(certificate.der().clone()).expect("a root");
            let key = rustls_pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
            let mut server = ServerConfig::with_single_cert(vec![certificate.into()], key.into())
                .expect("a server's configuration");
            server.transport_config(Arc::clone(&transport));
            let server = Arc::new(server);
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut tls = rustls::ClientConfig::builder_with_provider(provider)
                .with_protocol_versions(&[&rustls::version::TLS13])
                .expect("TLS 1.3")
                .with_root_certificates(roots)
                .with_no_client_auth();
            tls.key_log = super::world::KEY_LOG.with_borrow(Arc::clone);
            let tls = $proto::crypto::rustls::QuicClientConfig::try_from(tls).expect("QUIC");
            let mut client = ClientConfig::new(Arc::new(tls));
            client.transport_config(transport);
            let base = StdInstant::now();
            let mut endpoint_of_client = endpoint(1, None);
            let connection =
                endpoint_of_client.connect(base, client, SERVER, "localhost").expect("a connection");
            let peer = |endpoint, connection, config, remote| Peer {
                base,
                endpoint,
                connection,
                config,
                remote,
                streams: Vec::new(),
                replies: Vec::new(),
            };
            (
                peer(endpoint(2, Some(server.clone())), None, Some(server), CLIENT),
                peer(endpoint_of_client, Some(connection), None, SERVER),
            )
        }

        impl Peer {
            fn std(&self, now: Instant) -> StdInstant {
                self.base + std::time::Duration::from_nanos(now.as_nanos())
            }

            fn exchange_events(&mut self) {
                let Some((handle, connection)) = &mut self.connection else { return };
                while let Some(event) = connection.poll_endpoint_events() {
                    if let Some(event) = self.endpoint.handle_event(*handle, event) {
                        connection.handle_event(event);
                    }
                }
            }

            /// Fills the server's streams.
            fn write(&mut self) {
                const BLOCK: [u8; 16_384] = [0; 16_384];
                let Some((_, connection)) = &mut self.connection else { return };
                for id in &self.streams {
                    while connection.send_stream(*id).write(&BLOCK).is_ok() {}
                }
            }
        }

        impl super::world::Peer for Peer {
            fn take_in(&mut self, now: Instant, datagram: &[u8]) {
                let (now, mut reply) = (self.std(now), Vec::new());
                let datagram = BytesMut::from(datagram);
                match handle(&mut self.endpoint, now, self.remote, datagram, &mut reply) {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        if let Some((_, connection)) = &mut self.connection {
                            connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        let config = self.config.clone();
                        let accepted = self.endpoint.accept(incoming, now, &mut reply, config);
                        self.connection = accepted.ok();
                    }
                    _ => {}
                }
                if !reply.is_empty() {
                    self.replies.push(reply);
                }
                self.exchange_events();
            }

            fn next_timer(&mut self) -> Option<Instant> {
                let at = timer(&mut self.connection.as_mut()?.1)?;
                Some(Instant::default() + Duration::from(at.saturating_duration_since(self.base)))
            }

            fn work(&mut self, now: Instant) {
                let now = self.std(now);
                let Some((_, connection)) = &mut self.connection else { return };
                if timer(connection).is_some_and(|at| at <= now) {
                    connection.handle_timeout(now);
                }
                let (mut is_new, mut readable) = (false, Vec::new());
                while let Some(event) = connection.poll() {
                    match event {
                        Event::Connected => is_new = true,
                        Event::Stream(StreamEvent::Readable { id }) => readable.push(id),
                        Event::Stream(StreamEvent::Opened { dir }) => {
                            while let Some(id) = connection.streams().accept(dir) {
                                readable.push(id);
                            }
                        }
                        Event::ConnectionLost { reason } => {
                            eprintln!("{}: the connection is lost: {reason}", stringify!($proto));
                        }
                        _ => {}
                    }
                }
                for id in readable {
                    let mut stream = connection.recv_stream(id);
                    let Ok(mut chunks) = stream.read(false) else { continue };
                    while let Ok(Some(_)) = chunks.next(usize::MAX) {}
                    let _window_update_goes_with_the_next_packet = chunks.finalize();
                }
                if is_new && self.config.is_some() {
                    let open = |_| connection.streams().open(Dir::Uni);
                    self.streams = (0..STREAMS).filter_map(open).collect();
                }
                self.write();
                self.exchange_events();
            }

            fn send(&mut self, now: Instant, out: &mut Vec<Vec<u8>>) {
                out.append(&mut self.replies);
                let now = self.std(now);
                let Some((_, connection)) = &mut self.connection else { return };
                let mut buffer = Vec::new();
                while let Some((size, segment)) = transmit(connection, now, &mut buffer) {
                    out.extend(buffer[..size].chunks(segment.unwrap_or(size)).map(<[u8]>::to_vec));
                    buffer.clear();
                }
            }
        }
    };
}
pub(crate) use quic_peer;
