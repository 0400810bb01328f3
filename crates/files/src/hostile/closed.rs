//! Clients that open and close connections one after the other: what the server keeps of those that
//! are closed.

use std::net::SocketAddr;
use std::sync::Arc;

use noq::crypto::{self, Session};
use noq::{ConnectError, ConnectionError, Endpoint, EndpointConfig, Side, VarInt};
use noq_proto::transport_parameters::TransportParameters;

use super::flood::until;
use super::net::Net;
use super::server::fine;
use super::{runtime, target};
use crate::tls::Sessions;
use crate::{
    Alpn, Cipher, Content, Limits, QuicVersions, Server, ServerOptions, ServerTls, Verify,
};

/// A client whose ACKs may come as late as RFC 9000 section 18.2 allows: the server has to wait
/// for what may still come of it for three times as long.
struct Late(Arc<dyn crypto::ClientConfig>);

impl crypto::ClientConfig for Late {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let mut written = Vec::new();
        parameters.write(&mut written);
        // max_ack_delay, which is not there when it is the usual one: 2^14 - 1 ms.
        written.extend_from_slice(&[0x0b, 2, 0x7f, 0xff]);
        let parameters = TransportParameters::read(Side::Server, &mut &written[..]);
        self.0.start_session(version, server_name, &parameters.expect("parameters"))
    }
}

struct Attacked {
    net: Net,
    server: Server,
}

impl Attacked {
    fn start(limits: Limits) -> Self {
        let net = Net::new(target());
        let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate");
        let options = ServerOptions { limits, ..ServerOptions::default() };
        let socket = net.socket(target(), None);
        let server = Server::over(socket, Vec::new(), fine(), &tls, Content::Bulk, options);
        Self { net, server: server.expect("a server") }
    }

    /// Opens a connection and closes it. False if it is refused.
    async fn visit(&self, from: SocketAddr, is_late: bool) -> bool {
        let sessions = Arc::new(Sessions::new());
        let crypto =
            Verify::Insecure.crypto(Cipher::Any, Alpn::HqInterop, QuicVersions::V1, sessions);
        let mut crypto: Arc<dyn crypto::ClientConfig> = Arc::new(crypto.expect("TLS"));
        if is_late {
            crypto = Arc::new(Late(crypto));
        }
        let socket = self.net.socket(from, None);
        let endpoint =
            Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, fine());
        let endpoint = endpoint.expect("an endpoint");
        let config = noq::ClientConfig::new(crypto);
        let connecting = endpoint.connect_with(config, target(), "localhost").expect("it begins");
        let connection = match connecting.await {
            Ok(connection) => connection,
            Err(ConnectionError::ConnectionClosed(_)) => return false,
            Err(error) => panic!("{error}"),
        };
        connection.close(VarInt::from_u32(0), b"");
        until("the server hears of it", || self.server.stats().connections == 0).await;
        true
    }
}

#[test]
fn closed_connections_that_stay_for_long_are_bounded() {
    runtime().block_on(async {
        let limits = Limits { per_address: Some(2), ..Limits::default() };
        let attacked = Attacked::start(limits);
        let (mut visits, mut most) = (0, 0);
        for port in 1..=60 {
            visits += usize::from(attacked.visit(([192, 0, 2, 9], port).into(), true).await);
            most = most.max(attacked.server.endpoint().open_connections());
        }
        assert_eq!((visits, most), (20, 20), "visits, and what is kept of them at most");
        assert_eq!(attacked.server.stats().refused, 40);
        assert!(attacked.visit(([198, 51, 100, 1], 1).into(), false).await, "somebody else");
    });
}

#[test]
fn whoever_has_one_place_may_come_back_at_once() {
    runtime().block_on(async {
        let limits = Limits { per_address: Some(1), ..Limits::default() };
        let attacked = Attacked::start(limits);
        for port in 1..=15 {
            assert!(attacked.visit(([192, 0, 2, 9], port).into(), false).await, "visit {port}");
        }
        // An honest client's are gone soon.
        until("nothing is kept", || attacked.server.endpoint().open_connections() == 0).await;
    });
}
