//! The same points over real QUIC, in real time.

use std::sync::atomic::AtomicBool;

use fullpipe_cc::{Duration, Snapshot};
use fullpipe_emu::{LinkReport, PathSample};
use fullpipe_sim::SenderStats;
use hdrhistogram::Histogram;

use crate::backend::quic_noq::{Bench, Sender};
use crate::backend::realtime::{self, Bench as _, End, Observer, Play};
use crate::backend::sim::{Moment, Series, outcome, row};
use crate::metrics::bits_per_sec;
use crate::metrics::{Life, Mark, Measured, Outcome, moments};
use crate::observe::{Extent, SeriesRow};
use crate::output::results::EmulatorRecord;
use crate::plan::Plan;
use crate::scenario::Setup;
use crate::{RunError, Tick};

/// Rows are not closer than this: each stops the senders for a moment.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(2);

/// All flows at one moment, and the truth of the link.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// Since the first request.
    pub(crate) t: Duration,
    pub(crate) link: PathSample,
    pub(crate) flows: Vec<FlowSight>,
}

/// One flow at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowSight {
    /// Application bytes so far.
    pub(crate) received: u64,
    /// What its algorithm believes; nothing before the handshake.
    pub(crate) snapshot: Option<Snapshot>,
}

/// Runs point number `index` of the plan over QUIC. One that was stopped is the outcome so far, and says
/// so.
///
/// # Errors
/// It cannot run over QUIC, or gave no result.
pub fn run_over_quic(
    plan: &Plan,
    index: usize,
    series: Series,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<Outcome, RunError> {
    let played = play(plan, index, |setup| series.interval(setup), stop, watch)?;
    let Played { setup, log, lives, end, link, interrupted } = played;
    let series = rows(&lives, &log);
    let measured = Measured::new(&setup, lives, end, log.marks, series);
    Ok(Outcome {
        emulator: Some(realtime::emulator_record(&link)),
        interrupted,
        ..outcome(plan, index, &setup, measured)
    })
}

/// What is to be seen of a run at every `interval`, and how far it is to be trusted.
pub(crate) fn sights(
    plan: &Plan,
    index: usize,
    interval: Duration,
    stop: &AtomicBool,
) -> Result<(Vec<Sight>, EmulatorRecord), RunError> {
    let played = play(plan, index, |_| Some(interval), stop, &mut |_| ())?;
    Ok((played.log.sights, realtime::emulator_record(&played.link)))
}

/// A run that is over.
struct Played {
    setup: Setup,
    log: Log,
    lives: Vec<Life>,
    /// Since the first request.
    end: Duration,
    link: LinkReport,
    interrupted: bool,
}

fn play(
    plan: &Plan,
    index: usize,
    interval: impl Fn(&Setup) -> Option<Duration>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<Played, RunError> {
    let cannot = |wrong: crate::scenario::Wrong| RunError::NotOverQuic(wrong.to_string());
    let (setup, job) = plan.grid.runs[index].quic().map_err(cannot)?;
    let flows = setup.flows.len();
    let mut log = Log {
        interval: interval(&setup).map(|i| i.max(SHORTEST_INTERVAL)),
        next: Duration::ZERO,
        moments: moments(&plan.probes, &setup),
        sights: Vec::new(),
        marks: Vec::new(),
        rtt_ns: realtime::times(),
        senders: vec![None; flows],
    };
    let extent = Extent { flows, duration: Some(setup.duration), bytes: None };
    let mut play = Play::begin(extent, Bench::start(&job)?, stop, watch)?;
    log.mark(Duration::ZERO, Duration::ZERO, &play.bench)?;
    let end = play.until_the_end(&mut log, watch)?;
    let t = end.at - play.zero;
    log.forget_near(t);
    log.sight(t, &play.bench)?;
    log.mark(t, t, &play.bench)?;
    let link = play.bench.finish_report()?;
    let lives = lives(&play, &end);
    Ok(Played { setup, log, lives, end: t, link, interrupted: end.interrupted })
}

fn lives(play: &Play<'_, Bench>, end: &End) -> Vec<Life> {
    let each = play.courses.iter().map(|course| Life {
        start: course.started.unwrap_or(end.at) - play.zero,
        end: course.finished.unwrap_or(end.at) - play.zero,
    });
    each.collect()
}

/// Everything that is looked at.
struct Log {
    interval: Option<Duration>,
    /// The next row.
    next: Duration,
    /// Those at which windows begin or end and that are still to come.
    moments: Vec<Duration>,
    sights: Vec<Sight>,
    marks: Vec<Mark>,
    rtt_ns: Histogram<u64>,
    /// As they were seen last: a connection that is gone says nothing more.
    senders: Vec<Option<Sender>>,
}

impl Log {
    /// What the senders say now.
    fn ask(&mut self, bench: &Bench) {
        for (known, now) in self.senders.iter_mut().zip(bench.senders()) {
            *known = now.or(*known);
        }
    }

    fn sight(&mut self, t: Duration, bench: &Bench) -> Result<(), RunError> {
        self.ask(bench);
        let each = bench.received().into_iter().zip(&self.senders);
        let flows = each.map(|(received, sender)| {
            if let Some(sender) = sender {
                self.rtt_ns.saturating_record(sender.srtt.as_nanos());
            }
            FlowSight { received, snapshot: sender.map(|s| s.snapshot) }
        });
        let flows = flows.collect();
        self.sights.push(Sight { t, link: bench.link_sample()?.downlink, flows });
        Ok(())
    }

    /// Takes the last sight back if it is so near to the end that a rate between the two would mean nothing.
    fn forget_near(&mut self, end: Duration) {
        let is_near = |before: &Sight| {
            self.interval.is_some_and(|interval| (end - before.t).times(2) < interval)
        };
        if self.sights.last().is_some_and(is_near) {
            self.sights.pop();
        }
    }

    fn mark(&mut self, at: Duration, taken: Duration, bench: &Bench) -> Result<(), RunError> {
        self.ask(bench);
        let stats = |sender: &Option<Sender>| SenderStats {
            sent_bytes: sender.map_or(0, |s| s.sent_bytes),
            lost_bytes: sender.map_or(0, |s| s.lost_bytes),
            ..SenderStats::default()
        };
        self.marks.push(Mark {
            at,
            taken,
            received: bench.received(),
            sent: self.senders.iter().map(stats).collect(),
            links: vec![bench.link_sample()?.downlink.stats],
            queue_ns: vec![bench.queue_delay_ns()?],
            rtt_ns: self.rtt_ns.clone(),
            latency_ns: realtime::times(),
            completion_ns: vec![None; self.senders.len()],
            incomplete: vec![None; self.senders.len()],
        });
        Ok(())
    }
}

impl Observer<Bench> for Log {
    fn next_due(&self) -> Duration {
        let row = self.interval.map_or(Duration::MAX, |_| self.next);
        self.moments.first().map_or(row, |moment| row.min(*moment))
    }

    fn look(&mut self, t: Duration, bench: &Bench) -> Result<(), RunError> {
        if let Some(interval) = self.interval.filter(|_| self.next <= t) {
            // One that comes late shifts none of those after it.
            self.next = interval.times(t.as_nanos() / interval.as_nanos() + 1);
            self.sight(t, bench)?;
        }
        while self.moments.first().is_some_and(|moment| *moment <= t) {
            let moment = self.moments.remove(0);
            self.mark(moment, t, bench)?;
        }
        Ok(())
    }
}

/// A row for each flow that was there.
fn rows(lives: &[Life], log: &Log) -> Vec<SeriesRow> {
    let mut rows = Vec::new();
    if log.interval.is_none() {
        return rows;
    }
    for pair in log.sights.windows(2) {
        let (before, now) = (&pair[0], &pair[1]);
        for (flow, life) in lives.iter().enumerate() {
            let Some(snapshot) = &now.flows[flow].snapshot else { continue };
            if now.t < life.start || before.t >= life.end {
                continue;
            }
            let received = now.flows[flow].received - before.flows[flow].received;
            let moment = Moment {
                t: now.t,
                flow,
                goodput_mbps: bits_per_sec(received, now.t - before.t) as f64 / 1e6,
                rtt: snapshot.latest_rtt,
                queue: now.link.queue.delay,
            };
            rows.push(row(&moment, snapshot));
        }
    }
    rows
}
