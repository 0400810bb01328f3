//! Admission of connections and handshakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Limits;

/// Counts the connections and the handshakes of a server.
#[derive(Debug)]
pub(super) struct Admission {
    connections: usize,
    unvalidated: usize,
    open: AtomicUsize,
    handshakes: AtomicUsize,
}

/// Decision on a client's first packet.
#[derive(Debug)]
pub(super) enum Verdict {
    /// A connection, counted until the slot is dropped.
    Accept(Slot, Option<HandshakeSlot>),
    /// A Retry, which costs the server no memory.
    Retry,
    /// CONNECTION_REFUSED.
    Refuse,
}

/// The place of a connection.
#[derive(Debug)]
pub(super) struct Slot(Arc<Admission>);

/// The place of a handshake with a client whose address is not validated.
#[derive(Debug)]
pub(super) struct HandshakeSlot(Arc<Admission>);

impl Admission {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            connections: limits.connections,
            unvalidated: limits.unvalidated_handshakes,
            open: AtomicUsize::new(0),
            handshakes: AtomicUsize::new(0),
        })
    }

    /// Connections, and handshakes with clients that are not validated.
    pub(super) fn now(&self) -> (usize, usize) {
        (self.open.load(Ordering::Relaxed), self.handshakes.load(Ordering::Relaxed))
    }

    /// `validated`: the client returned a token, so it receives at its address.
    pub(super) fn decide(self: &Arc<Self>, validated: bool) -> Verdict {
        if !validated && !take(&self.handshakes, self.unvalidated) {
            return Verdict::Retry;
        }
        let handshake = (!validated).then(|| HandshakeSlot(self.clone()));
        if !take(&self.open, self.connections) {
            return Verdict::Refuse;
        }
        Verdict::Accept(Slot(self.clone()), handshake)
    }
}

/// Counts one more, if there may be one more.
fn take(count: &AtomicUsize, most: usize) -> bool {
    let more = |now: usize| (now < most).then_some(now + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limits_there_is_first_a_retry_and_then_a_refusal() {
        let limits = Limits { connections: 3, unvalidated_handshakes: 2, ..Limits::default() };
        let admission = Admission::new(&limits);
        let first = admission.decide(false);
        assert!(matches!(&first, Verdict::Accept(_, Some(_))));
        let Verdict::Accept(_slot, handshake) = admission.decide(false) else { panic!() };
        assert!(matches!(admission.decide(false), Verdict::Retry));
        let third = admission.decide(true);
        assert!(matches!(&third, Verdict::Accept(_, None)));
        assert!(matches!(admission.decide(true), Verdict::Refuse));
        drop(handshake);
        assert!(matches!(admission.decide(false), Verdict::Refuse), "it is full");
        drop(third);
        assert!(
            matches!(admission.decide(false), Verdict::Accept(_, Some(_))),
            "and has room again"
        );
        drop(first);
        assert!(matches!(admission.decide(true), Verdict::Accept(_, None)));
    }
}
