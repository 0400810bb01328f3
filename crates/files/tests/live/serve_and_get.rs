//! Files of the server arrive at the client, whatever their size, the controller and the address.

use std::sync::{Arc, Mutex};

use crate::common::{fetch, loopback, sha256, start, start_and_connect, write_file};
use fullpipe_cc::Duration;
use fullpipe_files::noq::PathId;
use fullpipe_files::{
    Client, ClientError, ClientOptions, CongestionControl, Content, ServeError, Server,
    ServerOptions, ServerTls, Verify, bulk_block,
};
use fullpipe_testkit::PATIENCE;

#[tokio::main]
async fn files_of_every_size_arrive_whole_and_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, client) = start_and_connect(Content::Dir(dir.path().to_owned())).await;
    let client = Arc::new(client);
    let mut running = Vec::new();
    for bytes in [0, 1, 1199, 262_144, 262_145, 3_000_000, 20_000_000] {
        let data = write_file(&dir.path().join(format!("{bytes}.bin")), bytes);
        let client = client.clone();
        running.push(tokio::spawn(async move {
            let body = fetch(&client, &format!("/{bytes}.bin")).await.expect("a body");
            assert_eq!(body.len(), bytes);
            assert_eq!(sha256(body), sha256(data), "{bytes} bytes");
        }));
    }
    for task in running {
        task.await.expect("equal files");
    }
    server.shutdown().await;
}

#[tokio::main]
async fn a_file_below_a_directory_is_found_by_its_encoded_name() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("süb dir")).expect("a directory");
    let data = write_file(&dir.path().join("süb dir/100%.txt"), 1000);
    std::os::unix::fs::symlink("süb dir/100%.txt", dir.path().join("inside")).expect("a link");
    let (_server, client) = start_and_connect(Content::Dir(dir.path().to_owned())).await;
    for path in ["/s%C3%BCb%20dir/100%25.txt", "/s%c3%bcb%20dir/100%25.txt?query", "/inside"] {
        assert_eq!(fetch(&client, path).await.expect(path), data, "{path}");
    }
}

#[tokio::main]
async fn every_controller_carries_data() {
    for name in CongestionControl::NAMES {
        let congestion: CongestionControl = name.parse().expect(name);
        let options = ServerOptions { congestion, ..ServerOptions::default() };
        let (server, verify) = start(Content::Bulk, options);
        let options = ClientOptions { congestion, ..ClientOptions::default() };
        let client =
            Client::connect(server.local_addr(), "localhost", &verify, options).await.expect(name);
        let body = fetch(&client, "/bulk/2000000").await.expect(name);
        let expected: Vec<u8> = bulk_block().iter().copied().cycle().take(2_000_000).collect();
        assert_eq!(sha256(body), sha256(expected), "{name}");
    }
}

#[tokio::main]
async fn bulk_without_a_count_flows_until_the_client_stops() {
    let (_server, client) = start_and_connect(Content::Bulk).await;
    let mut response = client.get("/bulk").await.expect("an answer");
    let mut seen = 0;
    let block = bulk_block();
    while seen < 5_000_000 {
        for byte in response.chunk().await.expect("data").expect("no end") {
            assert_eq!(byte, block[seen % block.len()], "at {seen}");
            seen += 1;
        }
    }
    drop(response);
    // The connection is still good for other requests.
    assert_eq!(fetch(&client, "/bulk/10").await.expect("a body"), &block[..10]);
}

#[tokio::main]
async fn a_harness_sees_each_connection_and_brings_its_own_sockets() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let accepted = seen.clone();
    let options = ServerOptions {
        on_accept: Some(Arc::new(move |connection| {
            accepted.lock().expect("the list").push(connection);
        })),
        ..ServerOptions::default()
    };
    let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
    let verify = Verify::Certificates(tls.certificates().to_vec());
    let socket = std::net::UdpSocket::bind(loopback()).expect("a socket");
    let server = Server::with_socket(socket, &tls, Content::Bulk, options).expect("a server");
    let socket = std::net::UdpSocket::bind(loopback()).expect("a socket");
    let own = socket.local_addr().expect("an address");
    let address = server.local_addr();
    let client =
        Client::connect_from(socket, address, "localhost", &verify, ClientOptions::default())
            .await
            .expect("a connection");
    fetch(&client, "/bulk/1000000").await.expect("a body");

    let seen = std::mem::take(&mut *seen.lock().expect("the list"));
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].path(PathId::ZERO).expect("a path").remote_address(), Ok(own));
    let stats = seen[0].path_stats(PathId::ZERO).expect("statistics");
    assert!(stats.udp_tx.bytes > 1_000_000, "{stats:?}");
    assert!(seen[0].congestion_state(PathId::ZERO).expect("a controller").window() > 0);
    assert_eq!(server.endpoint().stats().accepted_handshakes, 1);
}

#[tokio::main]
async fn ipv6_works_and_the_wildcard_takes_ipv4_too() {
    let tls = ServerTls::self_signed(&["localhost", "127.0.0.1", "::1"]).expect("a certificate");
    let verify = Verify::Certificates(tls.certificates().to_vec());
    let any = "[::]:0".parse().expect("an address");
    let server = Server::bind(any, &tls, Content::Bulk, ServerOptions::default()).expect("IPv6");
    let port = server.local_addr().port();
    for ip in ["::1", "127.0.0.1"] {
        let address = (ip.parse::<std::net::IpAddr>().expect(ip), port).into();
        let client =
            Client::connect(address, ip, &verify, ClientOptions::default()).await.expect(ip);
        assert_eq!(fetch(&client, "/bulk/5").await.expect(ip).len(), 5);
    }
}

#[tokio::main]
async fn a_server_that_stops_tells_its_clients_at_once() {
    for dropped in [false, true] {
        let (server, client) = start_and_connect(Content::Bulk).await;
        let mut response = client.get("/bulk").await.expect("an answer");
        response.chunk().await.expect("data");
        if dropped {
            drop(server)
        } else {
            server.shutdown().await
        }
        let end = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Err(error) = response.chunk().await {
                    break error;
                }
            }
        });
        let error = end.await.expect("no wait for a timeout");
        assert!(matches!(error, ClientError::Lost(_)), "{error:?}");
        assert!(error.to_string().contains("the server stops"), "{error}");
    }
}

#[tokio::main]
async fn a_port_in_use_and_a_directory_that_is_none_are_named() {
    let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
    let server = Server::bind(loopback(), &tls, Content::Bulk, ServerOptions::default());
    let taken = server.as_ref().expect("a server").local_addr();
    let error = Server::bind(taken, &tls, Content::Bulk, ServerOptions::default())
        .err()
        .expect("the port is taken");
    assert!(matches!(error, ServeError::Bind { .. }), "{error:?}");
    assert!(error.to_string().contains(&taken.to_string()), "{error}");

    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    write_file(&file, 1);
    for path in [file, dir.path().join("missing")] {
        let error =
            Server::bind(loopback(), &tls, Content::Dir(path.clone()), ServerOptions::default())
                .err()
                .expect("not a directory");
        assert!(error.to_string().contains(&format!("{path:?}")), "{error}");
    }
}

fn without_a_runtime_there_is_an_error_and_no_panic() {
    let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
    let error = Server::bind(loopback(), &tls, Content::Bulk, ServerOptions::default()).err();
    assert!(matches!(error, Some(ServeError::NoRuntime)), "{error:?}");
}

#[tokio::main]
async fn the_first_address_that_answers_is_taken() {
    let (server, verify) = start(Content::Bulk, ServerOptions::default());
    // Bound and silent, so that nobody else can get the port.
    let silent = std::net::UdpSocket::bind(loopback()).expect("a socket");
    let silent = silent.local_addr().expect("an address");
    let addresses = [silent, server.local_addr()];
    let handshake_timeout = Duration::from_secs(3600);
    let options = ClientOptions { handshake_timeout, ..ClientOptions::default() };
    let client = Client::connect_to_any(&addresses, "localhost", &verify, options);
    let client = tokio::time::timeout(PATIENCE, client).await;
    let client = client.expect("the first is not waited for to the end").expect("the second");
    assert_eq!(
        client.connection().path(PathId::ZERO).expect("a path").remote_address(),
        Ok(server.local_addr())
    );

    let error = Client::connect_to_any(&addresses, "elsewhere", &verify, options).await;
    assert!(matches!(error.err(), Some(ClientError::Untrusted { .. })), "the wrong name");
    let error = Client::connect_to_any(&[], "localhost", &verify, options).await;
    assert!(matches!(error.err(), Some(ClientError::NoAddress)));
    let options = ClientOptions { handshake_timeout: Duration::from_millis(100), ..options };
    let error = Client::connect_to_any(&[silent, silent], "localhost", &verify, options).await;
    assert!(matches!(error.err(), Some(ClientError::NoAnswer { .. })));
}

fullpipe_testkit::tests! {
    [] files_of_every_size_arrive_whole_and_at_once;
    [] a_file_below_a_directory_is_found_by_its_encoded_name;
    [] every_controller_carries_data;
    [] bulk_without_a_count_flows_until_the_client_stops;
    [] a_harness_sees_each_connection_and_brings_its_own_sockets;
    [Ipv6] ipv6_works_and_the_wildcard_takes_ipv4_too;
    [] a_server_that_stops_tells_its_clients_at_once;
    [] a_port_in_use_and_a_directory_that_is_none_are_named;
    [] without_a_runtime_there_is_an_error_and_no_panic;
    [] the_first_address_that_answers_is_taken;
}
