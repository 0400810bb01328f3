//! The data of two connections that are one.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use super::totals::Totals;
use crate::transport::Connection;

/// Bytes that one direction of a connection holds by itself.
const CHUNK: usize = 64 << 10;

/// A connection that is reset when it is dropped before its end, whose segments that were sent
/// again count in `repeated`.
pub(super) struct RelayedConnection<'t> {
    connection: Connection,
    repeated: &'t AtomicU64,
    is_over: bool,
}

impl<'t> RelayedConnection<'t> {
    pub(super) fn new(connection: Connection, repeated: &'t AtomicU64) -> Self {
        Self { connection, repeated, is_over: false }
    }

    /// It has ended in both directions: what is on its way arrives.
    fn finish(mut self) {
        self.is_over = true;
    }
}

impl Deref for RelayedConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for RelayedConnection<'_> {
    fn drop(&mut self) {
        // A connection that is gone has no counters any more, and cannot be reset.
        let repeated = self.connection.retransmitted_segments().unwrap_or(0);
        self.repeated.fetch_add(repeated, Ordering::Relaxed);
        if !self.is_over {
            let _ = self.connection.reset_on_drop();
        }
    }
}

/// Passes on what each of two connections gives, until both directions have ended or one of the
/// connections is broken: then the other one is reset as well, as it would have been without a
/// proxy.
pub(super) async fn relay(
    near: RelayedConnection<'_>,
    far: RelayedConnection<'_>,
    totals: &Totals,
) {
    let both = async {
        tokio::try_join!(
            pump(&near, &far, &totals.bytes_to_target),
            pump(&far, &near, &totals.bytes_to_clients),
        )
    };
    // A direction that waits for its reader does not see that its writer is gone.
    let done = tokio::select! {
        done = both => done.map(|_| ()),
        error = near.broken() => Err(error),
        error = far.broken() => Err(error),
    };
    match done {
        Ok(()) => {
            near.finish();
            far.finish();
        }
        Err(error) => {
            tracing::debug!(%error, "a connection is reset");
            totals.on_reset();
        }
    }
}

/// Passes on one direction and its end.
async fn pump(from: &Connection, to: &Connection, bytes: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        from.readable().await?;
        let count = match from.try_read(&mut buffer) {
            Ok(0) => return to.close_write(),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..count]).await?;
        bytes.fetch_add(count as u64, Ordering::Relaxed);
    }
}
