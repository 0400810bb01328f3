//! Short connections that start at random times, all from one socket.

use std::net::UdpSocket;
use std::time;

use fullpipe_cc::Duration;
use fullpipe_path::Exponential;
use tokio::task::JoinSet;

use super::flow::{FlowTask, When, fetch_all, requests};
use super::stack::{Client, Dialer, FlowError};
use crate::backend::realtime::Event;

/// Fetches `bytes` over each connection until the flow is stopped, and then waits for those that
/// are open.
pub(super) async fn run<D: Dialer>(
    task: &FlowTask<D>,
    socket: UdpSocket,
    when: When,
    bytes: u64,
    mean_interval: Duration,
) -> Result<(), FlowError> {
    if let When::First { at } = when {
        task.until(at).await;
    }
    let started: Duration = task.epoch.elapsed().into();
    let _ = task.told.send(Event::Started { flow: task.flow, at: started });
    let zero = match when {
        When::First { .. } => started,
        When::After { zero } => zero,
    };
    let stop = task.stop.map_or(Duration::MAX, |stop| zero + stop);
    let endpoint = task.dialer.endpoint(socket)?;
    let mut chance = Exponential::new(task.seed);
    let mut next = started + chance.draw(mean_interval);
    let mut open = JoinSet::new();
    for number in 1.. {
        while next > task.epoch.elapsed().into() && next < stop {
            tokio::select! {
                () = task.until(next) => {}
                Some(done) = open.join_next() => ended(done)?,
            }
        }
        if next >= stop {
            break;
        }
        open.spawn(one(task.clone(), endpoint.clone(), number, bytes));
        next = next + chance.draw(mean_interval);
    }
    while let Some(done) = open.join_next().await {
        ended(done)?;
    }
    let _ = task.told.send(Event::Finished { flow: task.flow, at: task.epoch.elapsed().into() });
    Ok(())
}

/// One connection from its first packet to its last byte.
async fn one<D: Dialer>(
    task: FlowTask<D>,
    endpoint: D::Endpoint,
    number: u32,
    bytes: u64,
) -> Result<(), FlowError> {
    let begun = time::Instant::now();
    task.heard.asked();
    let client = task.connect(&endpoint, number).await?;
    fetch_all(&task, &client, requests(Some(bytes), task.streams)).await?;
    task.heard.completed(begun.elapsed());
    client.leave();
    Ok(())
}

fn ended(done: Result<Result<(), FlowError>, tokio::task::JoinError>) -> Result<(), FlowError> {
    // A connection's task neither panics nor is it cancelled while this one waits for it.
    done.map_err(|_| "internal error: a connection's task ended without a report")?
}
