//! Requests that a client makes before its handshake is done (0-RTT).
//!
//! A server that does not take them makes noq forget their streams, and the next streams have the
//! same IDs. noq 1.4 removes the waker of an ID when a stream of it is dropped (`Drop for
//! RecvStream`), also where the stream was one of the forgotten ones: whoever reads the new stream
//! would then wait for ever. So a new stream begins when the old ones are dropped.

use std::sync::Arc;

use noq::ZeroRttAccepted;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

/// A server's answer to the early requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EarlyAnswer {
    /// It has not said so yet.
    Open,
    Taken,
    /// Their streams are gone with all that was on them.
    Rejected,
    /// New streams can begin.
    Over,
}

/// Locked for reading by each early stream.
type Streams = Arc<RwLock<()>>;

/// An early stream's part of the lock; to be dropped after the stream.
pub(crate) type Guard = OwnedRwLockReadGuard<()>;

/// The requests' view of the verdict.
#[derive(Clone)]
pub(crate) struct Early {
    verdict: watch::Receiver<EarlyAnswer>,
    streams: Streams,
}

/// Tells the verdict once the server has given it.
pub(crate) struct Judge {
    accepted: ZeroRttAccepted,
    verdict: watch::Sender<EarlyAnswer>,
    streams: Streams,
}

pub(crate) fn early(accepted: ZeroRttAccepted) -> (Judge, Early) {
    let (sender, verdict) = watch::channel(EarlyAnswer::Open);
    let streams = Streams::default();
    (Judge { accepted, verdict: sender, streams: streams.clone() }, Early { verdict, streams })
}

impl Judge {
    /// Waits for the server's answer: true if it took the requests.
    pub(crate) async fn taken(&mut self) -> bool {
        let taken = (&mut self.accepted).await;
        let verdict = if taken { EarlyAnswer::Taken } else { EarlyAnswer::Rejected };
        self.verdict.send_replace(verdict);
        taken
    }

    /// Waits until the streams of the early requests are dropped.
    pub(crate) async fn dropped(&self) {
        drop(self.streams.write().await);
    }

    /// Lets new requests begin.
    pub(crate) fn over(self) {
        self.verdict.send_replace(EarlyAnswer::Over);
    }
}

impl Early {
    /// Has to be called before a stream is opened. Gives a guard while the verdict is open, and
    /// waits after a rejection until new streams can begin.
    pub(crate) async fn begin(&self) -> Option<Guard> {
        let guard = self.streams.clone().read_owned().await;
        if *self.verdict.borrow() == EarlyAnswer::Open {
            return Some(guard);
        }
        drop(guard);
        self.is_over().await;
        None
    }

    /// Waits until requests can be made anew; false if the early ones were taken, or the connection
    /// is lost.
    pub(crate) async fn is_over(&self) -> bool {
        let mut verdict = self.verdict.clone();
        let known =
            |verdict: &EarlyAnswer| matches!(verdict, EarlyAnswer::Taken | EarlyAnswer::Over);
        verdict.wait_for(known).await.is_ok_and(|verdict| *verdict == EarlyAnswer::Over)
    }

    /// True once the server has rejected the early requests.
    pub(crate) fn is_rejected(&self) -> bool {
        matches!(*self.verdict.borrow(), EarlyAnswer::Rejected | EarlyAnswer::Over)
    }

    /// Waits until the server has taken the early requests; never ends if it rejects them.
    pub(crate) async fn taken(&self) {
        let mut verdict = self.verdict.clone();
        if verdict.wait_for(|verdict| *verdict == EarlyAnswer::Taken).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
