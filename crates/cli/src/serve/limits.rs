//! The limits of `fullpipe serve`.

use fullpipe_cc::Duration;
use fullpipe_lab::units;
use fullpipe_quic::{Limits, TransportSettings};

use crate::{INITIAL_RTT, parse_timeout};

/// The limits that a user can set; without one, it is as `Limits` has it.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Connections at one time; further ones are refused [default: 4096]
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<usize>,
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
    pub(super) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        set(&mut limits.connections, self.max_connections);
        set(&mut limits.unvalidated_handshakes, self.retry_above);
        set(&mut limits.requests, self.max_requests);
        set(&mut limits.open_files, self.max_files);
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

fn set<T>(limit: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *limit = given;
    }
}
