//! Timers that are finer than tokio's.
//!
//! tokio counts time in milliseconds and rounds up. A pacer that waits for one packet of 0.12 ms
//! then sends in bursts of one to two milliseconds, which is a queue of as much at the bottleneck,
//! and noise of as much in every rate sample. A timerfd wakes within some ten microseconds; a timer
//! is asked to wait no less than `LEAST_WAIT`. All timers of an endpoint share one timerfd, so that
//! a connection needs no descriptor. Where there is none, tokio's timers serve.

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

    /// tokio's timers, whose clock a test can pause.
    pub fn coarse() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            fine: None,
        }
    }

    /// The time by the clock of these timers. tokio's can be paused, and the timerfd's cannot:
    /// whoever compares a deadline with the other clock waits for a time that never comes.
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
