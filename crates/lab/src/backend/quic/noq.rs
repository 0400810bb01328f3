//! noq, as an application has it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use fullpipe_cc::{Algorithm, Rate};
use fullpipe_noq::{CongestionControl, NoqController, TransportSettings, Unsent};
use fullpipe_report::observe::FlowSample;
use fullpipe_scenario::Cc;
use fullpipe_traffic::{Direction, SenderStats};
use noq::{
    ClientConfig, Connection, ConnectionId, Endpoint, EndpointConfig, PathId, PathStats, ReadError,
    RecvStream, Runtime, SendStream, ServerConfig, TransportConfig,
};

use super::identity::certificate;
use super::source::{self, REQUEST_BYTES};
use super::stack::{self, FlowError, Flows, Id, Stack, alike};
use crate::backend::RunError;

/// noq as a stack.
pub(in crate::backend) struct Noq;

alike!(Noq);

fn runs(cc: Cc) -> bool {
    matches!(cc, Cc::Program(_))
}

/// Packets do not ask for marks: the flows of an endpoint may have algorithms without an answer.
fn runtime(_: impl Iterator<Item = Cc>) -> Arc<dyn Runtime> {
    fullpipe_noq::runtime(CongestionControl::Fullpipe(Algorithm::BBR3))
}

fn transport(settings: &TransportSettings, control: Option<(Cc, u64)>) -> TransportConfig {
    match control {
        Some((Cc::Program(cc), seed)) => settings.noq(cc, seed),
        _ => receiving(settings),
    }
}

/// For an end that sends requests and acknowledgements: probes for larger packets would be most of
/// it.
pub(in crate::backend) fn receiving(settings: &TransportSettings) -> TransportConfig {
    let mut config = settings.noq(CongestionControl::Fullpipe(Algorithm::CUBIC), 0);
    config.mtu_discovery_config(None);
    config
}

/// noq's own controllers take its word for what the application has.
fn set_unsent(connection: &Connection, unsent: &Unsent) {
    let controller = connection.congestion_state(PathId::ZERO);
    if let Some(Ok(ours)) = controller.map(|c| c.into_any().downcast::<NoqController>()) {
        ours.set_unsent(unsent);
    }
}

fn sample(connection: &Connection) -> Option<FlowSample> {
    let stats = connection.path_stats(PathId::ZERO)?;
    let controller = connection.congestion_state(PathId::ZERO)?;
    let pacing = controller.metrics().pacing_rate.map(Rate::from_bytes_per_sec);
    let ours = controller.into_any().downcast::<NoqController>().ok();
    let sample = match ours {
        Some(ours) => FlowSample::of_model(ours.snapshot()),
        None => FlowSample { pacing, ..FlowSample::default() },
    };
    let (cwnd, srtt, sender) = (stats.cwnd, Some(stats.rtt.into()), counters(&stats));
    Some(FlowSample { cwnd, srtt, sender, ..sample })
}

/// The counters of a path.
pub(in crate::backend) fn counters(stats: &PathStats) -> SenderStats {
    SenderStats {
        sent_packets: stats.sent_packets,
        sent_bytes: stats.sent_bytes,
        lost_packets: stats.lost_packets,
        lost_bytes: stats.lost_bytes,
    }
}

async fn read(stream: &mut RecvStream, chunks: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
    stream.read_many_chunks(chunks).await
}
