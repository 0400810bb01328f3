//! Short connections that start at random times, all from one socket.

use std::net::UdpSocket;
use std::time;

use fullpipe_cc::Duration;
use fullpipe_path::Exponential;
use fullpipe_quic::noq::Endpoint;
use fullpipe_quic::{ClientError, ClientOptions, Connector};
use tokio::task::JoinSet;

use super::flow::{FlowTask, When, fetch_all, requests};
use super::testbed::first_connection_id;
use crate::backend::realtime::Event;

/// Fetches `bytes` over each connection until the flow is stopped, and then waits for those that are open.
pub(super) async fn run(
    task: &FlowTask,
    socket: UdpSocket,
    when: When,
    bytes: u64,
    mean_interval: Duration,
) -> Result<(), ClientError> {
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
    let endpoint = Connector::new(&task.verify, task.options)?.endpoint(socket)?;
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
        let options = ClientOptions {
            first_connection_id: Some(first_connection_id(task.flow, number)),
            ..task.options
        };
        open.spawn(one(task.clone(), endpoint.clone(), options, bytes));
        next = next + chance.draw(mean_interval);
    }
    while let Some(done) = open.join_next().await {
        ended(done)?;
    }
    let _ = task.told.send(Event::Finished { flow: task.flow, at: task.epoch.elapsed().into() });
    Ok(())
}

/// One connection from its first packet to its last byte.
async fn one(
    task: FlowTask,
    endpoint: Endpoint,
    options: ClientOptions,
    bytes: u64,
) -> Result<(), ClientError> {
    let begun = time::Instant::now();
    task.heard.asked();
    let connector = Connector::new(&task.verify, options)?;
    let client = connector.connect_over(&endpoint, task.server, &task.server_name).await?;
    fetch_all(&task, &client, requests(Some(bytes), task.streams)).await?;
    task.heard.completed(begun.elapsed());
    client.connection().close(0_u32.into(), b"");
    Ok(())
}

fn ended(done: Result<Result<(), ClientError>, tokio::task::JoinError>) -> Result<(), ClientError> {
    // A connection's task neither panics nor is it cancelled while this one waits for it.
    done.map_err(|_| ClientError::Closed)?
}
