//! Limits of the server as its clients see them.

use crate::common::{fetch, start};
use fullpipe_files::noq::{ConnectionError, TransportErrorCode};
use fullpipe_files::{Client, ClientError, ClientOptions, Content, Server, ServerOptions};
use fullpipe_testkit::PATIENCE;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

#[tokio::main]
async fn a_connection_beyond_the_limit_is_refused_until_another_one_ends() {
    let mut options = ServerOptions::default();
    options.limits.connections = 3;
    options.limits.per_address = Some(3);
    let (server, verify) = start(Content::Bulk, options);
    let connect =
        || Client::connect(server.local_addr(), "localhost", &verify, ClientOptions::default());
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect().await.expect("a place"));
    }
    let Err(ClientError::Handshake { source, .. }) = connect().await else {
        panic!("a fourth connection");
    };
    let ConnectionError::ConnectionClosed(close) = source else { panic!("{source}") };
    assert_eq!(close.error_code, TransportErrorCode::CONNECTION_REFUSED);
    assert_eq!(server.stats().refused, 1);
    clients.pop().expect("a client").close().await;
    // The server keeps the end of a connection for a moment, in case that it is asked again.
    let end = Instant::now() + PATIENCE;
    let client = loop {
        match connect().await {
            Ok(client) => break client,
            Err(_) => assert!(Instant::now() < end, "no place gets free"),
        }
        // Sleeps: between two tries to connect.
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(fetch(&client, "/bulk/100").await.expect("a body").len(), 100);
}

/// A client's connection over HTTP/1.1, which it keeps open, and the answer on it.
async fn over_tcp(server: &Arc<Server>, from: &str) -> (DuplexStream, String) {
    let (mut client, stream) = tokio::io::duplex(1 << 16);
    let (server, from) = (server.clone(), from.parse().expect("an address"));
    tokio::spawn(async move { server.converse(stream, from).await });
    // The server may have closed it.
    let _ = client.write_all(b"GET /bulk/1 HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut begin = [0; 12];
    let read = tokio::time::timeout(PATIENCE, client.read_exact(&mut begin)).await;
    let status = match read.expect("an answer, or none") {
        Ok(_) => String::from_utf8_lossy(&begin[9..]).into_owned(),
        Err(_) => "closed".to_owned(),
    };
    (client, status)
}

#[tokio::main]
async fn neither_tcp_nor_one_host_takes_all_places() {
    let mut options = ServerOptions::default();
    options.limits.connections = 3;
    options.limits.tcp_connections = 3;
    options.limits.per_address = Some(2);
    let (server, verify) = start(Content::Bulk, options);
    let server = Arc::new(server);
    let mut open = Vec::new();
    for (from, expected) in [
        ("[2001:db8::1]:1", "200"),
        ("[2001:db8::2]:1", "200"),
        ("[2001:db8::ffff:1:2:3]:1", "closed"),
        ("192.0.2.1:1", "200"),
        ("192.0.2.2:1", "closed"),
    ] {
        let (client, status) = over_tcp(&server, from).await;
        assert_eq!(status, expected, "{from}");
        open.push(client);
    }
    let connect = async |from: &str| {
        let socket = std::net::UdpSocket::bind(from).expect("an address of loopback");
        let (to, options) = (server.local_addr(), ClientOptions::default());
        Client::connect_from(socket, to, "localhost", &verify, options).await
    };
    let _own = [
        connect("127.0.0.1:0").await.expect("a place of QUIC's"),
        connect("127.0.0.1:0").await.expect("another"),
    ];
    assert!(connect("127.0.0.1:0").await.is_err(), "a third of one host");
    if cfg!(target_os = "linux") {
        let _other = connect("127.0.0.2:0").await.expect("a place of another host's");
    }
}

fullpipe_testkit::tests! {
    [] neither_tcp_nor_one_host_takes_all_places;
    [] a_connection_beyond_the_limit_is_refused_until_another_one_ends;
}
