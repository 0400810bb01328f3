//! Send window of a connection: the bytes that it may have written and not acknowledged. It is as
//! large as the congestion window can use, and all connections together have no more than the
//! server's bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fullpipe_noq::{NoqController, Unsent, Writer};
use noq::{Connection, PathId};

/// Send window of every connection, in bytes: enough for the first windows of any path.
const LEAST: u64 = 256 * 1024;

/// Bytes that are left of [`Limits::send_memory`](super::Limits::send_memory).
#[derive(Debug)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes)))
    }

    /// Takes up to this many.
    fn take(&self, most: u64) -> u64 {
        let mut taken = 0;
        // The closure always gives a value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            taken = left.min(most);
            Some(left - taken)
        });
        taken
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The send window of one connection.
pub(crate) struct Window {
    connection: Connection,
    budget: Arc<Budget>,
    most: u64,
    taken: AtomicU64,
    /// The number of bytes taken at which the congestion window is looked at next.
    next: AtomicU64,
    state: Mutex<State>,
    unsent: Unsent,
}

struct State {
    /// Bytes that noq may hold now.
    window: u64,
    /// Bytes of the window that are taken from the budget.
    reserved: u64,
    /// Bytes beside the window for what is no body.
    beside: u64,
}

impl Window {
    /// `most` bounds it whatever the congestion window says.
    pub(super) fn new(connection: Connection, budget: Arc<Budget>, most: u64) -> Self {
        let window = LEAST.min(most);
        connection.set_send_window(window);
        let state = Mutex::new(State { window, reserved: 0, beside: 0 });
        let next = AtomicU64::new(window / 4);
        let (taken, unsent) = (AtomicU64::new(0), Unsent::default());
        let window = Self { connection, budget, most, taken, next, state, unsent };
        window.look_at_controller();
        window
    }

    /// A stream that has a body to write.
    pub(crate) fn writer(&self) -> Writer {
        self.unsent.writer()
    }

    /// Streams that have a body to write.
    pub(crate) fn bodies(&self) -> u64 {
        self.unsent.count() as u64
    }

    /// The congestion window. A controller that is new, of another path, hears of the writers.
    fn look_at_controller(&self) -> u64 {
        let Some(controller) = self.connection.congestion_state(PathId::ZERO) else { return 0 };
        let congestion_window = controller.window();
        // noq's own take noq's word for it.
        if let Ok(ours) = controller.into_any().downcast::<NoqController>() {
            ours.set_unsent(&self.unsent);
        }
        congestion_window
    }

    /// Bytes that noq took of all streams so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Lets the connection write this many bytes more, which its bodies have left no room for.
    pub(crate) fn widen(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.beside += bytes;
        self.connection.set_send_window(state.window + state.beside);
    }

    /// ACK frames that the peer has sent so far.
    pub(crate) fn acks(&self) -> u64 {
        self.connection.stats().frame_rx.acks
    }

    /// noq took this many more. Looks at the congestion window each time that a quarter of the
    /// window went through.
    pub(crate) fn took(&self, bytes: u64) {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken < self.next.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.adjust(self.look_at_controller(), self.most, &self.budget);
        self.next.store(taken + state.window / 4, Ordering::Relaxed);
        self.connection.set_send_window(state.window + state.beside);
    }
}

impl State {
    /// Twice the congestion window, which may double within a round trip, and the least beside it.
    fn adjust(&mut self, congestion_window: u64, most: u64, budget: &Budget) {
        let wanted = congestion_window.saturating_mul(2).saturating_add(LEAST).min(most);
        let beyond = wanted.saturating_sub(LEAST);
        // noq took bytes under the window that it has, so no more than that is held, and what is
        // reserved beyond it is free. What this look takes away is given back at the next.
        let needed = beyond.max(self.window.saturating_sub(LEAST));
        if needed > self.reserved {
            self.reserved += budget.take(needed - self.reserved);
        } else {
            budget.give_back(self.reserved - needed);
            self.reserved = needed;
        }
        self.window = wanted.min(LEAST.min(most) + self.reserved);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.budget.give_back(state.reserved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State { window: LEAST, reserved: 0, beside: 0 }
    }

    #[test]
    fn the_window_follows_the_congestion_window_and_gives_back() {
        let budget = Budget::new(100_000_000);
        let mut state = state();
        state.adjust(1_000_000, u64::MAX, &budget);
        assert_eq!(state.window, 2_000_000 + LEAST);
        assert_eq!(budget.0.load(Ordering::Relaxed), 98_000_000);
        state.adjust(10_000, u64::MAX, &budget);
        assert_eq!(state.window, 20_000 + LEAST);
        assert_eq!(budget.0.load(Ordering::Relaxed), 98_000_000, "the bytes may still be held");
        state.adjust(10_000, u64::MAX, &budget);
        assert_eq!(budget.0.load(Ordering::Relaxed), 99_980_000);
        state.adjust(u64::MAX, 5_000_000, &budget);
        assert_eq!(state.window, 5_000_000);
    }

    #[test]
    fn all_windows_together_stay_within_the_budget() {
        let budget = Budget::new(3_000_000);
        let mut states: Vec<State> = (0..10).map(|_| state()).collect();
        for state in &mut states {
            state.adjust(1_000_000, u64::MAX, &budget);
        }
        let beyond: u64 = states.iter().map(|state| state.window - LEAST).sum();
        assert_eq!(beyond, 3_000_000);
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
        assert!(states.iter().all(|state| state.window >= LEAST), "each has its own");
    }
}
