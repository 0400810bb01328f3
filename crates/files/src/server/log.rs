//! The server's log. What peers cause is limited in number, and what they wrote is escaped.

use std::fmt;
use std::net::SocketAddr;

use super::record::RequestRecord;
use crate::log::{Escaped, RateLimit};

/// Lines about requests that were answered, and fewer about everything that goes wrong.
pub(crate) struct Log {
    requests: RateLimit,
    failures: RateLimit,
}

impl Log {
    pub(super) fn new(lines_per_second: u32) -> Self {
        Self {
            requests: RateLimit::new(lines_per_second),
            failures: RateLimit::new(lines_per_second.div_ceil(10)),
        }
    }

    /// A request that was answered to its end, or broke off.
    pub(super) fn answered(
        &self,
        record: &RequestRecord<'_>,
        request: &str,
        outcome: &dyn fmt::Display,
    ) {
        let Some(missing) = self.requests.admit() else { return };
        tell_missing(missing);
        let (request, outcome) = (Quoted(request), Escaped(outcome));
        let RequestRecord { peer, status, body_bytes: bytes, duration, .. } = record;
        let seconds = duration.as_secs_f64();
        tracing::info!(%peer, %request, status, bytes, seconds, "{outcome}");
    }

    /// A request that gets no body.
    pub(super) fn refused(
        &self,
        peer: SocketAddr,
        request: &str,
        code: u16,
        reason: &dyn fmt::Display,
    ) {
        let Some(missing) = self.failures.admit() else { return };
        tell_missing(missing);
        tracing::info!(%peer, request = %Quoted(request), code, "refused: {}", Escaped(reason));
    }

    /// A connection that did not come about, or ended.
    pub(crate) fn connection(&self, peer: SocketAddr, what: &str, reason: &dyn fmt::Display) {
        let Some(missing) = self.failures.admit() else { return };
        tell_missing(missing);
        tracing::info!(%peer, "{what}: {}", Escaped(reason));
    }
}

fn tell_missing(lines: u64) {
    if lines > 0 {
        tracing::info!(lines, "lines were left out: too many in a second");
    }
}

/// A request in quotation marks.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Escaped(self.0))
    }
}
