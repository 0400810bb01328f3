//! One flow, seen from its receiver: connects, asks for data over several streams, counts it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time;

use fullpipe_cc::Duration;
use fullpipe_quic::{Client, ClientError, ClientOptions, Verify};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::job::FlowJob;
use crate::backend::RunError;
use crate::backend::realtime::Event;

/// What a flow is to do.
pub(super) struct Plan {
    pub(super) flow: usize,
    pub(super) epoch: time::Instant,
    pub(super) job: FlowJob,
    pub(super) server: SocketAddr,
    pub(super) server_name: String,
    pub(super) verify: Verify,
    pub(super) options: ClientOptions,
    pub(super) streams: u64,
    /// Application bytes so far.
    pub(super) received: Arc<AtomicU64>,
    pub(super) told: mpsc::Sender<Event>,
    /// Becomes true when the run is over.
    pub(super) ended: watch::Receiver<bool>,
}

/// When to begin; times are since the epoch.
pub(super) enum When {
    /// The first flow connects at once, and asks not before this.
    First { at: Duration },
    /// The others connect at their time after the first one's first request.
    After { zero: Duration },
}

/// Carries out the plan.
pub(super) async fn run(plan: Plan, socket: UdpSocket, when: When) {
    let (flow, told) = (plan.flow, plan.told.clone());
    let mut ended = plan.ended.clone();
    let until =
        |t: Duration| tokio::time::sleep_until((plan.epoch + time::Duration::from(t)).into());
    let work = async {
        if let When::After { zero } = when {
            until(zero + plan.job.start).await;
        }
        let client = connect(&plan, socket).await?;
        if let When::First { at } = when {
            until(at).await;
        }
        let started: Duration = plan.epoch.elapsed().into();
        let _ = plan.told.send(Event::Started { flow, at: started });
        let zero = match when {
            When::First { .. } => started,
            When::After { zero } => zero,
        };
        match plan.job.stop {
            None => fetch(&plan, &client).await?,
            Some(stop) => tokio::select! {
                done = fetch(&plan, &client) => done?,
                () = until(zero + stop) => {}
            },
        }
        let _ = plan.told.send(Event::Finished { flow, at: plan.epoch.elapsed().into() });
        client.close().await;
        Ok(())
    };
    tokio::select! {
        done = work => {
            if let Err(source) = done {
                let _ = told.send(Event::Failed(RunError::Flow { flow, source }));
            }
        }
        // Dropping the connection closes it.
        _ = ended.wait_for(|over| *over) => {}
    }
}

async fn connect(plan: &Plan, socket: UdpSocket) -> Result<Client, ClientError> {
    Client::connect_from(socket, plan.server, &plan.server_name, &plan.verify, plan.options).await
}

async fn fetch(plan: &Plan, client: &Client) -> Result<(), ClientError> {
    let mut streams = JoinSet::new();
    for path in requests(plan.job.bytes, plan.streams) {
        let mut response = client.get(&path).await?;
        let received = plan.received.clone();
        streams.spawn(async move {
            while let Some(chunk) = response.chunk().await? {
                received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            }
            Ok::<(), ClientError>(())
        });
    }
    while let Some(ended) = streams.join_next().await {
        // A stream's task neither panics nor is it cancelled while this one waits for it.
        ended.map_err(|_| ClientError::Closed)??;
    }
    Ok(())
}

/// One request for each stream, which together ask for `bytes`.
fn requests(bytes: Option<u64>, streams: u64) -> Vec<String> {
    let Some(bytes) = bytes else {
        return (0..streams).map(|_| "/bulk".to_owned()).collect();
    };
    let share = |i: u64| bytes / streams + u64::from(i < bytes % streams);
    (0..streams).map(share).filter(|&n| n > 0).map(|n| format!("/bulk/{n}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_streams_together_ask_for_what_the_flow_wants() {
        assert_eq!(requests(Some(10), 4), ["/bulk/3", "/bulk/3", "/bulk/2", "/bulk/2"]);
        assert_eq!(requests(Some(2), 4), ["/bulk/1", "/bulk/1"]);
        assert_eq!(requests(None, 2), ["/bulk", "/bulk"]);
    }
}
