//! quinn, as an application has it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use fullpipe_noq::TransportSettings;
use fullpipe_quinn::{Controllers, QuinnController, Unsent};
use fullpipe_report::observe::FlowSample;
use fullpipe_scenario::{Cc, StackAlgorithm};
use fullpipe_traffic::{Direction, SenderStats};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{
    ClientConfig, Connection, ConnectionId, ConnectionStats, Endpoint, EndpointConfig, IdleTimeout,
    ReadError, RecvStream, Runtime, SendStream, ServerConfig, TokioRuntime, TransportConfig,
    VarInt,
};

use super::identity::certificate;
use super::source::{self, REQUEST_BYTES};
use super::stack::{self, FlowError, Flows, Id, Stack, alike};
use crate::backend::RunError;

/// quinn as a stack.
pub(in crate::backend) struct Quinn;

alike!(Quinn);

fn runs(cc: Cc) -> bool {
    controllers(cc, 0).is_some()
}

/// quinn's own algorithms run as they do in an application that has never heard of ours.
fn runtime(mut senders: impl Iterator<Item = Cc>) -> Arc<dyn Runtime> {
    match senders.any(|cc| cc.algorithm().is_some()) {
        true => fullpipe_quinn::runtime(),
        false => Arc::new(TokioRuntime),
    }
}

fn transport(settings: &TransportSettings, control: Option<(Cc, u64)>) -> TransportConfig {
    match control.and_then(|(cc, seed)| controllers(cc, seed)) {
        Some(controllers) => sending(settings, controllers),
        None => receiving(settings),
    }
}

/// quinn's configuration with these settings.
pub(in crate::backend) fn sending(
    of: &TransportSettings,
    controllers: Arc<dyn ControllerFactory + Send + Sync>,
) -> TransportConfig {
    let idle_ms = VarInt::from_u64(of.idle_timeout.as_nanos() / 1_000_000);
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(of.stream_receive_window))
        .receive_window(VarInt::from_u32(of.receive_window))
        .send_window(of.send_window)
        .max_idle_timeout(Some(IdleTimeout::from(idle_ms.unwrap_or(VarInt::MAX))))
        .congestion_controller_factory(controllers);
    if let Some(bytes) = of.datagram_bytes {
        // Nor after losses that quinn takes for those of a smaller path.
        config.min_mtu(bytes).initial_mtu(bytes).mtu_discovery_config(None);
    }
    if let Some(rtt) = of.initial_rtt {
        config.initial_rtt(rtt.into());
    }
    config
}

/// As [`sending`], for an end that sends requests and acknowledgements: probes for larger packets
/// would be most of it.
pub(in crate::backend) fn receiving(of: &TransportSettings) -> TransportConfig {
    let mut config = sending(of, Arc::new(CubicConfig::default()));
    config.mtu_discovery_config(None);
    config
}

/// The factory of a congestion control; nothing for one that does not run over quinn.
pub(in crate::backend) fn controllers(
    cc: Cc,
    seed: u64,
) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    match cc {
        Cc::Stack(StackAlgorithm::QuinnBbr) => Some(Arc::new(BbrConfig::default())),
        Cc::Stack(StackAlgorithm::QuinnCubic) => Some(Arc::new(CubicConfig::default())),
        Cc::Stack(StackAlgorithm::QuinnReno) => Some(Arc::new(NewRenoConfig::default())),
        ours => Some(Arc::new(Controllers::new(ours.algorithm()?).with_seed(seed))),
    }
}

/// quinn's own controllers take its word for what the application has.
fn set_unsent(connection: &Connection, unsent: &Unsent) {
    if let Ok(ours) = connection.congestion_state().into_any().downcast::<QuinnController>() {
        ours.set_unsent(unsent);
    }
}

fn sample(connection: &Connection) -> Option<FlowSample> {
    let stats = connection.stats();
    let ours = connection.congestion_state().into_any().downcast::<QuinnController>().ok();
    let sample = ours.map_or_else(FlowSample::default, |c| FlowSample::of_model(c.snapshot()));
    let (cwnd, srtt) = (stats.path.cwnd, Some(stats.path.rtt.into()));
    Some(FlowSample { cwnd, srtt, sender: counters(&stats), ..sample })
}

/// The counters of a connection.
pub(in crate::backend) fn counters(stats: &ConnectionStats) -> SenderStats {
    SenderStats {
        sent_packets: stats.path.sent_packets,
        sent_bytes: stats.udp_tx.bytes,
        lost_packets: stats.path.lost_packets,
        lost_bytes: stats.path.lost_bytes,
    }
}

async fn read(stream: &mut RecvStream, chunks: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
    stream.read_chunks(chunks).await
}
