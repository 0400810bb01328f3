//! What every run in real time does: the flows work on threads of their own, and the calling thread
//! looks at all of them every few milliseconds until the end.

pub(crate) mod log;
mod play;

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use fullpipe_cc::{Duration, Rate};
use fullpipe_emu::{LinkReport, LinkSample};
use hdrhistogram::Histogram;

use crate::backend::RunError;
use crate::backend::series::{Recorder, Row};
use crate::metrics::{
    bits_per_sec, jain, micros, queue_delay, ratio, round_trip, seconds, utilization,
};
use crate::observe::Tick;
use crate::output::results::{AlgorithmResult, AppLatency, EmulatorRecord, FlowResult, Lateness};
use crate::scenario::Cc;
use crate::scenario::Scenario;

pub(crate) use play::{End, Observer, Play};

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

/// The link at one moment, in the direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinkLook {
    /// Time in which the bottleneck would carry what its buffer holds.
    pub(crate) queue: Duration,
    /// What the bottleneck has carried.
    pub(crate) carried_bytes: u64,
}

impl From<LinkSample> for LinkLook {
    fn from(now: LinkSample) -> Self {
        Self { queue: now.downlink.queue.delay, carried_bytes: now.downlink.stats.carried.bytes }
    }
}

/// What a link says at its end, of the direction of the data.
#[derive(Clone, Debug)]
pub(crate) struct LinkTruth {
    /// Queueing delay in nanoseconds of every packet. A link that does not know it says nothing: then
    /// what the rows saw of the queue has to do.
    pub(crate) queue_delay: Option<Histogram<u64>>,
    pub(crate) arrived_packets: u64,
    pub(crate) dropped_packets: u64,
    /// How well it kept its own time, where it knows.
    pub(crate) emulator: Option<EmulatorRecord>,
}

impl From<LinkReport> for LinkTruth {
    fn from(end: LinkReport) -> Self {
        let stats = &end.downlink.stats;
        Self {
            arrived_packets: stats.arrived.packets,
            dropped_packets: stats.dropped().packets,
            emulator: Some(emulator_record(&end)),
            queue_delay: Some(end.downlink.queue_delay),
        }
    }
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
    fn link(&self) -> Result<LinkLook, RunError>;
    /// Ends the link and asks it what happened.
    fn finish_link(&mut self) -> Result<LinkTruth, RunError>;
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
    let mut rows = Rows {
        recorder: Recorder::every(interval, scenario.flows as usize),
        senders: Senders::new(),
        queues: times(),
        seen: Duration::ZERO,
    };
    // The bench ends when it is dropped, also after an error.
    let mut play = Play::begin(scenario.extent(), bench, stop, watch)?;
    let link_at_zero = play.bench.link()?;
    let end = play.until_the_end(&mut rows, watch)?;
    let last = rows.row(end.at - play.zero, &play.bench)?;
    rows.recorder.push_last(last);
    let Rows { recorder, mut senders, queues, .. } = rows;
    let carried = play.bench.link()?.carried_bytes;
    (senders.sent_bytes, senders.lost_bytes) = play.bench.volumes();
    let flows = flow_results(&play, end.at);
    // First the link: what the two ends still say to each other is no part of the run.
    let link = play.bench.finish_link()?;
    let measured = Measured {
        elapsed: end.at - play.zero,
        flows,
        carried: carried.saturating_sub(link_at_zero.carried_bytes),
        link,
        senders,
        queues,
        recorder,
        app_latency: play.bench.app_latency(),
        interrupted: end.interrupted,
    };
    Ok(measured.result(scenario, cc))
}

/// The rows of the series, and every round trip and queue that was seen for them.
struct Rows {
    recorder: Recorder,
    senders: Senders,
    /// In nanoseconds, each for as many milliseconds as it was the newest: rows become rarer in a long run.
    queues: Histogram<u64>,
    /// The time of the newest row.
    seen: Duration,
}

impl Rows {
    fn row<B: Bench>(&mut self, t: Duration, bench: &B) -> Result<Row, RunError> {
        let looks = bench.look();
        for look in &looks {
            self.senders.rtts.saturating_record(look.rtt.as_nanos());
        }
        let queue = bench.link()?.queue;
        let millis = (t - self.seen).as_nanos() / 1_000_000;
        self.queues.saturating_record_n(queue.as_nanos(), millis.max(1));
        self.seen = t;
        Ok(Row { t, received: bench.received(), queue, ..summed(&looks) })
    }
}

impl<B: Bench> Observer<B> for Rows {
    fn next_due(&self) -> Duration {
        self.recorder.next_due()
    }

    fn look(&mut self, t: Duration, bench: &B) -> Result<(), RunError> {
        let row = self.row(t, bench)?;
        self.recorder.push(row);
        Ok(())
    }
}

/// What was measured between the first request and the end.
struct Measured {
    /// From the first request.
    elapsed: Duration,
    flows: Vec<FlowResult>,
    carried: u64,
    link: LinkTruth,
    senders: Senders,
    queues: Histogram<u64>,
    recorder: Recorder,
    app_latency: Option<AppLatency>,
    interrupted: bool,
}

fn flow_results<B: Bench>(play: &Play<'_, B>, end: Duration) -> Vec<FlowResult> {
    let each = play.courses.iter().zip(play.bench.received()).map(|(course, received)| {
        let started = course.started.unwrap_or(end);
        let finished = course.finished.unwrap_or(end);
        FlowResult {
            goodput_bps: bits_per_sec(received, finished - started),
            completed_bytes: received,
            start_s: seconds(started - play.zero),
            end_s: seconds(finished - play.zero),
            series_goodput_bps: Vec::new(),
        }
    });
    each.collect()
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
        let completed_bytes = self.flows.iter().map(|f| f.completed_bytes).sum();
        let (series, per_flow) = self.recorder.finish();
        let mut flows = self.flows;
        for (flow, goodput) in flows.iter_mut().zip(per_flow) {
            flow.series_goodput_bps = goodput;
        }
        AlgorithmResult {
            cc: cc.to_string(),
            goodput_bps: bits_per_sec(completed_bytes, self.elapsed),
            utilization: utilization(self.carried, scenario.rate, self.elapsed),
            completed_bytes,
            elapsed_s: seconds(self.elapsed),
            queue_ms: queue_delay(self.link.queue_delay.as_ref().unwrap_or(&self.queues)),
            rtt_ms: round_trip(&self.senders.rtts),
            loss_rate: ratio(self.link.dropped_packets, self.link.arrived_packets),
            retransmit_rate: ratio(self.senders.lost_bytes, self.senders.sent_bytes),
            jain: jain(flows.iter().map(|f| f.goodput_bps)),
            flows,
            emulator: self.link.emulator,
            app_latency_ms: self.app_latency,
            interrupted: self.interrupted,
            series,
        }
    }
}

/// How well the link kept its own time.
pub(crate) fn emulator_record(link: &LinkReport) -> EmulatorRecord {
    let at = |q| micros(link.lateness_at(q));
    EmulatorRecord {
        lateness_us: Lateness { p50: at(0.5), p99: at(0.99), p999: at(0.999) },
        trusted: link.trusted,
        warning: link.warning.clone(),
    }
}
