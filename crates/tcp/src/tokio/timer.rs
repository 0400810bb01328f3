//! The driver's timer.
//!
//! tokio counts time in milliseconds and rounds up, which makes bursts of one to two milliseconds
//! of what is paced. On Linux a timerfd wakes within some ten microseconds.

use std::io;
use std::time::Instant;

#[cfg(target_os = "linux")]
pub(super) use linux::Timer;

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd, AsRawFd, RawFd};
    use std::time::Duration;

    use ::tokio::io::Interest;
    use ::tokio::io::unix::AsyncFd;
    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

    use super::{Instant, io};

    /// The shortest setting of a timerfd: 0 is none.
    const AT_ONCE: Duration = Duration::from_nanos(1);

    pub(in super::super) struct Timer {
        fd: AsyncFd<Fd>,
        set: Option<Instant>,
    }

    struct Fd(TimerFd);

    impl AsRawFd for Fd {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }

    impl Timer {
        pub(in super::super) fn new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let fd = Fd(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
            #[expect(
                deprecated,
                reason = "the other way is unsafe; `Fd` owns its descriptor and never changes it"
            )]
            let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
            Ok(Self { fd, set: None })
        }

        /// Returns at `at` or later; never for `None`.
        pub(in super::super) async fn wait(&mut self, at: Option<Instant>) -> io::Result<()> {
            let Some(at) = at else { return std::future::pending().await };
            if self.set != Some(at) {
                let wait = at.saturating_duration_since(Instant::now()).max(AT_ONCE);
                let wait = Expiration::OneShot(TimeSpec::from(wait));
                self.fd.get_ref().0.set(wait, TimerSetTimeFlags::empty())?;
                self.set = Some(at);
            }
            let mut ready = self.fd.readable().await?;
            // Reading takes the expiration off. That there is none is no error: the time was set
            // anew meanwhile.
            let _expired = self.fd.get_ref().0.wait();
            ready.clear_ready();
            self.set = None;
            Ok(())
        }
    }
}

/// tokio's own.
#[cfg(not(target_os = "linux"))]
pub(super) struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Returns at `at` or later; never for `None`.
    pub(super) async fn wait(&mut self, at: Option<Instant>) -> io::Result<()> {
        match at {
            Some(at) => ::tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
        Ok(())
    }
}
