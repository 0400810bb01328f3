//! `fullpipe perf`: goodput and application latency between two hosts over TCP.

mod client;
mod message;
mod receive;
mod report;
mod send;
mod server;

use std::net::{IpAddr, SocketAddr};

use fullpipe_cc::Duration;
use fullpipe_scenario::Cc;
use fullpipe_scenario::units::{parse_bytes, parse_duration};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::transport::{self, Settings, Transport};
use crate::tun::Tun;

/// The least time between two lines of progress.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of our TCP's largest buffers: more than most paths can hold.
const BUFFER_BYTES: usize = 64 << 20;

/// Measure goodput and application latency over TCP between two hosts
///
/// One host runs --server, the other --client. The client sends, with --reverse the server. TCP is
/// the kernel's, or with --tun this program's own, at either end.
///
/// The data is blocks of 16 KiB. The receiving application answers the newest block, every 2 ms at
/// most. The answer time of a block lasts from when the transport took its first byte until its
/// answer arrived; the latency is that less half of the shortest round trip before the data.
/// Goodput counts until the last block was read.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Wait for clients here, until Ctrl-C; port 0 of the kernel's TCP takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::parse_address)]
    #[arg(required_unless_present = "client", conflicts_with = "client")]
    server: Option<SocketAddr>,
    /// Measure with the server there
    #[arg(long, value_name = "HOST:PORT")]
    client: Option<String>,
    /// The server sends
    #[arg(long, conflicts_with = "server")]
    reverse: bool,
    /// Volume to send, rounded up to whole blocks
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["server", "duration"], value_parser = bytes)]
    bytes: Option<u64>,
    /// Time for which to send
    #[arg(long, value_name = "TIME", conflicts_with = "server", default_value = "10s", value_parser = crate::parse_timeout)]
    duration: Duration,
    /// Congestion control of this end: linux:NAME for the kernel's TCP (by default the system's);
    /// with --tun bbr3 (the default), bbr3x, bbr3-linux, bbr3x-linux, bbr-swift, prague, bbr1,
    /// cubic or reno
    #[arg(long, value_name = "ALGORITHM")]
    cc: Option<Cc>,
    /// The most unsent data at the sender (TCP_NOTSENT_LOWAT): more adds latency, less than 10 ms
    /// at the path's rate may cost goodput
    #[arg(long, value_name = "SIZE", default_value = "128KiB", value_parser = transport::unsent)]
    unsent: u32,
    /// Take this program's own TCP in place of the kernel's, behind this TUN device; with the
    /// kernel's address on it, the device is made (root)
    #[arg(long, value_name = "NAME[=ADDRESS/PREFIX]")]
    tun: Option<Tun>,
    /// The client's address with --tun: one of the device's network, and not the kernel's
    #[arg(long, value_name = "ADDRESS", requires = "tun", conflicts_with = "server")]
    from: Option<IpAddr>,
    /// The time between two lines of progress
    #[arg(long, value_name = "TIME", conflicts_with = "server", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print the result as JSON; a server prints one line for each client
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn is_a_server(&self) -> bool {
        self.server.is_some()
    }
}

const EXAMPLES: &str = "\
Examples:
  fullpipe perf --server 127.0.0.1:5201
  fullpipe perf --client 127.0.0.1:5201 --cc linux:cubic
  fullpipe perf --server 10.9.0.2:5201 --tun fp0=10.9.0.1/24
  fullpipe perf --client 10.9.0.2:5201 --bytes 3GB --json
  fullpipe perf --client 10.9.0.2:5201 --reverse";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.client.is_some() && args.tun.is_some() && args.from.is_none() {
        let reason = "a client with --tun needs --from ADDRESS, one of the device's network";
        return Err(Failure::bad_input(reason));
    }
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::run(format!("cannot start: {error}")))?;
    let interrupt = Interrupt::install()?;
    let outcome = runtime.block_on(async {
        match (&args.server, &args.client) {
            (Some(address), _) => server::run(args, *address, &interrupt).await,
            (None, Some(place)) => client::run(args, place, &interrupt).await,
            // The group of arguments asks for one.
            (None, None) => Ok(()),
        }
    });
    runtime.shutdown_background();
    outcome
}

/// The TCP that the switches ask for.
fn transport_of(args: &Args) -> Result<Transport, Failure> {
    let settings = Settings {
        unsent: args.unsent,
        buffer: BUFFER_BYTES,
        memory: None,
        connections: 64,
        backlog: 16,
        keep_alive: None,
    };
    Transport::of(args.tun.as_ref(), args.cc, settings)
}

fn bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|error| error.to_string())? {
        0 => Err("0 bytes are nothing to measure".to_owned()),
        bytes => Ok(bytes),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    match time >= LEAST_INTERVAL {
        true => Ok(time),
        false => Err("it is 100ms at the least".to_owned()),
    }
}
