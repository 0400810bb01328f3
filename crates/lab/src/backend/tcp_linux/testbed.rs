//! Everything that a run over TCP starts, and that ends with it.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time;

use fullpipe_cc::{Duration, Rate};
use fullpipe_emu::namespace::CLIENT;
use fullpipe_sim::Application;
use hdrhistogram::Histogram;
use socket2::{Domain, Protocol, Socket, Type};

use super::control::Controls;
use super::flow::Flow;
use super::info::TcpInfo;
use super::latency::{Times, Writes};
use crate::backend::RunError;
use crate::backend::link::{Link, RealPath};
use crate::backend::realtime::{Event, Testbed};
use crate::observe::{EmulatorRecord, FlowSample};
use crate::scenario::{LinkKind, Scenario};

/// The port of the first flow's receiver; a namespace has all its ports free.
const FIRST_PORT: u16 = 5000;

/// The least that a sender keeps unsent: Linux's usual advice.
const LEAST_UNSENT_BYTES: u64 = 128 << 10;

/// And in time at the link's rate, so that its thread, woken late, does not leave the link idle.
const UNSENT_TIME: Duration = Duration::from_millis(10);

/// How much later than it should the first request may be where the path's times count from it.
const LATE: Duration = Duration::from_millis(100);

/// Two namespaces, a link between them, and the ends of the flows.
pub(super) struct TcpTestbed {
    epoch: time::Instant,
    /// When the first request is due, since the epoch.
    lead: Duration,
    link: Option<Link>,
    /// What the ends need of it until they end.
    remains: Option<Link>,
    flows: Vec<Arc<Flow>>,
    starts: Vec<Duration>,
    /// Sockets of flows that wait for the first one.
    waiting: Vec<(usize, Socket)>,
    threads: Vec<JoinHandle<()>>,
    events: mpsc::Receiver<Event>,
    latencies: Arc<Times>,
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
        let (listeners, sockets) = open(&link, flows)?;
        let (told, events) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let latencies = Arc::new(Times::new());
        let rate = path.slowest().unwrap_or(Rate::ZERO);
        let unsent = rate.bytes_in(UNSENT_TIME).max(LEAST_UNSENT_BYTES);
        let flow = |(number, config): (usize, &fullpipe_sim::FlowConfig)| {
            Arc::new(Flow {
                number,
                epoch,
                cc: controls.name(number),
                application: config.application,
                stop: config.stop,
                unsent_bytes: u32::try_from(unsent).unwrap_or(u32::MAX),
                // Room for SYNs that a full buffer drops, whose timeout doubles from a second.
                connect_timeout: (Duration::from_secs(20) + path.rtt().times(4)).into(),
                to: address(number),
                sender: OnceLock::new(),
                zero: OnceLock::new(),
                received: AtomicU64::new(0),
                writes: Writes::default(),
                latencies: latencies.clone(),
                completions: Times::new(),
                is_waiting: AtomicBool::new(false),
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
            waiting,
            threads: Vec::new(),
            events,
            latencies,
            ended,
            controls,
        };
        for (i, listener) in listeners.into_iter().enumerate() {
            let flow = testbed.flows[i].clone();
            testbed.spawn("fullpipe-recv", move || flow.receive(&listener))?;
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
        self.spawn("fullpipe-send", move || flow.send(socket, at, zero))
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
        let sample = |(i, flow): (usize, &Arc<Flow>)| {
            let mut sample = TcpInfo::of(flow.sender.get()?).ok()?.sample()?;
            sample.state = states.get(&(self.controls.place(i), flow.to)).copied();
            Some(sample)
        };
        self.flows.iter().enumerate().map(sample).collect()
    }

    fn link(&self) -> Result<&Link, RunError> {
        self.link.as_ref().ok_or(RunError::Lost)
    }

    fn latency_ns(&self) -> Histogram<u64> {
        self.latencies.histogram()
    }

    fn completion_ns(&self) -> Vec<Option<Histogram<u64>>> {
        let times = self.flows.iter().map(|flow| flow.completions.histogram());
        times.map(|times| (!times.is_empty()).then_some(times)).collect()
    }

    fn incomplete(&self) -> Vec<Option<u64>> {
        let asks =
            |flow: &Arc<Flow>| matches!(flow.application, Application::RequestResponse { .. });
        let open = |flow: &Arc<Flow>| u64::from(flow.is_waiting.load(Ordering::Relaxed));
        self.flows.iter().map(|flow| asks(flow).then(|| open(flow))).collect()
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

fn address(flow: usize) -> SocketAddr {
    // A namespace has more ports than a run has flows.
    (CLIENT, FIRST_PORT + flow as u16).into()
}

/// A listener for each flow in the client's namespace, and a socket in the server's.
fn open(link: &Link, flows: usize) -> Result<(Vec<TcpListener>, Vec<Socket>), RunError> {
    let (server, client) = link.namespaces().ok_or(RunError::Lost)?;
    let listeners = client.enter(|| (0..flows).map(address).map(TcpListener::bind).collect());
    let listeners: std::io::Result<Vec<_>> = listeners?;
    let socket = |_| Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let sockets = server.enter(|| (0..flows).map(socket).collect());
    let sockets: std::io::Result<Vec<_>> = sockets?;
    Ok((listeners.map_err(RunError::Socket)?, sockets.map_err(RunError::Socket)?))
}
