//! Drives a flow, and has its story told.

use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::{Duration, Instant, Rate, Transport};
use fullpipe_path::{ElementConfig, IPV4_UDP_HEADER_BYTES, PathConfig, RateConfig};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::formulas::millis;
use fullpipe_scenario::{LinkKind, Run, Scenario};
use fullpipe_sim::{IPV4_TCP_HEADER_BYTES, Sim, SimConfig};

use super::{BottleneckQueue, Narrator, Story, Truth};
use crate::backend::{BackendChoice, RunError};
use crate::run::observe;

/// Between two looks at a flow over QUIC, whose events nobody tells: shorter than any stay in a
/// state.
const LOOK: Duration = Duration::from_millis(5);

/// There is no story to tell.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ExplainError {
    /// The requested item does not exist, or no story can be told of it.
    #[error("{0}")]
    Input(String),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs a point of a scenario file and tells the story of one of its flows; over QUIC from what it
/// shows every few milliseconds.
///
/// # Errors
/// There is no such point or flow, the path has no rate, or it cannot be run.
pub fn tell(
    plan: &Plan,
    run: usize,
    flow: usize,
    (backend, link): (BackendChoice, Option<LinkKind>),
    stop: &AtomicBool,
) -> Result<Story, ExplainError> {
    let scenario = plan.grid.runs.get(run).map(Run::scenario).ok_or_else(|| {
        let last = plan.grid.runs.len() - 1;
        ExplainError::Input(format!("run {run} of 0 to {last}; write --run {last}"))
    })?;
    let label = scenario.flows.get(flow).ok_or_else(|| {
        let last = scenario.flows.len() - 1;
        ExplainError::Input(format!("flow {flow} of 0 to {last}; write --flow {last}"))
    })?;
    let truth = truth(&scenario.config, flow, scenario.duration).map_err(ExplainError::Input)?;
    let cc = label.cc.to_string();
    let path = in_words(plan, run, flow, scenario);
    match backend == BackendChoice::SIM {
        // Every event of a simulation can be looked at.
        true => Ok(simulate(&scenario.config, flow, scenario.duration, truth, &cc, path, stop)?),
        false => watch(plan, run, flow, (backend, link), truth, cc, path, stop),
    }
}

fn in_words(plan: &Plan, run: usize, flow: usize, scenario: &Scenario) -> String {
    let at = &plan.grid.runs[run].at;
    let at: String = at.iter().map(|(axis, value)| format!(", {axis} {value}")).collect();
    let flows = match scenario.flows.len() {
        1 => String::new(),
        n => format!(", flow {flow} of {n}"),
    };
    format!("the path of {}{at}{flows}", plan.name)
}

fn simulate(
    config: &SimConfig,
    flow: usize,
    end: Option<Duration>,
    truth: Truth,
    cc: &str,
    path: String,
    stop: &AtomicBool,
) -> Result<Story, RunError> {
    let mut sim = Sim::new(config)?;
    let end = end.map(|d| Instant::default() + d);
    let start = Instant::default() + config.flows[flow].start;
    sim.run_until(start);
    let mut narrator = Narrator::new(truth, sim.now(), sim.flow(flow).snapshot());
    let is_stopped = || stop.load(Ordering::Relaxed);
    let is_over = |sim: &Sim| sim.is_done() || sim.flow(flow).end().is_some();
    while !is_stopped() && !is_over(&sim) {
        let Some(next) = sim.next_event().filter(|at| end.is_none_or(|end| *at < end)) else {
            break;
        };
        let queue = sim.link(0).queue;
        narrator.look_at_window(next, sim.flow(flow).fills_window());
        let tries = sim.flow(flow).handshake_tries();
        sim.step();
        let waiting = BottleneckQueue { bytes: queue.bytes, delay: queue.delay };
        narrator.look(next, &sim.flow(flow).snapshot(), waiting);
        if let (Some(tries @ 2..), None) = (tries, sim.flow(flow).handshake_tries()) {
            narrator.connected(tries);
        }
    }
    let interrupted = is_stopped();
    if let Some(end) = end.filter(|_| !interrupted && !is_over(&sim)) {
        let queue = sim.link(0).queue;
        narrator.look_at_window(end, sim.flow(flow).fills_window());
        sim.run_until(end);
        let waiting = BottleneckQueue { bytes: queue.bytes, delay: queue.delay };
        narrator.look(end, &sim.flow(flow).snapshot(), waiting);
    }
    let story = narrator.finish(cc.to_owned(), path, sim.flow(flow).received());
    Ok(Story { interrupted, ..story })
}

#[expect(clippy::too_many_arguments, reason = "the parts of a story, for its one caller")]
fn watch(
    plan: &Plan,
    run: usize,
    flow: usize,
    (backend, link): (BackendChoice, Option<LinkKind>),
    truth: Truth,
    cc: String,
    path: String,
    stop: &AtomicBool,
) -> Result<Story, ExplainError> {
    let mut narrator: Option<Narrator> = None;
    let (mut waiting, mut received) = (BottleneckQueue::default(), 0);
    let seen = observe(
        plan,
        run,
        (backend, link),
        LOOK,
        &mut |of, t, sample| {
            if let Some(snapshot) = sample.model.filter(|_| of == flow) {
                let now = Instant::default() + t;
                match &mut narrator {
                    None => narrator = Some(Narrator::new(truth, now, snapshot)),
                    Some(narrator) => narrator.look(now, &snapshot, waiting),
                }
                waiting = BottleneckQueue { bytes: sample.queue.bytes, delay: sample.queue.delay };
                received = sample.received;
            }
            Ok(())
        },
        stop,
    )?;
    let narrator = narrator.ok_or_else(|| {
        ExplainError::Input(format!("{cc} over {backend} does not show what it believes"))
    })?;
    let warning = seen.emulator.and_then(|emulator| emulator.warning);
    let trust = warning.map_or(String::new(), |w| format!(" (not to be trusted: {w})"));
    let anew = if seen.late_starts > 0 { ", begun anew after a late start" } else { "" };
    let path =
        format!("{path}, over real packets ({backend}), looked at every {LOOK}{anew}{trust}");
    let interrupted = seen.interrupted;
    Ok(Story { interrupted, ..narrator.finish(cc, path, received) })
}

/// True properties of a flow's path, as means over the run where they change; the error says why
/// there are none.
fn truth(config: &SimConfig, flow: usize, end: Option<Duration>) -> Result<Truth, String> {
    let flow = &config.flows[flow];
    let headers = match flow.cc.transport {
        Transport::Tcp => IPV4_TCP_HEADER_BYTES,
        _ => IPV4_UDP_HEADER_BYTES,
    };
    let counted = u64::from(flow.cc.smss);
    let on_the_wire = counted + u64::from(headers);
    let route = config.route(flow);
    let access = flow.access.map(|access| access.link());
    let links = || access.iter().chain(route.there.iter().map(|i| config.link(*i)));
    let mean = |rate: &RateConfig| match (rate, end) {
        (RateConfig::Constant(rate), _) => *rate,
        (rate, Some(end)) => {
            let bytes = u128::from(rate.bytes_between(Duration::ZERO, end)) * 1_000_000_000;
            let mean = bytes / u128::from(end.as_nanos().max(1));
            Rate::from_bytes_per_sec(u64::try_from(mean).unwrap_or(u64::MAX))
        }
        (rate, None) => rate.nominal(),
    };
    let (mut rate, mut changes) = (None, false);
    for element in links().flat_map(|link: &PathConfig| &link.row) {
        let own = match element {
            ElementConfig::Bottleneck { rate, .. } => {
                changes |= !matches!(rate, RateConfig::Constant(_));
                mean(rate)
            }
            ElementConfig::Policer { rate, .. } | ElementConfig::Shaper { rate, .. } => *rate,
            ElementConfig::DelaySteps(_) | ElementConfig::DelaySeries(_) => {
                changes = true;
                continue;
            }
            _ => continue,
        };
        rate = Some(rate.map_or(own, |least: Rate| least.min(own)));
    }
    let rate = rate.ok_or("the path has no rate; give it one")?;
    let bytes_per_sec = u128::from(rate.as_bytes_per_sec()) * u128::from(counted);
    let carries = Rate::from_bytes_per_sec((bytes_per_sec / u128::from(on_the_wire)) as u64);
    let back = access.iter().chain(route.back.iter().map(|i| config.link(*i)));
    let delay = links().chain(back).map(PathConfig::least_delay);
    let delay = delay.fold(flow.extra_rtt, |a, b| a + b);
    let min_rtt = delay + rate.time_for(on_the_wire);
    Ok(Truth {
        carries_bps: carries.as_bits_per_sec(),
        min_rtt_ms: millis(min_rtt),
        bdp_bytes: carries.bytes_in(min_rtt),
        changes,
    })
}
