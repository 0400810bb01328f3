//! The client: one measurement.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use super::Args;
use super::message::{Amount, Hello, Message, Messages};
use super::report::{Interval, Report};
use super::{receive, send, transport_of};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::say;
use crate::transport::{Connection, Transport};

/// The longest time for an answer to a connection attempt, and to the first message.
const PATIENCE: Duration = Duration::from_secs(15);

/// The longest time for the end of a connection to arrive.
const GOODBYE: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &Args, place: &str, interrupt: &Interrupt) -> Result<(), Failure> {
    let transport = transport_of(args)?;
    let connection = tokio::select! {
        connection = connect(args, &transport, place) => connection?,
        () = interrupt.wait() => return Err(Failure::interrupted(true)),
    };
    let lost = |error| Failure::run(format!("the measurement with {place} broke off: {error}"));
    let measured = measure(args, &transport, &connection, interrupt).await;
    drop(connection);
    transport.shutdown(GOODBYE).await;
    let report = measured.map_err(lost)?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report).map_err(Failure::run)?),
        false => println!("{report}"),
    }
    match report.interrupted {
        true => Err(Failure::interrupted(false)),
        false => Ok(()),
    }
}

async fn connect(args: &Args, transport: &Transport, place: &str) -> Result<Connection, Failure> {
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::run(format!(
            "cannot connect to {place}: {error}; is fullpipe perf --server there?"
        ))
    };
    let found = lookup_host(place).await.map_err(|error| {
        Failure::bad_input(format!("{place} is no HOST:PORT that is known: {error}"))
    })?;
    let is_of_family =
        |to: &SocketAddr| args.from.is_none_or(|from| from.is_ipv4() == to.is_ipv4());
    let mut last = io::Error::other("the name has no address of the family of --from");
    for to in found.filter(is_of_family) {
        match timeout(PATIENCE, transport.connect(args.from, to)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::other(format!("no answer for {PATIENCE:?}")),
        }
    }
    Err(cannot(&last))
}

async fn measure(
    args: &Args,
    transport: &Transport,
    connection: &Connection,
    interrupt: &Interrupt,
) -> io::Result<Report> {
    let mut messages = Messages::of(connection);
    let amount = args.bytes.map_or(Amount::Nanoseconds(args.duration.as_nanos()), Amount::Bytes);
    let hello = Message::Hello(Hello::new(args.reverse, amount, args.interval));
    connection.write_all(&hello.encode()?).await?;
    match timeout(PATIENCE, messages.next()).await?? {
        Message::Ready => {}
        _ => return Err(io::Error::other("the other end is no fullpipe perf of this version")),
    }
    let every = args.interval.into();
    let show = |interval: &Interval| say(&interval.to_string());
    let ends = (connection, &mut messages);
    if args.reverse {
        return receive::receive(ends, every, interrupt.wait(), show).await;
    }
    let sent = send::send(ends, (amount, every), transport.name(), interrupt.wait(), show).await?;
    connection.write_all(&Message::Report(Box::new(sent.clone())).encode()?).await?;
    Ok(sent)
}
