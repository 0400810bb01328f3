//! Everything that a run over TCP starts, and that ends with it.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time;

use fullpipe_cc::{Duration, Rate};
use fullpipe_emu::namespace::{CLIENT, SERVER};
use fullpipe_sim::{Application, Direction, FlowConfig, Stream, stream_seed};
use hdrhistogram::Histogram;
use socket2::{Domain, Protocol, Socket, Type};

use super::control::Controls;
use super::flow::TcpFlow;
use super::info::TcpInfo;
use super::latency::{Times, Writes};
use super::short::Shorts;
use crate::backend::RunError;
use crate::backend::link::{Link, RealPath};
use crate::backend::realtime::{Event, Testbed};
use crate::observe::{ByFlow, EmulatorRecord, FlowSample};
use crate::scenario::{LinkKind, Scenario};

/// The port of the first flow; a namespace has all its ports free.
const FIRST_PORT: u16 = 5000;

/// The least that a sender keeps unsent: Linux's usual advice.
const LEAST_UNSENT_BYTES: u64 = 128 << 10;

/// And in time at the link's rate, so that its thread, woken late, does not leave the link idle.
const UNSENT_TIME: Duration = Duration::from_millis(10);

/// Largest delay of the first request on a path whose times count from it.
const LATE: Duration = Duration::from_millis(100);

/// Two namespaces, a link between them, and the ends of the flows.
pub(super) struct TcpTestbed {
    epoch: time::Instant,
    /// Time at which the first request is due, since the epoch.
    lead: Duration,
    link: Option<Link>,
    /// The part of the link that the ends need until they end.
    remains: Option<Link>,
    flows: Vec<Arc<TcpFlow>>,
    starts: Vec<Duration>,
    /// Of the starts of each flow's short connections.
    seeds: Vec<u64>,
    /// Sockets of flows that wait for the first one.
    waiting: Vec<(usize, Socket)>,
    threads: Vec<JoinHandle<()>>,
    events: mpsc::Receiver<Event>,
    ended: Arc<AtomicBool>,
    controls: Controls,
}

impl TcpTestbed {
    /// Starts a link, the receivers behind it, and the first flow.
    pub(super) fn start(scenario: &Scenario, kind: LinkKind) -> Result<Self, RunError> {
        let controls = Controls::of(scenario.flows.iter().map(|flow| flow.cc))?;
        let epoch = time::Instant::now();
        let path = RealPath::of(scenario);
        let lead = path.lead();
        let link = Link::between_namespaces(kind, &path, epoch, lead)?;
        let flows = scenario.flows.len();
        for (i, config) in scenario.config.flows.iter().enumerate() {
            if config.extra_rtt > Duration::ZERO {
                link.set_extra_delay(port(i), config.extra_rtt);
            }
        }
        let (listeners, sockets) = open(&link, &scenario.config.flows)?;
        let (told, events) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let rate = path.slowest().unwrap_or(Rate::ZERO);
        let unsent = rate.bytes_in(UNSENT_TIME).max(LEAST_UNSENT_BYTES);
        let flow = |(number, config): (usize, &FlowConfig)| {
            Arc::new(TcpFlow {
                number,
                epoch,
                cc: controls.name(number),
                application: config.application,
                stop: config.stop,
                unsent_bytes: u32::try_from(unsent).unwrap_or(u32::MAX),
                // Room for SYNs that a full buffer drops, whose timeout doubles from a second.
                connect_timeout: (Duration::from_secs(20) + path.rtt().times(4)).into(),
                to: address(number, config.direction),
                sender: OnceLock::new(),
                zero: OnceLock::new(),
                received: AtomicU64::new(0),
                writes: Writes::default(),
                latencies: Times::new(),
                completions: Times::new(),
                is_waiting: AtomicBool::new(false),
                shorts: Shorts::default(),
                ended: ended.clone(),
                told: told.clone(),
            })
        };
        let configs = &scenario.config.flows;
        let mut waiting: Vec<_> = sockets.into_iter().enumerate().collect();
        let first = configs.iter().position(|config| config.start == Duration::ZERO).unwrap_or(0);
        let (first, socket) = waiting.remove(first);
        let mut testbed = Self {
            epoch,
            lead,
            link: Some(link),
            remains: None,
            flows: configs.iter().enumerate().map(flow).collect(),
            starts: configs.iter().map(|config| config.start).collect(),
            seeds: (0..flows as u64)
                .map(|i| stream_seed(scenario.seed, Stream::Starts, i))
                .collect(),
            waiting,
            threads: Vec::new(),
            events,
            ended,
            controls,
        };
        for (i, listener) in listeners.into_iter().enumerate() {
            let flow = testbed.flows[i].clone();
            testbed.spawn("fullpipe-recv", move || match flow.application {
                Application::ShortFlows { bytes, .. } => flow.receive_shorts(&listener, bytes),
                _ => flow.receive(&listener),
            })?;
        }
        testbed.start_sender(first, socket, lead, None)?;
        Ok(testbed)
    }

    fn start_sender(
        &mut self,
        i: usize,
        socket: Socket,
        at: Duration,
        zero: Option<Duration>,
    ) -> Result<(), RunError> {
        let flow = self.flows[i].clone();
        let Application::ShortFlows { bytes, mean_interval } = flow.application else {
            return self.spawn("fullpipe-send", move || flow.send(socket, at, zero));
        };
        let (server, _) = self.link()?.namespaces().ok_or(RunError::Lost)?;
        let (entry, seed) = (server.entry()?, self.seeds[i]);
        let shorts = (bytes, mean_interval, seed);
        self.spawn("fullpipe-send", move || flow.send_shorts(&entry, shorts, at, zero))
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), RunError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push(thread.map_err(RunError::Runtime)?);
        Ok(())
    }

    fn end_link(&mut self) -> Result<Option<EmulatorRecord>, RunError> {
        let (emulator, remains) = self.link.take().ok_or(RunError::Lost)?.finish()?;
        self.remains = remains;
        Ok(emulator)
    }
}

impl Testbed for TcpTestbed {
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
        let sockets: Vec<_> = self.waiting.drain(..).collect();
        for (i, socket) in sockets {
            self.start_sender(i, socket, zero + self.starts[i], Some(zero))?;
        }
        Ok(())
    }

    fn received(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.received.load(Ordering::Relaxed)).collect()
    }

    fn senders(&self) -> Vec<Option<FlowSample>> {
        let states = self.controls.states();
        let sample = |(i, flow): (usize, &Arc<TcpFlow>)| {
            if let Application::ShortFlows { .. } = flow.application {
                return Some(flow.shorts.sample());
            }
            let mut sample = TcpInfo::of(flow.sender.get()?).ok()?.sample()?;
            sample.state = states.get(&(self.controls.place(i), flow.to)).copied();
            Some(sample)
        };
        self.flows.iter().enumerate().map(sample).collect()
    }

    fn link(&self) -> Result<&Link, RunError> {
        self.link.as_ref().ok_or(RunError::Lost)
    }

    fn latency_ns(&self) -> ByFlow {
        let mut all = ByFlow::new(self.flows.len());
        for (i, flow) in self.flows.iter().enumerate() {
            // Two of the same bounds.
            let _ = all.flow_mut(i).add(flow.latencies.histogram());
        }
        all
    }

    fn completion_ns(&self) -> Vec<Option<Histogram<u64>>> {
        let times = self.flows.iter().map(|flow| flow.completions.histogram());
        times.map(|times| (!times.is_empty()).then_some(times)).collect()
    }

    fn incomplete(&self) -> Vec<Option<u64>> {
        let open = |flow: &Arc<TcpFlow>| match flow.application {
            Application::RequestResponse { .. } => {
                Some(u64::from(flow.is_waiting.load(Ordering::Relaxed)))
            }
            Application::ShortFlows { .. } => Some(flow.shorts.incomplete()),
            _ => None,
        };
        self.flows.iter().map(open).collect()
    }

    fn finish_link(&mut self) -> Result<Option<EmulatorRecord>, RunError> {
        self.end_link()
    }
}

impl Drop for TcpTestbed {
    /// Ends everything and waits for it: the next run is to find a quiet machine.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// Address of a flow's receiver.
fn address(flow: usize, direction: Direction) -> SocketAddr {
    let receiver = match direction {
        Direction::Down => CLIENT,
        Direction::Up => SERVER,
    };
    (receiver, port(flow)).into()
}

/// Port of a flow in the client's namespace, and of its receiver.
fn port(flow: usize) -> u16 {
    // A namespace has more ports than a run has flows.
    FIRST_PORT + flow as u16
}

/// A listener for each flow in its receiver's namespace, and a socket in its sender's.
fn open(link: &Link, flows: &[FlowConfig]) -> Result<(Vec<TcpListener>, Vec<Socket>), RunError> {
    let (server, client) = link.namespaces().ok_or(RunError::Lost)?;
    let (mut listeners, mut sockets) = (Vec::new(), Vec::new());
    for (i, flow) in flows.iter().enumerate() {
        let (sender, receiver) = match flow.direction {
            Direction::Down => (server, client),
            Direction::Up => (client, server),
        };
        let listener = receiver.enter(|| TcpListener::bind(address(i, flow.direction)))?;
        listeners.push(listener.map_err(RunError::Socket)?);
        let socket = sender.enter(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
            if flow.direction == Direction::Up {
                // By this port the link knows whose the packets are.
                socket.bind(&SocketAddr::from((CLIENT, port(i))).into())?;
            }
            Ok(socket)
        })?;
        sockets.push(socket.map_err(RunError::Socket)?);
    }
    Ok((listeners, sockets))
}
