//! One point of a plan in the simulator, from the start to the end.

pub(crate) mod comparison;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time;

use fullpipe_cc::{Duration, Instant, Rate, Snapshot};
use fullpipe_sim::Sim;

use super::error::ExperimentError;
use crate::metrics::{
    Figures, FlowOutcome, Level, Mark, Measured, Metric, Outcome, Probe, Scope, Which, Window,
    moments,
};
use crate::metrics::{bits_per_sec, millis, seconds};
use crate::observe::{Extent, SeriesRow, Tick};
use crate::output::{Qlog, QlogDir};
use crate::plan::Plan;
use crate::scenario::Setup;

/// How much simulated time may pass until somebody looks whether the run is still wanted.
const PATIENCE: Duration = Duration::from_millis(100);

/// Real time between two calls of the watcher.
const TICK: time::Duration = time::Duration::from_millis(100);

/// Whether a course is recorded where the file does not say how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Series {
    /// Only when the file names an interval.
    Asked,
    /// Else so many rows.
    Rows(u64),
}

impl Series {
    /// Time between two rows, if there are to be any.
    pub(crate) fn interval(self, setup: &Setup) -> Option<Duration> {
        match (setup.interval, self) {
            (Some(interval), _) => Some(interval),
            (None, Self::Asked) => None,
            (None, Self::Rows(n)) => {
                let even = Duration::from_nanos(setup.duration.as_nanos() / n.max(1));
                Some(even.max(Duration::from_micros(1)))
            }
        }
    }
}

/// Runs point number `index` of the plan. With a course recorded, `qlog` is where it is written as it
/// goes, a file for each flow.
///
/// # Errors
/// The simulation cannot be built, a file cannot be written, or `stop` was set.
pub fn run(
    plan: &Plan,
    index: usize,
    series: Series,
    qlog: Option<&QlogDir>,
    stop: &AtomicBool,
) -> Result<Outcome, ExperimentError> {
    run_watched(plan, index, series, qlog, stop, &mut |_| ())
}

/// The same with a watcher, which is called about ten times a second of real time.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    plan: &Plan,
    index: usize,
    series: Series,
    qlog: Option<&QlogDir>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<Outcome, ExperimentError> {
    let point = &plan.grid.runs[index];
    let setup = point.setup().map_err(|w| ExperimentError::Setup(w.to_string()))?;
    let interval = series.interval(&setup);
    let mut sim = Sim::new(&setup.config)?;
    let mut recorder = interval.map(|interval| Recorder::new(interval, &setup));
    if let (Some(recorder), Some(dir)) = (&mut recorder, qlog) {
        recorder.qlog = Some(Qlog::start(dir, plan, index, &setup, &sim)?);
    }
    let mut watcher = Watcher::new(&setup, watch);
    let played = play(&mut sim, &setup, &plan.probes, recorder.as_mut(), &mut watcher, stop);
    // Also of a run that was stopped: what was seen is worth reading.
    let written = recorder.as_mut().and_then(|r| r.qlog.take()).map_or(Ok(()), Qlog::finish);
    let marks = played?;
    written?;
    let series = recorder.map_or(Vec::new(), |r| r.rows);
    let measured = Measured::of_sim(&setup, &sim, marks, series);
    Ok(outcome(plan, index, &setup, measured))
}

/// What was measured, as a line of JSON and as rows.
pub(crate) fn outcome(plan: &Plan, index: usize, setup: &Setup, measured: Measured<'_>) -> Outcome {
    let whole = |scope: Scope, level: Level| -> Figures {
        let probe = |metric| Probe { scope: scope.clone(), metric, window: Window::default() };
        let all = Metric::of(level).into_iter();
        all.map(|m| (m.to_string(), measured.value(&probe(m)))).collect()
    };
    let flows = setup.flows.iter().enumerate().map(|(i, label)| {
        let (start_s, end_s) = measured.life_s(i);
        let metrics = whole(Scope::Flow(Which::Number(i)), Level::Flow);
        FlowOutcome { name: label.name.clone(), cc: label.cc.clone(), start_s, end_s, metrics }
    });
    let flows = flows.collect();
    let metrics = whole(Scope::Run, Level::Run);
    let links = (0..setup.config.links.len()).map(|i| whole(Scope::Link(i), Level::Link)).collect();
    let probes = plan.probes.iter().map(|p| measured.value(p)).collect();
    Outcome {
        run: index,
        scenario: plan.name.clone(),
        at: plan.grid.runs[index].at.clone(),
        seed: setup.seed,
        metrics,
        flows,
        links,
        series: measured.series,
        probes,
        emulator: None,
        interrupted: false,
    }
}

/// Lets the simulation happen, with a mark at each moment that a window begins or ends.
fn play(
    sim: &mut Sim,
    setup: &Setup,
    probes: &[Probe],
    mut recorder: Option<&mut Recorder>,
    watcher: &mut Watcher<'_>,
    stop: &AtomicBool,
) -> Result<Vec<Mark>, ExperimentError> {
    let mut moments = moments(probes, setup).into_iter().peekable();
    let mut marks = vec![Mark::of(sim)];
    let mut now = Duration::ZERO;
    while now < setup.duration && !sim.is_done() {
        if stop.load(Ordering::Relaxed) {
            return Err(ExperimentError::Interrupted);
        }
        watcher.look(now, sim);
        let mut until = setup.duration.min(now + PATIENCE);
        until = moments.peek().map_or(until, |t| until.min(*t));
        until = recorder.as_ref().map_or(until, |r| until.min(r.next));
        // Nothing counts that happens after the last byte.
        sim.run_until_done(Instant::default() + until);
        now = sim.now().since(Instant::default());
        if let Some(recorder) = recorder.as_mut().filter(|r| r.next <= now) {
            recorder.push(now, sim)?;
        }
        if moments.next_if(|t| *t <= now).is_some() {
            sim.begin_part();
            marks.push(Mark::of(sim));
        }
    }
    sim.begin_part();
    marks.push(Mark::of(sim));
    Ok(marks)
}

/// Tells now and then where the simulation stands.
struct Watcher<'a> {
    watch: &'a mut dyn FnMut(Tick),
    extent: Extent,
    told: time::Instant,
    /// When that was in the simulation, and what had been received.
    before: (Duration, Vec<u64>),
}

impl<'a> Watcher<'a> {
    fn new(setup: &Setup, watch: &'a mut dyn FnMut(Tick)) -> Self {
        let flows = setup.flows.len();
        let extent = Extent { flows, duration: Some(setup.duration), bytes: None };
        let before = (Duration::ZERO, vec![0; flows]);
        Self { watch, extent, told: time::Instant::now(), before }
    }

    fn look(&mut self, now: Duration, sim: &Sim) {
        if self.told.elapsed() < TICK {
            return;
        }
        let received: Vec<u64> = sim.flows().iter().map(|f| f.received()).collect();
        let (then, before) = &self.before;
        let each = received.iter().zip(before);
        (self.watch)(Tick {
            elapsed: now,
            done: self.extent.done(now, received.iter().sum()),
            flow_bps: each.map(|(sum, earlier)| bits_per_sec(sum - earlier, now - *then)).collect(),
            queue: sim.link(0).queue.delay,
        });
        (self.told, self.before) = (time::Instant::now(), (now, received));
    }
}

/// The course of a run, a row for each flow that is there.
struct Recorder {
    interval: Duration,
    next: Duration,
    before: Vec<u64>,
    first_link: Vec<usize>,
    rows: Vec<SeriesRow>,
    qlog: Option<Qlog>,
}

impl Recorder {
    fn new(interval: Duration, setup: &Setup) -> Self {
        let first = setup.config.flows.iter().map(|f| f.route.map_or(0, |r| r.first));
        Self {
            interval,
            next: interval,
            before: vec![0; setup.flows.len()],
            first_link: first.collect(),
            rows: Vec::new(),
            qlog: None,
        }
    }

    fn push(&mut self, now: Duration, sim: &Sim) -> Result<(), ExperimentError> {
        self.next = self.next + self.interval;
        for (i, flow) in sim.flows().iter().enumerate() {
            if flow.start() > sim.now() || flow.end().is_some() {
                continue;
            }
            let received = flow.received() - self.before[i];
            self.before[i] = flow.received();
            let moment = Moment {
                t: now,
                flow: i,
                goodput_mbps: bits_per_sec(received, self.interval) as f64 / 1e6,
                rtt: flow.latest_rtt(),
                queue: sim.link(self.first_link[i]).queue.delay,
            };
            self.rows.push(row(&moment, &flow.snapshot()));
            if let Some(qlog) = &mut self.qlog {
                qlog.sample(i, now, flow)?;
            }
        }
        Ok(())
    }
}

/// What a flow shows at one moment, and its path.
pub(crate) struct Moment {
    pub(crate) t: Duration,
    pub(crate) flow: usize,
    pub(crate) goodput_mbps: f64,
    pub(crate) rtt: Option<Duration>,
    pub(crate) queue: Duration,
}

pub(crate) fn row(moment: &Moment, model: &Snapshot) -> SeriesRow {
    let mbps = |rate: Rate| rate.as_bits_per_sec() as f64 / 1e6;
    let bbr = model.bbr.as_ref();
    SeriesRow {
        t_s: seconds(moment.t),
        flow: moment.flow,
        goodput_mbps: moment.goodput_mbps,
        rtt_ms: moment.rtt.map(millis),
        srtt_ms: model.srtt.map(millis),
        queue_ms: millis(moment.queue),
        cwnd_bytes: model.cwnd,
        inflight_bytes: model.inflight,
        pacing_mbps: model.pacing_rate.map(mbps),
        state: model.state.name().into(),
        rounds: bbr.map(|b| b.round_count),
        max_bw_mbps: bbr.map(|b| mbps(b.max_bw)),
        min_rtt_ms: bbr.and_then(|b| b.min_rtt).map(millis),
        pacing_gain: bbr.map(|b| f64::from(b.pacing_gain.as_percent()) / 100.0),
        cwnd_gain: bbr.map(|b| f64::from(b.cwnd_gain.as_percent()) / 100.0),
    }
}
