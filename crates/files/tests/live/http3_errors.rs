//! The errors of HTTP/3 (RFC 9114, 9204, 9297): the code that whoever breaks a rule is told.

use std::sync::Arc;

use crate::answers;
use crate::common::{frame, headers, loopback, start};
use fullpipe_files::noq::crypto::rustls::QuicClientConfig;
use fullpipe_files::noq::{
    ClientConfig, Connection, ConnectionError, Endpoint, ReadError, ReadToEndError, VarInt,
};
use fullpipe_files::{Alpn, Client, ClientOptions, Content, ServerOptions, Verify};
use fullpipe_testkit::{PATIENCE, until};

const STREAM_CREATION: u64 = 0x103;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const FRAME_UNEXPECTED: u64 = 0x105;
const FRAME_ERROR: u64 = 0x106;
const EXCESSIVE_LOAD: u64 = 0x107;
const ID_ERROR: u64 = 0x108;
const SETTINGS_ERROR: u64 = 0x109;
const MISSING_SETTINGS: u64 = 0x10a;
const REQUEST_REJECTED: u64 = 0x10b;
const REQUEST_INCOMPLETE: u64 = 0x10d;
const MESSAGE_ERROR: u64 = 0x10e;
const DECOMPRESSION_FAILED: u64 = 0x200;
const ENCODER_STREAM: u64 = 0x201;
const DECODER_STREAM: u64 = 0x202;

/// The fate of a unidirectional stream behind its bytes.
#[derive(Clone, Copy)]
enum Then {
    Open,
    End,
    Reset,
}
use Then::{End, Open, Reset};

/// The bytes of a stream, and what follows them.
type Stream = (Vec<u8>, Then);

/// The end of the exchange: the code of the connection's close, or of the stream's reset, or an
/// answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Closed(u64),
    Reset(u64),
    Answer,
}

/// The code with which the other end closes the connection.
async fn closed(connection: &Connection) -> Outcome {
    let closed = tokio::time::timeout(PATIENCE, connection.closed()).await;
    match closed.expect("it is closed") {
        ConnectionError::ApplicationClosed(close) => Outcome::Closed(close.error_code.into_inner()),
        other => panic!("{other}"),
    }
}

/// Opens streams with these bytes. Those that stay open live as long as what is given back.
async fn open(connection: &Connection, streams: &[Stream]) -> Vec<impl Drop + use<>> {
    let mut all = Vec::new();
    for (bytes, then) in streams {
        // A server may have closed the connection already.
        let Ok(mut stream) = connection.open_uni().await else { break };
        let _ = stream.write_all(bytes).await;
        match then {
            Open => {}
            End => drop(stream.finish()),
            Reset => {
                // Bytes that have not arrived yet would go with it; an answer says that they have.
                let (mut send, mut recv) = connection.open_bi().await.expect("a request");
                send.write_all(&get(&[(":authority", "x")])).await.expect("it is open");
                recv.read_chunk(1).await.expect("an answer");
                let _ = stream.reset(VarInt::from_u32(0x10c));
            }
        }
        all.push(stream);
    }
    all
}

/// A client of which nothing is right but what a test makes so.
struct Raw {
    server: fullpipe_files::Server,
    endpoint: Endpoint,
    to: std::net::SocketAddr,
}

impl Raw {
    fn new() -> Self {
        let (server, verify) = start(Content::Bulk, ServerOptions::default());
        let Verify::Certificates(certificates) = verify else { panic!("its own certificate") };
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(certificates);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let tls = QuicClientConfig::try_from(tls).expect("TLS for QUIC");
        let endpoint = Endpoint::client(loopback()).expect("a socket");
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(tls)));
        Self { to: server.local_addr(), server, endpoint }
    }

    async fn connect(&self) -> Connection {
        let connecting = self.endpoint.connect(self.to, "localhost").expect("an address");
        connecting.await.expect("a connection")
    }

    /// Opens these streams, then sends a request.
    async fn ask(&self, streams: &[Stream], request: &[u8]) -> Outcome {
        let connection = self.connect().await;
        let _open = open(&connection, streams).await;
        let Ok((mut send, mut recv)) = connection.open_bi().await else {
            return closed(&connection).await;
        };
        let _ = send.write_all(request).await;
        let _ = send.finish();
        match recv.read_to_end(10_000).await {
            Ok(answer) if !answer.is_empty() => Outcome::Answer,
            Err(ReadToEndError::Read(ReadError::Reset(code)))
                if code.into_inner() != REQUEST_REJECTED =>
            {
                Outcome::Reset(code.into_inner())
            }
            // A request that is given up with its connection may be reset before that is closed.
            _ => closed(&connection).await,
        }
    }

    /// The code with which the server closes the connection for these streams.
    async fn told(&self, streams: &[Stream]) -> Outcome {
        let connection = self.connect().await;
        let _open = open(&connection, streams).await;
        closed(&connection).await
    }
}

/// A control stream with these frames behind empty SETTINGS.
fn control(frames: &[&[u8]]) -> Vec<u8> {
    [&[0, 4, 0][..], &frames.concat()].concat()
}

fn settings(payload: &[u8]) -> Vec<u8> {
    [&[0][..], &frame(4, payload)].concat()
}

fn get(more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [(":method", "GET"), (":scheme", "https"), (":path", "/bulk/1")];
    headers(&[&fields[..], more].concat())
}

/// Fails with all rows that are wrong.
fn all_right(rows: Vec<(String, Outcome, Outcome)>) {
    let wrong: Vec<_> = rows.iter().filter(|(_, found, expected)| found != expected).collect();
    assert!(wrong.is_empty(), "row, found, expected: {wrong:#x?}");
}

/// RFC 9114 sections 6.2 and 7.2, RFC 9204 section 4, RFC 9297 section 2.1.1.
#[tokio::main]
async fn a_stream_that_breaks_a_rule_closes_the_connection() {
    let raw = Raw::new();
    let plain = || (control(&[]), Open);
    let with = |frames: &[&[u8]]| vec![(control(frames), Open)];
    let rows: Vec<(&str, Vec<Stream>, u64)> = vec![
        // RFC 9114 section 6.2.1: one control stream, which begins with SETTINGS and does not end.
        ("an unknown frame before SETTINGS", vec![(vec![0, 0x21, 1, 7], Open)], MISSING_SETTINGS),
        ("GOAWAY before SETTINGS", vec![(vec![0, 7, 1, 0], Open)], MISSING_SETTINGS),
        ("DATA before SETTINGS", vec![(vec![0, 0, 1, 0], Open)], MISSING_SETTINGS),
        ("a control stream that ends", vec![(control(&[]), End)], CLOSED_CRITICAL_STREAM),
        ("a control stream that is reset", vec![(control(&[]), Reset)], CLOSED_CRITICAL_STREAM),
        ("two control streams", vec![plain(), plain()], STREAM_CREATION),
        // Section 6.2.2.
        ("a push stream", vec![plain(), (vec![1, 0], Open)], STREAM_CREATION),
        ("the type of a push stream alone", vec![plain(), (vec![1], Open)], STREAM_CREATION),
        // Section 7.1: payloads end where their fields do.
        ("an empty GOAWAY", with(&[&[7, 0]]), FRAME_ERROR),
        ("a GOAWAY that is cut off", with(&[&[7, 1, 0x40]]), FRAME_ERROR),
        ("a GOAWAY with more behind it", with(&[&[7, 2, 0, 0]]), FRAME_ERROR),
        ("an empty MAX_PUSH_ID", with(&[&[13, 0]]), FRAME_ERROR),
        ("a MAX_PUSH_ID with more behind it", with(&[&[13, 9, 0, 0]]), FRAME_ERROR),
        ("an empty CANCEL_PUSH", with(&[&[3, 0]]), FRAME_ERROR),
        ("SETTINGS that are cut off", vec![(settings(&[6]), Open)], FRAME_ERROR),
        ("the end within a frame", vec![(control(&[&[7, 2, 0]]), End)], FRAME_ERROR),
        // Section 7.2: frames of other streams.
        ("DATA", with(&[&[0, 1]]), FRAME_UNEXPECTED),
        ("HEADERS", with(&[&[1, 2, 0, 0]]), FRAME_UNEXPECTED),
        ("PUSH_PROMISE", with(&[&[5, 3, 0, 0, 0]]), FRAME_UNEXPECTED),
        ("PING of HTTP/2", with(&[&[6, 0]]), FRAME_UNEXPECTED),
        ("SETTINGS twice", with(&[&[4, 0]]), FRAME_UNEXPECTED),
        // Sections 5.2, 7.2.3 and 7.2.7: IDs of pushes.
        ("a smaller MAX_PUSH_ID", with(&[&[13, 1, 5], &[13, 1, 4]]), ID_ERROR),
        ("CANCEL_PUSH", with(&[&[13, 1, 5], &[3, 1, 0]]), ID_ERROR),
        ("a larger GOAWAY", with(&[&[7, 1, 4], &[7, 1, 8]]), ID_ERROR),
        // Section 7.2.4, RFC 8441 section 3, RFC 9297 section 2.1.1.
        ("H3_DATAGRAM 2", vec![(settings(&[0x33, 2]), Open)], SETTINGS_ERROR),
        ("ENABLE_CONNECT_PROTOCOL 2", vec![(settings(&[8, 2]), Open)], SETTINGS_ERROR),
        ("a setting of HTTP/2", vec![(settings(&[3, 1]), Open)], SETTINGS_ERROR),
        ("a setting twice", vec![(settings(&[6, 9, 6, 9]), Open)], SETTINGS_ERROR),
        // RFC 9204 section 4.2.
        ("an encoder stream that ends", vec![plain(), (vec![2], End)], CLOSED_CRITICAL_STREAM),
        ("a decoder stream that ends", vec![plain(), (vec![3], End)], CLOSED_CRITICAL_STREAM),
        ("a decoder stream reset", vec![plain(), (vec![3], Reset)], CLOSED_CRITICAL_STREAM),
        ("two encoder streams", vec![(vec![2], Open), (vec![2], Open)], STREAM_CREATION),
        ("two decoder streams", vec![(vec![3], Open), (vec![3], Open)], STREAM_CREATION),
        // Sections 3.2.2, 4.3 and 4.4.
        ("a capacity of 1", vec![plain(), (vec![2, 0x21], Open)], ENCODER_STREAM),
        ("an insertion", vec![plain(), (vec![2, 0x41, b'a', 0], Open)], ENCODER_STREAM),
        ("one by a name of the static table", vec![(vec![2, 0xc0, 0], Open)], ENCODER_STREAM),
        ("a duplicate", vec![plain(), (vec![2, 0], Open)], ENCODER_STREAM),
        ("an acknowledged section", vec![plain(), (vec![3, 0x80], Open)], DECODER_STREAM),
        ("an increment", vec![plain(), (vec![3, 1], Open)], DECODER_STREAM),
        ("an increment of 0", vec![plain(), (vec![3, 0], Open)], DECODER_STREAM),
        // RFC 9114 section 10.5.
        ("SETTINGS of a gigabyte", vec![(vec![0, 4, 0xbf, 255, 255, 255], Open)], EXCESSIVE_LOAD),
    ];
    let mut found = Vec::new();
    for (name, streams, code) in rows {
        found.push((name.to_owned(), raw.told(&streams).await, Outcome::Closed(code)));
    }
    let rows = found.len() as u64;
    all_right(found);
    // Those that h3 notices as well.
    until("each is counted", || raw.server.stats().http3_violations == rows);
    assert_eq!(raw.server.stats().violations, 0);
}

/// Odd and right.
#[tokio::main]
async fn what_is_allowed_is_taken() {
    let raw = Raw::new();
    let request = get(&[(":authority", "localhost")]);
    let mut found = Vec::new();
    let rows: Vec<(&str, Vec<Stream>)> = vec![
        ("unknown settings", vec![(settings(&[0x21, 1, 0x33, 1, 8, 0]), Open)]),
        ("unknown frames", vec![(control(&[&[0x21, 2, 1, 1], &[0x40, 0x40, 0]]), Open)]),
        (
            "an equal and a larger MAX_PUSH_ID",
            vec![(control(&[&[13, 1, 5], &[13, 1, 5], &[13, 2, 0x40, 0x40]]), Open)],
        ),
        ("a capacity of 0", vec![(control(&[]), Open), (vec![2, 0x20], Open)]),
        ("a cancelled stream", vec![(control(&[]), Open), (vec![3, 0x40, 0x7f, 1], Open)]),
        ("an unknown stream", vec![(control(&[]), Open), (vec![0x21, 1, 2], End)]),
        ("a stream without a type", vec![(control(&[]), Open), (vec![], End), (vec![0x40], End)]),
        ("a priority", vec![(control(&[&[0x80, 0x0f, 0x07, 0x00, 4, 0, b'u', b'=', b'1']]), Open)]),
    ];
    for (name, streams) in rows {
        found.push((name.to_owned(), raw.ask(&streams, &request).await, Outcome::Answer));
    }
    all_right(found);
}

/// RFC 9114 sections 4.1 to 4.3, 7.1 and 7.2, RFC 9204 sections 2.2 and 4.5.
#[tokio::main]
async fn a_request_that_breaks_a_rule_is_told_which_kind() {
    let raw = Raw::new();
    let authority = (":authority", "localhost");
    let (sound, closed, reset) = (get(&[authority]), Outcome::Closed, Outcome::Reset);
    let behind = |more: &[&[u8]]| [&sound[..], &more.concat()].concat();
    let section = |more: &[u8]| frame(1, &[&[0, 0, 0xd1, 0xd7, 0xc1][..], more].concat());
    let host = [0x50, 1, b'x'];
    let rows: Vec<(&str, Vec<u8>, Outcome)> = vec![
        ("no frame", vec![], reset(REQUEST_INCOMPLETE)),
        ("DATA first", frame(0, b"x"), closed(FRAME_UNEXPECTED)),
        ("SETTINGS", frame(4, &[]), closed(FRAME_UNEXPECTED)),
        ("CANCEL_PUSH", frame(3, &[0]), closed(FRAME_UNEXPECTED)),
        ("GOAWAY", frame(7, &[0]), closed(FRAME_UNEXPECTED)),
        ("MAX_PUSH_ID", frame(13, &[0]), closed(FRAME_UNEXPECTED)),
        ("an empty MAX_PUSH_ID", frame(13, &[]), closed(FRAME_UNEXPECTED)),
        ("PUSH_PROMISE", frame(5, &[0, 0, 0]), closed(FRAME_UNEXPECTED)),
        ("an empty PUSH_PROMISE", frame(5, &[]), closed(FRAME_UNEXPECTED)),
        ("a frame of HTTP/2", frame(2, &[0]), closed(FRAME_UNEXPECTED)),
        ("PUSH_PROMISE behind", behind(&[&frame(5, &[0, 0, 0])]), closed(FRAME_UNEXPECTED)),
        ("SETTINGS behind", behind(&[&frame(4, &[])]), closed(FRAME_UNEXPECTED)),
        (
            "DATA behind trailers",
            behind(&[&frame(0, b"x"), &frame(1, &[0, 0]), &frame(0, b"x")]),
            closed(FRAME_UNEXPECTED),
        ),
        ("a frame that is cut off", sound[..20].to_vec(), closed(FRAME_ERROR)),
        ("an unknown frame first", [&frame(0x21, b"x")[..], &sound].concat(), Outcome::Answer),
        ("a body and trailers", behind(&[&frame(0, b"x"), &frame(1, &[0, 0])]), Outcome::Answer),
        // QPACK without a table.
        ("a section of the static table", section(&host), Outcome::Answer),
        ("a required insert", frame(1, &[1, 0, 0xd1]), closed(DECOMPRESSION_FAILED)),
        ("a negative base", frame(1, &[0, 0x80, 0xd1]), closed(DECOMPRESSION_FAILED)),
        ("an index of the dynamic table", section(&[0x80]), closed(DECOMPRESSION_FAILED)),
        ("one behind the base", section(&[0x10]), closed(DECOMPRESSION_FAILED)),
        ("a name of the dynamic table", section(&[0x40, 0]), closed(DECOMPRESSION_FAILED)),
        ("a name behind the base", section(&[0x00, 0]), closed(DECOMPRESSION_FAILED)),
        ("no such entry", section(&[0xff, 0x24]), closed(DECOMPRESSION_FAILED)),
        ("a string that is cut off", section(&[0x50, 9, b'x']), closed(DECOMPRESSION_FAILED)),
        // RFC 7541 section 5.2.
        ("EOS", section(&[0x50, 0x84, 255, 255, 255, 255]), closed(DECOMPRESSION_FAILED)),
        ("padding of zeros", section(&[0x50, 0x81, 0x18]), closed(DECOMPRESSION_FAILED)),
        ("padding of a byte", section(&[0x50, 0x82, 0xf3, 255]), closed(DECOMPRESSION_FAILED)),
        // Malformed fields.
        ("an empty section", frame(1, &[0, 0]), reset(MESSAGE_ERROR)),
        ("userinfo", get(&[(":authority", "user@localhost")]), reset(MESSAGE_ERROR)),
        ("userinfo of Host", get(&[("host", "user:x@localhost")]), reset(MESSAGE_ERROR)),
        ("empty authority", get(&[(":authority", "")]), reset(MESSAGE_ERROR)),
        (
            "empty authority beside Host",
            get(&[(":authority", ""), ("host", "x")]),
            reset(MESSAGE_ERROR),
        ),
        ("an odd authority", get(&[(":authority", "a b")]), reset(MESSAGE_ERROR)),
        ("no length", get(&[authority, ("content-length", "x")]), reset(MESSAGE_ERROR)),
        ("a signed length", get(&[authority, ("content-length", "+1")]), reset(MESSAGE_ERROR)),
        (
            "two lengths",
            get(&[authority, ("content-length", "1"), ("content-length", "2")]),
            reset(MESSAGE_ERROR),
        ),
        ("an upper-case name", get(&[authority, ("A", "b")]), reset(MESSAGE_ERROR)),
        ("an empty name", get(&[authority, ("", "b")]), reset(MESSAGE_ERROR)),
        ("a space in a name", get(&[authority, ("a b", "b")]), reset(MESSAGE_ERROR)),
        ("a colon in a name", get(&[authority, ("a:b", "b")]), reset(MESSAGE_ERROR)),
        ("a line end in a value", get(&[authority, ("a", "b\r\nc")]), reset(MESSAGE_ERROR)),
        ("NUL in a value", get(&[authority, ("a", "\0")]), reset(MESSAGE_ERROR)),
        (
            "an odd method",
            { headers(&[(":method", "G T"), (":scheme", "https"), (":path", "/"), authority]) },
            reset(MESSAGE_ERROR),
        ),
        (
            "an empty path",
            { headers(&[(":method", "GET"), (":scheme", "https"), (":path", ""), authority]) },
            reset(MESSAGE_ERROR),
        ),
        (
            "CONNECT with a path",
            { headers(&[(":method", "CONNECT"), (":scheme", "https"), (":path", "/"), authority]) },
            reset(MESSAGE_ERROR),
        ),
    ];
    let mut found = Vec::new();
    for (name, request, expected) in rows {
        let outcome = raw.ask(&[(control(&[]), Open)], &request).await;
        found.push((name.to_owned(), outcome, expected));
    }
    all_right(found);
}

/// RFC 9114 section 6.2.1 and RFC 9204 section 4.2: nobody asks for the end of these streams.
#[tokio::main]
async fn a_client_that_stops_a_stream_that_is_needed_is_told() {
    let raw = Raw::new();
    for kind in [0, 2, 3] {
        let connection = raw.connect().await;
        let _open = open(&connection, &[(control(&[]), Open)]).await;
        let mut all = Vec::new();
        loop {
            let mut stream = connection.accept_uni().await.expect("a stream of the server's");
            let mut begin = [9];
            stream.read_exact(&mut begin).await.expect("its type");
            if begin == [kind] {
                stream.stop(VarInt::from_u32(0x100)).expect("it is open");
                break;
            }
            all.push(stream);
        }
        let expected = Outcome::Closed(CLOSED_CRITICAL_STREAM);
        assert_eq!(closed(&connection).await, expected, "type {kind}");
    }
}

/// The client's code for a server that breaks a rule. One that gives a malformed answer hears it of
/// that answer alone (RFC 9114 section 4.1.2).
#[tokio::main]
async fn a_server_that_breaks_a_rule_is_told() {
    let ok = || headers(&[(":status", "200")]);
    let with = |frames: &[&[u8]]| vec![control(frames)];
    type Streams = Vec<Vec<u8>>;
    let rows: Vec<(&str, Streams, Vec<u8>, u64)> = vec![
        ("H3_DATAGRAM 2", vec![settings(&[0x33, 2])], vec![], SETTINGS_ERROR),
        ("an unknown frame before SETTINGS", vec![vec![0, 0x21, 0]], vec![], MISSING_SETTINGS),
        ("an empty GOAWAY", with(&[&[7, 0]]), vec![], FRAME_ERROR),
        ("a GOAWAY of another kind of stream", with(&[&[7, 1, 1]]), vec![], ID_ERROR),
        ("MAX_PUSH_ID", with(&[&[13, 1, 0]]), vec![], FRAME_UNEXPECTED),
        ("CANCEL_PUSH", with(&[&[3, 1, 0]]), vec![], ID_ERROR),
        ("a push stream", vec![control(&[]), vec![1, 0]], vec![], ID_ERROR),
        ("PUSH_PROMISE", with(&[]), [frame(5, &[0, 0, 0]), ok()].concat(), ID_ERROR),
        ("an insertion", vec![control(&[]), vec![2, 0xc0, 0]], vec![], ENCODER_STREAM),
        ("an increment", vec![control(&[]), vec![3, 1]], vec![], DECODER_STREAM),
        ("DATA first", with(&[]), [frame(0, b"x"), ok()].concat(), FRAME_UNEXPECTED),
        (
            "DATA behind trailers",
            with(&[]),
            [ok(), frame(0, b"x"), frame(1, &[0, 0]), frame(0, b"x")].concat(),
            FRAME_UNEXPECTED,
        ),
        // Section 4.3.
        (
            ":status twice",
            with(&[]),
            [headers(&[(":status", "200"), (":status", "404")]), frame(0, b"x")].concat(),
            MESSAGE_ERROR,
        ),
        (
            ":status behind a field",
            with(&[]),
            [headers(&[("x", "y"), (":status", "200")]), frame(0, b"x")].concat(),
            MESSAGE_ERROR,
        ),
        (
            ":path",
            with(&[]),
            [headers(&[(":status", "200"), (":path", "/")]), frame(0, b"x")].concat(),
            MESSAGE_ERROR,
        ),
        (
            ":status in trailers",
            with(&[]),
            [ok(), frame(0, b"x"), headers(&[(":status", "404")])].concat(),
            MESSAGE_ERROR,
        ),
    ];
    let mut found = Vec::new();
    for (name, streams, answer, code) in rows {
        // What has come as a whole is not stopped.
        let end = if code == MESSAGE_ERROR { answers::End::Open } else { answers::End::Fin };
        let (server, mut seen) = answers::server_that(streams, vec![(answer, end)]);
        let address = server.local_addr().expect("an address");
        let options = ClientOptions { alpn: Alpn::H3, ..ClientOptions::default() };
        let client = Client::connect(address, "localhost", &Verify::Insecure, options).await;
        let client = client.expect("a connection");
        let said = tokio::time::timeout(PATIENCE, crate::common::fetch(&client, "/f")).await;
        let error = said.expect("it ends").expect_err(name).to_string();
        assert!(error.starts_with("HTTP/3: ") || error.contains("closed"), "{name}: {error}");
        let told = async {
            tokio::select! {
                Ok(end) = seen.end => match end {
                    ConnectionError::ApplicationClosed(close) => {
                        Outcome::Closed(close.error_code.into_inner())
                    }
                    other => panic!("{name}: {other}"),
                },
                Some(code) = seen.stopped.recv() => Outcome::Reset(code),
            }
        };
        let told = tokio::time::timeout(PATIENCE, told).await.expect("it is told");
        let expected = match code {
            MESSAGE_ERROR => Outcome::Reset(code),
            _ => Outcome::Closed(code),
        };
        found.push((name.to_owned(), told, expected));
    }
    all_right(found);
}

fullpipe_testkit::tests! {
    [] a_stream_that_breaks_a_rule_closes_the_connection;
    [] what_is_allowed_is_taken;
    [] a_request_that_breaks_a_rule_is_told_which_kind;
    [] a_client_that_stops_a_stream_that_is_needed_is_told;
    [] a_server_that_breaks_a_rule_is_told;
}
