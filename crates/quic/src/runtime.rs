//! noq on tokio, with timers as fine as the kernel's.
//!
//! tokio counts time in milliseconds and rounds up. A pacer that waits for one packet of 0.12 ms
//! then sends in bursts of one to two milliseconds, which is a queue of as much at the bottleneck,
//! and noise of as much in every rate sample. A timerfd wakes within some ten microseconds; a timer is
//! asked to wait no less than `LEAST_WAIT`. All timers of an endpoint share one timerfd, so that a
//! connection needs no descriptor. Where there is none, tokio's timers serve.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use noq::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

use crate::CongestionControl;
use crate::not_ect::NotEct;

/// The runtime of one endpoint.
#[derive(Debug)]
pub(crate) struct FineRuntime {
    /// Congestion control of the endpoint's connections.
    congestion: CongestionControl,
    #[cfg(target_os = "linux")]
    timers: Option<Arc<linux::Timers>>,
}

impl FineRuntime {
    /// Needs a tokio runtime around the caller.
    pub(crate) fn new(congestion: CongestionControl) -> Arc<Self> {
        #[cfg(target_os = "linux")]
        let timers = linux::Timers::start()
            // Out of file descriptors, most likely: coarser timers are better than none.
            .inspect_err(
                |error| tracing::warn!(%error, "no timerfd: pacing in steps of a millisecond"),
            )
            .ok();
        Arc::new(Self {
            congestion,
            #[cfg(target_os = "linux")]
            timers,
        })
    }
}

impl Runtime for FineRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        #[cfg(target_os = "linux")]
        if let Some(timers) = &self.timers {
            return Box::pin(linux::Timer::new(timers.clone(), deadline));
        }
        TokioRuntime.new_timer(deadline)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        let socket = TokioRuntime.wrap_udp_socket(socket)?;
        if self.congestion.wants_ecn() { Ok(socket) } else { Ok(Box::new(NotEct(socket))) }
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, RawFd};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex, PoisonError, Weak};
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use noq::AsyncTimer;
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
    type Waiting = BTreeMap<(Instant, u64), Waker>;

    /// The timers of one endpoint.
    #[derive(Debug)]
    pub(super) struct Timers {
        fd: Arc<TimerFd>,
        waiting: Mutex<Waiting>,
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

        fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
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
            // Reading takes the expiration off. That there is none is no error: the time was set anew meanwhile.
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
    }

    impl AsyncTimer for Timer {
        fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
            if deadline != self.deadline {
                self.cancel();
                self.deadline = deadline;
            }
        }

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
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
            waiting.insert((at, self.id), cx.waker().clone());
            // Only the timer with the earliest deadline sets the timerfd.
            let first = waiting.first_key_value().is_some_and(|(key, _)| *key == (at, self.id));
            if first && self.at != Some(at) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    const OURS: CongestionControl = CongestionControl::Fullpipe(fullpipe_cc::Algorithm::Bbr3);

    /// A clock of milliseconds makes a millisecond of each wait of 100 us. Some of a hundred are shorter, also on a busy
    /// machine.
    #[tokio::test]
    async fn waits_are_shorter_than_a_millisecond() {
        let runtime = FineRuntime::new(OURS);
        let mut timer = runtime.new_timer(Instant::now());
        let mut shortest = Duration::MAX;
        for _ in 0..100 {
            let begin = Instant::now();
            let deadline = begin + Duration::from_micros(100);
            timer.as_mut().reset(deadline);
            poll_fn(|cx| timer.as_mut().poll(cx)).await;
            assert!(Instant::now() >= deadline, "early");
            shortest = shortest.min(begin.elapsed());
        }
        if cfg!(target_os = "linux") {
            assert!(shortest < Duration::from_micros(800), "{shortest:?}");
        }
    }

    /// A deadline that moves away is not met at its old time.
    #[tokio::test]
    async fn a_timer_that_is_moved_waits_for_its_new_time() {
        let begin = Instant::now();
        let mut timer = FineRuntime::new(OURS).new_timer(begin + Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(2));
        let deadline = Instant::now() + Duration::from_millis(20);
        timer.as_mut().reset(deadline);
        poll_fn(|cx| timer.as_mut().poll(cx)).await;
        assert!(Instant::now() >= deadline);
    }

    /// A thousand timers on one descriptor: each at its time, whatever the order in which they are set, moved
    /// and dropped.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_timers_share_a_descriptor_and_keep_their_times() {
        let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let runtime = FineRuntime::new(OURS);
        let before = descriptors();
        let mut waits = Vec::new();
        for i in 0..1000_u64 {
            let deadline = Instant::now() + Duration::from_millis(1 + i * 7919 % 50);
            let mut timer = runtime.new_timer(Instant::now() + Duration::from_secs(1000));
            waits.push(tokio::spawn(async move {
                // Waits for the first deadline, until it is moved to the second.
                let moved = tokio::time::timeout(
                    Duration::from_millis(1),
                    poll_fn(|cx| timer.as_mut().poll(cx)),
                );
                assert!(moved.await.is_err(), "early");
                timer.as_mut().reset(deadline);
                if i % 10 != 0 {
                    poll_fn(|cx| timer.as_mut().poll(cx)).await;
                    assert!(Instant::now() >= deadline, "early");
                }
            }));
        }
        assert!(descriptors() < before + 20, "{before} descriptors, then {}", descriptors());
        for wait in waits {
            tokio::time::timeout(Duration::from_secs(10), wait)
                .await
                .expect("in time")
                .expect("at its time");
        }
    }
}
