//! Timers on one timerfd.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The shortest wait. A pacer asks to be woken for every single packet; at 100 Mbit/s that is
/// every 0.12 ms, and the processor time that it costs delays the ACKs, which is noise again.
/// Measured there, 10 s of bbr3: the 95th percentile of the queue was 39 to 42 ms with no least
/// wait, 32 to 33 ms with this, 33 to 37 ms with 0.5 ms.
const LEAST_WAIT: Duration = Duration::from_micros(250);
/// Shortest setting of the timerfd. It also wakes the task to check whether it is still needed.
const AT_ONCE: Duration = Duration::from_nanos(1);

/// [`TimerFd`] as tokio wants it, owned by the task and by those who set it.
#[derive(Debug)]
struct Fd(Arc<TimerFd>);

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Wakers by deadline and timer number; the number distinguishes timers with the same deadline.
type WakersByDeadline = BTreeMap<(Instant, u64), Waker>;

/// The timers of one endpoint.
#[derive(Debug)]
pub(super) struct Timers {
    fd: Arc<TimerFd>,
    waiting: Mutex<WakersByDeadline>,
    next: AtomicU64,
}

impl Timers {
    pub(super) fn start() -> io::Result<Arc<Self>> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let fd = Arc::new(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        // Its successor is `unsafe`, because a source may change its descriptor. `Fd` owns one
        // and never does, and this crate has no unsafe code.
        #[allow(deprecated)]
        let readable = AsyncFd::with_interest(Fd(fd.clone()), Interest::READABLE)?;
        let timers = Arc::new(Self { fd, waiting: Mutex::default(), next: AtomicU64::new(0) });
        tokio::spawn(wake_the_due(readable, Arc::downgrade(&timers)));
        Ok(timers)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, WakersByDeadline> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the timerfd's task after a time.
    fn set(&self, wait: Duration) {
        let wait = Expiration::OneShot(TimeSpec::from(wait.max(AT_ONCE)));
        if let Err(error) = self.fd.set(wait, TimerSetTimeFlags::empty()) {
            // Only a descriptor that is no timerfd can refuse.
            tracing::error!(%error, "a timer could not be set");
        }
    }

    /// Takes out everyone whose time has come, and sets the timerfd for the next.
    fn due(&self) -> Vec<Waker> {
        let now = Instant::now();
        let mut waiting = self.waiting();
        let mut due = Vec::new();
        while let Some(first) = waiting.first_entry() {
            let (at, _) = *first.key();
            if at > now {
                self.set(at - now);
                break;
            }
            due.push(first.remove());
        }
        due
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.set(AT_ONCE);
    }
}

/// Runs as long as the timers are there.
async fn wake_the_due(fd: AsyncFd<Fd>, timers: Weak<Timers>) {
    while let Ok(mut ready) = fd.readable().await {
        // Reading takes the expiration off. That there is none is no error: the time was set anew
        // meanwhile.
        let _expired = fd.get_ref().0.wait();
        ready.clear_ready();
        let Some(timers) = timers.upgrade() else { return };
        for waker in timers.due() {
            waker.wake();
        }
    }
}

#[derive(Debug)]
pub(super) struct Timer {
    timers: Arc<Timers>,
    id: u64,
    deadline: Instant,
    /// The time at which it wakes its task; `None` while no task waits.
    at: Option<Instant>,
}

impl Timer {
    pub(super) fn new(timers: Arc<Timers>, deadline: Instant) -> Self {
        let id = timers.next.fetch_add(1, Ordering::Relaxed);
        Self { timers, id, deadline, at: None }
    }

    fn cancel(&mut self) {
        if let Some(at) = self.at.take() {
            self.timers.waiting().remove(&(at, self.id));
        }
    }

    pub(super) fn reset(&mut self, deadline: Instant) {
        if deadline != self.deadline {
            self.cancel();
            self.deadline = deadline;
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if now >= self.deadline {
            self.cancel();
            return Poll::Ready(());
        }
        let at = self.at.filter(|at| *at > now);
        let at = at.unwrap_or_else(|| self.deadline.max(now + LEAST_WAIT));
        let mut waiting = self.timers.waiting();
        if let Some(old) = self.at
            && old != at
        {
            waiting.remove(&(old, self.id));
        }
        // Another thread may have taken it out as due since `now` was read.
        let is_new = waiting.insert((at, self.id), cx.waker().clone()).is_none();
        // Only the timer with the earliest deadline sets the timerfd.
        let first = waiting.first_key_value().is_some_and(|(key, _)| *key == (at, self.id));
        if first && is_new {
            self.timers.set(at - now);
        }
        drop(waiting);
        self.at = Some(at);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On two threads: one polls a timer just before its time, and the other takes it out as due
    /// before the first has the lock. Whoever is behind it in the queue would wait for ever.
    #[tokio::test]
    async fn a_timer_that_was_taken_out_meanwhile_sets_the_timerfd_again() {
        let timers = Timers::start().expect("a timerfd");
        let mut timer = Timer::new(timers.clone(), Instant::now() + Duration::from_secs(100));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(timer.poll(&mut cx).is_pending());
        let is_set = || timers.fd.get().expect("a timerfd").is_some();
        assert!(is_set());

        // What is left of it after the other thread: nobody waits, and the timerfd has expired.
        timers.waiting().clear();
        timers.fd.unset().expect("a timerfd");
        assert!(timer.poll(&mut cx).is_pending());
        assert!(is_set(), "the timer waits, and nothing will wake it");
    }
}
