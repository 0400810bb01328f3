//! Configuration of a simulation.

use std::borrow::Cow;

use fullpipe_cc::{Algorithm, Config, Duration, Rate, Transport};
use fullpipe_path::{
    ConfigError, CrossTraffic, Ecn, IPV4_UDP_HEADER_BYTES, Link, PathConfig, QueueLimit,
};
use fullpipe_traffic::{Application, Direction, Media};

use crate::{ACK_BYTES, MAX_ACK_DELAY, OVERHEAD_BYTES};

/// Bytes of IPv4 (20), TCP (20) and its timestamp option (12, RFC 7323) around a segment's payload.
pub const IPV4_TCP_HEADER_BYTES: u32 = 52;

/// [`FlowConfig::jitter`] when nothing else is said: what a host's interrupts and its scheduler
/// add.
pub const DEFAULT_JITTER: Duration = Duration::from_micros(100);

/// Most bytes of an IPv4 packet.
const MAX_PACKET_BYTES: u32 = 65_535;

/// Links, and what is sent over them.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The links, each of one direction. Without routes they are the way from the senders to the
    /// receivers, in the order in which packets pass them: one, or a chain of bottlenecks ("parking
    /// lot"). At least one.
    pub links: Vec<PathConfig>,
    /// The way back, which the ACKs of all flows without a route of their own share. In routes it
    /// is one link more: its index is the number of links.
    pub uplink: PathConfig,
    /// Routes over the links. Flows and cross traffic name theirs by its index.
    pub routes: Vec<Route>,
    /// Changes of routes during the run, in any order.
    pub reroutes: Vec<Reroute>,
    /// The flows.
    pub flows: Vec<FlowConfig>,
    /// Traffic that reacts to nothing.
    pub cross: Vec<RoutedTraffic>,
    /// Seed of everything random that is no path's and no controller's. Paths and controllers have
    /// seeds of their own, which [`fullpipe_traffic::stream_seed`] makes of the run's.
    pub seed: u64,
}

impl SimConfig {
    /// Flows over one link there and one back.
    pub fn new(downlink: PathConfig, uplink: PathConfig, flows: Vec<FlowConfig>) -> Self {
        Self {
            links: vec![downlink],
            uplink,
            routes: Vec::new(),
            reroutes: Vec::new(),
            flows,
            cross: Vec::new(),
            seed: 1,
        }
    }

    /// The links that a flow's data and its ACKs pass at the start: its route, or all links and the
    /// uplink in the order of its direction.
    ///
    /// # Panics
    /// Panics if the flow names a route that there is not; [`crate::Sim::new`] refuses that.
    pub fn route(&self, flow: &FlowConfig) -> Cow<'_, Route> {
        match flow.route {
            Some(route) => Cow::Borrowed(&self.routes[route]),
            None => Cow::Owned(self.default_route(flow.direction)),
        }
    }

    /// The same of cross traffic; nothing answers it.
    ///
    /// # Panics
    /// As [`Self::route`].
    pub fn cross_route(&self, cross: &RoutedTraffic) -> Cow<'_, Route> {
        match cross.route {
            Some(route) => Cow::Borrowed(&self.routes[route]),
            None => Cow::Owned(self.default_route(Direction::Down)),
        }
    }

    /// The first link that a flow's data passes behind its own one.
    ///
    /// # Panics
    /// As [`Self::route`].
    pub fn first_link(&self, flow: &FlowConfig) -> usize {
        match (flow.route, flow.direction) {
            (Some(route), _) => self.routes[route].there[0],
            (None, Direction::Down) => 0,
            (None, Direction::Up) => self.links.len(),
        }
    }

    /// A link by the index that routes have for it.
    pub fn link(&self, index: usize) -> &PathConfig {
        self.links.get(index).unwrap_or(&self.uplink)
    }

    fn default_route(&self, direction: Direction) -> Route {
        let n = self.links.len();
        let (links, uplink) = ((0..n).collect(), vec![n]);
        match direction {
            Direction::Down => Route { there: links, back: uplink },
            Direction::Up => Route { there: uplink, back: links },
        }
    }

    /// True if all that flows do is to share one link there and one back.
    pub(crate) fn is_plain(&self) -> bool {
        let is_plain = |flow: &FlowConfig| {
            flow.route.is_none() && flow.access.is_none() && flow.direction == Direction::Down
        };
        self.links.len() == 1
            && self.reroutes.is_empty()
            && self.cross.iter().all(|cross| cross.route.is_none())
            && self.flows.iter().all(is_plain)
    }

    /// Checks that routes and their users name what there is.
    pub(crate) fn check_routes(&self) -> Result<(), SimError> {
        let links = self.links.len();
        if links == 0 {
            return Err(SimError::NoLink);
        }
        for route in &self.routes {
            if route.there.is_empty() || route.back.is_empty() {
                return Err(SimError::EmptyRoute);
            }
            if let Some(&link) = route.there.iter().chain(&route.back).find(|i| **i > links) {
                return Err(SimError::UnknownLink { link, links });
            }
        }
        let named = self.flows.iter().filter_map(|flow| flow.route);
        let named = named.chain(self.cross.iter().filter_map(|cross| cross.route));
        let mut named = named.chain(self.reroutes.iter().map(|change| change.route));
        let routes = self.routes.len();
        if let Some(route) = named.find(|route| *route >= routes) {
            return Err(SimError::UnknownRoute { route, routes });
        }
        let flows = self.flows.len();
        match self.reroutes.iter().find(|change| change.flow >= flows) {
            Some(change) => Err(SimError::UnknownFlow { flow: change.flow, flows }),
            None => Ok(()),
        }
    }
}

/// A description that no simulation can be built from.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A link that makes no sense.
    #[error(transparent)]
    Path(#[from] ConfigError),
    /// There is no link at all.
    #[error("a simulation without a link: give at least one")]
    NoLink,
    /// A route names a link that there is not.
    #[error("a route over link {link} of {links}: count from 0; the uplink is number {links}")]
    UnknownLink {
        /// The index in the route.
        link: usize,
        /// The number of links.
        links: usize,
    },
    /// A route without links there or back: an ACK needs a way, too.
    #[error("a route without a link there or back: give at least one of each")]
    EmptyRoute,
    /// A flow, cross traffic or a change names a route that there is not.
    #[error("route {route} of {routes}: count from 0")]
    UnknownRoute {
        /// The index.
        route: usize,
        /// The number of routes.
        routes: usize,
    },
    /// A change of the route of a flow that there is not.
    #[error("a change of the route of flow {flow} of {flows}: count from 0")]
    UnknownFlow {
        /// The index.
        flow: usize,
        /// The number of flows.
        flows: usize,
    },
    /// An application, or cross traffic, that would never get on.
    #[error("{0} of 0: give one above 0")]
    Zero(&'static str),
    /// Packets larger than IP carries (RFC 791 section 3.1).
    #[error("packets of {0} bytes: give at most {MAX_PACKET_BYTES}")]
    PacketBytes(u32),
}

/// The links that a flow passes, by their index in [`SimConfig::links`], in this order; the index
/// of [`SimConfig::uplink`] is the number of links. A link may be in any number of routes, in both
/// directions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Route {
    /// The links of its data.
    pub there: Vec<usize>,
    /// The links of its ACKs, and of what the receiver asks for.
    pub back: Vec<usize>,
}

/// A change of a flow's route. Packets under way go on by the route on which they left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reroute {
    /// Its time, counted from the start of the run.
    pub at: Duration,
    /// The flow, by its index.
    pub flow: usize,
    /// The new route, by its index in [`SimConfig::routes`].
    pub route: usize,
}

/// The link between a sender's host and the first node of its route, in both directions: each flow
/// has one for itself, and its short connections share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The rate of each direction, in wire bytes per second; `None`: no limit and no queue.
    pub rate: Option<Rate>,
    /// The propagation delay of each direction.
    pub delay: Duration,
    /// The capacity of the queue in each direction.
    pub queue: QueueLimit,
}

impl Access {
    /// One direction of it.
    pub fn link(&self) -> PathConfig {
        let Self { rate, delay, queue } = *self;
        Link { rate, delay, queue, ..Link::default() }.into()
    }
}

/// A receiver's rule for sending ACKs (RFC 9000 section 13.2, RFC 9293 section 3.8.6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckPolicy {
    /// Largest number of packets without an ACK; 1 acknowledges each.
    pub every: u32,
    /// Largest delay of an ACK (max_ack_delay).
    pub max_delay: Duration,
    /// Number of packets acknowledged one by one when a connection starts, and after a pause longer
    /// than a retransmission timeout: Linux's quick ACKs.
    pub quick: u32,
}

impl Default for AckPolicy {
    fn default() -> Self {
        Self { every: 2, max_delay: MAX_ACK_DELAY, quick: 0 }
    }
}

/// Flow control: the amount of data that a receiver lets the sender have under way. The receiving
/// application reads all data that is in order at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReceiveWindow {
    /// No limit.
    #[default]
    Unlimited,
    /// This many bytes.
    Fixed(u64),
    /// `initial` bytes, doubled whenever half of it was read within two round trips, up to `max`.
    Auto {
        /// Bytes at the start.
        initial: u64,
        /// The most bytes.
        max: u64,
    },
}

/// The party that turns the controller's pacing rate into departure times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacedBy {
    /// The controller, [`fullpipe_cc::Controller::can_send`], whose bursts are small.
    #[default]
    Core,
    /// The token bucket of noq 1.4, of ten packets or what the rate gives in 10 ms.
    Noq,
}

/// The rule by which a TCP segment counts as lost after later ones have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reordering {
    /// Time, in a window that adapts to the reordering seen: RACK, RFC 8985, as in Linux.
    #[default]
    Rack,
    /// After three later ones, or 9/8 of a round trip, whatever was seen: RFC 9002 section 6.1.
    Threshold,
}

/// The rules of [`Transport::Tcp`]; the defaults are Linux's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpConfig {
    /// The rule that tells losses from reordering.
    pub reordering: Reordering,
    /// Lower bound of the variance term of the retransmission timeout, which is the smoothed round
    /// trip plus that term.
    pub rto_min: Duration,
    /// True if `cubic` and `reno` halve their window for each timeout of a pause, down to the
    /// initial one: `net.ipv4.tcp_slow_start_after_idle`.
    pub idle_restart: bool,
    /// True if `cubic` and `reno` send by Proportional Rate Reduction while they recover (RFC
    /// 9937).
    pub prr: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            reordering: Reordering::Rack,
            rto_min: Duration::from_millis(200),
            idle_restart: true,
            prr: true,
        }
    }
}

/// Configuration of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowConfig {
    /// Its congestion control.
    pub algorithm: Algorithm,
    /// The transport's numbers. For QUIC C.SMSS is the size of a full datagram without IP and UDP,
    /// for TCP the payload of a full segment. `transport` also decides how the flow speaks:
    /// [`Transport::Tcp`] numbers bytes and not packets, has three SACK blocks, and timestamps.
    pub cc: Config,
    /// Its start time, counted from the start of the run.
    pub start: Duration,
    /// The time at which its application stops sending for good.
    pub stop: Option<Duration>,
    /// The data to send.
    pub application: Application,
    /// The most bytes that the application may have written and the receiver not yet acknowledged,
    /// for [`Application::Bulk`] and [`Application::Bytes`], which write as soon as there is room.
    /// `None`: the application writes just when a packet can leave.
    pub send_buffer: Option<u64>,
    /// The receiver's flow control.
    pub receive_window: ReceiveWindow,
    /// The ECN codepoint of its packets. A receiver counts what arrives with CE and says so at once
    /// (RFC 9000 section 13.2.1); the controller hears how many packets were marked. One that
    /// answers no marks ([`fullpipe_cc::Controller::wants_ecn`]) is marked to no effect, as
    /// Linux's is where `net.ipv4.tcp_ecn` is 1.
    pub ecn: Ecn,
    /// True if the controller hears of no mark, whatever it would do.
    pub ignores_marks: bool,
    /// The receiver's rule for sending ACKs.
    pub acks: AckPolicy,
    /// Settings that only [`Transport::Tcp`] has.
    pub tcp: TcpConfig,
    /// Largest delay of the sender's host: each time that an ACK or a timer lets it send, it sends
    /// after a random part of this. Without it flows lock into phases with the queue, and
    /// differences of nanoseconds decide which flow finds it full (Floyd and Jacobson 1992).
    pub jitter: Duration,
    /// Largest delay of the receiver's host: it gets to each packet, those of the handshake too, a
    /// random part of this after its arrival, in order. Each ACK says how long the newest packet
    /// that it names was there, and the controller hears of it
    /// ([`fullpipe_cc::AckBatch::receiver_delay`]), as if with timestamps of the network interface;
    /// and apart from it of the receiver's wait for more to acknowledge
    /// ([`fullpipe_cc::AckBatch::ack_delay`]), with or without this delay.
    pub receiver_delay: Duration,
    /// The pacer that keeps the controller's rate.
    pub pacer: PacedBy,
    /// True if the connection begins with a handshake of one round trip, which measures it.
    pub handshake: bool,
    /// Round-trip time of this flow above that of its links: added on its way back.
    pub extra_rtt: Duration,
    /// The sender's own link in front of its route; `None`: its host is at the first link.
    pub access: Option<Access>,
    /// The index of its route in [`SimConfig::routes`]; `None` for all links, see
    /// [`SimConfig::route`].
    pub route: Option<usize>,
    /// The way of its data, where it has no route: down over the links, or up over the uplink.
    pub direction: Direction,
}

impl FlowConfig {
    /// QUIC without an end from the start on, in datagrams of 1452 bytes: what it finds on a path
    /// with an MTU of 1500 that may be IPv6. `seed` is the flow's own.
    pub fn bulk(algorithm: Algorithm, seed: u64) -> Self {
        Self {
            algorithm,
            cc: Config { smss: 1452, ..Config::new(seed) },
            start: Duration::ZERO,
            stop: None,
            application: Application::Bulk,
            send_buffer: None,
            receive_window: ReceiveWindow::Unlimited,
            ecn: Ecn::NotEct,
            ignores_marks: false,
            acks: AckPolicy::default(),
            tcp: TcpConfig::default(),
            jitter: DEFAULT_JITTER,
            receiver_delay: Duration::ZERO,
            pacer: PacedBy::Core,
            handshake: true,
            extra_rtt: Duration::ZERO,
            access: None,
            route: None,
            direction: Direction::Down,
        }
    }

    /// The same over TCP with an MTU of 1500: segments of 1448 bytes, ACKs delayed by up to 40 ms
    /// after 16 quick ones, and Linux's CUBIC. `seed` is the flow's own.
    pub fn tcp_bulk(algorithm: Algorithm, seed: u64) -> Self {
        let bulk = Self::bulk(algorithm, seed);
        Self {
            cc: Config { smss: 1448, transport: Transport::Tcp, ..bulk.cc },
            acks: AckPolicy { every: 2, max_delay: Duration::from_millis(40), quick: 16 },
            ..bulk
        }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        self.cc.transport == Transport::Tcp
    }

    /// Application bytes of a full packet.
    pub(crate) fn payload_bytes(&self) -> u32 {
        let overhead = if self.is_tcp() { 0 } else { OVERHEAD_BYTES };
        self.cc.smss.saturating_sub(overhead).max(1)
    }

    /// Bytes of a packet on the wire that congestion control does not count.
    pub(crate) fn header_bytes(&self) -> u32 {
        if self.is_tcp() { IPV4_TCP_HEADER_BYTES } else { IPV4_UDP_HEADER_BYTES }
    }

    /// A packet of a handshake on the wire: TCP's SYN with its usual options, QUIC's padded Initial
    /// (RFC 9000 section 14.1).
    pub(crate) fn handshake_bytes(&self) -> u32 {
        if self.is_tcp() { 60 } else { 1200 + IPV4_UDP_HEADER_BYTES }
    }

    /// An ACK on the wire.
    pub(crate) fn ack_bytes(&self) -> u32 {
        if self.is_tcp() { IPV4_TCP_HEADER_BYTES } else { ACK_BYTES + IPV4_UDP_HEADER_BYTES }
    }

    pub(crate) fn validate(&self) -> Result<(), SimError> {
        let zero = match self.application {
            Application::RateLimited { rate: Rate::ZERO, .. } => Some("an application's rate"),
            Application::RateLimited { write_bytes: 0, .. } => Some("writes"),
            Application::OnOff { on: Duration::ZERO, .. } => {
                Some("an application's time of sending")
            }
            Application::RequestResponse { response_bytes: 0, .. } => Some("answers"),
            Application::ShortFlows { bytes: 0, .. } => Some("connections"),
            Application::ShortFlows { mean_interval: Duration::ZERO, .. } => {
                Some("a mean interval")
            }
            Application::Media(Media { bitrate: Rate::ZERO, .. }) => Some("a bitrate"),
            Application::Media(Media { fps: 0, .. }) => Some("frames per second"),
            _ => None,
        };
        if self.cc.smss > MAX_PACKET_BYTES {
            return Err(SimError::PacketBytes(self.cc.smss));
        }
        let zero = zero.or((self.acks.every == 0).then_some("an ACK after every packets"));
        let zero = zero.or((self.send_buffer == Some(0)).then_some("a send buffer"));
        zero.map_or(Ok(()), |what| Err(SimError::Zero(what)))
    }
}

/// [`CrossTraffic`] over some of the links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoutedTraffic {
    /// The packets.
    pub traffic: CrossTraffic,
    /// The index of its route in [`SimConfig::routes`]; `None` for all links.
    pub route: Option<usize>,
}

impl From<CrossTraffic> for RoutedTraffic {
    /// Over all links.
    fn from(traffic: CrossTraffic) -> Self {
        Self { traffic, route: None }
    }
}

impl RoutedTraffic {
    pub(crate) fn validate(&self) -> Result<(), SimError> {
        if self.traffic.rate == Rate::ZERO {
            return Err(SimError::Zero("a rate of cross traffic"));
        }
        if self.traffic.packet_bytes == 0 {
            return Err(SimError::Zero("packets of cross traffic"));
        }
        Ok(())
    }
}
