//! Floods of one kind of frame, each until the server ends the connection or the client has had
//! enough: what a connection may cost is bounded, and an honest client is served afterwards.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fullpipe_noq_repairs::wire::write_integer;
use fullpipe_testkit::PATIENCE;
use noq::{ApplicationClose, Connection, ConnectionError, Endpoint, EndpointConfig};
use noq::{TransportErrorCode, VarInt};

use super::net::Net;
use super::server::{fetch, fine};
use super::session::{Flood, FloodingClient};
use super::{panics, resident, runtime, target};
use crate::tls::Sessions;
use crate::{
    Alpn, Cipher, Content, OnAccept, QuicVersions, Server, ServerOptions, ServerTls, Verify,
};

/// Bytes of data that a client writes, so that its packets go out.
const BYTES: usize = 400_000;
/// Most bytes that one client may make this process hold; it has the client as well.
const MOST_GROWTH: u64 = 40_000_000;

/// A server on a network of its own, and the connections that it has taken.
pub(super) struct Attacked {
    pub(super) net: Net,
    server: Server,
    verify: Verify,
    taken: Arc<Mutex<Vec<Connection>>>,
    clients: AtomicU16,
}

impl Attacked {
    pub(super) fn start() -> Self {
        let net = Net::new(target());
        let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
        let verify = Verify::Certificates(tls.certificates().to_vec());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let take = taken.clone();
        let on_accept: OnAccept = Arc::new(move |connection| {
            take.lock().expect("no panic").push(connection);
        });
        let options = ServerOptions { on_accept: Some(on_accept), ..ServerOptions::default() };
        let socket = net.socket(target(), None);
        let server = Server::over(socket, Vec::new(), fine(), &tls, Content::Bulk, options);
        Self { net, server: server.expect("a server"), verify, taken, clients: AtomicU16::new(1) }
    }

    /// A connected client, and the server's end of it. The flood, if there is one, fills its
    /// packets of data from now on.
    pub(super) async fn client(&self, alpn: Alpn, flood: Option<Flood>) -> Client {
        let sessions = Arc::new(Sessions::new());
        let crypto = Verify::Insecure.crypto(Cipher::Any, alpn, QuicVersions::V1, sessions);
        let inner: Arc<dyn noq::crypto::ClientConfig> = Arc::new(crypto.expect("TLS"));
        let begins = Arc::new(AtomicBool::new(false));
        let gate = begins.clone();
        let crypto: Arc<dyn noq::crypto::ClientConfig> = match flood {
            Some(flood) => {
                let gated: Flood = Arc::new(move |payload| {
                    if gate.load(Ordering::Relaxed) {
                        flood(payload);
                    }
                });
                Arc::new(FloodingClient { inner, flood: gated })
            }
            None => inner,
        };
        // Its own, because the end of a socket is that of whoever has the same address.
        let address = ([192, 0, 2, 3], self.clients.fetch_add(1, Ordering::Relaxed));
        let socket = self.net.socket(address.into(), None);
        let endpoint =
            Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, fine());
        let endpoint = endpoint.expect("an endpoint");
        let config = noq::ClientConfig::new(crypto);
        let connecting = endpoint.connect_with(config, target(), "localhost").expect("it begins");
        let connection = connecting.await.expect("a connection");
        // The next one is taken when this one is.
        until("the handshake is over", || !self.taken().is_empty()).await;
        let server = self.taken().pop().expect("one connection");
        begins.store(true, Ordering::Relaxed);
        Client { _endpoint: endpoint, connection, server }
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.taken.lock().expect("no panic")
    }

    /// An honest client is served after all this, nothing panicked, and little memory was taken.
    pub(super) async fn is_well(&self, before: (usize, u64)) {
        fetch(&self.net, &self.verify, Alpn::H3, 1024).await;
        fetch(&self.net, &self.verify, Alpn::HqInterop, 1025).await;
        assert_eq!(panics(), before.0);
        // Where the tests share a process, the memory is that of others as well.
        if std::env::var_os("NEXTEST").is_some() {
            let grown = resident().saturating_sub(before.1);
            assert!(grown < MOST_GROWTH, "{grown} bytes");
        }
    }
}

/// Both ends of a connection.
pub(super) struct Client {
    pub(super) _endpoint: Endpoint,
    pub(super) connection: Connection,
    pub(super) server: Connection,
}

/// As many frames as there is room for, and PADDING. A packet without room for one stays as it is.
fn repeat(frame: impl FnMut() -> Vec<u8> + Send + 'static) -> Flood {
    let next = Mutex::new(frame);
    Arc::new(move |payload| {
        let (mut filled, mut next) = (Vec::new(), next.lock().expect("no panic"));
        loop {
            let frame = next();
            if filled.len() + frame.len() > payload.len() {
                break;
            }
            filled.extend_from_slice(&frame);
        }
        if !filled.is_empty() {
            filled.resize(payload.len(), 0);
            payload.copy_from_slice(&filled);
        }
    })
}

fn integers(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| write_integer(*value, &mut bytes));
    bytes
}

/// Writes to as many streams as there are, until the data is written or the connection is over.
async fn pour(connection: &Connection) {
    let poured = async {
        let (mut streams, data) = (Vec::new(), vec![b'x'; BYTES / 20]);
        for _ in 0..20 {
            let Ok((mut send, recv)) = connection.open_bi().await else { break };
            // More than a window does not go out: what the server reads is no stream.
            let written = send.write_all(&data);
            let _full = tokio::time::timeout(Duration::from_millis(50), written).await;
            streams.push((send, recv));
        }
    };
    tokio::select! {
        _error = connection.closed() => {}
        () = poured => {}
    }
}

/// Waits until something is so.
pub(super) async fn until(what: &str, happened: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The frame that a server may not take, and its code (RFC 9000 sections 5.1.1, 7.5, 13.1, 19.16).
#[test]
fn a_flood_that_breaks_a_rule_ends_with_its_code() {
    const FLOODS: u64 = 7;
    let new_ids = || {
        let mut sequence = 0_u64;
        repeat(move || {
            sequence += 1;
            let id = [&[8][..], &sequence.to_be_bytes(), &[7; 16]].concat();
            [integers(&[0x18, sequence, 0]), id].concat()
        })
    };
    // Each retires the one before it, and the server owes a frame for each.
    let retiring_ids = || {
        let mut sequence = 0_u64;
        repeat(move || {
            sequence += 10;
            let id = [&[8][..], &sequence.to_be_bytes(), &[7; 16]].concat();
            [integers(&[0x18, sequence, sequence]), id].concat()
        })
    };
    let mut floods: Vec<(&str, Flood, TransportErrorCode)> = vec![
        ("NEW_CONNECTION_ID", new_ids(), TransportErrorCode::CONNECTION_ID_LIMIT_ERROR),
        (
            "NEW_CONNECTION_ID that retires",
            retiring_ids(),
            TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
        ),
    ];
    for (name, frame, code) in [
        (
            "RETIRE_CONNECTION_ID of what was not issued",
            integers(&[0x19, 1 << 20]),
            TransportErrorCode::PROTOCOL_VIOLATION,
        ),
        (
            "CRYPTO far behind a gap",
            [integers(&[0x06, 1 << 30, 1]), vec![1]].concat(),
            TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
        ),
        (
            "ACK of what was not sent",
            integers(&[0x02, 1 << 20, 0, 0, 1 << 20]),
            TransportErrorCode::PROTOCOL_VIOLATION,
        ),
        (
            "ACK with ranges below 0",
            [integers(&[0x02, 300, 0, 200, 0]), integers(&[0, 1].repeat(200))].concat(),
            TransportErrorCode::FRAME_ENCODING_ERROR,
        ),
        ("HANDSHAKE_DONE of a client", integers(&[0x1e]), TransportErrorCode::PROTOCOL_VIOLATION),
    ] {
        floods.push((name, repeat(move || frame.clone()), code));
    }
    runtime().block_on(async {
        let attacked = Attacked::start();
        let before = (panics(), resident());
        for (name, flood, code) in floods {
            let Client { _endpoint, connection, server } =
                attacked.client(Alpn::HqInterop, Some(flood)).await;
            let pours = pour(&connection);
            // The server's own reason: what it sends goes to a connection ID that the client may
            // have made up.
            let closed = async {
                tokio::select! {
                    closed = server.closed() => closed,
                    () = async { pours.await; std::future::pending().await } => unreachable!(),
                }
            };
            let closed = tokio::time::timeout(PATIENCE, closed).await;
            let Ok(ConnectionError::TransportError(error)) = closed else {
                panic!("{name}: {closed:?}");
            };
            assert_eq!(error.code, code, "{name}");
            if !name.starts_with("NEW_CONNECTION_ID") {
                let seen = tokio::time::timeout(PATIENCE, connection.closed()).await;
                let Ok(ConnectionError::ConnectionClosed(close)) = seen else {
                    panic!("{name}: {seen:?}");
                };
                assert_eq!(close.error_code, code, "{name}");
            }
        }
        let count = || attacked.server.stats().violations;
        until("each close is counted once", || count() == FLOODS).await;
        attacked.is_well(before).await;
        assert_eq!(count(), FLOODS);
    });
}

/// Frames that anybody may send, and that cost the server something.
#[test]
fn a_flood_within_the_rules_costs_little() {
    /// Bytes of a flood.
    const ENOUGH: u64 = 20_000;
    let mut data = 0_u64;
    let challenges = repeat(move || {
        data += 1;
        [&[0x1a][..], &data.to_be_bytes()].concat()
    });
    let mut offset = 0_u64;
    let gaps = repeat(move || {
        // One byte of each two, within the 4096 bytes that an end has to take (RFC 9000 section
        // 7.5).
        offset = (offset + 2) % 4000;
        [integers(&[0x06, offset + 1, 1]), vec![0]].concat()
    });
    // One that was issued, and is not in use.
    let retired = repeat(|| integers(&[0x19, 3]));
    runtime().block_on(async {
        let attacked = Attacked::start();
        let before = (panics(), resident());
        for (name, flood) in
            [("PATH_CHALLENGE", challenges), ("CRYPTO gaps", gaps), ("RETIRE", retired)]
        {
            let Client { _endpoint, connection, server } =
                attacked.client(Alpn::HqInterop, Some(flood)).await;
            tokio::time::timeout(PATIENCE, pour(&connection)).await.expect("an end of the data");
            // The client's noq knows nothing of the ID that was retired: the one in its place is
            // too many for it, and it ends. What the server hears of that is no matter: the flood
            // takes the place of its CONNECTION_CLOSE, and only its endpoint answers, if at all.
            let clients_end = || name == "RETIRE" && connection.close_reason().is_some();
            let reached = || {
                server.close_reason().is_some()
                    || clients_end()
                    || server.stats().udp_rx.bytes > ENOUGH
            };
            until("the flood arrives", reached).await;
            let (stats, reason) = (server.stats(), server.close_reason());
            let (sent, received) = (stats.udp_tx.bytes, stats.udp_rx.bytes);
            println!("{name}: {received} bytes in, {sent} out, {reason:?}");
            assert!(sent < 2 * received, "{name}: {sent} bytes for {received}");
            // A server may have enough of it.
            let is_own = matches!(reason, None | Some(ConnectionError::TransportError(_)));
            assert!(is_own || clients_end(), "{name}: {reason:?}");
            connection.close(VarInt::from_u32(0), b"");
        }
        attacked.is_well(before).await;
    });
}

/// Bytes of requests that do not touch each other. noq keeps each apart, up to 1024 of a stream.
#[test]
fn islands_of_one_byte_are_bounded_by_the_windows() {
    /// Islands of one stream, with a gap before each.
    const ISLANDS: u64 = 1000;
    let (sent, mut number) = (Arc::new(AtomicU64::new(0)), 0_u64);
    let count = sent.clone();
    let islands = repeat(move || {
        let (stream, offset) = (4 * (number / ISLANDS), 2 * (number % ISLANDS) + 1);
        number += 1;
        count.store(number, Ordering::Relaxed);
        [integers(&[0x0e, stream, offset, 1]), vec![0]].concat()
    });
    runtime().block_on(async {
        let attacked = Attacked::start();
        let before = (panics(), resident());
        let Client { _endpoint, connection, server } =
            attacked.client(Alpn::HqInterop, Some(islands)).await;
        let from = resident();
        tokio::time::timeout(PATIENCE, pour(&connection)).await.expect("an end of the data");
        let (sent, received) = (sent.load(Ordering::Relaxed), server.stats().udp_rx.bytes);
        let grown = resident().saturating_sub(from);
        println!(
            "{sent} islands in {received} bytes: {grown} bytes more, {:?}",
            server.close_reason()
        );
        assert!(sent > 10 * ISLANDS, "{sent} islands are no flood");
        connection.close(VarInt::from_u32(0), b"");
        attacked.is_well(before).await;
    });
}

/// More requests that are reset at once than streams are allowed at one time.
#[test]
fn requests_that_are_reset_at_once_leave_nothing_behind() {
    const RESETS: usize = 3000;
    runtime().block_on(async {
        let attacked = Attacked::start();
        let before = (panics(), resident());
        for alpn in [Alpn::H3, Alpn::HqInterop] {
            let Client { _endpoint, connection, .. } = attacked.client(alpn, None).await;
            let (mut resets, mut most) = (0, 0);
            while resets < RESETS {
                let opened = tokio::time::timeout(PATIENCE, connection.open_bi()).await;
                let (mut send, mut recv) = opened.expect("streams come back").expect("it lives");
                // The header of a request, begun or whole.
                let begun = if resets % 2 == 0 { &[1, 0x7f][..] } else { b"GET /bulk\r\n" };
                let _full = send.write_all(begun).await;
                let _closed = send.reset(VarInt::from_u32(0x10c));
                let _closed = recv.stop(VarInt::from_u32(0x10c));
                resets += 1;
                most = most.max(attacked.server.stats().answers);
            }
            assert!(most <= 100, "{most} answers at one time");
            connection.close(VarInt::from_u32(0x100), b"");
        }
        attacked.is_well(before).await;
        until("no answer stays", || attacked.server.stats().answers == 0).await;
    });
}

/// A stream of HTTP/3 that goes on and on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    Request,
    Uni,
}

/// The counterparts in HTTP/3 of endless CONTINUATION frames, and of bombs for HPACK.
#[test]
fn a_flood_of_http_3_ends_with_its_code() {
    /// H3_EXCESSIVE_LOAD and QPACK_DECOMPRESSION_FAILED (RFC 9114 section 8.1, RFC 9204 section 6).
    const LOAD: u32 = 0x107;
    const QPACK: u32 = 0x200;
    runtime().block_on(async {
        let attacked = Attacked::start();
        let before = (panics(), resident());
        for (name, stream, begin, again, code) in [
            // Frames of type 0x21, which mean nothing.
            ("frames before the header", Stream::Request, &[][..], &[0x21, 2, 0, 0][..], LOAD),
            // HEADERS of 2^20 bytes.
            ("a header without an end", Stream::Request, &[1, 0x80, 0x10, 0, 0], &[0; 64], LOAD),
            // A literal name of 2^20 bytes, in HEADERS of 16,383.
            (
                "a long name",
                Stream::Request,
                &[1, 0x7f, 0xff, 0, 0, 0x27, 0xf9, 0xff, 0x3f],
                &[b'a'; 64],
                QPACK,
            ),
            // A reference to the dynamic table, which has no entry.
            ("the dynamic table", Stream::Request, &[1, 3, 2, 0, 0x80], &[0x21, 2, 0, 0], QPACK),
            // The control stream: SETTINGS, then frames that mean nothing.
            ("frames of control", Stream::Uni, &[0, 4, 0], &[0x21, 2, 0, 0], LOAD),
            // Instructions of QPACK that are right: a table of no capacity, and cancelled streams.
            ("capacities", Stream::Uni, &[2], &[0x20], LOAD),
            ("cancellations", Stream::Uni, &[3], &[0x7f, 1], LOAD),
        ] {
            let Client { _endpoint, connection, .. } = attacked.client(Alpn::H3, None).await;
            // SETTINGS have to come from everybody.
            let mut control = connection.open_uni().await.expect("a stream");
            if name != "frames of control" {
                control.write_all(&[0, 4, 0]).await.expect("settings");
            }
            let (mut send, _recv) = match stream {
                Stream::Request => {
                    let (send, recv) = connection.open_bi().await.expect("a stream");
                    (send, Some(recv))
                }
                Stream::Uni if name == "frames of control" => (control, None),
                Stream::Uni => (connection.open_uni().await.expect("a stream"), None),
            };
            let flood = async {
                let block = again.repeat(1000);
                let mut written = send.write_all(begin).await;
                while written.is_ok() {
                    written = send.write_all(&block).await;
                }
                // Stopped, or over with the connection.
                std::future::pending::<()>().await;
            };
            let closed = async {
                tokio::select! {
                    closed = connection.closed() => closed,
                    () = flood => unreachable!("it has no end"),
                }
            };
            let closed = tokio::time::timeout(PATIENCE, closed).await;
            let Ok(ConnectionError::ApplicationClosed(ApplicationClose { error_code, .. })) =
                closed
            else {
                panic!("{name}: {closed:?}");
            };
            assert_eq!(error_code, VarInt::from_u32(code), "{name}");
        }
        let count = || attacked.server.stats().http3_violations;
        until("each close is counted once", || count() == 7).await;
        attacked.is_well(before).await;
        assert_eq!((count(), attacked.server.stats().violations), (7, 0));
    });
}

/// Of types that nobody knows, flow control ends them.
#[test]
fn streams_that_nobody_reads_end_at_the_window() {
    /// Bytes that the server lets a client send on such a stream.
    const MOST: usize = 100_000;
    /// Time in which a window that goes on would have gone on.
    const STILL: Duration = Duration::from_millis(300);
    runtime().block_on(async {
        let attacked = Attacked::start();
        let before = (panics(), resident());
        for kind in [0x21, 0x54] {
            let Client { _endpoint, connection, .. } = attacked.client(Alpn::H3, None).await;
            let mut control = connection.open_uni().await.expect("a stream");
            control.write_all(&[0, 4, 0]).await.expect("settings");
            let mut stream = connection.open_uni().await.expect("a stream");
            stream.write_all(&[kind]).await.expect("a type");
            let (block, mut written) = ([0; 1000], 0);
            while let Ok(Ok(bytes)) = tokio::time::timeout(STILL, stream.write(&block)).await {
                written += bytes;
                assert!(written < MOST, "type {kind}: {written} bytes");
            }
            assert_eq!(connection.close_reason(), None, "type {kind}, after {written} bytes");
            println!("type {kind}: {written} bytes");
        }
        attacked.is_well(before).await;
    });
}
