//! Limits on the resources that clients can take from a server.

use std::time::Duration;

use noq::{TransportConfig, VarInt};

/// Bytes of one request that are kept until they are read: more than a request may have.
const REQUEST_WINDOW: u32 = 16 * 1024;
/// And of all requests of a connection together.
const REQUESTS_WINDOW: u32 = 256 * 1024;

/// Descriptors that are left for everything but files: sockets, timers, the runtime, logs.
const OTHER_DESCRIPTORS: u64 = 64;

/// Bounds of what all peers together, and each connection, can make a server hold. Beyond them it
/// refuses; `docs/serving.md` says how each refusal looks to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Connections over QUIC at one time, handshakes included. Further ones are refused
    /// (CONNECTION_REFUSED).
    pub connections: usize,
    /// Connections of [`Server::converse`](crate::Server::converse) at one time, which are TCP's.
    /// Further ones are closed.
    pub tcp_connections: usize,
    /// Connections at one time from one IPv4 address, or from one /64 of IPv6, over QUIC and as
    /// many over TCP; a /48 may have twice as many. An address of NAT64's well-known prefix or of
    /// 6to4 counts as the IPv4 address in it. `None`: a quarter of the places of each transport, but
    /// no more than 512.
    pub per_address: Option<usize>,
    /// Handshakes of clients that have not shown that they receive at their address. Further ones
    /// must first return the token of a Retry (RFC 9000 section 8.1.2), for which the server keeps
    /// nothing. 0: all of them. Anybody can begin them in somebody else's name, so there are no
    /// more than half of the places of one address.
    pub unvalidated_handshakes: usize,
    /// Longest duration of a handshake.
    pub handshake_timeout: Duration,
    /// Requests that a client may have open on one connection.
    pub requests: u32,
    /// Longest time for a request to arrive, from its first byte.
    pub request_timeout: Duration,
    /// Longest time for which a client may take nothing of an answer. An answer that waits for
    /// others on its connection goes on while the client takes 1200 bytes for each of them.
    pub stall_timeout: Duration,
    /// Bytes that were written and are not acknowledged, of all connections together. Each has 256
    /// kB of its own; what it needs beyond to fill its path comes from here, and a connection that
    /// finds nothing left is slower.
    pub send_memory: u64,
    /// Files open at one time. Further requests wait, and are refused as unavailable after five
    /// seconds.
    pub open_files: usize,
    /// Of them, those of the clients at one address, which is as with connections; a /48 may have
    /// twice as many. `None`: a quarter, and more while less than half of all are taken.
    pub files_per_address: Option<usize>,
    /// Log lines a second about requests; about refused and failed ones a tenth of it. The others
    /// are counted.
    pub log_lines: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            tcp_connections: 1024,
            per_address: None,
            unvalidated_handshakes: 64,
            handshake_timeout: Duration::from_secs(20),
            requests: 100,
            request_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(120),
            send_memory: 1 << 30,
            open_files: open_files(),
            files_per_address: None,
            log_lines: 1000,
        }
    }
}

impl Limits {
    /// A client gets bidirectional streams of one request each, and nothing else that the server
    /// would have to keep.
    pub(super) fn apply_to(&self, transport: &mut TransportConfig) {
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(self.requests))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .stream_receive_window(VarInt::from_u32(REQUEST_WINDOW))
            .receive_window(VarInt::from_u32(REQUESTS_WINDOW));
    }
}

/// As many files as the process may open, but no more than 1024 and always a few.
fn open_files() -> usize {
    #[cfg(target_os = "linux")]
    let allowed = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
        .map_or(1024, |(soft, _hard)| soft);
    #[cfg(not(target_os = "linux"))]
    let allowed = 256;
    usize::try_from(allowed.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(usize::MAX).clamp(8, 1024)
}
