//! Packets that the kernel drops at the sockets on both sides of the link.
//!
//! The kernel can drop a packet that the link delivered in time, because the receiving program's
//! socket was full. To the sender that is a loss like any other, but it is not a loss of the path.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fullpipe_cc::{Duration, Instant};

use crate::os;

/// Interval between reads of the kernel's table. Each read takes a tenth of a millisecond of work.
const INTERVAL: Duration = Duration::from_millis(200);

/// One address that the link sends to.
#[derive(Debug)]
struct Endpoint {
    addr: SocketAddr,
    /// Drops that were there before the link.
    before: u64,
    /// The most that was ever seen: a closed socket takes its counter with it.
    seen: u64,
}

/// Every address that the link sends to.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    list: Mutex<Vec<Endpoint>>,
    next_look: AtomicU64,
}

impl Endpoints {
    /// With the target, whose socket may be older than the link.
    pub(crate) fn new(target: SocketAddr) -> Self {
        let before = os::socket_table().map_or(0, |table| os::drops_at(&table, target));
        let list = Mutex::new(vec![Endpoint { addr: target, before, seen: before }]);
        Self { list, next_look: AtomicU64::new(0) }
    }

    /// A client's socket is taken as new.
    pub(crate) fn add(&self, client: SocketAddr) {
        self.list().push(Endpoint { addr: client, before: 0, seen: 0 });
    }

    /// Looks at the sockets when it is time to.
    pub(crate) fn look_now_and_then(&self, now: Instant) {
        let due = self.next_look.load(Ordering::Relaxed);
        let next = (now + INTERVAL).as_nanos();
        let set =
            |due| self.next_look.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if now.as_nanos() >= due && set(due).is_ok() {
            self.look();
        }
    }

    /// Looks at the sockets.
    pub(crate) fn look(&self) {
        let Some(table) = os::socket_table() else { return };
        for endpoint in self.list().iter_mut() {
            endpoint.seen = endpoint.seen.max(os::drops_at(&table, endpoint.addr));
        }
    }

    /// Datagrams dropped since the link started, as far as seen.
    pub(crate) fn drops(&self) -> u64 {
        self.list().iter().map(|e| e.seen - e.before).sum()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Endpoint>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
