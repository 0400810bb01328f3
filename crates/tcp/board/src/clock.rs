//! Time from SysTick, which interrupts once a millisecond.

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;
use fullpipe_cc::{Duration, Instant};

/// Ticks of mps2-an386's clock a second.
const HZ: u32 = 25_000_000;
const PER_MILLISECOND: u32 = HZ / 1000;
const TICK: Duration = Duration::from_nanos(1_000_000_000 / HZ as u64);

/// The time since the start; it wraps after 49 days.
static MILLISECONDS: AtomicU32 = AtomicU32::new(0);

#[exception]
fn SysTick() {
    MILLISECONDS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) struct Clock {
    last: Instant,
}

impl Clock {
    pub(crate) fn start(mut timer: SYST) -> Self {
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(PER_MILLISECOND - 1);
        timer.clear_current();
        timer.enable_counter();
        timer.enable_interrupt();
        Self { last: Instant::default() }
    }

    /// Never earlier than the time before.
    pub(crate) fn now(&mut self) -> Instant {
        let (milliseconds, left) = loop {
            let before = MILLISECONDS.load(Ordering::Relaxed);
            let left = SYST::get_current();
            if MILLISECONDS.load(Ordering::Relaxed) == before {
                break (before, left);
            }
        };
        let part = TICK.times(u64::from(PER_MILLISECOND - 1 - left));
        let now = Instant::default() + Duration::from_millis(milliseconds.into()) + part;
        self.last = self.last.max(now);
        self.last
    }
}
