//! The simulator: a virtual clock, as fast as the machine can. The time of a flow's start is that of its first packet.

use std::sync::atomic::Ordering;

use fullpipe_cc::{Duration, Instant};
use fullpipe_sim as sim;

use super::{Backend, Request, RunError};
use crate::observe::{
    ByFlow, FlowSample, FlowTimes, Mark, Observations, Pace, PathNow, Recorder, STALL,
};
use crate::scenario::{Cc, Feature, LinkKind, Scenario};

/// Longest simulated time between two checks whether to stop the run.
const PATIENCE: Duration = Duration::from_millis(100);

/// And how many events, of which a second has some ten million.
const EVENTS: u64 = 1 << 20;

/// The simulator as a backend.
pub(super) struct Sim;

impl Backend for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn is_realtime(&self) -> bool {
        false
    }

    fn links(&self) -> &'static [LinkKind] {
        &[]
    }

    fn algorithm(&self, cc: Cc) -> Option<Cc> {
        cc.algorithm().map(|_| cc)
    }

    fn has(&self, feature: &Feature) -> bool {
        *feature != Feature::Program
    }

    fn times_writes_of(&self, _: &sim::Application) -> bool {
        true
    }

    fn sees_each_link(&self) -> bool {
        true
    }

    fn check(&self, _: &Scenario, _: Option<LinkKind>) -> Result<(), RunError> {
        Ok(())
    }

    fn run(&self, scenario: &Scenario, request: Request<'_>) -> Result<Observations, RunError> {
        let mut sim = sim::Sim::new(&scenario.config)?;
        if request.arrivals > 0 {
            sim.record_arrivals(request.arrivals);
        }
        let flows = scenario.flows.len();
        let mut recorder =
            Recorder::new(request.sampling, scenario.interval, scenario.duration, flows);
        let mut pace = Pace::new(scenario.extent());
        let mut moments = request.moments.iter().copied().peekable();
        let mut marks = vec![mark(&sim)];
        let mut now = Duration::ZERO;
        let end = scenario.duration.unwrap_or(Duration::MAX);
        while now < end && !sim.is_done() {
            if request.stop.load(Ordering::Relaxed) {
                return Err(RunError::StoppedEarly);
            }
            if pace.is_due() {
                let now = sim.now().since(Instant::default());
                let link = sim.link(0);
                let rtts = sim.flows().iter().filter_map(sim::Flow::latest_rtt);
                let path = PathNow::new(link.queue.delay, link.stats, rtts);
                (request.watch)(pace.now(now, received(&sim), &path));
            }
            if scenario.duration.is_none() && pace.is_stalled(now, received(&sim).iter().sum()) {
                return Err(RunError::Stalled(STALL));
            }
            let mut until = end.min(now + PATIENCE);
            until = moments.peek().map_or(until, |t| until.min(*t));
            until = recorder.as_ref().map_or(until, |r| until.min(r.next_due()));
            // Nothing counts that happens after the last byte.
            if !sim.run_until_done_within(Instant::default() + until, EVENTS) {
                continue;
            }
            now = sim.now().since(Instant::default());
            if let Some(recorder) = recorder.as_mut().filter(|r| r.next_due() <= now) {
                let there = |(_, flow): &(usize, &sim::Flow)| {
                    flow.start() <= sim.now() && flow.end().is_none()
                };
                let flows = sim.flows().iter().enumerate().filter(there);
                let samples: Vec<_> =
                    flows.map(|(i, flow)| (i, sample(scenario, &sim, i, flow))).collect();
                for (i, sample) in &samples {
                    (request.on_sample)(*i, now, sample)?;
                }
                recorder.push(now, samples.into_iter());
            }
            if moments.next_if(|t| *t <= now).is_some() {
                sim.begin_part();
                marks.push(mark(&sim));
            }
        }
        sim.begin_part();
        marks.push(mark(&sim));
        let series = recorder.map_or(Vec::new(), Recorder::finish);
        add_queue_delays(&mut marks, &sim);
        let mut seen = observations(scenario, &sim, marks, series);
        if request.arrivals > 0 {
            let mut all = sim.take_arrivals();
            let up = all.pop().unwrap_or_default();
            seen.arrivals = all.into_iter().next().map(|down| [down, up]);
        }
        Ok(seen)
    }
}

fn received(sim: &sim::Sim) -> Vec<u64> {
    sim.flows().iter().map(|f| f.received()).collect()
}

fn sample(scenario: &Scenario, sim: &sim::Sim, i: usize, flow: &sim::Flow) -> FlowSample {
    let first_link = scenario.config.flows[i].route.map_or(0, |route| route.first);
    FlowSample {
        received: flow.received(),
        rtt: flow.latest_rtt(),
        sender: flow.stats(),
        newest_packet: flow.newest_packet(),
        queue: match scenario.config.flows[i].direction {
            sim::Direction::Down => sim.link(first_link).queue,
            sim::Direction::Up => sim.uplink().queue,
        },
        ..FlowSample::of_model(flow.snapshot())
    }
}

/// Queueing delays are missing: packets that have left the queue by now are still under way.
fn mark(sim: &sim::Sim) -> Mark {
    let (flows, links) = (0..sim.flows().len(), 0..sim.links());
    let now = sim.now().since(Instant::default());
    Mark {
        at: now,
        taken: now,
        received: received(sim),
        sent: flows.clone().map(|i| sim.sender_stats(i)).collect(),
        links: links.map(|i| sim.link(i).stats).collect(),
        queue_ns: Vec::new(),
        rtt_ns: ByFlow::of(sim.rtt_ns_by_flow()),
        latency_ns: ByFlow::of(sim.latency_ns_by_flow()),
        completion_ns: sim.flows().iter().map(|f| f.completion_ns()).collect(),
        incomplete: flows.map(|i| sim.incomplete(i)).collect(),
        on_link: Vec::new(),
    }
}

/// Gives each mark the queueing delays of the packets that had left the queue by then.
fn add_queue_delays(marks: &mut [Mark], sim: &sim::Sim) {
    for link in 0..sim.links() {
        for (mark, so_far) in marks.iter_mut().zip(sim.queue_delays_so_far_ns(link)) {
            mark.queue_ns.push(so_far);
        }
    }
}

fn observations(
    scenario: &Scenario,
    sim: &sim::Sim,
    marks: Vec<Mark>,
    series: Vec<crate::observe::SeriesRow>,
) -> Observations {
    let since = |t: Instant| t.since(Instant::default());
    let end = since(sim.now());
    let times = sim.flows().iter().zip(&scenario.config.flows).map(|(flow, config)| {
        let stop = config.stop.unwrap_or(end).min(end);
        FlowTimes { start: since(flow.start()).min(end), end: flow.end().map_or(stop, since) }
    });
    let times = times.collect();
    Observations { marks, times, end, series, emulator: None, interrupted: false, arrivals: None }
}
