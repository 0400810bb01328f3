//! Short connections that start at random times, all from one socket.

use std::net::UdpSocket;
use std::sync::Arc;

use fullpipe_cc::{Duration, Instant};
use fullpipe_traffic::{Action, Traffic};
use tokio::task::JoinSet;

use super::flow::{FlowTask, LOST, StartTime, fetch_all, requests};
use super::stack::{Connection, FlowError, Stack};
use crate::backend::realtime::Event;

/// Fetches `bytes` over each connection until the flow is stopped, and then waits for those that
/// are open.
pub(super) async fn run<S: Stack>(
    task: &Arc<FlowTask<S>>,
    socket: UdpSocket,
    when: StartTime,
    bytes: u64,
) -> Result<(), FlowError> {
    if let StartTime::First { at } = when {
        task.until(at).await;
    }
    let started: Duration = task.epoch.elapsed().into();
    let _ = task.told.send(Event::Started { flow: task.flow, at: started });
    let zero = match when {
        StartTime::First { .. } => started,
        StartTime::After { zero } => zero,
    };
    let since_epoch = |time: Duration| Instant::default() + time;
    let stop = task.stop.map(|stop| since_epoch(zero + stop));
    let mut traffic = Traffic::new(task.application, since_epoch(started), stop, task.seed);
    let endpoint = task.endpoint(socket)?;
    let mut open = JoinSet::new();
    let mut number = 0;
    while let Some(at) = traffic.wakes() {
        tokio::select! {
            () = task.until(at.since(Instant::default())) => {}
            Some(done) = open.join_next() => ended(done)?,
        }
        if traffic.on_time(since_epoch(task.epoch.elapsed().into())) == Action::Connect {
            number += 1;
            open.spawn(one(task.clone(), endpoint.clone(), number, bytes));
        }
    }
    while let Some(done) = open.join_next().await {
        ended(done)?;
    }
    let _ = task.told.send(Event::Finished { flow: task.flow, at: task.epoch.elapsed().into() });
    Ok(())
}

/// One connection from its first packet to its last byte.
async fn one<S: Stack>(
    task: Arc<FlowTask<S>>,
    endpoint: S::Endpoint,
    number: u32,
    bytes: u64,
) -> Result<(), FlowError> {
    let begun: Duration = task.epoch.elapsed().into();
    task.heard.asked();
    let receiver = task.connect(&endpoint, number).await?;
    fetch_all(&task, &receiver, requests(Some(bytes), task.streams)).await?;
    task.heard.completed(Duration::from(task.epoch.elapsed()) - begun);
    receiver.close();
    Ok(())
}

fn ended(done: Result<Result<(), FlowError>, tokio::task::JoinError>) -> Result<(), FlowError> {
    done.map_err(|_| LOST)?
}
