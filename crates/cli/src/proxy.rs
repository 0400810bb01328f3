//! `fullpipe proxy`: a TCP proxy that gives one half of a path another congestion control
//! (a performance-enhancing proxy with split connections, RFC 3135 section 2.2).

mod relay;
mod totals;

use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fullpipe_cc::Duration as Time;
use fullpipe_scenario::units::parse_bytes;
use fullpipe_scenario::{Cc, KernelCc};
use tokio::net::lookup_host;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::failure::Failure;
use crate::signals::Signals;
use crate::transport::{self, Connection, Listener, Settings, Transport};
use crate::tun::Tun;
use crate::{descriptors, print, say};
use relay::RelayedConnection;
use totals::Totals;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 256;
/// Pause after the system gave no connection, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(200);
/// Descriptors that are no connections: the runtime's, the device's, the listener's.
const OTHER_DESCRIPTORS: u64 = 32;
/// Silence after which a probe asks whether an end is still there: a connection whose ends are gone
/// would keep its place for ever.
const KEEP_ALIVE: Time = Time::from_secs(60);
/// The longest time for the last bytes and resets of this program's own TCP to arrive.
const GOODBYE: Duration = Duration::from_secs(1);

/// Pass TCP connections on, with another congestion control on the way
///
/// Each connection that arrives at --listen gets a connection to --to, and the data of both goes on
/// in both directions: a performance-enhancing proxy for a long or lossy path. Any TCP can be at
/// both ends. The end of one direction is passed on when all before it has been, and a reset at
/// once.
///
/// By the kernel's TCP --cc counts for what leaves to both sides. With --tun one side is this
/// program's own TCP with --cc: that of --listen, or with --from that of --to.
///
/// A connection holds 64 KiB for each direction and what its transports hold unsent; a side that
/// takes nothing stops the other one. The first Ctrl-C or SIGTERM takes no new connections and
/// waits for those that there are, the second one resets them. Both print the results.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Take connections here; port 0 of the kernel's TCP takes a free one. With --tun and without
    /// --from the address is one of the device's network, and not the kernel's
    #[arg(long, short = 'l', value_name = "ADDRESS:PORT", value_parser = crate::parse_address)]
    listen: SocketAddr,
    /// Target of the connections
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Congestion control of the proxy: linux:NAME for the kernel's TCP (by default the system's),
    /// or a name that `fullpipe kernel load` has given it; with --tun bbr3 (the default), bbr3x,
    /// bbr3-linux, bbr3x-linux, bbr-swift, prague, bbr1, cubic or reno
    #[arg(long, value_name = "ALGORITHM")]
    cc: Option<Cc>,
    /// Take this program's own TCP on one side, behind this TUN device; with the kernel's address
    /// on it, the device is made (root)
    #[arg(long, value_name = "NAME[=ADDRESS/PREFIX]")]
    tun: Option<Tun>,
    /// This program's own TCP is on the side of --to, with this address: one of the device's
    /// network, and not the kernel's
    #[arg(long, value_name = "ADDRESS", requires = "tun")]
    from: Option<IpAddr>,
    /// Connections at one time; further ones are reset
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = connections)]
    max_connections: usize,
    /// The most unsent data of each direction of a connection (TCP_NOTSENT_LOWAT): more adds
    /// latency, less than 10 ms at the path's rate may cost goodput
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = transport::unsent)]
    unsent: u32,
    /// The most unacknowledged data, and the most unread data, of each direction of a connection
    /// with --tun: give 1.5 times rate x RTT of the path. The kernel's limits are net.ipv4.tcp_wmem
    /// and tcp_rmem
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = buffer)]
    buffer: usize,
    /// The most memory of all connections together with --tun, beyond 32 kB of each. From half of
    /// it on they are slower, and those whose peers take nothing are reset.
    /// The kernel's limit is net.ipv4.tcp_mem
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory)]
    max_memory: usize,
    /// Time that --to may take to answer
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = crate::parse_timeout)]
    connect_timeout: Time,
    /// On Ctrl-C, the time that open connections may take to end
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::parse_timeout)]
    shutdown_timeout: Time,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe proxy --listen 0.0.0.0:8080 --to 127.0.0.1:80 --cc linux:bbr
  fullpipe kernel load --amended --pin && fullpipe proxy --listen [::]:8080 --to 127.0.0.1:80 --cc bbr3x
  fullpipe proxy --listen 10.9.0.2:80 --to 127.0.0.1:80 --tun fp0=10.9.0.1/24 --cc bbr3x
  fullpipe proxy --listen 127.0.0.1:8080 --to example.org:80 --tun fp0=10.9.0.1/24 --from 10.9.0.2";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    raise_descriptors(args);
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::run(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(proxy(args));
    runtime.shutdown_background();
    outcome
}

/// A connection has a descriptor on each side with the kernel's TCP, and the usual limit of 1024
/// would do for 496 connections.
fn raise_descriptors(args: &Args) {
    let each = if args.tun.is_some() { 1 } else { 2 };
    let wanted = each * args.max_connections as u64 + OTHER_DESCRIPTORS;
    let allowed = descriptors::raise(wanted);
    if allowed < wanted {
        say(&format!(
            "note: {} connections need {wanted} descriptors, and this process may have {allowed} (ulimit -n)",
            args.max_connections
        ));
    }
}

/// Settings with which every connection is passed on.
struct Proxy {
    to: String,
    from: Option<IpAddr>,
    connect_timeout: Duration,
    /// The transport to `to`.
    outgoing: Transport,
    places: Arc<Semaphore>,
    totals: Totals,
}

async fn proxy(args: &Args) -> Result<(), Failure> {
    let mut signals = Signals::install()?;
    let (incoming, outgoing) = transports(args)?;
    let (incoming_name, outgoing_name) = (incoming.name(), outgoing.name());
    let proxy = Arc::new(Proxy {
        to: args.to.clone(),
        from: args.from,
        connect_timeout: args.connect_timeout.into(),
        outgoing,
        places: Arc::new(Semaphore::new(args.max_connections)),
        totals: Totals::default(),
    });
    let looked_up = tokio::select! {
        looked_up = proxy.addresses() => looked_up,
        _ = signals.end() => return Ok(()),
    };
    looked_up.map_err(|error| {
        Failure::bad_input(format!("{} is no HOST:PORT to pass on to: {error}", args.to))
    })?;
    let cannot = |error| Failure::bad_input(format!("cannot listen on {}: {error}", args.listen));
    let listener = incoming.listen(args.listen).map_err(cannot)?;
    let bound = listener.address().map_err(cannot)?;
    print(&format!(
        "listening on {bound} ({incoming_name}), passing on to {} ({outgoing_name})\n",
        args.to
    ))?;
    let mut relays = JoinSet::new();
    let (stop, stopped) = watch::channel(false);
    let mut gone = pin!(async {
        tokio::select! {
            error = incoming.ended() => error,
            error = proxy.outgoing.ended() => error,
        }
    });
    let mut failed = tokio::select! {
        biased;
        error = &mut gone => Some(error),
        _ = signals.end() => None,
        () = accept(&listener, &proxy, &mut relays, &stopped) => None,
    };
    // The end of the listener resets whoever was not accepted.
    drop(listener);
    let drained = async {
        while relays.join_next().await.is_some() {}
        // Both directions have ended, and our TCP may still have data of them.
        tokio::join!(incoming.delivered(), proxy.outgoing.delivered());
    };
    let is_late = tokio::select! {
        drained = timeout(args.shutdown_timeout.into(), drained) => drained.is_err(),
        error = &mut gone, if failed.is_none() => {
            failed = Some(error);
            true
        }
        _ = signals.end() => true,
    };
    if is_late {
        stop.send_replace(true);
        while relays.join_next().await.is_some() {}
    }
    tokio::join!(incoming.shutdown(GOODBYE), proxy.outgoing.shutdown(GOODBYE));
    let report = proxy.totals.report();
    match args.json {
        true => {
            print(&format!("{}\n", serde_json::to_string_pretty(&report).map_err(Failure::run)?))?
        }
        false => print(&format!("{report}\n"))?,
    }
    failed.map_or(Ok(()), |error| Err(Failure::run(format!("the device is gone: {error}"))))
}

/// The transports of the side of --listen and that of --to.
fn transports(args: &Args) -> Result<(Transport, Transport), Failure> {
    let settings = Settings {
        unsent: args.unsent,
        buffer: args.buffer,
        memory: Some(args.max_memory),
        connections: args.max_connections.saturating_add(BACKLOG as usize),
        backlog: BACKLOG,
        keep_alive: Some(KEEP_ALIVE),
    };
    let Some(tun) = &args.tun else {
        let cc = args.cc.map(in_the_kernel).transpose()?;
        let kernel = || Transport::of(None, cc, settings);
        return Ok((kernel()?, kernel()?));
    };
    let kernel = Transport::of(None, None, settings)?;
    let own = || Transport::of(Some(tun), args.cc, settings);
    if args.from.is_some() {
        return Ok((kernel, own()?));
    }
    if args.listen.port() == 0 || args.listen.ip().is_unspecified() {
        return Err(Failure::bad_input(format!(
            "behind a TUN device --listen needs an address and a port of its own, not {}; or --from says that the device is for the side of --to",
            args.listen
        )));
    }
    Ok((own()?, kernel))
}

/// The kernel's algorithm. One of ours is, where it was loaded under its name.
fn in_the_kernel(cc: Cc) -> Result<Cc, Failure> {
    if matches!(cc, Cc::Kernel(_)) {
        return Ok(cc);
    }
    let kernels = KernelCc::named(&cc.to_string()).filter(|name| transport::check(*name).is_ok());
    kernels.map(Cc::Kernel).ok_or_else(|| {
        Failure::bad_input(format!(
            "{cc} is not in this kernel: fullpipe kernel load puts bbr3 there, and with --amended bbr3x; else --tun takes this program's own TCP, and linux:NAME an algorithm of the kernel's"
        ))
    })
}

/// Takes connections, for ever.
async fn accept(
    listener: &Listener,
    proxy: &Arc<Proxy>,
    relays: &mut JoinSet<()>,
    stopped: &watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Those that are over need no memory.
            Some(_) = relays.join_next() => continue,
        };
        let (near, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("no connection: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&proxy.places).try_acquire_owned() else {
            proxy.totals.on_refused();
            // Whatever it says, it is dropped.
            let _ = near.reset_on_drop();
            continue;
        };
        let (proxy, mut stopped) = (Arc::clone(proxy), stopped.clone());
        relays.spawn(async move {
            let stop = async {
                if stopped.wait_for(|stopped| *stopped).await.is_err() {
                    pending::<()>().await;
                }
            };
            proxy.pass_on(near, peer, stop).await;
            drop(place);
        });
    }
}

impl Proxy {
    async fn pass_on(&self, near: Connection, peer: SocketAddr, stop: impl Future<Output = ()>) {
        let totals = &self.totals;
        let _open = totals.on_accepted();
        let done = async {
            let near = RelayedConnection::new(near, &totals.retransmitted_to_clients);
            let connected = tokio::select! {
                connected = self.connect() => connected,
                error = near.broken() => {
                    tracing::debug!(%peer, %error, "a client left before there was a connection");
                    totals.on_reset();
                    return;
                }
            };
            match connected {
                Ok(far) => {
                    let far = RelayedConnection::new(far, &totals.retransmitted_to_target);
                    relay::relay(near, far, totals).await;
                }
                Err(error) => {
                    tracing::warn!(%peer, "cannot reach {}: {error}", self.to);
                    totals.on_unreachable();
                }
            }
        };
        tokio::select! {
            () = done => {}
            () = stop => totals.on_reset(),
        }
    }

    /// Connects to the first address that answers. What is left of the time is divided among the
    /// addresses that are left, so that one that drops everything does not take all of it.
    async fn connect(&self) -> io::Result<Connection> {
        let end = Instant::now() + self.connect_timeout;
        let timed_out = || io::Error::from(io::ErrorKind::TimedOut);
        let all = timeout_at(end, self.addresses()).await.map_err(|_| timed_out())??;
        let mut last = io::ErrorKind::AddrNotAvailable.into();
        for (i, to) in all.iter().enumerate() {
            let left = u32::try_from(all.len() - i).unwrap_or(u32::MAX);
            let time = end.saturating_duration_since(Instant::now()) / left;
            match timeout(time, self.outgoing.connect(self.from, *to)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => last = error,
                Err(_) => last = timed_out(),
            }
        }
        Err(last)
    }

    /// The addresses of `to`, at least one.
    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let is_of_family =
            |to: &SocketAddr| self.from.is_none_or(|from| from.is_ipv4() == to.is_ipv4());
        let all: Vec<_> = lookup_host(&self.to).await?.filter(is_of_family).collect();
        if all.iter().any(|to| to.port() == 0) {
            return Err(io::Error::other("nobody has port 0"));
        }
        match all.is_empty() {
            true => Err(io::Error::other("it has no address of the family of --from")),
            false => Ok(all),
        }
    }
}

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("it is from 1 to 1000000".to_owned()),
    }
}

/// Bytes of all connections together, of an argument.
fn memory(text: &str) -> Result<usize, String> {
    const LEAST: u64 = 1 << 20;
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    match usize::try_from(bytes).ok().filter(|_| bytes >= LEAST) {
        Some(bytes) => Ok(bytes),
        None => Err("it is 1MiB at the least, like 256MB".to_owned()),
    }
}

fn buffer(text: &str) -> Result<usize, String> {
    const LEAST: u64 = 64 << 10;
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    match usize::try_from(bytes).ok().filter(|_| (LEAST..=1 << 30).contains(&bytes)) {
        Some(bytes) => Ok(bytes),
        None => Err("it is from 64KiB to 1GiB, like 16MiB".to_owned()),
    }
}
