//! The counters of a proxy, and its results.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use serde::Serialize;

/// Counters of all connections since the start.
pub(super) struct Totals {
    begun: Instant,
    connections: AtomicU64,
    open: AtomicU64,
    most_open: AtomicU64,
    refused: AtomicU64,
    unreachable: AtomicU64,
    reset: AtomicU64,
    pub(super) bytes_to_target: AtomicU64,
    pub(super) bytes_to_clients: AtomicU64,
    /// Segments that were sent again.
    pub(super) retransmitted_to_target: AtomicU64,
    pub(super) retransmitted_to_clients: AtomicU64,
}

impl Default for Totals {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            begun: Instant::now(),
            connections: zero(),
            open: zero(),
            most_open: zero(),
            refused: zero(),
            unreachable: zero(),
            reset: zero(),
            bytes_to_target: zero(),
            bytes_to_clients: zero(),
            retransmitted_to_target: zero(),
            retransmitted_to_clients: zero(),
        }
    }
}

/// Counts as an open connection until it is dropped.
pub(super) struct Open<'t>(&'t Totals);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Totals {
    /// A connection was accepted and has a place.
    pub(super) fn on_accepted(&self) -> Open<'_> {
        self.connections.fetch_add(1, Relaxed);
        let open = self.open.fetch_add(1, Relaxed) + 1;
        self.most_open.fetch_max(open, Relaxed);
        Open(self)
    }

    /// There was no place for a connection.
    pub(super) fn on_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// The target did not answer.
    pub(super) fn on_unreachable(&self) {
        self.unreachable.fetch_add(1, Relaxed);
    }

    /// A connection was reset, by one of its ends or at the end of the proxy.
    pub(super) fn on_reset(&self) {
        self.reset.fetch_add(1, Relaxed);
    }

    pub(super) fn report(&self) -> Report {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        Report {
            seconds: self.begun.elapsed().as_secs_f64(),
            connections: of(&self.connections),
            most_open: of(&self.most_open),
            refused: of(&self.refused),
            unreachable: of(&self.unreachable),
            reset: of(&self.reset),
            bytes_to_target: of(&self.bytes_to_target),
            bytes_to_clients: of(&self.bytes_to_clients),
            retransmitted_segments_to_target: of(&self.retransmitted_to_target),
            retransmitted_segments_to_clients: of(&self.retransmitted_to_clients),
        }
    }
}

/// The results of a proxy.
#[derive(Serialize)]
pub(super) struct Report {
    seconds: f64,
    /// Connections that were accepted.
    connections: u64,
    /// The most connections that were open at one time.
    most_open: u64,
    /// Connections beyond the limit.
    refused: u64,
    /// Accepted connections for which the target did not answer.
    unreachable: u64,
    /// Accepted connections that ended with a reset.
    reset: u64,
    bytes_to_target: u64,
    bytes_to_clients: u64,
    retransmitted_segments_to_target: u64,
    retransmitted_segments_to_clients: u64,
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { seconds, connections, most_open, refused, unreachable, reset, .. } = self;
        writeln!(f, "time         {seconds:.1} s")?;
        writeln!(
            f,
            "connections  {connections}, at most {most_open} at one time; {refused} refused, {unreachable} without an answer from the target, {reset} reset"
        )?;
        writeln!(
            f,
            "to target    {} bytes, {} segments sent again",
            self.bytes_to_target, self.retransmitted_segments_to_target
        )?;
        write!(
            f,
            "to clients   {} bytes, {} segments sent again",
            self.bytes_to_clients, self.retransmitted_segments_to_clients
        )
    }
}
