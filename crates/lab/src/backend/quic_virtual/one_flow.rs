//! One flow of a QUIC stack on one path, which its owner drives event by event.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate, Snapshot};
use fullpipe_noq::TransportSettings;
use fullpipe_path::{ConfigError, PathConfig, Probability, Selection};
use fullpipe_scenario::Cc;
use fullpipe_sim::{FlowConfig, SimConfig};
use fullpipe_traffic::SenderStats;

use super::NO_TIMEOUT;
use super::ends::{Ends, SERVER_NAME};
use super::foreign::Gap;
use super::noq::Noq;
#[cfg(feature = "quinn")]
use super::quinn::Quinn;
use super::stack::Stack;
use crate::backend::RunError;
use crate::backend::network::{Stacks, Transport};
use crate::backend::quic::identity::Identity;
use crate::backend::virtual_time::World;

/// The flow, and the first connection of it.
const FLOW: usize = 0;
const CONNECTION: u64 = 0;

/// Bytes that the stack holds for the connection and that its peer lets it send: more than any path
/// here has in flight, so that congestion control alone limits the sender.
const WINDOW: u32 = 1 << 30;

/// Streams of the connection: see [`TransportSettings::stream_receive_window`].
const STREAMS: u64 = 64;

/// A network that is driven from outside, whatever its stack is.
trait Driven {
    fn now(&self) -> Instant;
    fn next_event(&self) -> Option<Instant>;
    fn step(&mut self);
    fn run_until(&mut self, time: Instant);
    fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError>;
    fn set_loss(&mut self, probability: Probability, seed: u64);
    fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError>;
    fn withhold(&mut self);
    fn offer(&mut self, bytes: u64);
    fn is_connected(&self) -> bool;
    fn received(&self) -> u64;
    fn lost_packets(&mut self) -> u64;
    /// The sender's model; `None` if its connection is gone.
    fn model(&mut self) -> Result<Option<Snapshot>, RunError>;
}

struct Driver<S: Stack> {
    network: Stacks<Ends<S>>,
    /// True if the controller is one of ours, which shows its model.
    is_ours: bool,
    view: S::View,
    /// The last look at a controller of the stack's own.
    seen: Option<(Marks, Snapshot)>,
}

/// Counts of a sender without a change of which its controller has not changed either: of ACKs, and
/// of packets sent and lost.
type Marks = [u64; 3];

impl<S: Stack> Driven for Driver<S> {
    fn now(&self) -> Instant {
        self.network.now()
    }

    fn next_event(&self) -> Option<Instant> {
        self.network.next_event()
    }

    fn step(&mut self) {
        self.network.step();
    }

    fn run_until(&mut self, time: Instant) {
        self.network.advance(time, u64::MAX);
    }

    fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        self.network.set_rate(0, rate)
    }

    fn set_loss(&mut self, probability: Probability, seed: u64) {
        self.network.set_loss(0, probability, seed);
    }

    fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError> {
        self.network.set_reordered(0, packets)
    }

    fn withhold(&mut self) {
        self.network.withhold(FLOW);
        self.network.transport(FLOW).abandon(CONNECTION);
    }

    fn offer(&mut self, bytes: u64) {
        self.network.offer(FLOW, bytes);
    }

    fn is_connected(&self) -> bool {
        self.network.peek(FLOW).look(CONNECTION).is_some_and(|seen| seen.is_established)
    }

    fn received(&self) -> u64 {
        self.network.received(FLOW)
    }

    fn lost_packets(&mut self) -> u64 {
        self.network.sent(FLOW).lost_packets
    }

    fn model(&mut self) -> Result<Option<Snapshot>, RunError> {
        let Some(connection) = self.network.peek(FLOW).connection(CONNECTION) else {
            return Ok(None);
        };
        if self.is_ours {
            return Ok(S::snapshot(connection));
        }
        let acks = self.network.peek(FLOW).look(CONNECTION).map_or(0, |seen| seen.rtt.count);
        let SenderStats { sent_packets, lost_packets, .. } = self.network.sent(FLOW);
        let marks = [acks, sent_packets, lost_packets];
        if let Some((_, seen)) = self.seen.filter(|(before, _)| *before == marks) {
            return Ok(Some(seen));
        }
        let Some(connection) = self.network.peek(FLOW).connection(CONNECTION) else {
            return Ok(None);
        };
        let seen = S::view(connection, &mut self.view)?;
        self.seen = Some((marks, seen));
        Ok(Some(seen))
    }
}

/// Settings of a [`QuicFlow`].
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

/// A connection of a QUIC stack, both ends under a virtual clock. Its application is its owner, who
/// says what it has to send.
pub struct QuicFlow {
    network: Box<dyn Driven>,
    snapshot: Snapshot,
    gaps: &'static [Gap],
    error: Option<RunError>,
    lost_packets: u64,
}

impl std::fmt::Debug for QuicFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicFlow").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl QuicFlow {
    /// A flow of noq that has just begun its handshake, and whose application has nothing to send.
    ///
    /// # Errors
    /// Fails for a path that makes no sense, without an identity for TLS, and for a controller of
    /// the stack's own that is no BBR, or whose text is not as expected.
    pub fn noq(
        downlink: PathConfig,
        uplink: PathConfig,
        config: QuicFlowConfig,
    ) -> Result<Self, RunError> {
        Self::new::<Noq>(downlink, uplink, config)
    }

    /// The same of quinn.
    ///
    /// # Errors
    /// As [`Self::noq`].
    #[cfg(feature = "quinn")]
    pub fn quinn(
        downlink: PathConfig,
        uplink: PathConfig,
        config: QuicFlowConfig,
    ) -> Result<Self, RunError> {
        Self::new::<Quinn>(downlink, uplink, config)
    }

    fn new<S: Stack>(
        downlink: PathConfig,
        uplink: PathConfig,
        config: QuicFlowConfig,
    ) -> Result<Self, RunError> {
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
        let mut network: Stacks<Ends<S>> =
            Stacks::new(&sim, |_, flow| Ends::new(flow, cc, settings, STREAMS, &identity))?;
        // The application opens its connection, and then has nothing to send.
        network.step();
        network.withhold(FLOW);
        let is_ours = ours.is_some();
        let mut driver = Driver { network, is_ours, view: S::View::default(), seen: None };
        let snapshot = driver.model()?.ok_or(RunError::Lost)?;
        let gaps = if ours.is_some() { &[] } else { S::GAPS };
        Ok(Self { network: Box::new(driver), snapshot, gaps, error: None, lost_packets: 0 })
    }

    /// Takes over what an event made of the sender.
    fn look(&mut self) {
        match self.network.model() {
            Ok(Some(now)) => self.snapshot = now,
            Ok(None) => {}
            Err(error) => self.error = Some(error),
        }
        self.lost_packets = self.network.lost_packets();
    }

    /// The error of the last look at a controller of the stack's own, once: the snapshot is older.
    pub fn take_error(&mut self) -> Option<RunError> {
        self.error.take()
    }

    /// The variables that [`Self::snapshot`] does not have.
    pub fn gaps(&self) -> &'static [Gap] {
        self.gaps
    }

    /// True if the handshake is over at the sender: application data may leave.
    pub fn is_connected(&self) -> bool {
        self.network.is_connected()
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.network.now()
    }

    /// The time of the next event.
    pub fn next_event(&self) -> Option<Instant> {
        self.network.next_event()
    }

    /// Lets the next thing happen.
    pub fn step(&mut self) {
        self.network.step();
        self.look();
    }

    /// Lets everything happen until `time`.
    pub fn run_until(&mut self, time: Instant) {
        self.network.run_until(time);
        self.look();
    }

    /// The sender's model of the path.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Application bytes that the receiver has read.
    pub fn received(&self) -> u64 {
        self.network.received()
    }

    /// Packets that the sender took for lost.
    pub fn lost_packets(&self) -> u64 {
        self.lost_packets
    }

    /// The application has nothing more to send: the stack forgets what has not left.
    pub fn pause(&mut self) {
        self.network.withhold();
        self.look();
    }

    /// The application has data without an end.
    pub fn resume(&mut self) {
        self.network.offer(u64::MAX);
        self.look();
    }

    /// The application writes `bytes`.
    pub fn write(&mut self, bytes: u64) {
        self.network.offer(bytes);
        self.look();
    }

    /// The bottleneck's rate from now on.
    ///
    /// # Errors
    /// Fails for a rate of zero.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        self.network.set_rate(rate)
    }

    /// The data's random loss from now on.
    pub fn set_loss(&mut self, probability: Probability, seed: u64) {
        self.network.set_loss(probability, seed);
    }

    /// The packets that the data's reordering holds back from now on.
    ///
    /// # Errors
    /// Fails if the selection makes no sense, or the path has no reordering.
    pub fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError> {
        self.network.set_reordered(packets)
    }
}
