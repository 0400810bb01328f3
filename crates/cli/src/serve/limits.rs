//! The limits of `fullpipe serve`.

use fullpipe_cc::Duration;
use fullpipe_files::{Limits, TransportSettings};
use fullpipe_scenario::units;

use crate::{INITIAL_RTT, descriptors, parse_timeout};

/// Descriptors for everything but files and connections over TCP: sockets, timers, the runtime,
/// logs.
const OTHER_DESCRIPTORS: u64 = 64;
/// Files open at one time, unless the user says otherwise, and those that there are in any case.
const MOST_FILES: usize = 1024;
const LEAST_FILES: usize = 8;

/// The limits that a user can set; without one, it is as `Limits` has it.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Connections over QUIC at one time; further ones are refused [default: 4096]
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<usize>,
    /// Connections over TCP at one time, with --tcp; further ones are closed [default: 1024, or
    /// less if the process may open less]
    #[arg(long, value_name = "COUNT")]
    max_tcp_connections: Option<usize>,
    /// Connections at one time from one IPv4 address or one /64 of IPv6, over QUIC and as many over
    /// TCP; twice as many from one /48 [default: a quarter of all, at most 512]
    #[arg(long, value_name = "COUNT")]
    max_per_address: Option<usize>,
    /// Handshakes at one time with clients whose address is not validated; further ones must first
    /// return a token (Retry), and with 0 all [default: 64]
    #[arg(long, value_name = "COUNT")]
    retry_above: Option<usize>,
    /// Requests that a client may have open on one connection [default: 100]
    #[arg(long, value_name = "COUNT")]
    max_requests: Option<u32>,
    /// Files open at one time; further requests wait, then get 503 [default: 1024, or less if the
    /// process may open less]
    #[arg(long, value_name = "COUNT")]
    max_files: Option<usize>,
    /// Files open at one time for the clients at one IPv4 address or in one /64 of IPv6; twice as
    /// many for one /48 [default: a quarter of --max-files, and more while less than half of them
    /// are taken]
    #[arg(long, value_name = "COUNT")]
    max_files_per_address: Option<usize>,
    /// Bytes written and not acknowledged, of all connections together, beyond 256 kB of each
    /// [default: 1GiB]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    max_memory: Option<u64>,
    /// Time that a handshake may take [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    handshake_timeout: Option<Duration>,
    /// Time that a request may take to arrive [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    request_timeout: Option<Duration>,
    /// Time for which a client may take nothing of its answers [default: 2min]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    stall_timeout: Option<Duration>,
    /// Silence after which a connection is lost [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    idle_timeout: Option<Duration>,
    /// On SIGTERM, how long the answers that are on their way may take to end
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_timeout)]
    shutdown_timeout: Duration,
}

impl LimitArgs {
    /// The limits; `has_tcp` if the kernel's TCP takes a descriptor for each connection. Raises
    /// what this process may open to what they need, or they are less. `threads`: descriptors of
    /// the server's threads.
    pub(super) fn limits(&self, has_tcp: bool, threads: u64) -> Limits {
        let usual = Limits::default();
        let files = self.max_files.unwrap_or(MOST_FILES) as u64;
        let tcp = self.max_tcp_connections.unwrap_or(usual.tcp_connections);
        let tcp = if has_tcp { tcp as u64 } else { 0 };
        let others = OTHER_DESCRIPTORS.saturating_add(threads);
        let allowed = descriptors::raise(files.saturating_add(tcp).saturating_add(others));
        let for_both = allowed.saturating_sub(others);
        // A connection over TCP has one, and another one for its file.
        let tcp = tcp.min(for_both / 2);
        let mut limits = usual;
        let most_files = self.max_files.unwrap_or(MOST_FILES);
        limits.open_files = count(for_both - tcp).clamp(LEAST_FILES, most_files.max(LEAST_FILES));
        if has_tcp {
            limits.tcp_connections = count(tcp);
        } else {
            set(&mut limits.tcp_connections, self.max_tcp_connections);
        }
        limits.per_address = self.max_per_address;
        limits.files_per_address = self.max_files_per_address;
        set(&mut limits.connections, self.max_connections);
        set(&mut limits.unvalidated_handshakes, self.retry_above);
        set(&mut limits.requests, self.max_requests);
        limits.open_files = limits.open_files.min(most_files);
        set(&mut limits.send_memory, self.max_memory);
        set(&mut limits.handshake_timeout, self.handshake_timeout.map(Into::into));
        set(&mut limits.request_timeout, self.request_timeout.map(Into::into));
        set(&mut limits.stall_timeout, self.stall_timeout.map(Into::into));
        limits
    }

    pub(super) fn shutdown_timeout(&self) -> std::time::Duration {
        self.shutdown_timeout.into()
    }

    pub(super) fn transport(&self) -> TransportSettings {
        let mut transport =
            TransportSettings { initial_rtt: Some(INITIAL_RTT), ..TransportSettings::default() };
        set(&mut transport.idle_timeout, self.idle_timeout);
        transport
    }
}

fn count(descriptors: u64) -> usize {
    usize::try_from(descriptors).unwrap_or(usize::MAX)
}

fn set<T>(limit: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *limit = given;
    }
}
