//! Timers that are finer than tokio's.
//!
//! tokio counts time in milliseconds and rounds up. A pacer that waits for one packet of 0.12 ms
//! then sends in bursts of one to two milliseconds, which is a queue of as much at the bottleneck,
//! and noise of as much in every rate sample. A timerfd wakes within some ten microseconds; a timer is
//! asked to wait no less than `LEAST_WAIT`. All timers of an endpoint share one timerfd, so that a
//! connection needs no descriptor. Where there is none, tokio's timers serve.

#[cfg(target_os = "linux")]
mod linux;

use std::future::Future;
use std::pin::Pin;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::time::{Sleep, sleep_until};

/// The timers of one endpoint.
#[derive(Clone, Debug)]
pub struct Timers {
    #[cfg(target_os = "linux")]
    fine: Option<Arc<linux::Timers>>,
}

impl Timers {
    /// Needs a tokio runtime around the caller, and around those who poll the timers.
    pub fn start() -> Self {
        #[cfg(target_os = "linux")]
        let fine = linux::Timers::start()
            // Out of file descriptors, most likely: coarser timers are better than none.
            .inspect_err(
                |error| tracing::warn!(%error, "no timerfd: pacing in steps of a millisecond"),
            )
            .ok();
        Self {
            #[cfg(target_os = "linux")]
            fine,
        }
    }

    /// The time by the clock of these timers. tokio's can be paused, and the timerfd's cannot: whoever compares a deadline with
    /// the other clock waits for a time that never comes.
    pub fn now(&self) -> Instant {
        #[cfg(target_os = "linux")]
        if self.fine.is_some() {
            return Instant::now();
        }
        tokio::time::Instant::now().into_std()
    }

    /// A timer that expires at `deadline`, a time by [`Self::now`].
    pub fn timer(&self, deadline: Instant) -> Timer {
        #[cfg(target_os = "linux")]
        if let Some(timers) = &self.fine {
            return Timer(Kind::Fine(linux::Timer::new(timers.clone(), deadline)));
        }
        Timer(Kind::Coarse(Box::pin(sleep_until(deadline.into()))))
    }
}

/// A timer that can be set again.
#[derive(Debug)]
pub struct Timer(Kind);

#[derive(Debug)]
enum Kind {
    #[cfg(target_os = "linux")]
    Fine(linux::Timer),
    Coarse(Pin<Box<Sleep>>),
}

impl Timer {
    /// Sets the time at which it expires.
    pub fn reset(&mut self, deadline: Instant) {
        match &mut self.0 {
            #[cfg(target_os = "linux")]
            Kind::Fine(timer) => timer.reset(deadline),
            Kind::Coarse(sleep) => sleep.as_mut().reset(deadline.into()),
        }
    }

    /// Ready once it has expired; else the task of `cx` is woken when it does.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            #[cfg(target_os = "linux")]
            Kind::Fine(timer) => timer.poll(cx),
            Kind::Coarse(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    /// A clock of milliseconds makes a millisecond of each wait of 100 us. Some of a hundred are shorter, also on a busy
    /// machine.
    #[tokio::test]
    async fn waits_are_shorter_than_a_millisecond() {
        let timers = Timers::start();
        let mut timer = timers.timer(Instant::now());
        let mut shortest = Duration::MAX;
        for _ in 0..100 {
            let begin = Instant::now();
            let deadline = begin + Duration::from_micros(100);
            timer.reset(deadline);
            poll_fn(|cx| timer.poll(cx)).await;
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
        let mut timer = Timers::start().timer(begin + Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(2));
        let deadline = Instant::now() + Duration::from_millis(20);
        timer.reset(deadline);
        poll_fn(|cx| timer.poll(cx)).await;
        assert!(Instant::now() >= deadline);
    }

    /// A thousand timers on one descriptor: each at its time, whatever the order in which they are set, moved
    /// and dropped.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_timers_share_a_descriptor_and_keep_their_times() {
        let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let timers = Timers::start();
        let before = descriptors();
        let mut waits = Vec::new();
        for i in 0..1000_u64 {
            let deadline = Instant::now() + Duration::from_millis(1 + i * 7919 % 50);
            let mut timer = timers.timer(Instant::now() + Duration::from_secs(1000));
            waits.push(tokio::spawn(async move {
                // Waits for the first deadline, until it is moved to the second.
                let moved =
                    tokio::time::timeout(Duration::from_millis(1), poll_fn(|cx| timer.poll(cx)));
                assert!(moved.await.is_err(), "early");
                timer.reset(deadline);
                if i % 10 != 0 {
                    poll_fn(|cx| timer.poll(cx)).await;
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
