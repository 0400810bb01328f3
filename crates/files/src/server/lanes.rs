//! The threads of a server. All of a connection runs on one of them. With one connection the
//! endpoint's thread does everything; other lanes are woken by it when something arrives or is due.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;

/// Runtimes of one thread each, with the number of connections on them.
#[derive(Debug)]
pub(super) struct Lanes(Vec<(Handle, Arc<AtomicUsize>)>);

/// The place of a connection.
#[derive(Debug)]
pub(super) struct Lane {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Lanes {
    /// The endpoint's runtime first, and these. On the endpoint's alone, tokio decides which thread
    /// runs a task.
    pub(super) fn of(own: Handle, others: Vec<Handle>) -> Self {
        let all = std::iter::once(own).chain(others);
        Self(all.map(|runtime| (runtime, Arc::default())).collect())
    }

    /// Tasks on them.
    pub(super) fn tasks(&self) -> u64 {
        self.0.iter().map(|(runtime, _)| runtime.metrics().num_alive_tasks() as u64).sum()
    }

    /// A place on the lane with the fewest connections.
    pub(super) fn enter(&self) -> Lane {
        let fewest =
            self.0.iter().min_by_key(|(_, connections)| connections.load(Ordering::Relaxed));
        let (runtime, connections) = match fewest {
            Some((runtime, connections)) => (runtime.clone(), connections.clone()),
            None => unreachable!("the endpoint's is there always"),
        };
        connections.fetch_add(1, Ordering::Relaxed);
        Lane { runtime, connections }
    }
}

impl Lane {
    /// Runs a connection. What it spawns, noq's task for it included, runs on the same lane.
    pub(super) fn spawn(self, connection: impl Future<Output = ()> + Send + 'static) {
        let runtime = self.runtime.clone();
        runtime.spawn(async move {
            connection.await;
            drop(self);
        });
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_shared_out_and_their_places_are_free_again() {
        let own = Handle::current();
        let lanes = Lanes::of(own.clone(), vec![own]);
        let counts =
            || lanes.0.iter().map(|(_, count)| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let mut places: Vec<Lane> = (0..3).map(|_| lanes.enter()).collect();
        assert_eq!(counts(), [2, 1]);
        drop(places.remove(0));
        drop(places.remove(1));
        assert_eq!(counts(), [0, 1]);
        let _next = lanes.enter();
        assert_eq!(counts(), [1, 1]);
    }
}
