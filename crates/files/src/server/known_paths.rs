//! Careful Resume (RFC 9959): what connections left of the paths to their clients.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fullpipe_noq::{NoqController, ResumePhase, SavedParameters};
use fullpipe_noq_repairs::client_address;
use lru::LruCache;
use noq::Connection;
use noq_proto::PathId;

use super::network::Network;

/// The most paths; beyond them the one that was not used for longest is forgotten. Each takes about
/// 100 bytes.
const MOST: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// The most that is saved of a path, in bytes. A client can make the server believe in a faster
/// path, and another client behind the same address then gets half of that as its jump.
const MOST_BYTES: u64 = 16 << 20;

/// Parameters of the paths to clients by the client's address: of IPv6 the first 64 bits.
///
/// An address is what the RFC calls an endpoint token. Clients behind one address share it, and a
/// client with another path behind it is found by the round trip, or by a loss of the jump.
#[derive(Debug)]
pub(super) struct KnownPaths {
    lifetime: Duration,
    paths: Mutex<LruCache<Network, CachedPath>>,
}

/// A path, and whether a connection began with its parameters and is not over.
#[derive(Clone, Copy, Default, Debug)]
struct CachedPath {
    known: Option<Known>,
    is_taken: bool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    parameters: SavedParameters,
    since: Instant,
}

/// Parameters to begin with, and the time for which they may still be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Usable {
    pub(super) parameters: SavedParameters,
    pub(super) lifetime: Duration,
}

/// The path of one connection. While one lasts that began with parameters, no other one gets any.
#[derive(Debug)]
pub(super) struct Taken {
    paths: Arc<KnownPaths>,
    client: Network,
    /// The parameters that it began with.
    known: Option<Known>,
    /// The parameters for the next one.
    left: Option<Known>,
}

impl KnownPaths {
    /// Parameters count for so long after the end of the connection that left them.
    pub(super) fn new(lifetime: Duration) -> Arc<Self> {
        Arc::new(Self { lifetime, paths: Mutex::new(LruCache::new(MOST)) })
    }

    pub(super) fn take(self: &Arc<Self>, client: IpAddr, now: Instant) -> Taken {
        let client = Network::of(client);
        let mut known = None;
        if let Some(entry) = self.lock().get_mut(&client).filter(|entry| !entry.is_taken) {
            known = entry.known.take().filter(|known| self.is_fresh(known, now));
            entry.is_taken = known.is_some();
        }
        Taken { paths: self.clone(), client, known, left: known }
    }

    fn is_fresh(&self, known: &Known, now: Instant) -> bool {
        now.saturating_duration_since(known.since) <= self.lifetime
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Network, CachedPath>> {
        // A panic while the lock was held leaves a cache of valid entries.
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// The parameters to begin with.
    pub(super) fn usable(&self, now: Instant) -> Option<Usable> {
        self.known.map(|Known { parameters, since }| {
            let age = now.saturating_duration_since(since);
            Usable { parameters, lifetime: self.paths.lifetime.saturating_sub(age) }
        })
    }

    /// The connection is over: its parameters are those of the path now.
    pub(super) fn end(self, connection: &Connection, now: Instant) {
        let controller = connection.congestion_state(PathId::ZERO);
        let ours = controller.and_then(|ours| ours.into_any().downcast::<NoqController>().ok());
        let measured = ours.map(|ours| {
            // A jump that has not arrived proves nothing.
            let is_unproven =
                ours.resume_phase().is_some_and(|phase| phase != ResumePhase::Reconnaissance);
            (ours.saved_parameters(), ours.saved_parameters_failed() || is_unproven)
        });
        let path = connection.path(PathId::ZERO);
        self.over(measured, path.and_then(|path| path.remote_address().ok()), now);
    }

    /// What the path to this address had, as noq knows it, and whether it did not carry what it
    /// began with.
    fn over(
        mut self,
        measured: Option<(Option<SavedParameters>, bool)>,
        remote: Option<SocketAddr>,
        now: Instant,
    ) {
        match (measured, remote.map(client_address)) {
            (Some((own, has_failed)), Some((remote, has_moved)))
                if Network::of(remote.ip()) == self.client =>
            {
                // At a preferred address of the server's the controller is another one, which does
                // not know whether the first path carried what it began with.
                let is_unknown = has_moved && self.known.is_some();
                self.learn(own, has_failed || is_unknown, now);
            }
            // The client has moved, and its model is of another path.
            _ => self.left = None,
        }
    }

    /// Without parameters of its own, a connection was too short to change what is known.
    fn learn(mut self, own: Option<SavedParameters>, has_failed: bool, now: Instant) {
        if has_failed {
            self.left = None;
        }
        if let Some(own) = own {
            let parameters = SavedParameters { cwnd: own.cwnd.min(MOST_BYTES), ..own };
            self.left = Some(Known { parameters, since: now });
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.known.is_none() && self.left.is_none() {
            return;
        }
        let mut paths = self.paths.lock();
        let entry = paths.get_or_insert_mut(self.client, CachedPath::default);
        if self.known.is_some() {
            entry.is_taken = false;
        }
        // Of two connections at once, the one that ended last knows more.
        if let Some(left) = self.left
            && entry.known.is_none_or(|other| left.since > other.since)
        {
            entry.known = Some(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn parameters(cwnd: u64) -> SavedParameters {
        SavedParameters { cwnd, rtt: fullpipe_cc::Duration::from_millis(600) }
    }

    fn known(paths: &Arc<KnownPaths>, client: IpAddr, now: Instant) -> Option<u64> {
        paths.take(client, now).usable(now).map(|usable| usable.parameters.cwnd)
    }

    #[test]
    fn a_path_is_known_for_its_lifetime_and_to_one_connection_at_a_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let paths = KnownPaths::new(Duration::from_secs(60));
        assert_eq!(known(&paths, A, start), None);
        paths.take(A, start).learn(Some(parameters(1000)), false, at(10));
        assert_eq!((known(&paths, A, at(70)), known(&paths, B, at(70))), (Some(1000), None));
        let taken = paths.take(A, at(20));
        let lifetime = taken.usable(at(20)).map(|usable| usable.lifetime);
        assert_eq!(lifetime, Some(Duration::from_secs(50)), "what is left of it");
        assert_eq!(known(&paths, A, at(20)), None, "another one has it");
        // A connection that was too short to know better leaves what was known, and its age.
        taken.learn(None, false, at(30));
        assert_eq!(known(&paths, A, at(70)), Some(1000));
        assert_eq!(known(&paths, A, at(71)), None);
        assert_eq!(known(&paths, A, at(20)), None, "it was forgotten");
    }

    #[test]
    fn an_entry_is_the_clients_at_whichever_address_of_the_server_it_ends() {
        let now = Instant::now();
        let paths = KnownPaths::new(Duration::from_secs(60));
        let address = |text: &str| Some(text.parse::<SocketAddr>().expect(text));
        // As noq knows a client at a preferred address.
        let (own, moved) = (address("192.0.2.1:7"), address("[4000::ffff:c000:201]:7"));
        paths.take(A, now).over(Some((Some(parameters(1000)), false)), moved, now);
        assert_eq!(known(&paths, A, now), Some(1000));
        // It began with it, moved, and was too short to measure anything.
        paths.take(A, now).over(Some((Some(parameters(1000)), false)), own, now);
        paths.take(A, now).over(Some((None, false)), moved, now);
        assert_eq!(known(&paths, A, now), None);
        // It moved itself.
        let other = address("192.0.2.2:7");
        paths.take(A, now).over(Some((Some(parameters(1000)), false)), other, now);
        assert_eq!((known(&paths, A, now), known(&paths, B, now)), (None, None));
    }

    #[test]
    fn what_the_path_did_not_carry_is_forgotten() {
        let now = Instant::now();
        let paths = KnownPaths::new(Duration::from_secs(60));
        paths.take(A, now).learn(Some(parameters(1000)), false, now);
        paths.take(A, now).learn(None, true, now);
        assert_eq!(known(&paths, A, now), None);
        paths.take(A, now).learn(Some(parameters(1000)), false, now);
        paths.take(A, now).learn(Some(parameters(500)), true, now);
        assert_eq!(known(&paths, A, now), Some(500), "it was measured after the retreat");
    }

    #[test]
    fn of_two_connections_the_later_end_counts() {
        let now = Instant::now();
        let paths = KnownPaths::new(Duration::from_secs(60));
        let (first, second) = (paths.take(A, now), paths.take(A, now));
        second.learn(Some(parameters(2000)), false, now + Duration::from_secs(2));
        first.learn(Some(parameters(1000)), false, now + Duration::from_secs(1));
        assert_eq!(known(&paths, A, now), Some(2000));
    }

    #[test]
    fn nobody_begins_with_parameters_while_another_one_does() {
        let now = Instant::now();
        let paths = KnownPaths::new(Duration::from_secs(60));
        paths.take(A, now).learn(Some(parameters(1000)), false, now);
        let jumps = paths.take(A, now);
        assert_eq!(jumps.usable(now).map(|its| its.parameters.cwnd), Some(1000));
        // One beside it leaves what it saw, which waits for the end of the first.
        paths.take(A, now).learn(Some(parameters(800)), false, now + Duration::from_secs(1));
        assert_eq!(known(&paths, A, now), None);
        jumps.learn(None, true, now + Duration::from_secs(2));
        assert_eq!(known(&paths, A, now), Some(800));
    }

    #[test]
    fn a_path_is_not_believed_to_hold_any_number_of_bytes() {
        let now = Instant::now();
        let paths = KnownPaths::new(Duration::from_secs(60));
        paths.take(A, now).learn(Some(parameters(1 << 40)), false, now);
        assert_eq!(known(&paths, A, now), Some(MOST_BYTES));
    }
}
