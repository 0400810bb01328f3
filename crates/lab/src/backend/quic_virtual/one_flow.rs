//! One flow of a QUIC stack on one path, which its owner drives event by event.

use fullpipe_cc::{Algorithm, Duration, Snapshot};
use fullpipe_noq::TransportSettings;
use fullpipe_path::PathConfig;
use fullpipe_scenario::Cc;
use fullpipe_sim::{FlowConfig, Io, SimConfig};
use fullpipe_traffic::SenderStats;

use super::NO_TIMEOUT;
use super::ends::{QuicEnds, SERVER_NAME};
use super::stack::Stack;
use crate::backend::RunError;
use crate::backend::driven::{Driven, DrivenFlow, FLOW, Steered};
use crate::backend::network::{Flow, SENDER, Stacks, Transport, stacks};
use crate::backend::quic::identity::Identity;
use crate::backend::virtual_time::Observed;

/// The first connection of the flow.
const CONNECTION: u64 = 0;

/// Bytes that the stack holds for the connection and that its peer lets it send: more than any path
/// here has in flight, so that congestion control alone limits the sender.
const WINDOW: u32 = 1 << 30;

/// Streams of the connection: see [`TransportSettings::stream_receive_window`].
const STREAMS: u64 = 64;

/// Settings of a flow of a QUIC stack.
#[derive(Clone, Copy, Debug)]
pub struct QuicFlowConfig {
    /// One of our algorithms, or the stack's own BBR.
    pub cc: Cc,
    /// The seed of what ours draw.
    pub seed: u64,
    /// Bytes of a full datagram; no other size is tried.
    pub datagram_bytes: u16,
    /// The timers of the handshake begin with this.
    pub initial_rtt: Duration,
}

/// The state of whoever looks at a sender.
pub(in crate::backend) struct Look<S: Stack> {
    /// True if the controller is one of ours, which shows its model.
    is_ours: bool,
    view: S::View,
    /// The last look at a controller of the stack's own.
    seen: Option<(Marks, Snapshot)>,
}

/// Counts of a sender without a change of which its controller has not changed either: of ACKs, and
/// of packets sent and lost.
type Marks = [u64; 3];

impl<S: Stack> Steered for Flow<QuicEnds<S>> {
    type Look = Look<S>;

    fn is_connected(&self) -> bool {
        self.transport().look(CONNECTION).is_some_and(|seen| seen.is_established)
    }

    fn model(
        world: &mut Stacks<QuicEnds<S>>,
        look: &mut Look<S>,
    ) -> Result<Option<Snapshot>, RunError> {
        let Some(connection) = world.flow(FLOW).transport().connection(CONNECTION) else {
            return Ok(None);
        };
        if look.is_ours {
            return Ok(S::snapshot(connection));
        }
        let acks = world.flow(FLOW).transport().look(CONNECTION).map_or(0, |seen| seen.rtt.count);
        let SenderStats { sent_packets, lost_packets, .. } = Self::sent(world, FLOW);
        let marks = [acks, sent_packets, lost_packets];
        if let Some((_, seen)) = look.seen.filter(|(before, _)| *before == marks) {
            return Ok(Some(seen));
        }
        let Some(connection) = world.flow(FLOW).transport().connection(CONNECTION) else {
            return Ok(None);
        };
        let seen = S::view(connection, &mut look.view)?;
        look.seen = Some((marks, seen));
        Ok(Some(seen))
    }

    fn withhold(&mut self) {
        self.withhold();
        self.transport_mut().abandon(CONNECTION);
    }

    fn offer(&mut self, io: &mut Io<'_, Self>, bytes: u64) {
        self.offer(io, bytes);
        self.pump(io, SENDER);
    }
}

/// A flow that has just begun its handshake.
pub(in crate::backend) fn drive<S: Stack>(
    downlink: PathConfig,
    uplink: PathConfig,
    config: QuicFlowConfig,
) -> Result<Box<dyn DrivenFlow>, RunError> {
    let ours = config.cc.algorithm();
    let cc = S::control(config.cc).ok_or_else(|| {
        RunError::Scenario(format!("{} is none of the algorithms of {}", config.cc, S::NAMED))
    })?;
    let flow = FlowConfig {
        jitter: Duration::ZERO,
        // The stack's own has no use for it.
        ..FlowConfig::bulk(ours.unwrap_or(Algorithm::BBR3), config.seed)
    };
    let sim = SimConfig::new(downlink, uplink, vec![flow]);
    let identity = Identity::new(SERVER_NAME)?;
    let settings = TransportSettings {
        send_window: u64::from(WINDOW),
        receive_window: WINDOW,
        idle_timeout: NO_TIMEOUT,
        datagram_bytes: Some(config.datagram_bytes),
        initial_rtt: Some(config.initial_rtt),
        ..TransportSettings::default()
    };
    let mut world =
        stacks(&sim, |_, flow| QuicEnds::<S>::new(flow, cc, settings, STREAMS, &identity))?;
    // The application opens its connection, and then has nothing to send.
    world.step();
    world.flow_mut(FLOW).withhold();
    let is_ours = ours.is_some();
    let gaps = if is_ours { &[] } else { S::GAPS };
    let look = Look { is_ours, view: S::View::default(), seen: None };
    Ok(Box::new(Driven::new(world, look, gaps, true)?))
}
