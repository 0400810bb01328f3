//! One flow of noq on one path, which its owner drives event by event.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate, Snapshot};
use fullpipe_path::{ConfigError, PathConfig, Probability, Selection};
use fullpipe_quic::{CongestionControl, TransportSettings};
use fullpipe_sim::{FlowConfig, SimConfig};

use super::NO_TIMEOUT;
use super::ends::Identity;
use super::noq::NoqEnds;
use crate::backend::RunError;
use crate::backend::network::{Network, Transport};
use crate::backend::virtual_time::World;

/// The flow, and the first connection of it.
const FLOW: usize = 0;
const CONNECTION: u64 = 0;

/// Bytes that noq holds for the connection and that its peer lets it send: more than any path here
/// has in flight, so that congestion control alone limits the sender.
const WINDOW: u32 = 1 << 30;

/// Streams of the connection: see [`TransportSettings::stream_receive_window`].
const STREAMS: u64 = 64;

/// A connection of noq with one of our algorithms, both ends under a virtual clock. Its application
/// is its owner, who says what it has to send.
#[derive(Debug)]
pub struct NoqFlow {
    network: Network<NoqEnds>,
    snapshot: Snapshot,
    lost_packets: u64,
}

impl NoqFlow {
    /// A flow that has just begun its handshake, and whose application has nothing to send. Full
    /// datagrams have `datagram_bytes`, and none other is tried; the timers of the handshake begin
    /// with `initial_rtt`.
    ///
    /// # Errors
    /// Fails for a path that makes no sense, and without an identity for TLS.
    pub fn new(
        downlink: PathConfig,
        uplink: PathConfig,
        algorithm: Algorithm,
        datagram_bytes: u16,
        initial_rtt: Duration,
        seed: u64,
    ) -> Result<Self, RunError> {
        let flow = FlowConfig { jitter: Duration::ZERO, ..FlowConfig::bulk(algorithm, seed) };
        let config = SimConfig::new(downlink, uplink, vec![flow]);
        let identity = Identity::new()?;
        let settings = TransportSettings {
            send_window: u64::from(WINDOW),
            receive_window: WINDOW,
            idle_timeout: NO_TIMEOUT,
            datagram_bytes: Some(datagram_bytes),
            initial_rtt: Some(initial_rtt),
            ..TransportSettings::default()
        };
        let cc = CongestionControl::Fullpipe(algorithm);
        let mut network =
            Network::new(&config, |_, flow| NoqEnds::new(flow, cc, settings, STREAMS, &identity))?;
        network.withhold(FLOW);
        // The application opens its connection.
        network.step();
        let snapshot = network.transport(FLOW).snapshot(CONNECTION).ok_or(RunError::Lost)?;
        Ok(Self { network, snapshot, lost_packets: 0 })
    }

    /// Takes over what an event made of the sender.
    fn look(&mut self) {
        if let Some(now) = self.network.transport(FLOW).snapshot(CONNECTION) {
            self.snapshot = now;
        }
        self.lost_packets = self.network.sent(FLOW).lost_packets;
    }

    /// True if the handshake is over at the sender: application data may leave.
    pub fn is_connected(&self) -> bool {
        self.network.peek(FLOW).look(CONNECTION).is_some_and(|seen| seen.is_established)
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
        self.network.advance(time, u64::MAX);
        self.look();
    }

    /// The sender's model of the path.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Application bytes that the receiver has read.
    pub fn received(&self) -> u64 {
        self.network.received(FLOW)
    }

    /// Packets that the sender took for lost.
    pub fn lost_packets(&self) -> u64 {
        self.lost_packets
    }

    /// The application has nothing more to send: noq forgets what has not left.
    pub fn pause(&mut self) {
        self.network.withhold(FLOW);
        self.network.transport(FLOW).abandon(CONNECTION);
        self.look();
    }

    /// The application has data without an end.
    pub fn resume(&mut self) {
        self.network.offer(FLOW, u64::MAX);
        self.look();
    }

    /// The application writes `bytes`.
    pub fn write(&mut self, bytes: u64) {
        self.network.offer(FLOW, bytes);
        self.look();
    }

    /// The bottleneck's rate from now on.
    ///
    /// # Errors
    /// Fails for a rate of zero.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        self.network.set_rate(0, rate)
    }

    /// The data's random loss from now on.
    pub fn set_loss(&mut self, probability: Probability, seed: u64) {
        self.network.set_loss(0, probability, seed);
    }

    /// The packets that the data's reordering holds back from now on.
    ///
    /// # Errors
    /// Fails if the selection makes no sense, or the path has no reordering.
    pub fn set_reordered(&mut self, packets: Selection) -> Result<(), ConfigError> {
        self.network.set_reordered(0, packets)
    }
}
