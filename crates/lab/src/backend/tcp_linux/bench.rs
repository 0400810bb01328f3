//! Everything that a run over TCP starts, and that ends with it.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time;

use fullpipe_cc::Duration;
use fullpipe_emu::namespace::CLIENT;
use socket2::{Domain, Protocol, Socket, Type};

use super::carrier::Carrier;
use super::control::Control;
use super::flow::Flow;
use super::info::TcpInfo;
use super::latency::{Latencies, Writes};
use crate::backend::RunError;
use crate::backend::realtime::{self, Event, LinkLook, LinkTruth, Look};
use crate::output::results::AppLatency;
use crate::scenario::Scenario;

/// The port of the first flow's receiver; a namespace has all its ports free.
const FIRST_PORT: u16 = 5000;

/// The least that a bounded sender keeps unsent: Linux's usual advice.
const LEAST_UNSENT_BYTES: u64 = 128 << 10;

/// And in time at the link's rate, so that its thread, woken late, does not leave the link idle.
const UNSENT_TIME: Duration = Duration::from_millis(10);

/// Two namespaces, a link between them, and the ends of the flows.
pub(super) struct Bench {
    epoch: time::Instant,
    link: Option<Carrier>,
    flows: Vec<Arc<Flow>>,
    starts: Vec<Duration>,
    /// Sockets of flows that wait for the first one.
    waiting: Vec<Socket>,
    threads: Vec<JoinHandle<()>>,
    events: mpsc::Receiver<Event>,
    latencies: Arc<Latencies>,
    unsent_bound_bytes: u32,
    ended: Arc<AtomicBool>,
    /// Each flow's; the last one is that of all further flows.
    controls: Vec<Control>,
}

impl Bench {
    /// Starts a link, the receivers behind it, and the first flow. There is at least one control.
    pub(super) fn start(scenario: &Scenario, controls: Vec<Control>) -> Result<Self, RunError> {
        let epoch = time::Instant::now();
        let link = Carrier::lay(scenario, epoch)?;
        let flows = scenario.flows as usize;
        let (listeners, mut sockets) = open(&link, flows)?;
        let (told, events) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let latencies = Arc::new(Latencies::new());
        let unsent = scenario.rate.bytes_in(UNSENT_TIME).max(LEAST_UNSENT_BYTES);
        let unsent_bound_bytes = u32::try_from(unsent).unwrap_or(u32::MAX);
        let names: Vec<_> = controls.iter().map(Control::name).collect();
        let flow = |number: usize| Flow {
            number,
            epoch,
            cc: names[number.min(names.len() - 1)],
            amount: scenario.amount,
            unsent_bound_bytes,
            // Room for SYNs that a full buffer drops, whose timeout doubles from a second.
            connect_timeout: (Duration::from_secs(20) + scenario.rtt.times(4)).into(),
            to: address(number),
            sender: OnceLock::new(),
            received: AtomicU64::new(0),
            writes: Writes::default(),
            latencies: latencies.clone(),
            ended: ended.clone(),
            told: told.clone(),
        };
        let first = sockets.remove(0);
        let mut bench = Self {
            epoch,
            link: Some(link),
            flows: (0..flows).map(|i| Arc::new(flow(i))).collect(),
            starts: (0..scenario.flows).map(|i| scenario.start_of(i)).collect(),
            waiting: sockets,
            threads: Vec::new(),
            events,
            latencies,
            unsent_bound_bytes,
            ended,
            controls,
        };
        for (i, listener) in listeners.into_iter().enumerate() {
            let flow = bench.flows[i].clone();
            bench.spawn("fullpipe-recv", move || flow.receive(&listener))?;
        }
        bench.start_sender(0, first, Duration::ZERO)?;
        Ok(bench)
    }

    fn start_sender(&mut self, i: usize, socket: Socket, at: Duration) -> Result<(), RunError> {
        let flow = self.flows[i].clone();
        self.spawn("fullpipe-send", move || flow.send(socket, at))
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), RunError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push(thread.map_err(RunError::Runtime)?);
        Ok(())
    }

    fn infos(&self) -> impl Iterator<Item = TcpInfo> + '_ {
        self.flows.iter().filter_map(|flow| TcpInfo::of(flow.sender.get()?).ok())
    }
}

impl realtime::Bench for Bench {
    fn now(&self) -> Duration {
        self.epoch.elapsed().into()
    }

    fn events(&self) -> &mpsc::Receiver<Event> {
        &self.events
    }

    fn start_the_others(&mut self, zero: Duration) -> Result<(), RunError> {
        let sockets: Vec<_> = self.waiting.drain(..).collect();
        for (i, socket) in (1..).zip(sockets) {
            self.start_sender(i, socket, zero + self.starts[i])?;
        }
        Ok(())
    }

    fn received(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.received.load(Ordering::Relaxed)).collect()
    }

    fn look(&self) -> Vec<Look> {
        let mut looks: Vec<_> = self.infos().filter_map(|info| info.look()).collect();
        if let (Some(first), Some(control)) = (looks.first_mut(), self.controls.first()) {
            first.state = control.state_of(self.flows[0].to);
        }
        looks
    }

    fn volumes(&self) -> (u64, u64) {
        let each = self.infos().map(|info| info.volumes());
        each.fold((0, 0), |(sent, again), v| (sent + v.0, again + v.1))
    }

    fn link(&self) -> Result<LinkLook, RunError> {
        self.link.as_ref().ok_or(RunError::Lost)?.look()
    }

    fn finish_link(&mut self) -> Result<LinkTruth, RunError> {
        self.link.take().ok_or(RunError::Lost)?.finish()
    }

    fn app_latency(&self) -> Option<AppLatency> {
        Some(self.latencies.result(self.unsent_bound_bytes))
    }
}

impl Drop for Bench {
    /// Ends everything and waits for it: the next algorithm is to find a quiet machine.
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
fn open(link: &Carrier, flows: usize) -> Result<(Vec<TcpListener>, Vec<Socket>), RunError> {
    let listeners =
        link.client().enter(|| (0..flows).map(address).map(TcpListener::bind).collect());
    let listeners: std::io::Result<Vec<_>> = listeners?;
    let socket = |_| Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let sockets = link.server().enter(|| (0..flows).map(socket).collect());
    let sockets: std::io::Result<Vec<_>> = sockets?;
    Ok((listeners.map_err(RunError::Socket)?, sockets.map_err(RunError::Socket)?))
}
