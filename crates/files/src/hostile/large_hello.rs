//! A ClientHello that takes two Initial packets, in each pair of versions.

use std::net::SocketAddr;
use std::sync::Arc;

use fullpipe_noq_repairs::{ClientCrypto, UpgradedServers, client_socket};
use noq::{Endpoint, EndpointConfig};
use rustls::crypto::ring;

use super::net::Net;
use crate::tls::initial_suite;
use crate::{Content, QuicVersions, Server, ServerOptions, ServerTls, hq};

/// So many protocols that their names fill more than a packet.
fn tls(server: &ServerTls) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in server.certificates() {
        roots.add(certificate).expect("a certificate");
    }
    let provider = Arc::new(ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = (0..40).map(|i| format!("{i:050}").into_bytes()).collect();
    tls.alpn_protocols.push(hq::ALPN.to_vec());
    tls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_hello_of_two_packets_is_answered_in_the_version_that_both_prefer() {
    let server_tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
    for (client, server, moved) in [
        (QuicVersions::V1, QuicVersions::V1AndV2, false),
        (QuicVersions::V1AndV2, QuicVersions::V1, false),
        (QuicVersions::V1AndV2, QuicVersions::V1AndV2, true),
        (QuicVersions::V2, QuicVersions::V1AndV2, true),
    ] {
        let options = ServerOptions { versions: server, ..ServerOptions::default() };
        let [there, here] = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 443)));
        let net = Net::new(there);
        let runtime = fullpipe_noq::runtime(ServerOptions::default().congestion);
        let socket = net.socket(there, None);
        let server =
            Server::over(socket, Vec::new(), runtime.clone(), &server_tls, Content::Bulk, options);
        let server = server.expect("a server");
        let socket = client_socket(net.socket(here, None), client, None);
        let config = EndpointConfig::default();
        let endpoint = Endpoint::new_with_abstract_socket(config, None, socket, runtime);
        let endpoint = endpoint.expect("an endpoint");
        let suite = initial_suite().expect("ring has it");
        let known = UpgradedServers::default();
        let tls = Arc::new(tls(&server_tls));
        let crypto = ClientCrypto { tls, suite, versions: client, moved: known.clone() };
        let config = noq::ClientConfig::new(Arc::new(crypto));
        let connecting = endpoint.connect_with(config, server.local_addr(), "localhost");
        let connection = connecting.expect("begun").await.expect("connected");
        let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
        send.write_all(b"GET /bulk/100000\r\n").await.expect("sent");
        send.finish().expect("not finished before");
        let body = recv.read_to_end(200_000).await.expect("a body");
        assert_eq!(body.len(), 100_000, "{client}");
        assert_eq!(known.contains("localhost"), moved, "{client}: is it version 2?");
        let first = connection.stats().udp_tx;
        assert!(first.datagrams > 2, "{first:?}");
    }
}
