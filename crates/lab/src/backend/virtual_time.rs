//! The loop of all runs under a virtual clock: they go as fast as the machine can, and stop at the
//! moments at which somebody wants to look. The time of a flow's start is that of its first packet.

use std::sync::atomic::Ordering;

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Arrival, PathSample, Queue};
use fullpipe_report::observe::{ByFlow, Checkpoint, FlowSample, FlowTimes, Observations};
use fullpipe_scenario::Scenario;
use fullpipe_traffic::{MediaStats, SenderStats, Tally};

use super::{Request, RunError};
use crate::observe::{PathNow, ProgressTicker, Recorder, RunLimits, STALL};

/// Longest simulated time between two checks whether to stop the run.
const PATIENCE: Duration = Duration::from_millis(100);

/// And how many events, of which a second has some ten million in the simulator.
const EVENTS: u64 = 1 << 20;

/// Flows and links under a virtual clock.
pub(super) trait World {
    /// The virtual time.
    fn now(&self) -> Instant;

    /// True if every flow has an end and reached it.
    fn is_done(&self) -> bool;

    /// Lets everything happen until `time`, or until [`Self::is_done`], but no more than so many
    /// events: whether it came to the end.
    fn advance(&mut self, time: Instant, events: u64) -> bool;

    /// See [`fullpipe_sim::Network::begin_part`].
    fn begin_part(&mut self);

    /// Number of links of the way of the data.
    fn links(&self) -> usize;

    fn link(&self, i: usize) -> PathSample;

    /// See [`fullpipe_sim::Network::queue_delays_so_far_ns`].
    fn queue_delays_so_far_ns(&self, link: usize) -> Box<dyn Iterator<Item = Tally> + '_>;

    /// See [`fullpipe_sim::Network::queue_delays_by_flow_ns`]; of the first link.
    fn queue_delays_by_flow_ns(&self) -> Option<&[Tally]>;

    fn flows(&self) -> usize;

    /// Application bytes that a flow's receiver has read.
    fn received(&self, flow: usize) -> u64;

    /// The newest round trip of a flow.
    fn latest_rtt(&self, flow: usize) -> Option<Duration>;

    /// A flow's start, and its end where it has one and reached it.
    fn times(&self, flow: usize) -> (Instant, Option<Instant>);

    /// The queues of the links now, and last that of the way back.
    fn queues(&self) -> Vec<Queue>;
    /// A flow as it is now, with one of these queues.
    fn sample(&mut self, flow: usize, queues: &[Queue]) -> FlowSample;

    fn sent(&mut self, flow: usize) -> SenderStats;

    fn rtt_ns(&self) -> &[Tally];

    fn latency_ns(&self) -> &[Tally];

    fn completion_ns(&self, flow: usize) -> Option<&Tally>;

    fn incomplete(&self, flow: usize) -> Option<u64>;

    fn media(&self, flow: usize) -> Option<MediaStats>;

    fn record_arrivals(&mut self, most: usize);

    /// The packets that entered each link, and last the way back.
    fn take_arrivals(&mut self) -> Vec<Vec<Arrival>>;
}

/// Runs a scenario in a world that was made of it.
pub(super) fn run(
    scenario: &Scenario,
    world: &mut impl World,
    request: Request<'_>,
) -> Result<Observations, RunError> {
    if request.arrivals > 0 {
        world.record_arrivals(request.arrivals);
    }
    let flows = scenario.flows.len();
    let mut recorder = Recorder::new(request.sampling, scenario.interval, scenario.duration, flows);
    let mut pace = ProgressTicker::new(RunLimits::of(scenario));
    let mut moments = request.moments.iter().copied().peekable();
    let mut marks = vec![mark(world)];
    let mut now = Duration::ZERO;
    let end = scenario.duration.unwrap_or(Duration::MAX);
    while now < end && !world.is_done() {
        if request.stop.load(Ordering::Relaxed) {
            return Err(RunError::StoppedEarly);
        }
        if pace.is_due() {
            let link = world.link(0);
            let rtts = (0..flows).filter_map(|i| world.latest_rtt(i));
            let path = PathNow::new(link.queue.delay, link.stats, rtts);
            (request.watch)(pace.now(since(world.now()), received(world), &path));
        }
        if scenario.duration.is_none() && pace.is_stalled(now, received(world).iter().sum()) {
            return Err(RunError::Stalled(STALL));
        }
        let mut until = end.min(now + PATIENCE);
        until = moments.peek().map_or(until, |t| until.min(*t));
        until = recorder.as_ref().map_or(until, |r| until.min(r.next_due()));
        // Nothing counts that happens after the last byte.
        if !world.advance(Instant::default() + until, EVENTS) {
            continue;
        }
        now = since(world.now());
        if let Some(recorder) = recorder.as_mut().filter(|r| r.next_due() <= now) {
            let there = |i: &usize| {
                let (start, end) = world.times(*i);
                start <= world.now() && end.is_none()
            };
            let there: Vec<_> = (0..flows).filter(there).collect();
            // Each link is looked at once, however many flows pass it.
            let queues = world.queues();
            let samples: Vec<_> =
                there.into_iter().map(|i| (i, world.sample(i, &queues))).collect();
            for (i, sample) in &samples {
                (request.on_sample)(*i, now, sample)?;
            }
            recorder.push(now, samples.into_iter());
        }
        if moments.next_if(|t| *t <= now).is_some() {
            world.begin_part();
            marks.push(mark(world));
        }
    }
    world.begin_part();
    marks.push(mark(world));
    let series = recorder.map_or(Vec::new(), Recorder::finish);
    // Those of packets that were still under way at a mark are known only now.
    for link in 0..world.links() {
        for (mark, so_far) in marks.iter_mut().zip(world.queue_delays_so_far_ns(link)) {
            mark.queue_ns.push(so_far);
        }
    }
    let end = since(world.now());
    let times = scenario.config.flows.iter().enumerate().map(|(i, config)| {
        let stop = config.stop.unwrap_or(end).min(end);
        let (begun, over) = world.times(i);
        FlowTimes { start: since(begun).min(end), end: over.map_or(stop, since) }
    });
    let times = times.collect();
    let arrivals = (request.arrivals > 0).then(|| {
        let mut all = world.take_arrivals();
        let up = all.pop().unwrap_or_default();
        let down = all.into_iter().next().unwrap_or_default();
        [down, up]
    });
    Ok(Observations {
        marks,
        times,
        end,
        series,
        emulator: None,
        interrupted: false,
        late_starts: 0,
        arrivals,
    })
}

fn since(at: Instant) -> Duration {
    at.since(Instant::default())
}

fn received(world: &impl World) -> Vec<u64> {
    (0..world.flows()).map(|i| world.received(i)).collect()
}

/// Queueing delays are missing: packets that have left the queue by now are still under way.
fn mark(world: &mut impl World) -> Checkpoint {
    let (flows, links) = (0..world.flows(), 0..world.links());
    let now = since(world.now());
    Checkpoint {
        at: now,
        taken: now,
        received: received(world),
        sent: flows.clone().map(|i| world.sent(i)).collect(),
        links: links.map(|i| world.link(i).stats).collect(),
        queue_ns: Vec::new(),
        queue_ns_by_flow: world.queue_delays_by_flow_ns().map(ByFlow::of),
        rtt_ns: ByFlow::of(world.rtt_ns()),
        latency_ns: ByFlow::of(world.latency_ns()),
        completion_ns: flows.clone().map(|i| world.completion_ns(i).cloned()).collect(),
        incomplete: flows.clone().map(|i| world.incomplete(i)).collect(),
        media: flows.map(|i| world.media(i)).collect(),
        on_link: Vec::new(),
    }
}
