//! quinn without its sockets. Its own pacer knows a window and no rate: the rate of our controllers
//! is enforced below it, as the socket of fullpipe-quinn does. Nothing enforces one for quinn's own
//! controllers, as in an application.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use fullpipe_cc::{BandwidthProbe, Rate, Snapshot};
use fullpipe_noq::{Marks, TransportSettings, Unsent};
use fullpipe_path::Ecn;
use fullpipe_quinn::{Controllers, Pacing, Permit, QuinnController, l4s_client};
use fullpipe_report::observe::FlowSample;
use fullpipe_scenario::Cc;
use fullpipe_traffic::SenderStats;
use quinn_proto::congestion::{Bbr, ControllerFactory};
use quinn_proto::{
    ClientConfig, Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, ServerConfig,
    StreamId, Transmit,
};

use super::end::PEER;
use super::foreign::{self, Gap};
use super::stack::{Arrival, BATCH, Batch, Leave, News, Own, Stack, alike};
use crate::backend::RunError;
use crate::backend::quic::identity::{Identity, certificate};
use crate::backend::quic::quinn::{controllers, counters, receiving, sending};

/// quinn as a stack.
pub(in crate::backend) struct Quinn;

impl Stack for Quinn {
    const NAMED: fullpipe_scenario::Stack = fullpipe_scenario::Stack::Quinn;

    type Control = Cc;
    type Pacing = Pacing;
    type View = foreign::quinn::View;

    const GAPS: &'static [Gap] = &foreign::quinn::GAPS;

    alike!(quinn_proto);

    fn control(cc: Cc) -> Option<Cc> {
        controllers(cc, 0).map(|_| cc)
    }

    fn server(
        identity: &Identity,
        settings: &TransportSettings,
        _: u64,
    ) -> Result<ServerConfig, RunError> {
        let (chain, key) = identity.chain_and_key();
        let mut server = ServerConfig::with_single_cert(chain, key).map_err(certificate)?;
        server.transport_config(Arc::new(receiving(settings)));
        Ok(server)
    }

    fn set_control(client: &mut ClientConfig, settings: &TransportSettings, cc: Cc, own: Own) {
        let controllers: Option<Arc<dyn ControllerFactory + Send + Sync>> = match cc.algorithm() {
            Some(ours) => {
                let mut controllers = Controllers::new(ours).with_seed(own.seed);
                if let Some(saved) = own.saved {
                    controllers = controllers.resuming(saved);
                }
                if let Some(marks) = own.marks {
                    controllers = controllers.with_marks(marks);
                }
                Some(Arc::new(controllers))
            }
            None => controllers(cc, own.seed),
        };
        // One that does not run here is not let in by `control`.
        if let Some(controllers) = controllers {
            client.transport_config(Arc::new(sending(settings, controllers)));
        }
    }

    fn endpoint(seed: [u8; 32], server: Option<Arc<ServerConfig>>) -> Endpoint {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(seed));
        Endpoint::new(Arc::new(config), server, true, None)
    }

    fn leave(pacing: &mut Pacing, now: Instant, batch: &Batch) -> Leave {
        match pacing.permit(now) {
            Permit::At(time) => Leave::At(time),
            Permit::Now(grant) => {
                let part = grant.part(batch.size, batch.segment_size);
                grant.have_left(now, batch.size, batch.segment_size);
                // Also of an algorithm that does not answer marks: the flow says what leaves.
                Leave::Now(part, batch.ecn)
            }
        }
    }

    fn write(connection: &mut Connection, id: StreamId, data: Bytes) -> usize {
        connection.send_stream(id).write_chunks(&mut [data]).map_or(0, |written| written.bytes)
    }

    fn acks(connection: &mut Connection) -> u64 {
        connection.stats().frame_rx.acks
    }

    fn counters(connection: &mut Connection) -> SenderStats {
        counters(&connection.stats())
    }

    fn sample(connection: &Connection) -> Option<FlowSample> {
        let cwnd = connection.congestion_state().window();
        let model = Self::snapshot(connection).map(FlowSample::of_model);
        Some(FlowSample { cwnd, srtt: Some(connection.rtt().into()), ..model.unwrap_or_default() })
    }

    fn snapshot(connection: &Connection) -> Option<Snapshot> {
        ours(connection).map(|ours| ours.snapshot())
    }

    fn set_unsent(connection: &Connection, unsent: &Unsent) {
        if let Some(ours) = ours(connection) {
            ours.set_unsent(unsent);
        }
    }

    fn probe_bandwidth(
        connection: &Connection,
        now: Instant,
        target: Rate,
    ) -> Option<BandwidthProbe> {
        ours(connection).map(|ours| ours.probe_bandwidth(now, target))
    }

    fn view(connection: &Connection, view: &mut Self::View) -> Result<Snapshot, RunError> {
        let controller = connection.congestion_state();
        let (cwnd, lost) = (controller.window(), connection.stats().path.lost_bytes);
        // The interface of a controller is not `Debug` here, as it is in noq.
        let own = controller.clone_box().into_any().downcast::<Bbr>();
        view.look(&own.map_err(|_| RunError::Lost)?, cwnd, lost)
    }
}

/// The controller, as an application sees it; `None` where it is none of ours.
fn ours(connection: &Connection) -> Option<Box<QuinnController>> {
    let controller = connection.congestion_state();
    controller.clone_box().into_any().downcast().ok()
}

fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    ecn: Option<EcnCodepoint>,
    datagram: BytesMut,
    reply: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, PEER, None, ecn, datagram, reply)
}

fn transmit(
    connection: &mut Connection,
    pacing: &mut Pacing,
    now: Instant,
    bytes: &mut Vec<u8>,
) -> Option<Transmit> {
    pacing.poll_transmit(connection, now, BATCH, bytes)
}
