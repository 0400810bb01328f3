//! noq, with the server and the client of fullpipe-files.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use fullpipe_cc::Rate;
use fullpipe_files::noq::{Connection, Endpoint, PathId};
use fullpipe_files::{
    Arrival, Client, ClientOptions, Connector, Content, Handshake, Limits, Maker, OnAccept,
    Response, Server, ServerOptions, ServerTls, Verify,
};
use fullpipe_noq::NoqController;
use fullpipe_traffic::SenderStats;

use super::source;
use super::stack::{self, FlowError, Flows, Sending, Settings, Stack, server_name};
use crate::backend::RunError;
use crate::observe::FlowSample;
use crate::scenario::Cc;

/// noq as a stack.
pub(in crate::backend) struct Noq;

impl Stack for Noq {
    const NAME: &'static str = "quic";
    type Identity = ServerTls;
    type Server = Server;
    type Connection = Connection;
    type Dialer = Dialer;

    fn runs(cc: Cc) -> bool {
        matches!(cc, Cc::Program(_))
    }

    fn identity(names: &[&str]) -> Result<ServerTls, RunError> {
        Ok(ServerTls::self_signed(names)?)
    }

    fn serve(
        socket: UdpSocket,
        identity: &ServerTls,
        flows: &Arc<Flows<Connection>>,
    ) -> Result<(Server, SocketAddr), RunError> {
        let server = Server::with_socket(socket, identity, Content::Bulk, options(flows))?;
        let address = server.local_addr();
        Ok((server, address))
    }

    fn dialer(identity: &ServerTls, settings: Settings) -> Dialer {
        let options = ClientOptions {
            transport: settings.transport,
            handshake_timeout: settings.handshake_timeout,
            ..ClientOptions::default()
        };
        Dialer { verify: Verify::Certificates(identity.certificates().to_vec()), options }
    }

    async fn shutdown(server: Server) {
        server.shutdown().await;
    }
}

fn options(flows: &Arc<Flows<Connection>>) -> ServerOptions {
    let (accepting, choosing) = (flows.clone(), flows.clone());
    let on_accept: OnAccept = Arc::new(move |connection| {
        let name = Handshake::of(&connection).and_then(|handshake| handshake.server_name);
        let place = name
            .and_then(|name| (0..accepting.controllers.len()).find(|i| server_name(*i) == name));
        if let Some(flow) = place {
            accepting.accept(flow, connection);
        }
    });
    let choose = move |client: &Arrival| match choosing.of(&client.connection_id)? {
        (_, Cc::Program(cc), seed) => Some((cc, seed)),
        _ => None,
    };
    let mut limits = Limits::default();
    // A Retry would be a round trip that is the server's and not the path's.
    limits.unvalidated_handshakes = limits.connections;
    limits.handshake_timeout = flows.settings.handshake_timeout.into();
    let made: Maker = Arc::new(|path| Some(Box::new(source::made(path)?)));
    ServerOptions {
        limits,
        made: Some(made),
        transport: flows.settings.transport,
        on_accept: Some(on_accept),
        choose: Some(Arc::new(choose)),
        ..ServerOptions::default()
    }
}

#[derive(Clone)]
pub(in crate::backend) struct Dialer {
    verify: Verify,
    options: ClientOptions,
}

impl stack::Dialer for Dialer {
    type Endpoint = Endpoint;
    type Client = Client;

    fn endpoint(&self, socket: UdpSocket) -> Result<Endpoint, FlowError> {
        Ok(Connector::new(&self.verify, self.options)?.endpoint(socket)?)
    }

    async fn connect(
        &self,
        over: &Endpoint,
        server: SocketAddr,
        server_name: &str,
        first_connection_id: [u8; 8],
    ) -> Result<Client, FlowError> {
        let first_connection_id = Some(first_connection_id);
        let options = ClientOptions { first_connection_id, ..self.options };
        let connector = Connector::new(&self.verify, options)?;
        Ok(connector.connect_over(over, server, server_name).await?)
    }
}

impl stack::Client for Client {
    type Response = Response;

    async fn get(&self, path: &str) -> Result<Response, FlowError> {
        Ok(self.get(path).await?)
    }

    async fn close(self) {
        self.close().await;
    }

    fn leave(self) {
        self.connection().close(0_u32.into(), b"");
    }
}

impl stack::Response for Response {
    async fn chunk(&mut self) -> Result<Option<Bytes>, FlowError> {
        Ok(self.chunk().await?)
    }
}

impl Sending for Connection {
    fn sample(&self) -> Option<FlowSample> {
        let stats = self.path_stats(PathId::ZERO)?;
        let controller = self.congestion_state(PathId::ZERO)?;
        let pacing = controller.metrics().pacing_rate.map(Rate::from_bytes_per_sec);
        let ours = controller.into_any().downcast::<NoqController>().ok();
        let mut sample = match ours {
            Some(ours) => FlowSample::of_model(ours.snapshot()),
            None => FlowSample { pacing, ..FlowSample::default() },
        };
        sample.cwnd = stats.cwnd;
        sample.srtt = Some(stats.rtt.into());
        sample.sender = SenderStats {
            sent_packets: stats.sent_packets,
            sent_bytes: stats.sent_bytes,
            lost_packets: stats.lost_packets,
            lost_bytes: stats.lost_bytes,
        };
        if !self.is_open() {
            (sample.rtt, sample.srtt) = (None, None);
        }
        Some(sample)
    }

    fn is_open(&self) -> bool {
        self.close_reason().is_none()
    }
}
