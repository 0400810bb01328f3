//! Limits of the server as its clients see them.

use crate::common::{fetch, start};
use fullpipe_quic::noq::{ConnectionError, TransportErrorCode};
use fullpipe_quic::{Client, ClientError, ClientOptions, Content, ServerOptions};
use fullpipe_testkit::PATIENCE;
use std::time::{Duration, Instant};

#[tokio::main]
async fn a_connection_beyond_the_limit_is_refused_until_another_one_ends() {
    let mut options = ServerOptions::default();
    options.limits.connections = 3;
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

fullpipe_testkit::tests! {
    [] a_connection_beyond_the_limit_is_refused_until_another_one_ends;
}
