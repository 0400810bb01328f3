//! Answers over HTTP/3 that the own server never gives.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{fetch, frame, headers, length, loopback};
use fullpipe_files::noq::crypto::rustls::QuicServerConfig;
use fullpipe_files::noq::{Connection, ConnectionError, Endpoint, ServerConfig, VarInt};
use fullpipe_files::{Alpn, Client, ClientError, ClientOptions, TransportSettings, Verify};
use fullpipe_testkit::{PATIENCE, until};
use tokio::sync::{mpsc, oneshot};

/// A control stream with empty SETTINGS.
const CONTROL: &[u8] = &[0, 4, 0];
const NO_ERROR: u64 = 0x100;
const MESSAGE_ERROR: u64 = 0x10e;

/// The client's acts towards a server that gives it such answers.
pub(crate) struct Seen {
    /// The end of its one connection.
    pub(crate) end: oneshot::Receiver<ConnectionError>,
    /// The codes of the answers that it stopped, but for those that are no error.
    pub(crate) stopped: mpsc::UnboundedReceiver<u64>,
}

/// A server that opens streams with these bytes, and gives this answer to every request, or none.
pub(crate) fn server_of(streams: Vec<Vec<u8>>, answer: Vec<u8>) -> (Endpoint, Seen) {
    server_that(streams, vec![(answer, End::Fin)])
}

/// The end of an answer.
#[derive(Clone)]
pub(crate) enum End {
    Fin,
    /// There is none.
    Open,
    /// In its place, once the answer has had the time to be taken.
    Reset,
    /// Behind these bytes, which come then.
    FinBehind(Vec<u8>),
}

/// Of several answers, a request gets the next one, and one behind the last gets the last again.
pub(crate) fn server_that(streams: Vec<Vec<u8>>, answers: Vec<(Vec<u8>, End)>) -> (Endpoint, Seen) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.into()], key.into())
        .expect("a certificate with its key");
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicServerConfig::try_from(tls).expect("TLS for QUIC");
    let config = ServerConfig::with_crypto(Arc::new(tls));
    let endpoint = Endpoint::server(config, loopback()).expect("a server");
    let accepting = endpoint.clone();
    let (ended, end) = oneshot::channel();
    let (stops, stopped) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let incoming = accepting.accept().await.expect("a client");
        let connection = incoming.await.expect("a connection");
        serve(&connection, &streams, &answers, &stops).await;
        // Few tests ask.
        let _ = ended.send(connection.closed().await);
    });
    (endpoint, Seen { end, stopped })
}

/// The client may be gone at any time, and the test asks the client.
async fn serve(
    connection: &Connection,
    streams: &[Vec<u8>],
    answers: &[(Vec<u8>, End)],
    stops: &mpsc::UnboundedSender<u64>,
) {
    let mut all = Vec::new();
    for bytes in streams {
        let Ok(mut stream) = connection.open_uni().await else { return };
        let _ = stream.write_all(bytes).await;
        all.push(stream);
    }
    let mut open = Vec::new();
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let _ = recv.read_to_end(10_000).await;
        let (stopped, stops) = (send.stopped(), stops.clone());
        tokio::spawn(async move {
            if let Ok(Some(code)) = stopped.await
                && code.into_inner() != NO_ERROR
            {
                let _ = stops.send(code.into_inner());
            }
        });
        let (answer, end) = &answers[open.len().min(answers.len() - 1)];
        if !answer.is_empty() {
            let _ = send.write_all(answer).await;
            if !matches!(end, End::Fin | End::Open) {
                // Sleeps: a reset overtakes what the client has not read.
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            let _ = match end {
                End::Fin => send.finish(),
                End::Open => Ok(()),
                End::Reset => send.reset(VarInt::from_u32(0x102)),
                End::FinBehind(rest) => {
                    let _ = send.write_all(rest).await;
                    send.finish()
                }
            };
        }
        open.push(send);
    }
}

fn status(code: &str) -> Vec<u8> {
    headers(&[(":status", code)])
}

/// The client's outcome with a server that sends these bytes.
async fn outcome(control: &[u8], answer: &[Vec<u8>]) -> Result<Vec<u8>, ClientError> {
    let (server, _seen) = server_of(vec![control.to_vec()], answer.concat());
    outcome_of(&server).await
}

async fn client_of(server: &Endpoint, transport: TransportSettings) -> Client {
    let address = server.local_addr().expect("an address");
    let options = ClientOptions { alpn: Alpn::H3, transport, ..ClientOptions::default() };
    let client = Client::connect(address, "localhost", &Verify::Insecure, options).await;
    client.expect("a connection")
}

async fn outcome_of(server: &Endpoint) -> Result<Vec<u8>, ClientError> {
    let client = client_of(server, TransportSettings::default()).await;
    tokio::time::timeout(PATIENCE, fetch(&client, "/f")).await.expect("it ends")
}

#[tokio::main]
async fn a_server_that_says_too_much_gets_no_more_memory() {
    let long = |kind| [&[kind][..], &length(1_000_000)].concat();
    // SETTINGS and headers that never end.
    let control = [&[0][..], &long(4), &[0x40; 1000]].concat();
    let error = outcome(&control, &[]).await.expect_err("no answer").to_string();
    assert!(error.contains("too long"), "{error}");
    let error = outcome(CONTROL, &[long(1), vec![0; 1000]]).await.expect_err("no answer");
    assert!(error.to_string().contains("too long"), "{error}");
    // A short frame of a long header: each byte is a field of QPACK's static table.
    let many = frame(1, &[&[0, 0][..], &[0xd9; 50_000]].concat());
    let error = outcome(CONTROL, &[many]).await.expect_err("no answer");
    assert!(matches!(error, ClientError::Http3(_)), "{error}");
}

/// RFC 9114 section 4.1.
#[tokio::main]
async fn interim_answers_are_none() {
    let (early, ok, data) = (status("103"), status("200"), frame(0, b"abc"));
    let answer = [early.clone(), status("100"), ok.clone(), data.clone()];
    assert_eq!(outcome(CONTROL, &answer).await.expect("an answer"), b"abc");
    let endless = [early.repeat(1000), ok.clone(), data.clone()];
    let error = outcome(CONTROL, &endless).await.expect_err("no answer");
    assert!(error.to_string().contains("interim"), "{error}");
    let error = outcome(CONTROL, &[status("101"), ok, data]).await.expect_err("no answer");
    assert!(error.to_string().contains("101"), "{error}");
}

#[tokio::main]
async fn a_part_that_nobody_asked_for_is_no_file() {
    let part = headers(&[(":status", "206"), ("content-range", "bytes 0-2/9")]);
    let error = outcome(CONTROL, &[part, frame(0, b"abc")]).await.expect_err("no answer");
    assert!(matches!(error, ClientError::Status { code: 206 }), "{error}");
}

/// RFC 9110 section 8.6.
#[tokio::main]
async fn a_length_is_checked_however_often_it_is_said() {
    let answer = |lengths: &[&str], body: &[u8]| {
        let lengths = lengths.iter().map(|length| ("content-length", *length));
        let fields: Vec<_> = [(":status", "200")].into_iter().chain(lengths).collect();
        [headers(&fields), frame(0, body)]
    };
    for lengths in [&["3"][..], &["3, 3"], &["3", "3"], &["3,3", "3"]] {
        let body = outcome(CONTROL, &answer(lengths, b"abc")).await;
        assert_eq!(body.expect("an answer"), b"abc", "{lengths:?}");
        for wrong in [&b"ab"[..], b"abcd"] {
            let error = outcome(CONTROL, &answer(lengths, wrong)).await.expect_err("wrong");
            assert!(matches!(error, ClientError::Incomplete), "{lengths:?}: {error}");
        }
    }
    for lengths in [&["3, 4"][..], &["3", "4"], &["+3"], &["3,"], &["x"], &["99999999999999999999"]]
    {
        let error = outcome(CONTROL, &answer(lengths, b"abc")).await.expect_err("no length");
        assert!(error.to_string().contains("content-length"), "{lengths:?}: {error}");
    }
}

/// RFC 9114 section 7.1: no length says how much there should have been.
#[tokio::main]
async fn data_that_is_cut_off_is_no_file() {
    let data = [&[0][..], &length(1_000), &[b'x'; 500]].concat();
    let error = outcome(CONTROL, &[status("200"), data]).await.expect_err("half of a frame");
    assert!(error.to_string().contains("cut off"), "{error}");
}

/// RFC 9114 section 7.2.1: a DATA frame may be empty, and ends nothing.
#[tokio::main]
async fn a_body_ends_with_its_stream_and_not_with_an_empty_frame() {
    let (ok, empty) = (status("200"), frame(0, b""));
    let (first, second, trailers) = (frame(0, b"abc"), frame(0, b"def"), headers(&[("x", "y")]));
    for answer in [
        [&ok[..], &first, &empty, &second],
        [&ok, &empty, &first, &second],
        [&ok, &first, &empty.repeat(3), &second],
        [&ok, &first, &second, &empty],
        [&ok, &first, &[&empty[..], &second].concat(), &trailers],
    ] {
        let body = outcome(CONTROL, &answer.map(<[u8]>::to_vec)).await;
        assert_eq!(body.expect("an answer"), b"abcdef", "{answer:x?}");
    }
}

/// The client asks for no more of a server than somebody reads, however short its frames are.
#[tokio::main]
async fn frames_of_one_byte_are_not_collected() {
    const READ: u64 = 5_000;
    const WINDOW: u32 = 100_000;
    let answer = [status("200"), [0, 1, b'x'].repeat(10_000_000)].concat();
    let (server, _seen) = server_of(vec![CONTROL.to_vec()], answer);
    let transport =
        TransportSettings { stream_receive_window: WINDOW, ..TransportSettings::default() };
    let client = client_of(&server, transport).await;
    let mut response = client.get("/f").await.expect("an answer");
    let received = || client.connection().stats().udp_rx.bytes;
    for read in 0..READ {
        // So that there is always more to take than is read.
        until("the window is full", || received() > u64::from(WINDOW) / 2 + 3 * read);
        assert_eq!(response.chunk().await.expect("a body").as_deref(), Some(&b"x"[..]));
    }
    let most = 3 * READ + 2 * u64::from(WINDOW);
    assert!(received() < most, "{} bytes for {READ} that were read", received());
}

/// Neither an empty frame nor trailers end a body: its stream does.
#[tokio::main]
async fn a_body_without_the_end_of_its_stream_is_no_file() {
    let (begin, data) = (status("200"), frame(0, b"abc"));
    for last in [frame(0, b""), headers(&[("x", "y")])] {
        let answer = [&begin[..], &data, &last].concat();
        let (server, _seen) = server_that(vec![CONTROL.to_vec()], vec![(answer, End::Reset)]);
        let error = outcome_of(&server).await.expect_err("no end of the stream");
        assert!(matches!(error, ClientError::Reset { code: 0x102 }), "{error}");
    }
}

/// Trailers without a body, and DATA that comes when they have been read.
#[tokio::main]
async fn data_behind_trailers_is_no_body_however_late_it_comes() {
    let begin = [status("200"), headers(&[("x", "y")])].concat();
    let data = frame(0, b"abc");
    for (answer, end) in [([&begin[..], &data].concat(), End::Fin), (begin, End::FinBehind(data))] {
        let (server, _seen) = server_that(vec![CONTROL.to_vec()], vec![(answer, end)]);
        outcome_of(&server).await.expect_err("no body");
    }
}

/// RFC 9114 section 4.1: behind the answer's header there are trailers and nothing else.
#[tokio::main]
async fn a_second_header_is_no_empty_file() {
    for second in [
        status("404"),
        headers(&[(":status", "200"), ("content-length", "3")]),
        headers(&[("x", "y"), (":path", "/")]),
    ] {
        let answer = [status("103"), status("200"), second.clone()];
        let error = outcome(CONTROL, &answer).await.expect_err("malformed").to_string();
        assert!(error.starts_with("HTTP/3: "), "{second:x?}: {error}");
    }
    let trailers = [status("200"), headers(&[("x", "y")])];
    assert_eq!(outcome(CONTROL, &trailers).await.expect("an answer"), b"");
}

/// RFC 9114 section 4.1.2: an error of its stream, and of no other request.
#[tokio::main]
async fn a_malformed_answer_ends_its_stream_alone() {
    let (ok, data) = (status("200"), frame(0, b"abc"));
    let sound = [&ok[..], &data].concat();
    let twice = headers(&[(":status", "200"), (":status", "200")]);
    for malformed in [
        [&twice[..], &data].concat(),
        [&ok[..], &data, &status("200")].concat(),
        [&ok[..], &status("404")].concat(),
        [&status("101")[..], &ok].concat(),
        headers(&[(":status", "200"), ("connection", "close")]),
        headers(&[(":status", "200"), ("content-length", "x")]),
        [&headers(&[(":status", "200"), ("content-length", "2")])[..], &data].concat(),
    ] {
        let fin = || (sound.clone(), End::Fin);
        // What has come as a whole is not stopped.
        let answers = vec![fin(), (malformed.clone(), End::Open), fin()];
        let (server, mut seen) = server_that(vec![CONTROL.to_vec()], answers);
        let client = client_of(&server, TransportSettings::default()).await;
        let fetch = || tokio::time::timeout(PATIENCE, fetch(&client, "/f"));
        let outcomes = [fetch().await, fetch().await, fetch().await];
        let outcomes = outcomes.map(|outcome| outcome.expect("it ends").ok());
        assert_eq!(
            outcomes,
            [Some(b"abc".to_vec()), None, Some(b"abc".to_vec())],
            "{malformed:x?}"
        );
        let stopped = tokio::time::timeout(PATIENCE, seen.stopped.recv()).await;
        assert_eq!(stopped.expect("a code"), Some(MESSAGE_ERROR), "{malformed:x?}");
    }
}

/// RFC 9114 section 4.2.
#[tokio::main]
async fn an_answer_with_a_field_of_a_connection_is_malformed() {
    for name in ["transfer-encoding", "connection", "upgrade"] {
        let head = headers(&[(":status", "200"), (name, "chunked")]);
        let error = outcome(CONTROL, &[head, frame(0, b"abc")]).await.expect_err("malformed");
        let error = error.to_string();
        assert!(error.starts_with("HTTP/3: ") && error.contains(name), "{error}");
    }
}

/// Whoever asks on after the error hears it again, and no end of the body.
#[tokio::main]
async fn a_malformed_answer_does_not_end_after_its_error() {
    // So much that the client has the header before the error.
    let body = frame(0, &[7; 200_000]);
    let malformed = [&status("200")[..], &body, &status("404")].concat();
    let (server, _seen) = server_that(vec![CONTROL.to_vec()], vec![(malformed, End::Open)]);
    let client = client_of(&server, TransportSettings::default()).await;
    let mut answer = client.get("/f").await.expect("an answer");
    let mut errors = 0;
    while errors < 3 {
        match tokio::time::timeout(PATIENCE, answer.chunk()).await.expect("it ends") {
            Ok(chunk) => assert!(errors == 0 && chunk.is_some(), "an end after {errors} errors"),
            Err(_) => errors += 1,
        }
    }
}

fullpipe_testkit::tests! {
    [] a_malformed_answer_does_not_end_after_its_error;
    [] an_answer_with_a_field_of_a_connection_is_malformed;
    [] a_body_ends_with_its_stream_and_not_with_an_empty_frame;
    [] a_body_without_the_end_of_its_stream_is_no_file;
    [] data_behind_trailers_is_no_body_however_late_it_comes;
    [] data_that_is_cut_off_is_no_file;
    [] a_server_that_says_too_much_gets_no_more_memory;
    [] interim_answers_are_none;
    [] a_malformed_answer_ends_its_stream_alone;
    [] a_second_header_is_no_empty_file;
    [] frames_of_one_byte_are_not_collected;
    [] a_part_that_nobody_asked_for_is_no_file;
    [] a_length_is_checked_however_often_it_is_said;
}
