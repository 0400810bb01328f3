//! Descriptors for open files: so many at one time, of which the clients at one address have a
//! part, so that those who take nothing of their answers leave some to everybody else.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};

use crate::server::{Network, share_of};

/// Longest wait of a request for a descriptor before it is refused: the duration of a burst of
/// small files.
const WAIT: Duration = Duration::from_secs(5);

/// The descriptors of a server.
pub(super) struct Descriptors {
    all: Arc<Semaphore>,
    /// The most of them at one time.
    most: usize,
    per_address: usize,
    /// While fewer than these are taken, an address may have more than its part.
    plenty: usize,
    networks: Networks,
    /// Tells one that waits for its own when one of anybody's gets free.
    freed: Arc<Notify>,
}

/// The networks whose clients have a descriptor, or wait for one.
#[derive(Clone, Debug, Default)]
struct Networks(Arc<Mutex<HashMap<Network, Arc<Semaphore>>>>);

/// The place of one open file.
#[derive(Debug)]
pub(super) struct Descriptor {
    _all: OwnedSemaphorePermit,
    _own: Vec<Part>,
    /// Behind the others, which are dropped before it.
    _freed: Freed,
}

/// Tells when it is dropped.
#[derive(Debug)]
struct Freed(Arc<Notify>);

impl Drop for Freed {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A network's descriptors, one of which is taken if there is a permit.
#[derive(Debug)]
struct Part {
    networks: Networks,
    network: Network,
    /// `None` while it is dropped.
    semaphore: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Descriptors {
    /// So many, and of them so many for one address. Without a number for it an address has a
    /// quarter, and more while less than half of all are taken: many clients may be behind it.
    pub(super) fn new(most: usize, per_address: Option<usize>) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
            most,
            per_address: per_address.unwrap_or(share_of(most)),
            plenty: if per_address.is_some() { 0 } else { most / 2 },
            networks: Networks::default(),
            freed: Arc::default(),
        }
    }

    /// Those that are taken.
    pub(super) fn in_use(&self) -> usize {
        self.most.saturating_sub(self.all.available_permits())
    }

    /// One for the client at this address; `None` if none gets free in time.
    pub(super) async fn get(&self, client: IpAddr) -> Option<Descriptor> {
        tokio::time::timeout(WAIT, self.wait(client)).await.ok()?
    }

    /// Those of its own first, so that the requests that wait for one of all are no more of an
    /// address than it may have.
    async fn wait(&self, client: IpAddr) -> Option<Descriptor> {
        let mut own = Vec::new();
        for network in Network::of(client).with_site() {
            let mut part = self.networks.part(network, network.most(self.per_address));
            part.permit = self.permit(part.semaphore.clone()?).await.ok()?;
            own.push(part);
        }
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Descriptor { _all: all, _own: own, _freed: Freed(self.freed.clone()) })
    }

    /// A permit of these; none while there is plenty.
    async fn permit(
        &self,
        own: Arc<Semaphore>,
    ) -> Result<Option<OwnedSemaphorePermit>, AcquireError> {
        let mut permit = pin!(own.acquire_owned());
        loop {
            let mut freed = pin!(self.freed.notified());
            // Before the look, so that nothing gets free unheard between the two.
            freed.as_mut().enable();
            tokio::select! {
                biased;
                permit = &mut permit => return permit.map(Some),
                () = std::future::ready(()), if self.in_use() < self.plenty => return Ok(None),
                () = freed => {}
            }
        }
    }
}

impl Networks {
    fn lock(&self) -> MutexGuard<'_, HashMap<Network, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, network: Network, most: usize) -> Part {
        let mut networks = self.lock();
        let most = most.min(Semaphore::MAX_PERMITS);
        let semaphore = networks.entry(network).or_insert_with(|| Arc::new(Semaphore::new(most)));
        let semaphore = Some(semaphore.clone());
        Part { networks: self.clone(), network, semaphore, permit: None }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.permit = None;
        let mut networks = self.networks.lock();
        self.semaphore = None;
        // A network is forgotten with its last client. Only who holds the lock makes a reference.
        if networks.get(&self.network).is_some_and(|its| Arc::strong_count(its) == 1) {
            networks.remove(&self.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// As many as the clients at these addresses get, in turn, before one is refused.
    async fn taken(of: &Descriptors, by: impl Fn(usize) -> String) -> Vec<Descriptor> {
        let mut all = Vec::new();
        while let Some(one) = of.get(address(&by(all.len()))).await {
            all.push(one);
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn any_number_may_be_given() {
        let all = Descriptors::new(2, Some(usize::MAX));
        assert_eq!(taken(&all, |_| "2001:db8::1".to_owned()).await.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_gets_its_part_and_leaves_the_rest_to_others() {
        let all = Descriptors::new(16, Some(4));
        let one = taken(&all, |_| "192.0.2.1".to_owned()).await;
        assert_eq!(one.len(), 4);
        let network = taken(&all, |i| format!("2001:db8::{i}")).await;
        assert_eq!(network.len(), 4, "a /64");
        let site = taken(&all, |i| format!("2001:db8:0:{}::1", i + 1)).await;
        assert_eq!(site.len(), 4, "and as many more in its /48");
        let _other = all.get(address("198.51.100.1")).await.expect("one of another's");
        assert_eq!(all.in_use(), 13);
        drop((one, network, site));
        assert_eq!((all.in_use(), all.networks.lock().len()), (1, 1), "nothing of who is gone");
    }

    /// Behind an address there may be many clients.
    #[tokio::test(start_paused = true)]
    async fn an_address_has_more_than_a_quarter_while_half_are_free() {
        let all = Descriptors::new(16, None);
        let mut one = taken(&all, |_| "192.0.2.1".to_owned()).await;
        assert_eq!(one.len(), 8);
        let mut begun = tokio::time::Instant::now();
        let mut other = vec![all.get(address("198.51.100.1")).await.expect("one of another's")];
        assert!(begun.elapsed().is_zero());
        other.extend(taken(&all, |_| "198.51.100.1".to_owned()).await);
        let network = taken(&all, |i| format!("2001:db8::{i}")).await;
        assert_eq!((other.len(), network.len()), (4, 4), "a quarter of all");
        // Half are free again.
        drop((other, network));
        one.truncate(7);
        begun = tokio::time::Instant::now();
        one.push(all.get(address("192.0.2.1")).await.expect("one more"));
        assert!(begun.elapsed().is_zero());
        drop(one);
        assert!(all.networks.lock().is_empty(), "nothing is kept of who is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_wait_for_their_own_keep_nobody_waiting() {
        let all = Arc::new(Descriptors::new(8, Some(2)));
        let mut own = taken(&all, |_| "192.0.2.1".to_owned()).await;
        assert_eq!(own.len(), 2);
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let all = all.clone();
                tokio::spawn(async move { all.get(address("192.0.2.1")).await.is_some() })
            })
            .collect();
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        let _other = all.get(address("192.0.2.2")).await.expect("one of another's");
        assert!(begun.elapsed().is_zero());
        // One that gets free is that of the first who waits, which gives it back at once.
        drop(own.pop());
        for waits in waiting {
            assert!(waits.await.expect("no panic"));
        }
        assert!(begun.elapsed().is_zero());
        drop(own);
        assert_eq!(all.networks.lock().len(), 1);
    }

    /// A request that waits for one of its address gets one of plenty as soon as there is plenty.
    #[tokio::test(start_paused = true)]
    async fn who_waits_hears_of_every_descriptor_that_gets_free() {
        let all = Arc::new(Descriptors::new(16, None));
        let mut one = taken(&all, |_| "192.0.2.1".to_owned()).await;
        let mut other = taken(&all, |_| "198.51.100.1".to_owned()).await;
        assert_eq!((one.len(), other.len()), (8, 4), "half, then a quarter");
        let begun = tokio::time::Instant::now();
        let waiting = {
            let all = all.clone();
            tokio::spawn(async move { all.get(address("192.0.2.1")).await })
        };
        for in_use in [12, 11, 10, 9, 8] {
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished(), "{in_use} are taken");
            assert_eq!(all.in_use(), in_use);
            other.pop();
        }
        drop(one.pop());
        assert!(waiting.await.expect("no panic").is_some());
        assert!(begun.elapsed().is_zero(), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_of_who_waited_in_vain() {
        let all = Descriptors::new(4, Some(4));
        let _all = taken(&all, |_| "192.0.2.1".to_owned()).await;
        assert!(all.get(address("2001:db8::1")).await.is_none());
        assert_eq!(all.networks.lock().len(), 1);
    }
}
