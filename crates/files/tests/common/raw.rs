//! A QUIC client that a test drives by hand: noq without its endpoint, so that the test decides
//! which datagrams are sent, from which socket, and which are ignored.
#![allow(dead_code, unreachable_pub)]

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use fullpipe_files::noq::crypto::rustls::QuicClientConfig;
use fullpipe_testkit::PATIENCE;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, FourTuple, MtuDiscoveryConfig, StreamId, TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Believes every server; a test of attacks has nobody to protect.
#[derive(Debug)]
struct Believe;

impl ServerCertVerifier for Believe {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A client that allows the server as much as it can, and pads its first packets to `initial_mtu`.
pub fn config(initial_mtu: u16) -> ClientConfig {
    config_of(b"hq-interop", initial_mtu, false)
}

/// The same for a protocol; with all datagrams of one length, if they are padded.
pub fn config_of(alpn: &[u8], initial_mtu: u16, padded: bool) -> ClientConfig {
    config_with(alpn, |transport| {
        transport.initial_mtu(initial_mtu).pad_to_mtu(padded);
    })
}

/// A client that allows the server as much as it can, unless its transport is set otherwise.
pub fn config_with(alpn: &[u8], set: impl FnOnce(&mut TransportConfig)) -> ClientConfig {
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believe))
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let mut config =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("a cipher suite")));
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(1 << 30))
        .receive_window(VarInt::from_u32(1 << 30))
        .mtu_discovery_config(None::<MtuDiscoveryConfig>);
    set(&mut transport);
    config.transport_config(Arc::new(transport));
    config
}

/// One connection. Nothing happens in it but what the test calls.
pub struct RawClient {
    pub socket: UdpSocket,
    pub server: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub connection: Connection,
    pub connected: bool,
    pub lost: Option<String>,
    /// Bytes of UDP payload that were sent and received so far.
    pub sent: u64,
    pub received: u64,
}

impl RawClient {
    /// Begins a connection; nothing is sent yet.
    pub fn new(server: SocketAddr, config: ClientConfig) -> Self {
        Self::from("127.0.0.1", server, config)
    }

    /// Begins one from a free port of this address.
    pub fn from(address: &str, server: SocketAddr, config: ClientConfig) -> Self {
        let socket = UdpSocket::bind((address, 0)).expect("a socket");
        socket.set_nonblocking(true).expect("a nonblocking socket");
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true);
        let (handle, connection) =
            endpoint.connect(Instant::now(), config, server, "localhost").expect("a connection");
        Self {
            socket,
            server,
            endpoint,
            handle,
            connection,
            connected: false,
            lost: None,
            sent: 0,
            received: 0,
        }
    }

    /// A connection whose handshake is done.
    pub fn connect(server: SocketAddr) -> Self {
        let mut client = Self::new(server, config(1200));
        client.drive_until(PATIENCE, |client| client.connected);
        assert!(client.connected, "no connection: {:?}", client.lost);
        client.drive(Duration::from_millis(50));
        client
    }

    /// A connection of HTTP/3 whose handshake is done; its datagrams are padded.
    pub fn connect_http3(server: SocketAddr) -> Self {
        let mut client = Self::new(server, config_of(b"h3", 1452, true));
        client.drive_until(PATIENCE, |client| client.connected);
        assert!(client.connected, "no connection: {:?}", client.lost);
        client
    }

    /// Opens a unidirectional stream, once the server allows one.
    pub fn open_uni(&mut self) -> StreamId {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(id) = self.connection.streams().open(Dir::Uni) {
                return id;
            }
            assert!(Instant::now() < end, "no stream");
            self.drive(Duration::from_millis(1));
        }
    }

    /// Writes a byte and sends it in a datagram of its own, when it may.
    pub fn byte(&mut self, stream: StreamId, byte: u8) {
        let (end, before) = (Instant::now() + PATIENCE, self.sent);
        let mut written = false;
        while self.lost.is_none() && (!written || self.sent == before) {
            assert!(Instant::now() < end, "no room for a byte");
            written = written || self.connection.send_stream(stream).write(&[byte]) == Ok(1);
            self.transmit();
            self.receive();
        }
    }

    /// The datagrams that the connection wants to send now.
    pub fn datagrams(&mut self) -> Vec<Vec<u8>> {
        let now = Instant::now();
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.exchange_events();
        let (mut all, mut buffer) = (Vec::new(), Vec::new());
        let most = NonZeroUsize::new(10).expect("not zero");
        while let Some(transmit) = self.connection.poll_transmit(now, most, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            all.extend(buffer[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
            buffer.clear();
        }
        all
    }

    /// Sends what is to be sent, from the client's own socket.
    pub fn transmit(&mut self) {
        for datagram in self.datagrams() {
            self.sent += datagram.len() as u64;
            // A full socket buffer is a lost packet.
            let _ = self.socket.send_to(&datagram, self.server);
        }
    }

    /// Takes in everything that has arrived.
    pub fn receive(&mut self) {
        let mut buffer = [0; 65_536];
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            self.received += len as u64;
            self.take_in(from, &buffer[..len]);
        }
    }

    /// Takes in one datagram.
    pub fn take_in(&mut self, from: SocketAddr, datagram: &[u8]) {
        let (now, mut reply) = (Instant::now(), Vec::new());
        let data = BytesMut::from(datagram);
        let event = self.endpoint.handle(now, FourTuple::from_remote(from), None, data, &mut reply);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        self.exchange_events();
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason.to_string()),
                _ => {}
            }
        }
    }

    fn exchange_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    /// Sends and receives as a client does, for this long.
    pub fn drive(&mut self, time: Duration) {
        self.drive_until(time, |_| false);
    }

    /// Sends and receives until something is so, or the time is over.
    pub fn drive_until(&mut self, time: Duration, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + time;
        while !done(self) && Instant::now() < end {
            self.transmit();
            self.receive();
            // Sleeps: between two looks at the socket and at the timers.
            std::thread::sleep(Duration::from_micros(500));
        }
        self.transmit();
    }

    /// Opens a stream of a request and writes these bytes; sent with the next `transmit`.
    pub fn request(&mut self, bytes: &[u8], finish: bool) -> Option<StreamId> {
        let id = self.connection.streams().open(Dir::Bi)?;
        // As much as the server's windows let through.
        let _ = self.connection.send_stream(id).write(bytes);
        if finish {
            self.connection.send_stream(id).finish().expect("finished");
        }
        Some(id)
    }

    /// Everything that has arrived of a stream, or the code of its reset.
    pub fn read(&mut self, id: StreamId) -> Result<Vec<u8>, u64> {
        let mut body = Vec::new();
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(body) };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk.bytes),
                Ok(None) | Err(noq_proto::ReadError::Blocked) => break,
                Err(noq_proto::ReadError::Reset(code)) => return Err(code.into_inner()),
            }
        }
        let _window_update_goes_with_the_next_transmit = chunks.finalize();
        Ok(body)
    }

    /// Closes with this reason; sent with the next `transmit`.
    pub fn close(&mut self, reason: &[u8]) {
        self.connection.close(Instant::now(), VarInt::from_u32(0), Bytes::copy_from_slice(reason));
    }
}

/// Bytes that arrive at a socket within a time.
pub fn bytes_within(socket: &UdpSocket, time: Duration) -> u64 {
    let (end, mut total, mut buffer) = (Instant::now() + time, 0, [0; 65_536]);
    socket.set_nonblocking(true).expect("a nonblocking socket");
    while Instant::now() < end {
        match socket.recv_from(&mut buffer) {
            Ok((len, _)) => total += len as u64,
            // Sleeps: between two looks at the socket.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    total
}
