//! Congestion control of an s2n-quic endpoint: for each connection the algorithm of its flow, and a
//! view of it from outside.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fullpipe_report::observe::FlowSample;
use fullpipe_s2n_quic::{Controllers, S2nController, Unsent};
use fullpipe_scenario::{Cc, StackAlgorithm};
use fullpipe_traffic::{Direction, SenderStats};
use s2n_quic::provider::congestion_controller::{
    Bbr, CongestionController, Cubic, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator,
    Timestamp,
};
use s2n_quic::provider::event::events::SocketAddress;
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};

use super::Connection;
use crate::backend::quic::stack::{Flows, Id};

type Of<E> = <E as Endpoint>::CongestionController;

/// An algorithm that runs over s2n-quic.
#[expect(clippy::large_enum_variant, reason = "there is one for each connection, behind a pointer")]
#[derive(Clone, Debug)]
enum Runs {
    Ours(S2nController),
    Bbr(Of<Bbr>),
    Cubic(Of<Cubic>),
}

/// The state that an algorithm keeps with a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packet {
    Ours(<S2nController as CongestionController>::PacketInfo),
    Bbr(<Of<Bbr> as CongestionController>::PacketInfo),
    Cubic(<Of<Cubic> as CongestionController>::PacketInfo),
}

/// An algorithm, and what it was told.
#[derive(Clone, Debug)]
pub(super) struct ObservedSender {
    runs: Runs,
    rtt: Option<std::time::Duration>,
    srtt: Option<std::time::Duration>,
    stats: SenderStats,
}

impl ObservedSender {
    fn new(cc: Cc, seed: u64, path: PathInfo<'_>) -> Self {
        let runs = match (cc, cc.algorithm()) {
            (_, Some(ours)) => {
                let mut controllers = Controllers::new(ours).with_seed(seed);
                Runs::Ours(controllers.new_congestion_controller(path))
            }
            (Cc::Stack(StackAlgorithm::S2nBbr), _) => {
                Runs::Bbr(Bbr::default().new_congestion_controller(path))
            }
            _ => Runs::Cubic(Cubic::default().new_congestion_controller(path)),
        };
        Self { runs, rtt: None, srtt: None, stats: SenderStats::default() }
    }

    /// s2n-quic's own take its word for what the application has.
    pub(super) fn set_unsent(&mut self, unsent: &Unsent) {
        if let Runs::Ours(ours) = &mut self.runs {
            ours.set_unsent(unsent);
        }
    }

    pub(super) fn sample(&self) -> FlowSample {
        let (cwnd, inflight) = match &self.runs {
            Runs::Ours(ours) => {
                let sample = FlowSample::of_model(ours.snapshot());
                let srtt = self.srtt.map(Into::into);
                return FlowSample { srtt, sender: self.stats, ..sample };
            }
            Runs::Bbr(bbr) => (bbr.congestion_window(), bbr.bytes_in_flight()),
            Runs::Cubic(cubic) => (cubic.congestion_window(), cubic.bytes_in_flight()),
        };
        FlowSample {
            rtt: self.rtt.map(Into::into),
            srtt: self.srtt.map(Into::into),
            cwnd: cwnd.into(),
            inflight: Some(inflight.into()),
            sender: self.stats,
            ..FlowSample::default()
        }
    }
}

/// The controller of a path, which the run looks at from another thread.
#[derive(Clone, Debug)]
pub(super) struct Controller(Arc<Mutex<ObservedSender>>);

impl Controller {
    pub(super) fn sender(&self) -> MutexGuard<'_, ObservedSender> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks whichever algorithm runs.
macro_rules! ask {
    ($self:expr, $method:ident($($argument:expr),*)) => {
        match &mut $self.sender().runs {
            Runs::Ours(c) => c.$method($($argument),*),
            Runs::Bbr(c) => c.$method($($argument),*),
            Runs::Cubic(c) => c.$method($($argument),*),
        }
    };
}

/// Tells whichever algorithm runs of a packet of its own.
macro_rules! tell {
    ($sender:expr, $packet:expr, |$c:ident, $info:ident| $call:expr) => {
        match (&mut $sender.runs, $packet) {
            (Runs::Ours($c), Packet::Ours($info)) => $call,
            (Runs::Bbr($c), Packet::Bbr($info)) => $call,
            (Runs::Cubic($c), Packet::Cubic($info)) => $call,
            // A path keeps its algorithm.
            _ => {}
        }
    };
}

impl CongestionController for Controller {
    type PacketInfo = Packet;

    fn congestion_window(&self) -> u32 {
        ask!(self, congestion_window())
    }

    fn bytes_in_flight(&self) -> u32 {
        ask!(self, bytes_in_flight())
    }

    fn is_congestion_limited(&self) -> bool {
        ask!(self, is_congestion_limited())
    }

    fn requires_fast_retransmission(&self) -> bool {
        ask!(self, requires_fast_retransmission())
    }

    #[expect(clippy::unit_arg, reason = "what an algorithm keeps is its own affair")]
    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        app_limited: Option<bool>,
        rtt: &RttEstimator,
        publisher: &mut Pub,
    ) -> Packet {
        let mut sender = self.sender();
        sender.stats.sent_packets += 1;
        sender.stats.sent_bytes += sent_bytes as u64;
        match &mut sender.runs {
            Runs::Ours(c) => {
                Packet::Ours(c.on_packet_sent(time_sent, sent_bytes, app_limited, rtt, publisher))
            }
            Runs::Bbr(c) => {
                Packet::Bbr(c.on_packet_sent(time_sent, sent_bytes, app_limited, rtt, publisher))
            }
            Runs::Cubic(c) => {
                Packet::Cubic(c.on_packet_sent(time_sent, sent_bytes, app_limited, rtt, publisher))
            }
        }
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        now: Timestamp,
        rtt: &RttEstimator,
        publisher: &mut Pub,
    ) {
        let mut sender = self.sender();
        (sender.rtt, sender.srtt) = (Some(rtt.latest_rtt()), Some(rtt.smoothed_rtt()));
        drop(sender);
        ask!(self, on_rtt_update(time_sent, now, rtt, publisher));
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        newest_acked_time_sent: Timestamp,
        bytes: usize,
        newest: Packet,
        rtt: &RttEstimator,
        random: &mut dyn RandomGenerator,
        at: Timestamp,
        publisher: &mut Pub,
    ) {
        let mut sender = self.sender();
        tell!(sender, newest, |c, newest| c.on_ack(
            newest_acked_time_sent,
            bytes,
            newest,
            rtt,
            random,
            at,
            publisher
        ));
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        bytes: u32,
        packet: Packet,
        is_persistent: bool,
        is_new_burst: bool,
        random: &mut dyn RandomGenerator,
        at: Timestamp,
        publisher: &mut Pub,
    ) {
        let mut sender = self.sender();
        sender.stats.lost_packets += 1;
        sender.stats.lost_bytes += u64::from(bytes);
        tell!(sender, packet, |c, packet| c.on_packet_lost(
            bytes,
            packet,
            is_persistent,
            is_new_burst,
            random,
            at,
            publisher
        ));
    }

    fn on_explicit_congestion<Pub: Publisher>(
        &mut self,
        ce_count: u64,
        at: Timestamp,
        publisher: &mut Pub,
    ) {
        ask!(self, on_explicit_congestion(ce_count, at, publisher));
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, publisher: &mut Pub) {
        ask!(self, on_mtu_update(max_data_size, publisher));
    }

    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes: usize, publisher: &mut Pub) {
        ask!(self, on_packet_discarded(bytes, publisher));
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        ask!(self, earliest_departure_time())
    }

    fn send_quantum(&self) -> Option<usize> {
        ask!(self, send_quantum())
    }
}

/// The controller of a connection, once there is one.
pub(super) type Slot = Arc<OnceLock<Controller>>;

/// Slot of the newest connection. s2n-quic asks the subscriber for a context, and the endpoint of
/// congestion controllers for the controller of the connection's first path right after that.
type Newest = Arc<Mutex<Option<Slot>>>;

fn locked(newest: &Newest) -> MutexGuard<'_, Option<Slot>> {
    newest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The side of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) enum EndpointSide {
    Server,
    Client { flow: u32 },
}

/// Makes the controllers of an endpoint.
#[derive(Debug)]
pub(super) struct ByFlow {
    flows: Arc<Flows<Connection>>,
    side: EndpointSide,
    /// Number of connections of each flow so far.
    connections: Vec<u32>,
    newest: Newest,
}

/// Gives each connection a slot, which [`ByFlow`] fills.
pub(super) struct Watch {
    newest: Newest,
}

/// The two, for one endpoint.
pub(super) fn watched(flows: &Arc<Flows<Connection>>, side: EndpointSide) -> (ByFlow, Watch) {
    let newest = Newest::default();
    let connections = vec![0; flows.senders.len()];
    let controllers = ByFlow { flows: flows.clone(), side, connections, newest: newest.clone() };
    (controllers, Watch { newest })
}

impl ByFlow {
    /// Algorithm and seed of the next connection with this address, if this end sends its data.
    fn next_with(&mut self, address: Option<SocketAddr>) -> Option<(Cc, u64)> {
        let (flow, direction) = match self.side {
            EndpointSide::Server => (self.flows.behind(address?)?, Direction::Down),
            EndpointSide::Client { flow } => (flow, Direction::Up),
        };
        let count = self.connections.get_mut(flow as usize)?;
        let number = *count;
        *count = number.wrapping_add(1);
        self.flows.control(Id { flow, number }, direction)
    }
}

/// An address as std has it; the sockets of a run are of IPv4.
fn address(seen: &SocketAddress<'_>) -> Option<SocketAddr> {
    match *seen {
        SocketAddress::IpV4 { ip, port, .. } => Some((*ip, port).into()),
        _ => None,
    }
}

impl Endpoint for ByFlow {
    type CongestionController = Controller;

    /// An end that receives, and whoever is no client of the run, gets CUBIC.
    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Controller {
        let slot = locked(&self.newest).take();
        let (cc, seed) = self
            .next_with(address(&path.remote_address))
            .unwrap_or((Cc::Stack(StackAlgorithm::S2nCubic), 0));
        let controller = Controller(Arc::new(Mutex::new(ObservedSender::new(cc, seed, path))));
        // Empty, because it is new.
        let _ = slot.map(|slot| slot.set(controller.clone()));
        controller
    }
}

impl Subscriber for Watch {
    type ConnectionContext = Slot;

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo<'_>) -> Slot {
        let slot = Slot::default();
        *locked(&self.newest) = Some(slot.clone());
        slot
    }
}
