//! Everything that a run over TCP starts, and that ends with it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time;

use fullpipe_cc::{Duration, Rate};
use fullpipe_emu::namespace::{CLIENT, Namespace, SERVER};
use fullpipe_emu::tun::WireView;
use fullpipe_report::observe::{
    ByFlow, EmulatorRecord, FlowOnLink, FlowSample, FlowTimes, MAX_OWN_DISTRIBUTIONS,
};
use fullpipe_scenario::{Flow, LinkKind, Receiver, Scenario};
use fullpipe_traffic::{Application, Direction, Stream, Tally, stream_seed};
use socket2::{Domain, Protocol, Socket, Type};

use super::control::Controls;
use super::end::{Listener, Unconnected};
use super::flow::{Begin, Opening, TcpFlow};
use super::latency::{SharedTally, Writes};
use super::program::{Endpoints, Program};
use super::short::{Opener, Shorts};
use super::user_stack::UserStacks;
use crate::backend::RunError;
use crate::backend::link::{Link, RealPath};
use crate::backend::realtime::{Event, Testbed};
use crate::backend::tcp_user::settings;

/// The port of the first flow; a namespace has all its ports free.
const FIRST_PORT: u16 = 5000;

/// The least that a sender keeps unsent: Linux's usual advice.
const LEAST_UNSENT_BYTES: u64 = 128 << 10;

/// And in time at the link's rate, so that its thread, woken late, does not leave the link idle.
const UNSENT_TIME: Duration = Duration::from_millis(10);

/// Largest delay of the first request on a path whose times count from it.
const LATE: Duration = Duration::from_millis(100);

/// Time that servers of other people's have to start, on such a path.
const SERVERS_TIME: Duration = Duration::from_secs(5);

/// The stack that sends for flows with our algorithms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SenderStack {
    /// The kernel, with programs of ours in it.
    InKernel,
    /// A TCP in user space on a TUN device.
    InUserSpace,
}

/// The sender of a flow before its start.
enum PendingSender {
    /// A program's own affair.
    Program,
    /// It connects once.
    One(Unconnected),
    /// It opens many short connections.
    Many(Opener),
}

/// Two namespaces, a link between them, and the ends of the flows.
pub(super) struct TcpTestbed {
    epoch: time::Instant,
    /// Time at which the first request is due, since the epoch.
    lead: Duration,
    link: Option<Link>,
    /// The part of the link that the ends need until they end.
    remains: Option<Link>,
    flows: Vec<Arc<TcpFlow>>,
    /// Of each flow, if others make it.
    programs: Vec<Option<Arc<Program>>>,
    /// The flows on the link; netem does not show them.
    wire: Option<WireView>,
    starts: Vec<Duration>,
    /// The direction of each flow's data on the link.
    ways: Vec<usize>,
    /// The first flow's beginning, which those that begin with it wait for connected.
    opening: Arc<Opening>,
    /// Senders of flows that wait for the first one.
    waiting: Vec<(usize, PendingSender)>,
    threads: Vec<JoinHandle<()>>,
    events: mpsc::Receiver<Event>,
    ended: Arc<AtomicBool>,
    controls: Controls,
}

impl TcpTestbed {
    /// Starts a link, the receivers behind it, and the first flow.
    pub(super) fn start(
        scenario: &Scenario,
        kind: LinkKind,
        ours: SenderStack,
    ) -> Result<Self, RunError> {
        let is_user =
            |flow: &Flow| ours == SenderStack::InUserSpace && flow.cc.algorithm().is_some();
        let kernels = |flow: &Flow| flow.program.is_none() && !is_user(flow);
        let controls = scenario.flows.iter().map(|flow| kernels(flow).then_some(flow.cc));
        let controls = Controls::of(controls)?;
        let epoch = time::Instant::now();
        let path = RealPath::of(scenario);
        let flows = scenario.flows.len();
        let unready = Arc::new(AtomicUsize::new(0));
        let programs: Vec<_> =
            (0..flows).map(|i| Program::of(i, port(i), scenario, &unready)).collect();
        let has_programs = programs.iter().any(Option::is_some);
        let lead = match path.lead() {
            lead if lead > Duration::ZERO && has_programs => lead + SERVERS_TIME,
            lead => lead,
        };
        let ports = (0..flows).map(port).collect();
        let link = Link::between_namespaces(kind, &path, epoch, lead, ports)?;
        for (i, config) in scenario.config.flows.iter().enumerate() {
            if config.extra_rtt > Duration::ZERO {
                link.set_extra_delay(port(i), config.extra_rtt);
            }
        }
        let unsent = |direction| {
            let rate = path.slowest(direction).unwrap_or(Rate::ZERO);
            let unsent = rate.bytes_in(UNSENT_TIME).max(LEAST_UNSENT_BYTES);
            u32::try_from(unsent).unwrap_or(u32::MAX)
        };
        let mut stacks = UserStacks::default();
        let tcp = |i: usize| settings::of_flow(&settings::over_tcp(&scenario.config.flows[i]));
        let receivers = scenario.flows.iter().zip(&scenario.config.flows).enumerate();
        let receivers = receivers.map(|(i, (flow, config))| match &flow.program {
            Some(_) => Ok((None, address(i, config.direction))),
            None if flow.receiver == Receiver::User => {
                let (listener, address) = stacks.receiver(&link, i, config.direction, tcp(i))?;
                Ok((Some(listener), address))
            }
            None => {
                let listener = kernel_listener(&link, i, config.direction)?;
                Ok((Some(listener), address(i, config.direction)))
            }
        });
        let receivers = receivers.collect::<Result<Vec<_>, RunError>>()?;
        let senders = scenario.flows.iter().zip(&scenario.config.flows).enumerate();
        let senders = senders.map(|(i, (flow, config))| match &flow.program {
            Some(_) => Ok(PendingSender::Program),
            None if is_user(flow) => {
                let unsent = unsent(config.direction) as usize;
                let (stack, tcp) = stacks.sender(&link, config.direction, tcp(i), unsent)?;
                Ok(match config.application.has_many_connections() {
                    true => PendingSender::Many(Opener::in_user_space(stack, tcp)),
                    false => {
                        // By this port the link knows whose the packets are.
                        let port = if config.direction == Direction::Up { port(i) } else { 0 };
                        PendingSender::One(Unconnected::User { stack, port, config: tcp })
                    }
                })
            }
            None if config.application.has_many_connections() => {
                let (sender, address) = sender_of(&link, config.direction)?;
                Ok(PendingSender::Many(Opener::Kernel(sender.entry()?, address)))
            }
            None => kernel_socket(&link, i, config.direction).map(PendingSender::One),
        });
        let senders = senders.collect::<Result<Vec<_>, RunError>>()?;
        let (told, events) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let configs = &scenario.config.flows;
        let flow = |number: usize| {
            let config = &configs[number];
            Arc::new(TcpFlow {
                number,
                epoch,
                cc: controls.name(number),
                application: config.application,
                seed: stream_seed(scenario.seed, Stream::Starts, number as u64),
                stop: config.stop,
                unsent_bytes: unsent(config.direction),
                // Room for SYNs that a full buffer drops, whose timeout doubles from a second.
                connect_timeout: (Duration::from_secs(20) + path.rtt().times(4)).into(),
                to: receivers[number].1,
                sender: OnceLock::new(),
                zero: OnceLock::new(),
                unready: unready.clone(),
                received: AtomicU64::new(0),
                writes: Writes::default(),
                latencies: SharedTally::new(),
                completions: SharedTally::new(),
                is_waiting: AtomicBool::new(false),
                shorts: Shorts::default(),
                ended: ended.clone(),
                told: told.clone(),
            })
        };
        let mut waiting: Vec<_> = senders.into_iter().enumerate().collect();
        // One of ours if there is one: it starts on time.
        let at_the_start = |i: &usize| configs[*i].start == Duration::ZERO;
        let ours = (0..flows).filter(at_the_start).find(|i| programs[*i].is_none());
        let first = ours.or_else(|| (0..flows).find(at_the_start)).unwrap_or(0);
        let (first, sender) = waiting.remove(first);
        let mut testbed = Self {
            epoch,
            lead,
            wire: link.wire(),
            link: Some(link),
            remains: None,
            flows: (0..flows).map(flow).collect(),
            programs,
            starts: configs.iter().map(|config| config.start).collect(),
            ways: configs.iter().map(|config| config.direction as usize).collect(),
            opening: Arc::default(),
            waiting,
            threads: Vec::new(),
            events,
            ended,
            controls,
        };
        testbed.start_programs()?;
        for (i, (listener, _)) in receivers.into_iter().enumerate() {
            let Some(listener) = listener else { continue };
            let flow = testbed.flows[i].clone();
            testbed.spawn("fullpipe-recv", move || {
                match flow.application.has_many_connections() {
                    true => flow.receive_shorts(&listener),
                    false => flow.receive(&listener),
                }
            })?;
        }
        testbed.start_sender(first, sender, lead, None)?;
        testbed.connect_those_with_the_first()?;
        Ok(testbed)
    }

    /// Starts the programs of flows: their servers now, their clients when it is time.
    fn start_programs(&mut self) -> Result<(), RunError> {
        let all: Vec<_> = self.programs.iter().flatten().cloned().enumerate().collect();
        for (i, program) in all {
            let (server, client) = self.link()?.namespaces().ok_or(RunError::Lost)?;
            if i == 0 {
                server.enable_loopback()?;
                client.enable_loopback()?;
            }
            let wire = self.wire.clone().ok_or(RunError::ProgramOverNetem)?;
            let (here, there) = match program.is_server_here() {
                true => (server, client),
                false => (client, server),
            };
            let places = Endpoints { server: here.entry()?, client: there.entry()?, wire };
            let flow = self.flows[program.flow()].clone();
            self.spawn("fullpipe-program", move || program.run(&flow, &places))?;
        }
        Ok(())
    }

    /// Lets the flows connect that begin with the first one, but for programs and short flows,
    /// whose connections are their own affair.
    fn connect_those_with_the_first(&mut self) -> Result<(), RunError> {
        for (i, sender) in std::mem::take(&mut self.waiting) {
            let flow = self.flows[i].clone();
            match sender {
                PendingSender::One(sender) if self.starts[i] == Duration::ZERO => {
                    let begin = Begin::WithFirst(self.opening.clone());
                    self.spawn("fullpipe-send", move || flow.send(sender, &begin))?;
                }
                sender => self.waiting.push((i, sender)),
            }
        }
        Ok(())
    }

    /// The programs and the link's view of them, which outlive this.
    pub(super) fn programs(&self) -> Option<Programs> {
        let programs = self.programs.iter().flatten();
        let all = programs.map(|program| (program.clone(), self.flows[program.flow()].clone()));
        self.wire.clone().map(|wire| Programs { all: all.collect(), wire })
    }

    fn start_sender(
        &mut self,
        i: usize,
        sender: PendingSender,
        at: Duration,
        zero: Option<Duration>,
    ) -> Result<(), RunError> {
        let flow = self.flows[i].clone();
        match sender {
            PendingSender::Program => {
                if let Some(program) = &self.programs[i] {
                    program.go(at, zero);
                }
                Ok(())
            }
            PendingSender::One(sender) => {
                let begin = match zero {
                    None => Begin::First(at),
                    Some(zero) => Begin::At { start: at, zero },
                };
                self.spawn("fullpipe-send", move || flow.send(sender, &begin))
            }
            PendingSender::Many(opener) => {
                self.spawn("fullpipe-send", move || flow.send_shorts(&opener, at, zero))
            }
        }
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

/// The programs of a run, for a look at them after its end.
pub(super) struct Programs {
    all: Vec<(Arc<Program>, Arc<TcpFlow>)>,
    wire: WireView,
}

impl Programs {
    /// Error of one of them in a run that ended in time.
    pub(super) fn complaint(&self, times: &[FlowTimes]) -> Option<RunError> {
        self.all.iter().find_map(|(program, flow)| {
            let zero = flow.zero.get().copied().unwrap_or_default();
            program.complaint(&self.wire, zero, times[program.flow()])
        })
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
        self.opening.open(zero);
        let senders: Vec<_> = self.waiting.drain(..).collect();
        for (i, sender) in senders {
            self.start_sender(i, sender, zero + self.starts[i], Some(zero))?;
        }
        Ok(())
    }

    fn received(&self) -> Vec<u64> {
        let each = self.flows.iter().zip(&self.programs);
        each.map(|(flow, program)| match (program, &self.wire) {
            (Some(program), Some(wire)) => program.sample(wire).payload_bytes,
            _ => flow.received.load(Ordering::Relaxed),
        })
        .collect()
    }

    fn senders(&self) -> Vec<Option<FlowSample>> {
        let states = self.controls.states();
        let sample = |(i, flow): (usize, &Arc<TcpFlow>)| {
            if let (Some(program), Some(wire)) = (&self.programs[i], &self.wire) {
                return program.sender(wire);
            }
            if let Application::ShortFlows { .. } = flow.application {
                return Some(flow.shorts.sample());
            }
            let mut sample = flow.sender.get()?.sample()?;
            if let Some(place) = self.controls.place(i) {
                sample.state = states.get(&(place, flow.to)).copied();
            }
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
            all.flow_mut(i).add(&flow.latencies.tally());
        }
        all
    }

    fn completion_ns(&self) -> Vec<Option<Tally>> {
        let times = self.flows.iter().map(|flow| flow.completions.tally());
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

    fn on_link(&self) -> Vec<FlowOnLink> {
        let Some(wire) = self.wire.as_ref().filter(|_| self.flows.len() <= MAX_OWN_DISTRIBUTIONS)
        else {
            return Vec::new();
        };
        let flow = |(i, way): (usize, &usize)| {
            let (sample, times) = (wire.sample(i)[*way], wire.distributions(i)?);
            let times = times.into_iter().nth(*way)?;
            Some(FlowOnLink {
                sent_packets: sample.sent.packets,
                dropped_packets: sample.dropped.packets,
                queue_ns: Tally::from(&times.queue_delay_ns),
                burst_packets: Tally::from(&times.burst_packets),
            })
        };
        self.ways.iter().enumerate().filter_map(flow).collect()
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

/// Address of a flow's receiver in the kernel.
fn address(flow: usize, direction: Direction) -> SocketAddr {
    let receiver = match direction {
        Direction::Down => CLIENT,
        Direction::Up => SERVER,
    };
    (receiver, port(flow)).into()
}

/// Port of a flow in the client's namespace, and of its receiver.
pub(super) fn port(flow: usize) -> u16 {
    // A namespace has more ports than a run has flows.
    FIRST_PORT + flow as u16
}

/// A listener of the kernel's in the receiver's namespace.
fn kernel_listener(link: &Link, i: usize, direction: Direction) -> Result<Listener, RunError> {
    let (server, client) = link.namespaces().ok_or(RunError::Lost)?;
    let receiver = match direction {
        Direction::Down => client,
        Direction::Up => server,
    };
    let listener = receiver.enter(|| TcpListener::bind(address(i, direction)))?;
    listener.map(Listener::Kernel).map_err(RunError::Socket)
}

/// The sender's namespace and its address.
fn sender_of(link: &Link, direction: Direction) -> Result<(&Namespace, Ipv4Addr), RunError> {
    let (server, client) = link.namespaces().ok_or(RunError::Lost)?;
    Ok(match direction {
        Direction::Down => (server, SERVER),
        Direction::Up => (client, CLIENT),
    })
}

/// A socket of the kernel's in the sender's namespace.
fn kernel_socket(link: &Link, i: usize, direction: Direction) -> Result<Unconnected, RunError> {
    let (sender, address) = sender_of(link, direction)?;
    let socket = sender.enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if direction == Direction::Up {
            // By this port the link knows whose the packets are.
            socket.bind(&SocketAddr::from((address, port(i))).into())?;
        }
        Ok(socket)
    })?;
    socket.map(Unconnected::Kernel).map_err(RunError::Socket)
}
