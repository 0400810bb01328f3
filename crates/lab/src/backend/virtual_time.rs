//! The loop of all runs under a virtual clock: they go as fast as the machine can, and stop at the
//! moments at which somebody wants to look. The time of a flow's start is that of its first packet.

use std::sync::atomic::Ordering;

use fullpipe_cc::{Duration, Instant};
use fullpipe_report::observe::{ByFlow, Checkpoint, FlowSample, FlowTimes, Observations};
use fullpipe_scenario::Scenario;
use fullpipe_sim::{Ends, World};
use fullpipe_traffic::{MediaStats, SenderStats, Tally};

use super::{Request, RunError};
use crate::observe::{PathNow, ProgressTicker, Recorder, RunLimits, STALL};

/// Longest simulated time between two checks whether to stop the run.
const PATIENCE: Duration = Duration::from_millis(100);

/// And how many events, of which a second has some ten million in the simulator.
const EVENTS: u64 = 1 << 20;

/// A flow as a run looks at it.
pub(super) trait Observed: Ends {
    /// The newest round trip.
    fn latest_rtt(&self) -> Option<Duration>;

    /// The flow as it is now; the queue is left out.
    fn sample(&mut self) -> FlowSample;

    /// The times in which requests, frames or connections were completed, in nanoseconds.
    fn completion_ns(&self) -> Option<&Tally>;

    /// Counters of the encoder and the player.
    fn media(&self, now: Instant) -> Option<MediaStats>;

    /// Counters of the senders of a flow's connections.
    fn sent(world: &mut World<Self>, flow: usize) -> SenderStats;

    /// Requests, connections and frames of a flow that have begun and are not complete.
    fn incomplete(world: &World<Self>, flow: usize) -> Option<u64>;
}

/// Runs a scenario in a world that was made of it.
pub(super) fn run<E: Observed>(
    scenario: &Scenario,
    world: &mut World<E>,
    request: Request<'_>,
) -> Result<Observations, RunError> {
    if request.arrivals > 0 {
        world.record_arrivals(request.arrivals);
    }
    let (config, flows) = (&scenario.config, scenario.flows.len());
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
            let rtts = world.flows().iter().filter_map(Observed::latest_rtt);
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
        if !world.run_until_done_within(Instant::default() + until, EVENTS) {
            continue;
        }
        now = since(world.now());
        if let Some(recorder) = recorder.as_mut().filter(|r| r.next_due() <= now) {
            // Each link is looked at once, however many flows pass it.
            let links = (0..world.links()).map(|i| world.link(i)).chain([world.uplink()]);
            let queues: Vec<_> = links.map(|sample| sample.queue).collect();
            let mut samples = Vec::with_capacity(flows);
            for (i, flow) in config.flows.iter().enumerate() {
                let ends = world.flow_mut(i);
                if ends.start() <= Instant::default() + now && ends.end().is_none() {
                    let queue = queues[config.first_link(flow)];
                    samples.push((i, FlowSample { queue, ..ends.sample() }));
                }
            }
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
    let times = config.flows.iter().zip(world.flows()).map(|(config, flow)| {
        let stop = config.stop.unwrap_or(end).min(end);
        FlowTimes { start: since(flow.start()).min(end), end: flow.end().map_or(stop, since) }
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

fn received<E: Ends>(world: &World<E>) -> Vec<u64> {
    world.flows().iter().map(Ends::received).collect()
}

/// Queueing delays are missing: packets that have left the queue by now are still under way.
fn mark<E: Observed>(world: &mut World<E>) -> Checkpoint {
    let (flows, links) = (0..world.flows().len(), 0..world.links());
    let now = since(world.now());
    let sent = flows.clone().map(|i| E::sent(world, i)).collect();
    Checkpoint {
        at: now,
        taken: now,
        received: received(world),
        sent,
        links: links.map(|i| world.link(i).stats).collect(),
        queue_ns: Vec::new(),
        queue_ns_by_flow: world.queue_delays_by_flow_ns().map(ByFlow::of),
        rtt_ns: ByFlow::of(world.rtt_ns_by_flow()),
        latency_ns: ByFlow::of(world.latency_ns_by_flow()),
        completion_ns: world.flows().iter().map(|flow| flow.completion_ns().cloned()).collect(),
        incomplete: flows.map(|i| E::incomplete(world, i)).collect(),
        media: world.flows().iter().map(|flow| flow.media(world.now())).collect(),
        on_link: Vec::new(),
    }
}
