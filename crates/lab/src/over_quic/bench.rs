//! Everything that a run over QUIC starts, and that ends with it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time;

use fullpipe_cc::{Duration, Rate};
use fullpipe_emu::{Emulator, EmulatorConfig, LinkReport, LinkSample};
use fullpipe_quic::noq::Connection;
use fullpipe_quic::{
    ClientOptions, CongestionControl, Content, OnAccept, Server, ServerOptions, ServerTls,
    TransportSettings, Verify,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::flow::{self, Plan};
use super::{sender, socket};
use crate::real_time::{self, Event, Look};
use crate::run::RunError;
use crate::scenario::{Amount, Scenario};

/// The name that the server's certificate is for.
const SERVER_NAME: &str = "localhost";

/// Enough streams that a hole in one does not stop the others.
const MIN_STREAMS: u64 = 4;
/// As many as noq lets a peer open, less some.
const MAX_STREAMS: u64 = 64;

/// What must end in any case, before it is said whether a run went well.
const RUNTIME_END: time::Duration = time::Duration::from_secs(2);

/// The connections that the server accepted.
type Connections = Arc<Mutex<Vec<Connection>>>;

/// A server, a link and clients.
pub(super) struct Bench {
    epoch: time::Instant,
    link: Option<Emulator>,
    server: Option<Server>,
    servers: Option<Runtime>,
    clients: Option<Runtime>,
    connections: Connections,
    events: mpsc::Receiver<Event>,
    /// The plans of the flows that wait for the first one.
    waiting: Vec<Plan>,
    received: Vec<Arc<AtomicU64>>,
    end: watch::Sender<bool>,
}

impl Bench {
    /// Starts a link, a server behind it, and the first flow.
    pub(super) fn start(scenario: &Scenario, cc: CongestionControl) -> Result<Self, RunError> {
        let epoch = time::Instant::now();
        let servers = runtime("fullpipe-server")?;
        let clients = runtime("fullpipe-client")?;
        let connections = Connections::default();
        let tls = ServerTls::self_signed(&[SERVER_NAME])?;
        let server = {
            let _inside = servers.enter();
            let options = server_options(scenario, cc, connections.clone());
            let socket = socket::open().map_err(RunError::Socket)?;
            Server::with_socket(socket, &tls, Content::Bulk, options)?
        };
        let link = Emulator::start(link_config(scenario, server.local_addr(), epoch))?;
        let (told, events) = mpsc::channel();
        let (end, ended) = watch::channel(false);
        let received: Vec<_> = (0..scenario.flows).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let plan = |i: u32, received: &Arc<AtomicU64>| Plan {
            flow: i as usize,
            epoch,
            start: scenario.start_of(i),
            server: link.addr(),
            server_name: SERVER_NAME,
            verify: Verify::Certificates(tls.certificates().to_vec()),
            options: client_options(scenario),
            streams: streams(scenario),
            bytes: match scenario.amount {
                Amount::Bytes(n) => Some(n),
                Amount::Duration(_) => None,
            },
            received: received.clone(),
            told: told.clone(),
            ended: ended.clone(),
        };
        let mut waiting: Vec<_> =
            (0..scenario.flows).zip(&received).map(|(i, r)| plan(i, r)).collect();
        let first = waiting.remove(0);
        clients.spawn(flow::run(first, Duration::ZERO));
        Ok(Self {
            epoch,
            link: Some(link),
            server: Some(server),
            servers: Some(servers),
            clients: Some(clients),
            connections,
            events,
            waiting,
            received,
            end,
        })
    }

    fn connections(&self) -> Vec<Connection> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl real_time::Bench for Bench {
    fn now(&self) -> Duration {
        self.epoch.elapsed().into()
    }

    fn events(&self) -> &mpsc::Receiver<Event> {
        &self.events
    }

    fn start_the_others(&mut self, zero: Duration) -> Result<(), RunError> {
        let clients = self.clients.as_ref().ok_or(RunError::Lost)?;
        for plan in self.waiting.drain(..) {
            clients.spawn(flow::run(plan, zero));
        }
        Ok(())
    }

    fn received(&self) -> Vec<u64> {
        self.received.iter().map(|n| n.load(Ordering::Relaxed)).collect()
    }

    fn look(&self) -> Vec<Look> {
        sender::look(&self.connections())
    }

    fn volumes(&self) -> (u64, u64) {
        sender::volumes(&self.connections())
    }

    fn link(&self) -> Result<LinkSample, RunError> {
        Ok(self.link.as_ref().ok_or(RunError::Lost)?.sample())
    }

    fn finish_link(&mut self) -> Result<LinkReport, RunError> {
        Ok(self.link.take().ok_or(RunError::Lost)?.finish()?)
    }
}

impl Drop for Bench {
    /// Ends everything and waits for it: the next algorithm is to find a quiet machine.
    fn drop(&mut self) {
        self.link = None;
        let _ = self.end.send(true);
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if let Some(clients) = self.clients.take() {
            clients.shutdown_timeout(RUNTIME_END);
        }
        if let Some(servers) = self.servers.take() {
            if let Some(server) = self.server.take() {
                servers.block_on(server.shutdown());
            }
            servers.shutdown_timeout(RUNTIME_END);
        }
    }
}

fn runtime(name: &str) -> Result<Runtime, RunError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(RunError::Runtime)
}

fn link_config(s: &Scenario, target: std::net::SocketAddr, epoch: time::Instant) -> EmulatorConfig {
    let (downlink, uplink) = s.directions();
    EmulatorConfig { uplink, downlink, epoch: Some(epoch), ..EmulatorConfig::new(target) }
}

fn server_options(s: &Scenario, cc: CongestionControl, accepted: Connections) -> ServerOptions {
    let on_accept: OnAccept = Arc::new(move |connection| {
        accepted.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    });
    ServerOptions {
        congestion: cc,
        seed: s.seed,
        transport: transport(s),
        on_accept: Some(on_accept),
    }
}

fn client_options(s: &Scenario) -> ClientOptions {
    // A first flight that meets a full buffer waits for it, and may be lost several times.
    let handshake_timeout = Duration::from_secs(10) + s.rtt.times(10) + drain_time(s).times(4);
    ClientOptions { transport: transport(s), handshake_timeout, ..ClientOptions::default() }
}

/// What the path holds when its buffer is full, in bytes.
fn path_holds(s: &Scenario) -> u64 {
    s.rate.bytes_in(s.rtt).saturating_add(buffer_bytes(s))
}

fn buffer_bytes(s: &Scenario) -> u64 {
    match s.buffer {
        crate::units::Buffer::Packets(n) => n.saturating_mul(u64::from(fullpipe_path::MTU_BYTES)),
        other => other.bytes_on(s.rate, s.rtt).unwrap_or(0),
    }
}

fn drain_time(s: &Scenario) -> Duration {
    if s.rate == Rate::ZERO { Duration::ZERO } else { s.rate.time_for(buffer_bytes(s)) }
}

/// Windows that congestion control and not flow control fills: four times what the path holds,
/// because a hole keeps back what follows it for a round trip and more.
fn transport(s: &Scenario) -> TransportSettings {
    let usual = TransportSettings::default();
    let room = path_holds(s).saturating_mul(4);
    TransportSettings {
        receive_window: u32::try_from(room).unwrap_or(u32::MAX).max(usual.receive_window),
        send_window: room.max(usual.send_window),
        ..usual
    }
}

/// So many streams that their windows together hold twice what the path does: a stream's window is
/// small (see [`TransportSettings::stream_receive_window`]) and a deep buffer is not.
fn streams(s: &Scenario) -> u64 {
    let window = u64::from(TransportSettings::default().stream_receive_window);
    path_holds(s).saturating_mul(2).div_ceil(window).clamp(MIN_STREAMS, MAX_STREAMS)
}
