//! What every run in real time does: the flows work on threads of their own, and the calling thread
//! looks at all of them every few milliseconds until the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

use fullpipe_cc::{Duration, Rate};
use fullpipe_emu::{LinkReport, LinkSample};
use hdrhistogram::Histogram;

use crate::cc::Cc;
use crate::metrics::{
    bits_per_sec, jain, micros, queue_delay, ratio, round_trip, seconds, utilization,
};
use crate::results::{AlgorithmResult, AppLatency, EmulatorRecord, FlowResult, Lateness};
use crate::run::{RunError, STALL, Tick};
use crate::scenario::{Amount, Scenario};
use crate::series::{Recorder, Row};

/// Between two calls of the watcher.
const TICK: Duration = Duration::from_millis(100);

/// How long the calling thread sleeps at most before it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

/// What a flow says about itself. Times are since the epoch.
pub(crate) enum Event {
    /// The first request was sent.
    Started { flow: usize, at: Duration },
    /// Everything that was asked for has arrived.
    Finished { flow: usize, at: Duration },
    /// A flow ended before its time.
    Failed(RunError),
}

/// The senders of a run, as far as they were looked at.
pub(crate) struct Senders {
    /// Every round-trip time that was seen, in nanoseconds.
    pub(crate) rtts: Histogram<u64>,
    pub(crate) sent_bytes: u64,
    pub(crate) lost_bytes: u64,
}

impl Senders {
    pub(crate) fn new() -> Self {
        Self { rtts: times(), sent_bytes: 0, lost_bytes: 0 }
    }
}

/// A histogram of times in nanoseconds.
pub(crate) fn times() -> Histogram<u64> {
    // A microsecond to a minute in three digits is within what the histogram takes.
    let times = Histogram::new_with_bounds(1_000, 60_000_000_000, 3);
    #[expect(clippy::expect_used, reason = "constants, covered by every run")]
    times.expect("1 us to 60 s in 3 digits")
}

/// One sender at one moment.
pub(crate) struct Look {
    pub(crate) rtt: Duration,
    pub(crate) cwnd: u64,
    pub(crate) inflight: Option<u64>,
    pub(crate) pacing: Option<Rate>,
    pub(crate) state: Option<&'static str>,
    /// What only a kernel tells.
    pub(crate) kernel: Option<KernelLook>,
}

/// What TCP_INFO tells beside the rest.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct KernelLook {
    /// The newest sample of the delivery rate.
    pub(crate) delivery: Rate,
    pub(crate) retransmitted_bytes: u64,
}

/// Everything that a run starts, and that ends when this is dropped.
pub(crate) trait Bench {
    /// Time since the epoch.
    fn now(&self) -> Duration;
    /// What the flows say.
    fn events(&self) -> &mpsc::Receiver<Event>;
    /// Starts the flows after the first, each at its time after `zero`.
    fn start_the_others(&mut self, zero: Duration) -> Result<(), RunError>;
    /// Application bytes that each flow received.
    fn received(&self) -> Vec<u64>;
    /// The senders now, of the connections that are open.
    fn look(&self) -> Vec<Look>;
    /// Bytes that the senders sent and bytes that they declared lost; asked once, before the end.
    fn volumes(&self) -> (u64, u64);
    /// The link now.
    fn link(&self) -> Result<LinkSample, RunError>;
    /// Ends the link and asks it what happened.
    fn finish_link(&mut self) -> Result<LinkReport, RunError>;
    /// The application's latency, where it was measured.
    fn app_latency(&self) -> Option<AppLatency> {
        None
    }
}

/// Measures a bench from its first request to the end, with a row of the series every `interval`.
pub(crate) fn measure<B: Bench>(
    scenario: &Scenario,
    cc: Cc,
    bench: B,
    interval: Duration,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<AlgorithmResult, RunError> {
    let recorder = Recorder::every(interval, scenario.flows as usize);
    // The bench ends when it is dropped, also after an error.
    let measured = Run::new(scenario, bench, recorder, stop)?.measure(watch)?;
    Ok(measured.result(scenario, cc))
}

/// One flow, as far as the calling thread knows it.
#[derive(Clone, Copy, Default)]
struct Course {
    /// First request, since the epoch.
    started: Option<Duration>,
    /// Last byte, since the epoch.
    finished: Option<Duration>,
}

/// A run under way.
struct Run<'a, B> {
    scenario: &'a Scenario,
    stop: &'a AtomicBool,
    bench: B,
    courses: Vec<Course>,
    senders: Senders,
    recorder: Recorder,
    /// The first request of the first flow, since the epoch.
    zero: Duration,
    link_at_zero: LinkSample,
}

/// What was measured between the first request and the end.
struct Measured {
    /// From the first request.
    elapsed: Duration,
    flows: Vec<FlowResult>,
    carried: u64,
    link: LinkReport,
    senders: Senders,
    recorder: Recorder,
    app_latency: Option<AppLatency>,
    interrupted: bool,
}

/// When and why the loop ended.
struct End {
    /// Since the epoch.
    at: Duration,
    interrupted: bool,
}

impl<'a, B: Bench> Run<'a, B> {
    /// Waits for the first request.
    fn new(
        scenario: &'a Scenario,
        mut bench: B,
        recorder: Recorder,
        stop: &'a AtomicBool,
    ) -> Result<Self, RunError> {
        let flows = scenario.flows as usize;
        let zero = loop {
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::StoppedEarly);
            }
            match bench.events().recv_timeout(NAP.into()) {
                Ok(Event::Started { flow: 0, at }) => break at,
                Ok(Event::Failed(error)) => return Err(error),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(RunError::Lost),
            }
        };
        let link_at_zero = bench.link()?;
        bench.start_the_others(zero)?;
        let mut courses = vec![Course::default(); flows];
        courses[0].started = Some(zero);
        let senders = Senders::new();
        Ok(Self { scenario, stop, bench, courses, senders, recorder, zero, link_at_zero })
    }

    fn measure(mut self, watch: &mut dyn FnMut(Tick)) -> Result<Measured, RunError> {
        let end = self.watch_until_the_end(watch)?;
        let last = self.row(end.at - self.zero)?;
        self.recorder.push_last(last);
        let link = self.bench.link()?;
        let carried = link.downlink.stats.carried.bytes;
        let carried = carried.saturating_sub(self.link_at_zero.downlink.stats.carried.bytes);
        (self.senders.sent_bytes, self.senders.lost_bytes) = self.bench.volumes();
        let flows = self.flow_results(end.at);
        // First the link: what the two ends still say to each other is no part of the run.
        let link = self.bench.finish_link()?;
        let app_latency = self.bench.app_latency();
        Ok(Measured {
            elapsed: end.at - self.zero,
            flows,
            carried,
            link,
            senders: self.senders,
            recorder: self.recorder,
            app_latency,
            interrupted: end.interrupted,
        })
    }

    fn watch_until_the_end(&mut self, watch: &mut dyn FnMut(Tick)) -> Result<End, RunError> {
        let mut next_tick = Duration::ZERO;
        let mut told = (Duration::ZERO, 0);
        let mut progress = (Duration::ZERO, 0);
        loop {
            let elapsed = self.bench.now() - self.zero;
            if elapsed >= self.recorder.next_due() {
                let row = self.row(elapsed)?;
                self.recorder.push(row);
            }
            let received: u64 = self.bench.received().iter().sum();
            if received > progress.1 {
                progress = (elapsed, received);
            }
            if elapsed >= next_tick {
                let goodput_bps = bits_per_sec(received - told.1, elapsed - told.0);
                let queue = self.bench.link()?.downlink.queue.delay;
                watch(Tick {
                    elapsed,
                    done: self.scenario.done(elapsed, received),
                    goodput_bps,
                    queue,
                });
                told = (elapsed, received);
                next_tick = elapsed + TICK;
            }
            if let Some(end) = self.end(elapsed) {
                return Ok(end);
            }
            if elapsed - progress.0 > STALL {
                return Err(RunError::Stalled(STALL));
            }
            self.wait()?;
        }
    }

    /// Sleeps until the next row or the end, but wakes for what a flow says.
    fn wait(&mut self) -> Result<(), RunError> {
        let elapsed = self.bench.now() - self.zero;
        let mut until = self.recorder.next_due();
        if let Amount::Duration(d) = self.scenario.amount {
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
        match self.scenario.amount {
            Amount::Duration(d) if elapsed >= d => Some(End { at, interrupted: false }),
            _ => self.stop.load(Ordering::Relaxed).then_some(End { at, interrupted: true }),
        }
    }

    fn row(&mut self, t: Duration) -> Result<Row, RunError> {
        let looks = self.bench.look();
        for look in &looks {
            self.senders.rtts.saturating_record(look.rtt.as_nanos());
        }
        let queue = self.bench.link()?.downlink.queue.delay;
        Ok(Row { t, received: self.bench.received(), queue, ..summed(&looks) })
    }

    fn flow_results(&self, end: Duration) -> Vec<FlowResult> {
        let each = self.courses.iter().zip(self.bench.received()).map(|(course, received)| {
            let started = course.started.unwrap_or(end);
            let finished = course.finished.unwrap_or(end);
            FlowResult {
                goodput_bps: bits_per_sec(received, finished - started),
                completed_bytes: received,
                start_s: seconds(started - self.zero),
                end_s: seconds(finished - self.zero),
                series_goodput_bps: Vec::new(),
            }
        });
        each.collect()
    }
}

/// The senders of one moment, as a row without time, queue and bytes received.
fn summed(looks: &[Look]) -> Row {
    let n = looks.len() as u64;
    let rtt_sum: u64 = looks.iter().map(|l| l.rtt.as_nanos()).sum();
    let rates = looks.iter().map(|l| l.pacing.map(Rate::as_bytes_per_sec));
    let kernel = looks.iter().map(|l| l.kernel).reduce(|a, b| {
        let (a, b) = (a?, b?);
        let rate = a.delivery.as_bytes_per_sec() + b.delivery.as_bytes_per_sec();
        Some(KernelLook {
            delivery: Rate::from_bytes_per_sec(rate),
            retransmitted_bytes: a.retransmitted_bytes + b.retransmitted_bytes,
        })
    });
    Row {
        rtt: rtt_sum.checked_div(n).map(Duration::from_nanos),
        cwnd: looks.iter().map(|l| l.cwnd).sum(),
        inflight: sum(looks.iter().map(|l| l.inflight)),
        pacing: sum(rates).map(Rate::from_bytes_per_sec),
        state: looks.first().and_then(|l| l.state),
        kernel: kernel.flatten(),
        ..Row::default()
    }
}

/// The sum, if everybody says something.
fn sum(mut each: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let first = each.next()??;
    each.try_fold(first, |sum, x| Some(sum.saturating_add(x?)))
}

impl Measured {
    fn result(self, scenario: &Scenario, cc: Cc) -> AlgorithmResult {
        let down = &self.link.downlink;
        let completed_bytes = self.flows.iter().map(|f| f.completed_bytes).sum();
        let (series, per_flow) = self.recorder.finish();
        let mut flows = self.flows;
        for (flow, goodput) in flows.iter_mut().zip(per_flow) {
            flow.series_goodput_bps = goodput;
        }
        let lateness = |q| micros(self.link.lateness_at(q));
        AlgorithmResult {
            cc: cc.to_string(),
            goodput_bps: bits_per_sec(completed_bytes, self.elapsed),
            utilization: utilization(self.carried, scenario.rate, self.elapsed),
            completed_bytes,
            elapsed_s: seconds(self.elapsed),
            queue_ms: queue_delay(&down.queue_delay),
            rtt_ms: round_trip(&self.senders.rtts),
            loss_rate: ratio(down.stats.dropped().packets, down.stats.arrived.packets),
            retransmit_rate: ratio(self.senders.lost_bytes, self.senders.sent_bytes),
            jain: jain(flows.iter().map(|f| f.goodput_bps)),
            flows,
            emulator: Some(EmulatorRecord {
                lateness_us: Lateness {
                    p50: lateness(0.5),
                    p99: lateness(0.99),
                    p999: lateness(0.999),
                },
                trusted: self.link.trusted,
                warning: self.link.warning.clone(),
            }),
            app_latency_ms: self.app_latency,
            interrupted: self.interrupted,
            series,
        }
    }
}
