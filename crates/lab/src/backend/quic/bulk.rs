//! A server that answers each stream by itself, as those over quinn and s2n-quic do.

use std::net::SocketAddr;

use fullpipe_cc::Duration;

use super::stack::FlowError;

/// Applications, by their names in a scenario, whose data is that of `/bulk` and `/bulk/N`.
pub(super) const BULK_APPLICATIONS: [&str; 4] =
    ["bulk", "bytes", "request_response", "short_flows"];

/// The longest request for such data.
pub(super) const REQUEST_BYTES: usize = 64;

/// The bytes that a request for `/bulk` or `/bulk/N` asks for.
pub(super) fn bulk_bytes(path: &str) -> Result<u64, FlowError> {
    match path.strip_prefix("/bulk").ok_or("no such path")? {
        "" => Ok(u64::MAX),
        count => Ok(count.trim_start_matches('/').parse()?),
    }
}

/// A handshake that took longer than `timeout`.
pub(super) fn no_answer(server: SocketAddr, timeout: Duration) -> FlowError {
    format!("no answer from {server} within {timeout}").into()
}
