//! A run from its first request to its end: who is there, how far it is, when it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;

use fullpipe_cc::Duration;
use fullpipe_report::observe::{FlowTimes, Observations};
use fullpipe_scenario::Scenario;

use super::observer::Observer;
use super::{Event, Testbed};
use crate::backend::{Request, RunError};
use crate::observe::{PathNow, Progress, ProgressTicker, RunLimits, STALL};

/// Longest sleep of the calling thread between two checks of the stop flag.
const NAP: Duration = Duration::from_millis(20);

/// Times of a flow's first request and last byte, since the epoch.
#[derive(Clone, Copy, Default)]
struct RequestTimes {
    started: Option<Duration>,
    finished: Option<Duration>,
}

/// End of a run: its time, and whether the run was interrupted.
struct RunEnd {
    at: Duration,
    interrupted: bool,
}

/// A run that had its first request.
struct RealtimeRun<'a, T> {
    testbed: T,
    times: Vec<RequestTimes>,
    /// The first request of the first flow, since the epoch: what the run's times count from.
    zero: Duration,
    extent: RunLimits,
    pace: ProgressTicker,
    stop: &'a AtomicBool,
}

/// Runs a scenario on a testbed from its first request to the end. The testbed ends when this
/// returns.
pub(crate) fn run<T: Testbed>(
    scenario: &Scenario,
    testbed: T,
    request: Request<'_>,
) -> Result<Observations, RunError> {
    let Request { moments, sampling, stop, watch, on_sample, .. } = request;
    let mut observer = Observer::new(scenario, moments, sampling, on_sample);
    let mut run = RealtimeRun::begin(RunLimits::of(scenario), testbed, stop, watch)?;
    observer.begin(run.zero);
    observer.mark(Duration::ZERO, Duration::ZERO, &run.testbed)?;
    let end = run.until_the_end(&mut observer, watch)?;
    let t = end.at - run.zero;
    observer.finish(t, &run.testbed, &run.is_there(t))?;
    let emulator = run.testbed.finish_link()?;
    let times = run.times.iter().map(|times| FlowTimes {
        start: times.started.unwrap_or(end.at) - run.zero,
        end: times.finished.unwrap_or(end.at) - run.zero,
    });
    let times = times.collect();
    let (marks, series) = observer.into_parts();
    Ok(Observations {
        marks,
        times,
        end: t,
        series,
        emulator,
        interrupted: end.interrupted,
        late_starts: 0,
        arrivals: None,
    })
}

impl<'a, T: Testbed> RealtimeRun<'a, T> {
    /// Waits for the first flow's first request and starts the others. `stop` ends the wait.
    fn begin(
        extent: RunLimits,
        mut testbed: T,
        stop: &'a AtomicBool,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Self, RunError> {
        let mut pace = ProgressTicker::new(extent);
        let (first, zero) = loop {
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::StoppedEarly);
            }
            if pace.is_due() {
                watch(pace.connecting());
            }
            match testbed.events().recv_timeout(NAP.into()) {
                Ok(Event::Started { flow, at }) => break (flow, at),
                Ok(Event::Failed(error)) => return Err(error),
                Ok(Event::Finished { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(RunError::Lost),
            }
        };
        testbed.start_the_others(zero)?;
        let mut times = vec![RequestTimes::default(); extent.flows];
        times[first].started = Some(zero);
        Ok(Self { testbed, times, zero, extent, pace, stop })
    }

    /// Runs until everything has arrived, the time is over, or a stop is requested.
    fn until_the_end(
        &mut self,
        observer: &mut Observer<'_>,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<RunEnd, RunError> {
        loop {
            let t = self.testbed.now() - self.zero;
            if t >= observer.next_due() {
                observer.look(t, &self.testbed, &self.is_there(t))?;
            }
            let received = self.testbed.received();
            let is_stalled = self.pace.is_stalled(t, received.iter().sum());
            if self.pace.is_due() {
                let link = self.testbed.link()?.sample()?;
                let path = PathNow::new(link.queue.delay, link.stats, observer.rtts());
                watch(self.pace.now(t, received, &path));
            }
            if let Some(end) = self.end(t) {
                return Ok(end);
            }
            if is_stalled {
                return Err(RunError::Stalled(STALL));
            }
            self.wait(observer.next_due())?;
        }
    }

    /// True for each flow that has begun and not ended.
    fn is_there(&self, t: Duration) -> Vec<bool> {
        let at = self.zero + t;
        let is_there = |times: &RequestTimes| {
            times.started.is_some_and(|s| s <= at) && times.finished.is_none_or(|f| f > at)
        };
        self.times.iter().map(is_there).collect()
    }

    /// Sleeps until somebody wants to look or the end, but wakes for what a flow says.
    fn wait(&mut self, mut until: Duration) -> Result<(), RunError> {
        let t = self.testbed.now() - self.zero;
        if let Some(d) = self.extent.duration {
            until = until.min(d);
        }
        let nap = (until - t).min(NAP);
        match self.testbed.events().recv_timeout(nap.into()) {
            Ok(Event::Started { flow, at }) => self.times[flow].started = Some(at),
            Ok(Event::Finished { flow, at }) => self.times[flow].finished = Some(at),
            Ok(Event::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(RunError::Lost),
        }
        Ok(())
    }

    fn end(&self, t: Duration) -> Option<RunEnd> {
        let last = self.times.iter().map(|times| times.finished).collect::<Option<Vec<_>>>();
        if let Some(at) = last.and_then(|all| all.into_iter().max()) {
            return Some(RunEnd { at, interrupted: false });
        }
        let at = self.zero + t;
        match self.extent.duration {
            Some(d) if t >= d => Some(RunEnd { at, interrupted: false }),
            _ => self.stop.load(Ordering::Relaxed).then_some(RunEnd { at, interrupted: true }),
        }
    }
}
