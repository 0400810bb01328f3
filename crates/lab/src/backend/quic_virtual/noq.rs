//! noq without its sockets. It paces by itself, and what leaves is what it made.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use fullpipe_cc::{Algorithm, BandwidthProbe, Duration, Rate, Snapshot};
use fullpipe_noq::{
    CongestionControl, Controllers, Marks, NoqController, TransportSettings, Unsent,
};
use fullpipe_noq_repairs::l4s_client;
use fullpipe_path::Ecn;
use fullpipe_report::observe::FlowSample;
use fullpipe_scenario::Cc;
use fullpipe_traffic::SenderStats;
use noq_proto::{
    ClientConfig, Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple,
    PathId, ServerConfig, StreamId, Transmit,
};

use super::end::PEER;
use super::foreign::{self, Gap};
use super::stack::{Arrival, BATCH, Batch, Leave, News, Own, Stack, alike};
use crate::backend::RunError;
use crate::backend::quic::identity::{Identity, certificate};
use crate::backend::quic::noq::counters;

/// noq as a stack.
pub(in crate::backend) struct Noq;

impl Stack for Noq {
    const NAMED: fullpipe_scenario::Stack = fullpipe_scenario::Stack::Noq;

    type Control = CongestionControl;
    type Pacing = ();
    type View = foreign::noq::View;

    const GAPS: &'static [Gap] = &foreign::noq::GAPS;

    alike!(noq_proto);

    fn control(cc: Cc) -> Option<CongestionControl> {
        match cc {
            Cc::Program(cc) => Some(cc),
            _ => None,
        }
    }

    fn server(
        identity: &Identity,
        settings: &TransportSettings,
        seed: u64,
    ) -> Result<ServerConfig, RunError> {
        let (chain, key) = identity.chain_and_key();
        let mut server = ServerConfig::with_single_cert(chain, key).map_err(certificate)?;
        // The receiver sends ACKs and requests, which fill no path.
        let of_receiver = settings.noq(CongestionControl::Fullpipe(Algorithm::CUBIC), seed);
        server.transport_config(Arc::new(of_receiver));
        Ok(server)
    }

    fn set_control(
        client: &mut ClientConfig,
        settings: &TransportSettings,
        control: CongestionControl,
        own: Own,
    ) {
        let mut config = settings.noq(control, own.seed);
        let mut controllers = Controllers::new(control).with_seed(own.seed);
        if let Some(saved) = own.saved {
            controllers = controllers.resuming(saved);
        }
        if let Some(marks) = own.marks {
            controllers = controllers.with_marks(marks);
        }
        config.congestion_controller_factory(Arc::new(controllers));
        client.transport_config(Arc::new(config));
    }

    fn endpoint(seed: [u8; 32], server: Option<Arc<ServerConfig>>) -> Endpoint {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(seed));
        Endpoint::new(Arc::new(config), server, true)
    }

    fn leave(_: &mut (), _: Instant, batch: &Batch) -> Leave {
        Leave::Now(0..batch.size, batch.ecn)
    }

    fn write(connection: &mut Connection, id: StreamId, data: Bytes) -> usize {
        connection.send_stream(id).write_chunks(&mut &mut [data][..]).unwrap_or(0)
    }

    fn acks(connection: &mut Connection) -> u64 {
        connection.path_stats(PathId::ZERO).map_or(0, |stats| stats.frame_rx.acks)
    }

    fn counters(connection: &mut Connection) -> SenderStats {
        counters(&connection.path_stats(PathId::ZERO).unwrap_or_default())
    }

    fn sample(connection: &Connection) -> Option<FlowSample> {
        let controller = connection.congestion_state(PathId::ZERO)?;
        let srtt: Option<Duration> = connection.rtt(PathId::ZERO).map(Into::into);
        let (cwnd, pacing) = (controller.window(), controller.metrics().pacing_rate);
        let sample = match Self::snapshot(connection) {
            Some(snapshot) => FlowSample::of_model(snapshot),
            None => {
                FlowSample { pacing: pacing.map(Rate::from_bytes_per_sec), ..FlowSample::default() }
            }
        };
        Some(FlowSample { cwnd, srtt, ..sample })
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
        view.look(&connection.congestion_state(PathId::ZERO).ok_or(RunError::Lost)?)
    }
}

/// The controller, as an application sees it; `None` where it is none of ours.
fn ours(connection: &Connection) -> Option<Box<NoqController>> {
    let controller = connection.congestion_state(PathId::ZERO)?;
    controller.clone_box().into_any().downcast().ok()
}

fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    ecn: Option<EcnCodepoint>,
    datagram: BytesMut,
    reply: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, FourTuple::from_remote(PEER), ecn, datagram, reply)
}

fn transmit(
    connection: &mut Connection,
    _: &mut (),
    now: Instant,
    bytes: &mut Vec<u8>,
) -> Option<Transmit> {
    connection.poll_transmit(now, NonZeroUsize::new(BATCH)?, bytes)
}
