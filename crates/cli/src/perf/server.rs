//! The server: a measurement with each client.

use std::fs::File;
use std::future::pending;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::Args;
use super::message::{Message, Messages};
use super::report::Report;
use super::{receive, send, transport_of};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::lines::{Lines, Sink, WholeLines};
use crate::transport::Connection;

/// Clients at one time; others wait.
const CLIENTS: usize = 16;

/// The longest time for a client's first message.
const PATIENCE: Duration = Duration::from_secs(15);

/// Pause after the system gave no connection, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// A result in JSON, with the client's address.
#[derive(Serialize)]
struct Line<'a> {
    client: SocketAddr,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) async fn run(
    args: &Args,
    address: SocketAddr,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let transport = transport_of(args)?;
    let listener = transport
        .listen(address)
        .map_err(|error| Failure::bad_input(format!("cannot listen on {address}: {error}")))?;
    let bound = listener.address().map_err(Failure::run)?;
    let name = transport.name();
    println!("listening on {bound} ({name})");
    // Whoever waits for this line may read it through a pipe.
    io::stdout().flush().map_err(Failure::run)?;
    // A reader that takes nothing stops neither the clients nor the end.
    let results = ToStdout::new()
        .and_then(|stdout| Lines::start("results", stdout))
        .map_err(|error| Failure::run(format!("cannot start: {error}")))?;
    let clients = Arc::new(Semaphore::new(CLIENTS));
    let json = args.json;
    let serve = async {
        loop {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&clients).acquire_owned().await else { return };
            let (connection, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("no connection: {error}");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let (name, results) = (name.clone(), results.queue());
            tokio::spawn(async move {
                match converse(&connection, name).await {
                    Ok(report) => results.push(lines(peer, &report, json)),
                    Err(error) => tracing::warn!("the measurement with {peer} broke off: {error}"),
                }
                drop(place);
            });
        }
    };
    tokio::select! {
        () = serve => {}
        () = interrupt.wait() => {}
    }
    transport.shutdown(Duration::ZERO).await;
    if !results.finish() {
        tracing::warn!("the last results may be missing");
    }
    Ok(())
}

async fn converse(connection: &Connection, name: String) -> io::Result<Report> {
    let mut messages = Messages::of(connection);
    let hello = match timeout(PATIENCE, messages.next()).await?? {
        Message::Hello(hello) if hello.is_known() => hello,
        _ => return Err(io::Error::other("it is no fullpipe perf of this version")),
    };
    connection.write_all(&Message::Ready.encode()?).await?;
    let ends = (connection, &mut messages);
    let every = hello.interval().into();
    if !hello.reverse {
        return receive::receive(ends, every, pending(), |_| {}).await;
    }
    let sent = send::send(ends, (hello.amount, every), name, pending(), |_| {}).await?;
    connection.write_all(&Message::Report(Box::new(sent.clone())).encode()?).await?;
    Ok(sent)
}

fn lines(client: SocketAddr, report: &Report, json: bool) -> Box<[u8]> {
    let lines = match serde_json::to_string(&Line { client, report }) {
        Ok(line) if json => format!("{line}\n"),
        _ => format!("client           {client}\n{report}\n"),
    };
    lines.into_bytes().into()
}

/// Results on stdout, past the standard library's buffer, which would keep a part of what failed.
struct ToStdout(WholeLines<File>);

impl ToStdout {
    fn new() -> io::Result<Self> {
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self(WholeLines::new(stdout.into(), false)))
    }
}

impl Sink for ToStdout {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.0.write(lines)
    }

    fn failed(&mut self, error: &io::Error) {
        // Whoever closed it has read enough.
        if error.kind() != io::ErrorKind::BrokenPipe {
            tracing::error!("cannot write to stdout: {error}; results are lost");
        }
    }

    fn left_out(&mut self, results: u64) {
        tracing::warn!(results, "results were left out: too many wait");
    }
}
