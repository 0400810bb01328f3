//! Everything that a run over QUIC starts, and that ends with it.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time;

use fullpipe_cc::Duration;
use fullpipe_emu::{Emulator, EmulatorConfig};
use fullpipe_noq::TransportSettings;
use fullpipe_report::observe::{ByFlow, EmulatorRecord, FlowSample};
use fullpipe_scenario::{LinkKind, Scenario};
use fullpipe_traffic::{Direction, SentPacket, Stream, Tally, stream_seed};
use tokio::runtime::Runtime;
use tokio::sync::watch;

#[cfg(feature = "s2n")]
use super::clients::Clients;
use super::flow::{self, FlowTask, ReceiverStats, StartTime};
use super::senders::Senders;
use super::socket;
use super::stack::{Flows, SenderConfig, Settings, Stack};
use crate::backend::RunError;
use crate::backend::link::{Link, RealPath};
use crate::backend::realtime::{Event, Testbed};

/// Enough streams that a hole in one does not stop the others.
const MIN_STREAMS: u64 = 4;
/// Below the stacks' default limit of 100 streams.
const MAX_STREAMS: u64 = 64;

/// Timeout for the shutdown of a runtime, before the outcome of the run is reported.
const RUNTIME_END: time::Duration = time::Duration::from_secs(2);

/// Largest delay of the first request on a path whose times count from it.
const LATE: Duration = Duration::from_millis(100);

/// A server, a link and clients.
pub(super) struct QuicTestbed<S: Stack> {
    epoch: time::Instant,
    /// Time at which the first request is due, since the epoch.
    lead: Duration,
    link: Option<Link>,
    /// The part of the link that the ends need until they end.
    remains: Option<Link>,
    server: Option<S::Server>,
    servers: Option<Runtime>,
    clients: Option<Runtime>,
    flows: Arc<Flows<S::Connection>>,
    events: mpsc::Receiver<Event>,
    /// The flows that wait for the first one.
    waiting: Vec<(FlowTask<S>, UdpSocket)>,
    heard: Vec<Arc<ReceiverStats>>,
    /// The port of each flow's client, where the link sees the flow's data go to it.
    ports: Vec<Option<u16>>,
    end: watch::Sender<bool>,
}

/// A running link, the server behind it, and the clients' sockets in front.
struct LinkSetup<T> {
    link: Link,
    server: T,
    clients: Vec<UdpSocket>,
    to: SocketAddr,
}

impl<S: Stack> QuicTestbed<S> {
    /// Starts a link, a server behind it, and the first flow.
    pub(super) fn start(scenario: &Scenario, kind: LinkKind) -> Result<Self, RunError> {
        let epoch = time::Instant::now();
        let path = RealPath::of(scenario);
        let flows = scenario.flows.len();
        let servers = runtime("fullpipe-server")?;
        let clients = runtime("fullpipe-client")?;
        let lead = path.lead();
        let known = Arc::new(Flows::new(settings(&path), senders(scenario))?);
        let serve = |socket| {
            let _inside = servers.enter();
            S::serve(socket, &known)
        };
        let set_up = link_setup(kind, &path, epoch, lead, flows, serve)?;
        let LinkSetup { link, server, clients: sockets, to } = set_up;
        let ports = sockets.iter().map(|socket| Ok(socket.local_addr()?.port()));
        let ports: Vec<u16> = ports.collect::<std::io::Result<_>>().map_err(RunError::Socket)?;
        for (config, port) in scenario.config.flows.iter().zip(&ports) {
            if config.extra_rtt > Duration::ZERO {
                link.set_extra_delay(*port, config.extra_rtt);
            }
        }
        // The link tells of packets to a client alone, which are ACKs of an upload.
        let flows_down = scenario.config.flows.iter().map(|flow| flow.direction == Direction::Down);
        let ports_of_receivers =
            ports.iter().zip(flows_down).map(|(port, is_down)| is_down.then_some(*port)).collect();
        // Set this once: nobody else has it yet.
        #[cfg(feature = "s2n")]
        let _ = known.clients.set(Clients { ports: ports.clone(), link: link.clients() });
        let (told, events) = mpsc::channel();
        let (end, ended) = watch::channel(false);
        let heard: Vec<_> = (0..flows).map(|_| Arc::new(ReceiverStats::new())).collect();
        let mut waiting = Vec::with_capacity(flows);
        for (i, (config, socket)) in scenario.config.flows.iter().zip(sockets).enumerate() {
            let task = FlowTask {
                flow: i,
                epoch,
                start: config.start,
                stop: config.stop,
                application: config.application,
                direction: config.direction,
                server: to,
                streams: streams(&path, config.direction),
                flows: known.clone(),
                clients: clients.handle().clone(),
                heard: heard[i].clone(),
                told: told.clone(),
                seed: stream_seed(scenario.seed, Stream::Starts, i as u64),
                ended: ended.clone(),
            };
            waiting.push((task, socket));
        }
        let first = waiting.iter().position(|(task, _)| task.start == Duration::ZERO);
        let (first, socket) = waiting.remove(first.unwrap_or(0));
        let testbed = Self {
            epoch,
            lead,
            link: Some(link),
            remains: None,
            server: Some(server),
            servers: Some(servers),
            clients: Some(clients),
            flows: known,
            events,
            waiting,
            heard,
            ports: ports_of_receivers,
            end,
        };
        testbed.start_flow(first, socket, StartTime::First { at: lead })?;
        Ok(testbed)
    }

    /// Starts a flow where its receiver is.
    fn start_flow(
        &self,
        task: FlowTask<S>,
        socket: UdpSocket,
        when: StartTime,
    ) -> Result<(), RunError> {
        let receivers = match task.direction {
            Direction::Down => &self.clients,
            Direction::Up => &self.servers,
        };
        let receivers = receivers.as_ref().ok_or(RunError::Lost)?;
        receivers.spawn(flow::run(Arc::new(task), socket, when));
        Ok(())
    }

    fn end_link(&mut self) -> Result<Option<EmulatorRecord>, RunError> {
        let (emulator, remains) = self.link.take().ok_or(RunError::Lost)?.finish()?;
        self.remains = remains;
        Ok(emulator)
    }
}

impl<S: Stack> Testbed for QuicTestbed<S> {
    fn now(&self) -> Duration {
        self.epoch.elapsed().into()
    }

    fn events(&self) -> &mpsc::Receiver<Event> {
        &self.events
    }

    fn start_the_others(&mut self, zero: Duration) -> Result<(), RunError> {
        if self.lead > Duration::ZERO && zero > self.lead + LATE {
            return Err(RunError::LateStart(self.lead));
        }
        let waiting = std::mem::take(&mut self.waiting);
        let start = |(task, socket)| self.start_flow(task, socket, StartTime::After { zero });
        waiting.into_iter().try_for_each(start)
    }

    fn received(&self) -> Vec<u64> {
        self.heard.iter().map(|heard| heard.received.load(Ordering::Relaxed)).collect()
    }

    fn senders(&self) -> Vec<Option<FlowSample>> {
        self.flows.sending().iter_mut().map(Senders::sample).collect()
    }

    fn newest_packets(&self) -> Vec<Option<SentPacket>> {
        let newest = self.link.as_ref().map(Link::newest_packets).unwrap_or_default();
        self.ports.iter().map(|port| newest.get(port.as_ref()?).copied()).collect()
    }

    fn link(&self) -> Result<&Link, RunError> {
        self.link.as_ref().ok_or(RunError::Lost)
    }

    fn latency_ns(&self) -> ByFlow {
        let mut all = ByFlow::new(self.heard.len());
        for (i, heard) in self.heard.iter().enumerate() {
            all.flow_mut(i).add(&heard.latency_ns());
        }
        all
    }

    fn completion_ns(&self) -> Vec<Option<Tally>> {
        self.heard.iter().map(|heard| heard.completion_ns()).collect()
    }

    fn incomplete(&self) -> Vec<Option<u64>> {
        self.heard.iter().map(|heard| heard.incomplete()).collect()
    }

    fn finish_link(&mut self) -> Result<Option<EmulatorRecord>, RunError> {
        self.end_link()
    }
}

impl<S: Stack> Drop for QuicTestbed<S> {
    /// Ends everything and waits for it: the next run is to find a quiet machine.
    fn drop(&mut self) {
        let _ = self.end_link();
        let _ = self.end.send(true);
        self.flows.sending().clear();
        if let Some(clients) = self.clients.take() {
            clients.shutdown_timeout(RUNTIME_END);
        }
        if let Some(servers) = self.servers.take() {
            if let Some(server) = self.server.take() {
                S::shutdown(server);
            }
            servers.shutdown_timeout(RUNTIME_END);
        }
    }
}

/// Starts the link, whose times begin `lead` after `epoch`; `serve` makes a server of a socket.
fn link_setup<T>(
    kind: LinkKind,
    path: &RealPath,
    epoch: time::Instant,
    lead: Duration,
    flows: usize,
    serve: impl FnOnce(UdpSocket) -> Result<(T, SocketAddr), RunError>,
) -> Result<LinkSetup<T>, RunError> {
    let sockets = |at| (0..flows).map(|_| socket::open(at)).collect::<std::io::Result<Vec<_>>>();
    #[cfg(target_os = "linux")]
    if kind != LinkKind::Udp {
        use fullpipe_emu::namespace::{CLIENT, SERVER};
        let link = Link::between_namespaces(kind, path, epoch, lead, Vec::new())?;
        let (there, here) = link.namespaces().ok_or(RunError::Lost)?;
        let socket = there.enter(|| socket::open(SERVER))?.map_err(RunError::Socket)?;
        let (server, to) = serve(socket)?;
        let clients = here.enter(|| sockets(CLIENT))?.map_err(RunError::Socket)?;
        return Ok(LinkSetup { link, server, clients, to });
    }
    #[cfg(not(target_os = "linux"))]
    let _ = kind;
    let (server, address) = serve(socket::open(Ipv4Addr::LOCALHOST).map_err(RunError::Socket)?)?;
    let link = Emulator::start(EmulatorConfig {
        uplink: path.uplink_after(lead),
        downlink: path.downlink_after(lead),
        cross: path.cross_after(lead),
        epoch: Some(epoch),
        ..EmulatorConfig::new(address)
    })?;
    let clients = sockets(Ipv4Addr::LOCALHOST).map_err(RunError::Socket)?;
    let to = link.addr();
    Ok(LinkSetup { link: Link::Udp(link), server, clients, to })
}

fn runtime(name: &str) -> Result<Runtime, RunError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(RunError::Runtime)
}

fn senders(scenario: &Scenario) -> Vec<SenderConfig> {
    let each = scenario.flows.iter().zip(&scenario.config.flows);
    each.map(|(flow, config)| SenderConfig {
        direction: config.direction,
        cc: flow.cc,
        seed: config.cc.seed,
    })
    .collect()
}

pub(in crate::backend) fn settings(path: &RealPath) -> Settings {
    // A first flight that meets a full buffer waits for it, and may be lost several times.
    let handshake_timeout =
        Duration::from_secs(10) + path.rtt().times(10) + path.drain_time().times(4);
    Settings { transport: transport(path), handshake_timeout }
}

/// Windows that congestion control and not flow control fills: four times what the path holds,
/// because a hole keeps back what follows it for a round trip and more.
fn transport(path: &RealPath) -> TransportSettings {
    let usual = TransportSettings::default();
    let holds = Direction::BOTH.map(|direction| path.holds(direction));
    let room = holds[0].max(holds[1]).saturating_mul(4);
    TransportSettings {
        receive_window: u32::try_from(room).unwrap_or(u32::MAX).max(usual.receive_window),
        send_window: room.max(usual.send_window),
        ..usual
    }
}

/// So many streams that their windows together hold twice what the path does: a stream's window is
/// small (see [`TransportSettings::stream_receive_window`]) and a deep buffer is not.
pub(in crate::backend) fn streams(path: &RealPath, direction: Direction) -> u64 {
    let window = u64::from(TransportSettings::default().stream_receive_window);
    path.holds(direction).saturating_mul(2).div_ceil(window).clamp(MIN_STREAMS, MAX_STREAMS)
}
