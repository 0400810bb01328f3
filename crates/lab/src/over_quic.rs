//! Runs a scenario over real QUIC: a server, clients, and an emulated link between them, all in
//! this process and on loopback.
//!
//! The link has its own thread. The server and the clients have a runtime each, with one worker, so
//! that neither waits for the other; the calling thread looks at all of them every few milliseconds.

mod bench;
mod flow;
mod sender;
mod socket;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;

use fullpipe_cc::Duration;
use fullpipe_emu::{LinkReport, LinkSample};
use fullpipe_quic::CongestionControl;

use crate::metrics::{
    bits_per_sec, jain, micros, queue_delay, ratio, round_trip, seconds, utilization,
};
use crate::results::{AlgorithmResult, EmulatorRecord, FlowResult, Lateness};
use crate::run::{RunError, STALL, Tick};
use crate::scenario::{Amount, Scenario};
use crate::series::{Recorder, Row};
use bench::Bench;
use flow::Event;
use sender::Senders;

/// Between two calls of the watcher.
const TICK: Duration = Duration::from_millis(100);

/// How long the calling thread sleeps at most before it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

/// Runs one algorithm on a fresh link.
pub(crate) fn run(
    scenario: &Scenario,
    cc: CongestionControl,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<AlgorithmResult, RunError> {
    let bench = Bench::start(scenario, cc)?;
    // The bench ends when it is dropped, also after an error.
    let measured = Run::new(scenario, bench, stop)?.measure(watch)?;
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
struct Run<'a> {
    scenario: &'a Scenario,
    stop: &'a AtomicBool,
    bench: Bench,
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
    interrupted: bool,
}

/// When and why the loop ended.
struct End {
    /// Since the epoch.
    at: Duration,
    interrupted: bool,
}

impl<'a> Run<'a> {
    /// Waits for the first request.
    fn new(
        scenario: &'a Scenario,
        mut bench: Bench,
        stop: &'a AtomicBool,
    ) -> Result<Self, RunError> {
        let flows = scenario.flows as usize;
        let zero = loop {
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::StoppedEarly);
            }
            match bench.events.recv_timeout(NAP.into()) {
                Ok(Event::Started { flow: 0, at }) => break at,
                Ok(Event::Failed { flow, source }) => {
                    return Err(RunError::Flow { flow, source: *source });
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(RunError::Lost),
            }
        };
        let link_at_zero = bench.link()?.sample();
        bench.start_the_others(zero);
        let mut courses = vec![Course::default(); flows];
        courses[0].started = Some(zero);
        let senders = Senders::new(bench.connections.clone());
        let recorder = Recorder::new(flows);
        Ok(Self { scenario, stop, bench, courses, senders, recorder, zero, link_at_zero })
    }

    fn measure(mut self, watch: &mut dyn FnMut(Tick)) -> Result<Measured, RunError> {
        let end = self.watch_until_the_end(watch)?;
        let last = self.row(end.at - self.zero)?;
        self.recorder.push_last(last);
        let link = self.bench.link()?.sample();
        let carried = link.downlink.stats.carried.bytes;
        let carried = carried.saturating_sub(self.link_at_zero.downlink.stats.carried.bytes);
        self.senders.count();
        let flows = self.flow_results(end.at);
        // First the link: what the two ends still say to each other is no part of the run.
        let link = self.bench.finish_link()?;
        Ok(Measured {
            elapsed: end.at - self.zero,
            flows,
            carried,
            link,
            senders: self.senders,
            recorder: self.recorder,
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
                let queue = self.bench.link()?.sample().downlink.queue.delay;
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
        match self.bench.events.recv_timeout(nap.into()) {
            Ok(Event::Started { flow, at }) => self.courses[flow].started = Some(at),
            Ok(Event::Finished { flow, at }) => self.courses[flow].finished = Some(at),
            Ok(Event::Failed { flow, source }) => {
                return Err(RunError::Flow { flow, source: *source });
            }
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
        let sender = self.senders.look();
        let queue = self.bench.link()?.sample().downlink.queue.delay;
        Ok(Row { t, received: self.bench.received(), queue, ..sender })
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

impl Measured {
    fn result(self, scenario: &Scenario, cc: CongestionControl) -> AlgorithmResult {
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
            interrupted: self.interrupted,
            series,
        }
    }
}
