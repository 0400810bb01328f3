//! A run in real time from its first request to its end: who is there, how far it is, when it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;

use fullpipe_cc::Duration;

use super::{Bench, Event};
use crate::backend::RunError;
use crate::metrics::bits_per_sec;
use crate::observe::{Extent, STALL, Tick};

/// Between two calls of the watcher.
const TICK: Duration = Duration::from_millis(100);

/// How long the calling thread sleeps at most before it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

/// One flow, as far as the calling thread knows it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Course {
    /// First request, since the epoch.
    pub(crate) started: Option<Duration>,
    /// Last byte, since the epoch.
    pub(crate) finished: Option<Duration>,
}

/// Who looks at a run, and when.
pub(crate) trait Observer<B> {
    /// The next time, counted from the first request.
    fn next_due(&self) -> Duration;
    /// Looks; it is `t` after the first request.
    fn look(&mut self, t: Duration, bench: &B) -> Result<(), RunError>;
}

/// When and why a run ended.
pub(crate) struct End {
    /// Since the epoch.
    pub(crate) at: Duration,
    pub(crate) interrupted: bool,
}

/// A run under way.
pub(crate) struct Play<'a, B> {
    pub(crate) bench: B,
    pub(crate) courses: Vec<Course>,
    /// The first request of the first flow, since the epoch.
    pub(crate) zero: Duration,
    extent: Extent,
    stop: &'a AtomicBool,
}

/// What the watcher was told last.
struct Told {
    next: Duration,
    at: Duration,
    received: Vec<u64>,
}

impl<'a, B: Bench> Play<'a, B> {
    /// Waits for the first request, and starts the other flows. The watcher hears that no time has
    /// passed meanwhile.
    pub(crate) fn begin(
        extent: Extent,
        mut bench: B,
        stop: &'a AtomicBool,
        watch: &mut dyn FnMut(Tick),
    ) -> Result<Self, RunError> {
        let mut next = TICK;
        let (first, zero) = loop {
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::StoppedEarly);
            }
            if bench.now() >= next {
                watch(Tick::connecting(extent.flows));
                next = bench.now() + TICK;
            }
            match bench.events().recv_timeout(NAP.into()) {
                Ok(Event::Started { flow, at }) => break (flow, at),
                Ok(Event::Failed(error)) => return Err(error),
                Ok(Event::Finished { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(RunError::Lost),
            }
        };
        bench.start_the_others(zero)?;
        let mut courses = vec![Course::default(); extent.flows];
        courses[first].started = Some(zero);
        Ok(Self { bench, courses, zero, extent, stop })
    }

    /// Goes on until everything has arrived, the time is over, or somebody wants an end.
    pub(crate) fn until_the_end(
        &mut self,
        observer: &mut impl Observer<B>,
        watch: &mut dyn FnMut(Tick),
    ) -> Result<End, RunError> {
        let received = vec![0; self.extent.flows];
        let mut told = Told { next: Duration::ZERO, at: Duration::ZERO, received };
        let mut progress = (Duration::ZERO, 0);
        loop {
            let elapsed = self.bench.now() - self.zero;
            if elapsed >= observer.next_due() {
                observer.look(elapsed, &self.bench)?;
            }
            let received: u64 = self.bench.received().iter().sum();
            if received > progress.1 {
                progress = (elapsed, received);
            }
            if elapsed >= told.next {
                self.tell(elapsed, &mut told, watch)?;
            }
            if let Some(end) = self.end(elapsed) {
                return Ok(end);
            }
            if elapsed - progress.0 > STALL {
                return Err(RunError::Stalled(STALL));
            }
            self.wait(observer.next_due())?;
        }
    }

    fn tell(
        &self,
        elapsed: Duration,
        told: &mut Told,
        watch: &mut dyn FnMut(Tick),
    ) -> Result<(), RunError> {
        let received = self.bench.received();
        let each = received.iter().zip(&told.received);
        watch(Tick {
            elapsed,
            done: self.extent.done(elapsed, received.iter().sum()),
            flow_bps: each.map(|(now, then)| bits_per_sec(now - then, elapsed - told.at)).collect(),
            queue: self.bench.link()?.queue,
        });
        *told = Told { next: elapsed + TICK, at: elapsed, received };
        Ok(())
    }

    /// Sleeps until somebody wants to look or the end, but wakes for what a flow says.
    fn wait(&mut self, mut until: Duration) -> Result<(), RunError> {
        let elapsed = self.bench.now() - self.zero;
        if let Some(d) = self.extent.duration {
            until = until.min(d);
        }
        let nap = (until - elapsed).min(NAP);
        match self.bench.events().recv_timeout(nap.into()) {
            Ok(Event::Started { flow, at }) => self.courses[flow].started = Some(at),
            Ok(Event::Finished { flow, at }) => self.courses[flow].finished = Some(at),
            Ok(Event::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(RunError::Lost),
        }
        Ok(())
    }

    fn end(&self, elapsed: Duration) -> Option<End> {
        let last = self.courses.iter().map(|c| c.finished).collect::<Option<Vec<_>>>();
        if let Some(at) = last.and_then(|all| all.into_iter().max()) {
            return Some(End { at, interrupted: false });
        }
        let at = self.zero + elapsed;
        match self.extent.duration {
            Some(d) if elapsed >= d => Some(End { at, interrupted: false }),
            _ => self.stop.load(Ordering::Relaxed).then_some(End { at, interrupted: true }),
        }
    }
}
