//! Everything that a run over QUIC starts, and that ends with it.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time;

use fullpipe_cc::Duration;
use fullpipe_emu::{LinkReport, LinkSample};
use fullpipe_quic::noq::Connection;
use fullpipe_quic::{
    ClientOptions, Content, Limits, OnAccept, Server, ServerOptions, ServerTls, TransportSettings,
    Verify,
};
use hdrhistogram::Histogram;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::carrier::{Carrier, Laid};
use super::flow::{self, Plan, When};
use super::job::Job;
use super::sender::{self, Sender};
use crate::backend::RunError;
use crate::backend::realtime::{self, Event, LinkLook, LinkTruth, Look};

/// The name by which a flow calls the server, and by which the server knows the flow.
fn server_name(flow: usize) -> String {
    format!("{flow}.flow.localhost")
}

/// Enough streams that a hole in one does not stop the others.
const MIN_STREAMS: u64 = 4;
/// As many as noq lets a peer open, less some.
const MAX_STREAMS: u64 = 64;

/// What must end in any case, before it is said whether a run went well.
const RUNTIME_END: time::Duration = time::Duration::from_secs(2);

/// How much later than it should the first request may be where the path's times count from it.
const LATE: Duration = Duration::from_millis(100);

/// The connections that the server accepted, each at the place of its flow.
type Connections = Arc<Mutex<Vec<Option<Connection>>>>;

/// A server, a link and clients.
pub(crate) struct Bench {
    epoch: time::Instant,
    /// When the first request is due, since the epoch.
    lead: Duration,
    link: Option<Carrier>,
    /// What the ends need of it until they end.
    remains: Option<Carrier>,
    server: Option<Server>,
    servers: Option<Runtime>,
    clients: Option<Runtime>,
    connections: Connections,
    events: mpsc::Receiver<Event>,
    /// The plans of the flows that wait for the first one.
    waiting: Vec<(Plan, UdpSocket)>,
    received: Vec<Arc<AtomicU64>>,
    end: watch::Sender<bool>,
}

impl Bench {
    /// Starts a link, a server behind it, and the first flow.
    pub(crate) fn start(job: &Job) -> Result<Self, RunError> {
        let epoch = time::Instant::now();
        let servers = runtime("fullpipe-server")?;
        let clients = runtime("fullpipe-client")?;
        let connections = Connections::new(Mutex::new(vec![None; job.flows.len()]));
        let names: Vec<String> = (0..job.flows.len()).map(server_name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tls = ServerTls::self_signed(&names)?;
        let lead = job.lead();
        let Laid { carrier, server, clients: sockets, to } =
            Carrier::lay(job, epoch, lead, |socket| {
                let _inside = servers.enter();
                let options = server_options(job, connections.clone());
                let server = Server::with_socket(socket, &tls, Content::Bulk, options)?;
                let at = server.local_addr();
                Ok((server, at))
            })?;
        let (told, events) = mpsc::channel();
        let (end, ended) = watch::channel(false);
        let mut waiting = Vec::with_capacity(job.flows.len());
        let mut received = Vec::with_capacity(job.flows.len());
        for (i, (flow, socket)) in job.flows.iter().zip(sockets).enumerate() {
            let so_far = Arc::new(AtomicU64::new(0));
            received.push(so_far.clone());
            let plan = Plan {
                flow: i,
                epoch,
                job: *flow,
                server: to,
                server_name: server_name(i),
                verify: Verify::Certificates(tls.certificates().to_vec()),
                options: client_options(job),
                streams: streams(job),
                received: so_far,
                told: told.clone(),
                ended: ended.clone(),
            };
            waiting.push((plan, socket));
        }
        let first = job.flows.iter().position(|f| f.start == Duration::ZERO).unwrap_or(0);
        let (plan, socket) = waiting.remove(first);
        clients.spawn(flow::run(plan, socket, When::First { at: lead }));
        Ok(Self {
            epoch,
            lead,
            link: Some(carrier),
            remains: None,
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

    fn connections(&self) -> Vec<Option<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The sender of each flow, where there is one yet.
    pub(crate) fn senders(&self) -> Vec<Option<Sender>> {
        self.connections().iter().map(|c| Sender::of(c.as_ref()?)).collect()
    }

    /// Everything that the link says now.
    pub(crate) fn link_sample(&self) -> Result<LinkSample, RunError> {
        Ok(self.link.as_ref().ok_or(RunError::Lost)?.sample())
    }

    /// Ends the link; everything that it says then.
    pub(crate) fn finish_report(&mut self) -> Result<LinkReport, RunError> {
        let (report, remains) = self.link.take().ok_or(RunError::Lost)?.finish()?;
        self.remains = remains;
        Ok(report)
    }

    /// Queueing delay of every packet of data so far.
    pub(crate) fn queue_delay_ns(&self) -> Result<Histogram<u64>, RunError> {
        self.link.as_ref().ok_or(RunError::Lost)?.queue_delay_ns()
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
        if self.lead > Duration::ZERO && zero > self.lead + LATE {
            return Err(RunError::LateStart(self.lead));
        }
        let clients = self.clients.as_ref().ok_or(RunError::Lost)?;
        for (plan, socket) in self.waiting.drain(..) {
            clients.spawn(flow::run(plan, socket, When::After { zero }));
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

    fn link(&self) -> Result<LinkLook, RunError> {
        Ok(self.link_sample()?.into())
    }

    fn finish_link(&mut self) -> Result<LinkTruth, RunError> {
        Ok(self.finish_report()?.into())
    }
}

impl Drop for Bench {
    /// Ends everything and waits for it: the next algorithm is to find a quiet machine.
    fn drop(&mut self) {
        let _ = self.finish_report();
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

fn server_options(job: &Job, accepted: Connections) -> ServerOptions {
    let on_accept: OnAccept = Arc::new(move |connection| {
        let mut all = accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let place = sender::called(&connection)
            .and_then(|name| (0..all.len()).find(|i| server_name(*i) == name));
        if let Some(place) = place {
            all[place] = Some(connection);
        }
    });
    let mut limits = Limits::default();
    // A Retry would be a round trip that is the server's and not the path's.
    limits.unvalidated_handshakes = limits.connections;
    limits.handshake_timeout = client_options(job).handshake_timeout.into();
    ServerOptions {
        congestion: job.cc,
        seed: job.seed,
        transport: transport(job),
        on_accept: Some(on_accept),
        limits,
        ..ServerOptions::default()
    }
}

fn client_options(job: &Job) -> ClientOptions {
    // A first flight that meets a full buffer waits for it, and may be lost several times.
    let handshake_timeout =
        Duration::from_secs(10) + job.rtt().times(10) + job.drain_time().times(4);
    ClientOptions { transport: transport(job), handshake_timeout, ..ClientOptions::default() }
}

/// Windows that congestion control and not flow control fills: four times what the path holds,
/// because a hole keeps back what follows it for a round trip and more.
fn transport(job: &Job) -> TransportSettings {
    let usual = TransportSettings::default();
    let room = job.holds().saturating_mul(4);
    TransportSettings {
        receive_window: u32::try_from(room).unwrap_or(u32::MAX).max(usual.receive_window),
        send_window: room.max(usual.send_window),
        ..usual
    }
}

/// So many streams that their windows together hold twice what the path does: a stream's window is
/// small (see [`TransportSettings::stream_receive_window`]) and a deep buffer is not.
fn streams(job: &Job) -> u64 {
    let window = u64::from(TransportSettings::default().stream_receive_window);
    job.holds().saturating_mul(2).div_ceil(window).clamp(MIN_STREAMS, MAX_STREAMS)
}
