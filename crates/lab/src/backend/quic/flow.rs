//! One flow, seen from its receiver: has it connected, asks for data, counts it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time;

use bytes::Bytes;
use fullpipe_cc::Duration;
use fullpipe_traffic::{Action, Application, Direction, Reading, Tally, Traffic};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::short;
use super::source::{STAMP_BYTES, instant, path, to_std, written_at};
use super::stack::{Connection, FlowError, Flows, Id, Response, Stack};
use crate::backend::RunError;
use crate::backend::realtime::Event;

/// Packets that one look at a stream takes, so that a fast stream is not locked for each of them.
const CHUNKS_AT_ONCE: usize = 64;

/// Counters and times at the receiver of a flow.
pub(super) struct ReceiverStats {
    /// Application bytes.
    pub(super) received: AtomicU64,
    latency_ns: Mutex<Tally>,
    completion_ns: Mutex<Option<Tally>>,
    /// Requests that are not answered yet; nothing of applications that make none.
    open_requests: Mutex<Option<u64>>,
}

impl ReceiverStats {
    pub(super) fn new() -> Self {
        Self {
            received: AtomicU64::new(0),
            latency_ns: Mutex::new(Tally::new()),
            completion_ns: Mutex::new(None),
            open_requests: Mutex::new(None),
        }
    }

    pub(super) fn latency_ns(&self) -> MutexGuard<'_, Tally> {
        self.latency_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn completion_ns(&self) -> Option<Tally> {
        self.completion_ns.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn incomplete(&self) -> Option<u64> {
        *self.open_requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was asked for whose answer is timed.
    pub(super) fn asked(&self) {
        *self.open_requests.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(0) += 1;
    }

    /// Its answer took so long.
    pub(super) fn completed(&self, time: Duration) {
        let mut open = self.open_requests.lock().unwrap_or_else(PoisonError::into_inner);
        *open = open.map(|n| n.saturating_sub(1));
        drop(open);
        let mut all = self.completion_ns.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_or_insert_with(Tally::new).record(time.as_nanos());
    }
}

/// Task of a flow: its times, application and connection. It runs where the receiver is.
pub(super) struct FlowTask<S: Stack> {
    pub(super) flow: usize,
    pub(super) epoch: time::Instant,
    /// Its first request, after that of the first flow.
    pub(super) start: Duration,
    /// Time at which it stops reading.
    pub(super) stop: Option<Duration>,
    pub(super) application: Application,
    pub(super) direction: Direction,
    pub(super) server: SocketAddr,
    pub(super) streams: u64,
    pub(super) flows: Arc<Flows<S::Connection>>,
    /// The runtime of its client.
    pub(super) clients: Handle,
    pub(super) heard: Arc<ReceiverStats>,
    pub(super) told: mpsc::Sender<Event>,
    /// Of the starts of short connections.
    pub(super) seed: u64,
    /// Becomes true when the run is over.
    pub(super) ended: watch::Receiver<bool>,
}

impl<S: Stack> FlowTask<S> {
    /// Sleeps until a time since the epoch.
    pub(super) fn until(&self, t: Duration) -> tokio::time::Sleep {
        tokio::time::sleep_until((self.epoch + time::Duration::from(t)).into())
    }

    /// The endpoint of its client.
    pub(super) fn endpoint(&self, socket: UdpSocket) -> Result<S::Endpoint, FlowError> {
        let _inside = self.clients.enter();
        S::client(socket, self.flow as u32, &self.flows)
    }

    /// Its connection of this number, from the first packet to the end of the handshake: the
    /// receiver's end of it.
    pub(super) async fn connect(
        &self,
        endpoint: &S::Endpoint,
        number: u32,
    ) -> Result<S::Connection, FlowError> {
        let id = Id { flow: self.flow as u32, number };
        let accepted = (self.direction == Direction::Up).then(|| self.flows.accepted(id));
        let (endpoint, server, flows) = (endpoint.clone(), self.server, self.flows.clone());
        let connecting =
            self.clients.spawn(async move { S::connect(&endpoint, server, id, &flows).await });
        let both = async {
            let client = connecting.await.map_err(|_| LOST)??;
            let Some(accepted) = accepted else { return Ok(client) };
            self.flows.add_sender(id.flow, client);
            Ok(accepted.await.map_err(|_| LOST)?)
        };
        let timeout = self.flows.settings.handshake_timeout;
        match tokio::time::timeout(timeout.into(), both).await {
            Ok(connected) => connected,
            Err(_) => Err(format!("no answer from {server} within {timeout}").into()),
        }
    }
}

/// A task neither panics nor is it cancelled while another one waits for it.
pub(super) const LOST: &str = "internal error: a task ended without a report";

/// Start time of a flow; times are since the epoch.
pub(super) enum StartTime {
    /// The first flow connects at once, and asks not before this.
    First { at: Duration },
    /// The others connect at their time after the first one's first request.
    After { zero: Duration },
}

/// Carries out the task.
pub(super) async fn run<S: Stack>(task: Arc<FlowTask<S>>, socket: UdpSocket, when: StartTime) {
    let (flow, told) = (task.flow, task.told.clone());
    let mut ended = task.ended.clone();
    let work = async {
        if let StartTime::After { zero } = when {
            task.until(zero + task.start).await;
        }
        if let Application::ShortFlows { bytes, .. } = task.application {
            return short::run(&task, socket, when, bytes).await;
        }
        let receiver = task.connect(&task.endpoint(socket)?, 0).await?;
        if let StartTime::First { at } = when {
            task.until(at).await;
        }
        let started: Duration = task.epoch.elapsed().into();
        let _ = task.told.send(Event::Started { flow, at: started });
        let zero = match when {
            StartTime::First { .. } => started,
            StartTime::After { zero } => zero,
        };
        match task.stop {
            None => fetch(&task, &receiver).await?,
            Some(stop) => tokio::select! {
                done = fetch(&task, &receiver) => done?,
                () = task.until(zero + stop) => {}
            },
        }
        let _ = task.told.send(Event::Finished { flow, at: task.epoch.elapsed().into() });
        receiver.close();
        Ok(())
    };
    tokio::select! {
        done = work => {
            if let Err(source) = done {
                let _ = told.send(Event::Failed(RunError::Flow { flow, source }));
            }
        }
        _ = ended.wait_for(|over| *over) => {}
    }
}

async fn fetch<S: Stack>(task: &FlowTask<S>, receiver: &S::Connection) -> Result<(), FlowError> {
    match task.application {
        Application::Bytes(bytes) => {
            fetch_all(task, receiver, requests(Some(bytes), task.streams)).await
        }
        Application::RateLimited { write_bytes, .. } => {
            let write_bytes = write_bytes.max(STAMP_BYTES as u64);
            fetch_writes(task, receiver, write_bytes).await
        }
        Application::OnOff { .. } => fetch_at_times(task, receiver).await,
        Application::RequestResponse { .. } => fetch_answers(task, receiver).await,
        // Short flows have connections of their own; media is refused before.
        Application::Bulk | Application::ShortFlows { .. } | Application::Media(_) => {
            fetch_all(task, receiver, requests(None, task.streams)).await
        }
    }
}

/// The applications of a flow that is connected now.
fn traffic<S: Stack>(task: &FlowTask<S>) -> Traffic {
    let now = instant(time::Instant::now());
    let mut traffic = Traffic::new(task.application, now, None, task.seed);
    traffic.on_connected(now);
    traffic
}

/// Lets data without an end come while the application has some.
async fn fetch_at_times<S: Stack>(
    task: &FlowTask<S>,
    receiver: &S::Connection,
) -> Result<(), FlowError> {
    let mut traffic = traffic(task);
    while let Some(at) = traffic.wakes() {
        tokio::time::sleep_until(to_std(at).into()).await;
        if traffic.on_time(instant(time::Instant::now())) != Action::Resume {
            continue;
        }
        let Some(pause) = traffic.wakes() else { continue };
        // Nobody reads the streams after that. The sender drops what has not left of them, which
        // may be all that a window holds.
        let all = fetch_all(task, receiver, requests(None, task.streams));
        if let Ok(ended) = tokio::time::timeout_at(to_std(pause).into(), all).await {
            ended?;
        }
    }
    Ok(())
}

/// Asks for one answer after the other until the flow is stopped.
async fn fetch_answers<S: Stack>(
    task: &FlowTask<S>,
    receiver: &S::Connection,
) -> Result<(), FlowError> {
    let mut traffic = traffic(task);
    while let Some(at) = traffic.wakes() {
        tokio::time::sleep_until(to_std(at).into()).await;
        if traffic.on_time(instant(time::Instant::now())) != Action::Request {
            continue;
        }
        task.heard.asked();
        fetch_all(task, receiver, vec![path(task.application)]).await?;
        let received = task.heard.received.load(Ordering::Relaxed);
        if let Reading::Answer(time) = traffic.on_read(instant(time::Instant::now()), received) {
            task.heard.completed(time);
        }
    }
    Err("an answer was too short".into())
}

/// Fetches each path over a stream of its own.
pub(super) async fn fetch_all<S: Stack>(
    task: &FlowTask<S>,
    receiver: &S::Connection,
    paths: Vec<String>,
) -> Result<(), FlowError> {
    let mut streams = JoinSet::new();
    for path in paths {
        let mut response = receiver.get(&path).await?;
        let heard = task.heard.clone();
        streams.spawn(async move {
            let mut chunks = [const { Bytes::new() }; CHUNKS_AT_ONCE];
            while let Some(count) = response.read(&mut chunks).await? {
                let bytes: usize = chunks[..count].iter().map(Bytes::len).sum();
                heard.received.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Ok::<(), FlowError>(())
        });
    }
    while let Some(ended) = streams.join_next().await {
        ended.map_err(|_| LOST)??;
    }
    Ok(())
}

/// Reads writes that carry the time at which they were due, until the flow is stopped.
async fn fetch_writes<S: Stack>(
    task: &FlowTask<S>,
    receiver: &S::Connection,
    write_bytes: u64,
) -> Result<(), FlowError> {
    let mut response = receiver.get(&path(task.application)).await?;
    let mut stamp = [0; STAMP_BYTES];
    // Bytes of the write at hand that were read.
    let mut read = 0;
    let mut chunk = [Bytes::new()];
    while response.read(&mut chunk).await?.is_some() {
        let chunk = &mut chunk[0];
        task.heard.received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        while !chunk.is_empty() {
            let taken = chunk.split_to(chunk.len().min((write_bytes - read) as usize));
            let head = stamp.iter_mut().skip(read as usize);
            head.zip(&taken).for_each(|(place, byte)| *place = *byte);
            read += taken.len() as u64;
            if read == write_bytes {
                let age = instant(time::Instant::now()).since(written_at(stamp));
                task.heard.latency_ns().record(age.as_nanos());
                read = 0;
            }
        }
    }
    Ok(())
}

/// One request for each stream, which together ask for `bytes`.
pub(super) fn requests(bytes: Option<u64>, streams: u64) -> Vec<String> {
    let Some(bytes) = bytes else {
        return (0..streams).map(|_| path(Application::Bulk)).collect();
    };
    let share = |i: u64| bytes / streams + u64::from(i < bytes % streams);
    let shares = (0..streams).map(share).filter(|&n| n > 0);
    shares.map(|n| path(Application::Bytes(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_streams_together_ask_for_what_the_flow_wants() {
        assert_eq!(requests(Some(10), 4), ["/bytes/3", "/bytes/3", "/bytes/2", "/bytes/2"]);
        assert_eq!(requests(Some(2), 4), ["/bytes/1", "/bytes/1"]);
        assert_eq!(requests(None, 2), ["/bulk", "/bulk"]);
    }
}
