//! The tasks that wait for something.

use std::sync::Arc;
use std::task::Waker;
use std::vec::Vec;

use ::tokio::sync::Notify;

/// The tasks that wait for a connection.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) read: Direction,
    pub(super) write: Direction,
}

/// The tasks that wait for one direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The task that polled last. As with tokio's own streams there is one.
    polled: Option<Waker>,
    /// Tasks that wait in a future. It stays the same, so that a task which has it and is not yet
    /// registered misses nothing.
    waiting: Option<Arc<Notify>>,
}

impl Direction {
    /// Remembers the task that polls. The one before it is to be dropped without the lock.
    pub(super) fn on_poll(&mut self, waker: &Waker) -> Option<Waker> {
        remember(&mut self.polled, waker)
    }

    /// Notifies all that wait in a future.
    pub(super) fn waiting(&mut self) -> Arc<Notify> {
        Arc::clone(self.waiting.get_or_insert_default())
    }

    fn wake(&mut self, wakes: &mut Wakes) {
        wakes.tasks.extend(self.polled.take());
        wakes.all.extend(self.waiting.clone());
    }
}

impl Wakers {
    pub(super) fn wake(&mut self, can_read: bool, can_write: bool, wakes: &mut Wakes) {
        if can_read {
            self.read.wake(wakes);
        }
        if can_write {
            self.write.wake(wakes);
        }
    }
}

/// The tasks that wait for a listener.
#[derive(Debug, Default)]
pub(super) struct Accepting {
    /// The task that polled last.
    polled: Option<Waker>,
    /// Tasks that wait in a future.
    waiting: Arc<Notify>,
}

impl Accepting {
    /// Remembers the task that polls. The one before it is to be dropped without the lock.
    pub(super) fn on_poll(&mut self, waker: &Waker) -> Option<Waker> {
        remember(&mut self.polled, waker)
    }

    /// Notifies one of those that wait in a future.
    pub(super) fn waiting(&self) -> Arc<Notify> {
        Arc::clone(&self.waiting)
    }

    /// There is one connection more.
    pub(super) fn wake(&mut self, wakes: &mut Wakes) {
        wakes.tasks.extend(self.polled.take());
        wakes.one.push(Arc::clone(&self.waiting));
    }

    /// There will be none.
    pub(super) fn wake_all(self, wakes: &mut Wakes) {
        wakes.tasks.extend(self.polled);
        wakes.all.push(self.waiting);
    }
}

/// Remembers a task; the one before it.
fn remember(polled: &mut Option<Waker>, waker: &Waker) -> Option<Waker> {
    match polled {
        Some(known) if known.will_wake(waker) => None,
        _ => polled.replace(waker.clone()),
    }
}

/// Tasks that are to be woken once the lock is free: they want it, and to wake or drop one may run
/// code of an application's, such as a stream's end.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    tasks: Vec<Waker>,
    all: Vec<Arc<Notify>>,
    one: Vec<Arc<Notify>>,
}

impl Wakes {
    /// Wakes them. Not with the lock held.
    pub(super) fn wake(&mut self) {
        self.tasks.drain(..).for_each(Waker::wake);
        self.all.drain(..).for_each(|notify| notify.notify_waiters());
        self.one.drain(..).for_each(|notify| notify.notify_one());
    }
}
