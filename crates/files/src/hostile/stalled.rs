//! Clients that take nothing of their answers: how many files they keep open, and for how long.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullpipe_testkit::PATIENCE;
use noq::{Connection, Endpoint, EndpointConfig, ReadError, RecvStream, TransportConfig, VarInt};

use super::net::Net;
use super::server::fine;
use super::{runtime, target};
use crate::tls::Sessions;
use crate::{
    Alpn, Cipher, ClientOptions, Connector, Content, Limits, QuicVersions, Server, ServerOptions,
    ServerTls, Verify,
};

/// Bytes of the file that nobody takes.
const LARGE: usize = 1_000_000;

struct Attacked {
    net: Net,
    server: Server,
    verify: Verify,
    _dir: tempfile::TempDir,
}

impl Attacked {
    fn start(limits: Limits) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, bytes: usize| {
            std::fs::write(dir.path().join(Path::new(name)), vec![b'x'; bytes]).expect("a file");
        };
        write("large", LARGE);
        write("middle", 30_000);
        write("small", 6);
        let net = Net::new(target());
        let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
        let verify = Verify::Certificates(tls.certificates().to_vec());
        let options = ServerOptions { limits, ..ServerOptions::default() };
        let content = Content::Dir(dir.path().to_owned());
        let socket = net.socket(target(), None);
        let server = Server::over(socket, Vec::new(), fine(), &tls, content, options);
        Self { net, server: server.expect("a server"), verify, _dir: dir }
    }

    /// A client that allows the server so many bytes on a stream and on its connection.
    async fn client(&self, from: SocketAddr, stream: u32, all: u32) -> (Endpoint, Connection) {
        self.client_of(Alpn::HqInterop, from, stream, all).await
    }

    async fn client_of(
        &self,
        alpn: Alpn,
        from: SocketAddr,
        stream: u32,
        all: u32,
    ) -> (Endpoint, Connection) {
        let sessions = Arc::new(Sessions::new());
        let crypto = Verify::Insecure.crypto(Cipher::Any, alpn, QuicVersions::V1, sessions);
        let mut config = noq::ClientConfig::new(Arc::new(crypto.expect("TLS")));
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(VarInt::from_u32(stream))
            .receive_window(VarInt::from_u32(all));
        config.transport_config(Arc::new(transport));
        let socket = self.net.socket(from, None);
        let endpoint =
            Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, fine());
        let endpoint = endpoint.expect("an endpoint");
        let connecting = endpoint.connect_with(config, target(), "localhost").expect("it begins");
        let connection = connecting.await.expect("a connection");
        (endpoint, connection)
    }

    /// Waits until the server has so many files open.
    async fn until_open(&self, files: u64) {
        let end = Instant::now() + PATIENCE;
        while self.server.stats().open_files != files {
            let now = self.server.stats().open_files;
            assert!(Instant::now() < end, "{now} files are open and not {files}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn ask(connection: &Connection, path: &str) -> RecvStream {
    let (mut send, recv) = connection.open_bi().await.expect("a stream");
    send.write_all(format!("GET /{path}\r\n").as_bytes()).await.expect("a request");
    send.finish().expect("its end");
    recv
}

#[test]
fn one_host_takes_a_part_of_the_descriptors_alone() {
    const FILES: usize = 16;
    runtime().block_on(async {
        let attacked = Attacked::start(Limits { open_files: FILES, ..Limits::default() });
        let mut held = Vec::new();
        for port in 1..=3 {
            let (endpoint, connection) =
                attacked.client(([192, 0, 2, 9], port).into(), 0, 1 << 20).await;
            for _ in 0..10 {
                held.push(ask(&connection, "large").await);
            }
            held.shrink_to_fit();
            drop(endpoint);
        }
        attacked.until_open(FILES as u64 / 2).await;
        let connector = Connector::new(&attacked.verify, ClientOptions::default()).expect("TLS");
        for port in 1..=8 {
            let socket = attacked.net.socket(([198, 51, 100, 1], port).into(), None);
            let endpoint = connector.endpoint_over(socket, fine(), None).expect("an endpoint");
            let client = connector.connect_over(&endpoint, target(), "localhost").await;
            let client = client.expect("an honest client is connected");
            let mut response = client.get("/small").await.expect("it is answered");
            assert_eq!(response.chunk().await.expect("a body").expect("bytes").len(), 6);
            client.close().await;
        }
        drop(held);
    });
}

/// Reads until there is an end, which is the code of a reset or `None`.
async fn end_of(mut stream: RecvStream, each: usize, pause: Duration) -> (usize, Option<VarInt>) {
    let (mut bytes, mut buffer) = (0, vec![0; each]);
    loop {
        match stream.read(&mut buffer).await {
            Ok(Some(read)) => bytes += read,
            Ok(None) => return (bytes, None),
            Err(ReadError::Reset(code)) => return (bytes, Some(code)),
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(pause).await;
    }
}

#[test]
fn a_stream_that_takes_nothing_ends_whatever_others_take() {
    runtime().block_on(async {
        let stall_timeout = Duration::from_secs(1);
        let attacked = Attacked::start(Limits { stall_timeout, ..Limits::default() });
        let (_endpoint, connection) =
            attacked.client(([192, 0, 2, 9], 1).into(), 2000, 1 << 20).await;
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(ask(&connection, "large").await);
        }
        attacked.until_open(10).await;
        // One of them is read all the time.
        let reader = held.pop().map(|one| end_of(one, 500, Duration::from_millis(10)));
        let reader = tokio::spawn(reader.expect("a stream"));
        attacked.until_open(1).await;
        for mut one in held {
            let reset = one.received_reset().await.expect("a stream");
            assert_eq!(reset, Some(VarInt::from_u32(408)));
        }
        assert!(!reader.is_finished(), "it is taken");
        reader.abort();
    });
}

/// noq wakes all streams that wait for room on their connection, and the first of them gets it.
#[test]
fn streams_that_wait_for_each_other_come_to_their_end() {
    runtime().block_on(async {
        let stall_timeout = Duration::from_secs(1);
        let attacked = Attacked::start(Limits { stall_timeout, ..Limits::default() });
        let (_endpoint, connection) =
            attacked.client(([192, 0, 2, 9], 1).into(), 1 << 20, 20_000).await;
        let mut streams = Vec::new();
        for _ in 0..10 {
            streams.push(ask(&connection, "middle").await);
        }
        // All of them are read, and at most 100 kB/s of them all.
        let (mut bytes, mut buffer) = (vec![0; streams.len()], vec![0; 1000]);
        let end = Instant::now() + PATIENCE;
        while bytes.iter().sum::<usize>() < 300_000 {
            assert!(Instant::now() < end, "{bytes:?}");
            for (stream, bytes) in streams.iter_mut().zip(&mut bytes) {
                let read = stream.read(&mut buffer);
                match tokio::time::timeout(Duration::ZERO, read).await {
                    Ok(Ok(Some(read))) => *bytes += read,
                    Ok(Ok(None)) | Err(_) => continue,
                    Ok(Err(error)) => panic!("{error} after {bytes} bytes"),
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(bytes.iter().all(|bytes| *bytes == 30_000), "{bytes:?}");
    });
}

/// RFC 9114 section 4.1.1: an end would say that the answer is whole.
#[test]
fn a_header_that_does_not_come_to_its_end_is_a_reset() {
    /// GET https /small of authority x.
    const REQUEST: &[u8] = b"\x01\x0f\0\0\xd1\xd7\x51\x06/small\x50\x01x";
    runtime().block_on(async {
        let time = Duration::from_millis(300);
        let limits = Limits { request_timeout: time, stall_timeout: time, ..Limits::default() };
        let attacked = Attacked::start(limits);
        for (port, window, request, code) in [
            // HEADERS of 16,383 bytes: H3_REQUEST_REJECTED.
            (1, 1 << 20, &b"\x01\x7f\xff"[..], 0x10b),
            // Room for the settings and for less than a header: H3_REQUEST_CANCELLED.
            (2, 50, REQUEST, 0x10c),
        ] {
            let from = ([192, 0, 2, 9], port).into();
            let (_endpoint, connection) = attacked.client_of(Alpn::H3, from, window, 1 << 20).await;
            let mut control = connection.open_uni().await.expect("a stream");
            control.write_all(&[0, 4, 0]).await.expect("settings");
            let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
            send.write_all(request).await.expect("a request");
            let reset = tokio::time::timeout(PATIENCE, recv.received_reset()).await;
            let reset = reset.expect("it ends").expect("the connection lives");
            assert_eq!(reset, Some(VarInt::from_u32(code)), "of client {port}");
        }
    });
}
