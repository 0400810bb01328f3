//! Drives a flow, and has its story told.

use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::{Duration, Instant, Rate, Transport};
use fullpipe_path::{ElementConfig, IPV4_UDP_HEADER_BYTES, PathConfig, RateConfig};
use fullpipe_quic::CongestionControl;
use fullpipe_sim::{IPV4_TCP_HEADER_BYTES, Sim, SimConfig};

use super::{Narrator, Story, Truth, Waiting};
use crate::RunError;
use crate::backend::realtime::log::sights;
use crate::backend::sim::comparison as over_sim;
use crate::metrics::millis;
use crate::plan::Plan;
use crate::scenario::Setup;
use crate::scenario::{Amount, Over, Scenario};

/// Between two looks at a flow over QUIC, whose events nobody tells: shorter than any stay in a state.
const LOOK: Duration = Duration::from_millis(5);

/// There is no story to tell.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ExplainError {
    /// What was asked for is not there, or no story can be told of it.
    #[error("{0}")]
    Input(String),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs one flow over the simulator and tells its story; one that was stopped is told so far.
///
/// # Errors
/// The scenario is none, has more than one flow, or the algorithm is not ours.
pub fn tell(s: &Scenario, cc: CongestionControl, stop: &AtomicBool) -> Result<Story, ExplainError> {
    s.validate().map_err(RunError::from)?;
    let config = over_sim::config(s, cc)?;
    let truth = truth(&config, 0).map_err(ExplainError::Input)?;
    let end = match s.amount {
        Amount::Duration(d) => Some(d),
        Amount::Bytes(_) => None,
    };
    let path = crate::output::summary::in_words(&s.record());
    Ok(simulate(&config, 0, end, truth, &cc.to_string(), path, stop)?)
}

/// Runs a point of a scenario file and tells the story of one of its flows; over QUIC from what it shows
/// every few milliseconds.
///
/// # Errors
/// There is no such point or flow, the path changes while it runs, or it cannot be run.
pub fn tell_of(
    plan: &Plan,
    run: usize,
    flow: usize,
    over: Over,
    stop: &AtomicBool,
) -> Result<Story, ExplainError> {
    let setup = plan.grid.runs.get(run).map(|r| r.setup()).ok_or_else(|| {
        let last = plan.grid.runs.len() - 1;
        ExplainError::Input(format!("run {run} of 0 to {last}; write --run {last}"))
    })?;
    let setup = setup.map_err(|wrong| ExplainError::Input(wrong.to_string()))?;
    let label = setup.flows.get(flow).ok_or_else(|| {
        let last = setup.flows.len() - 1;
        ExplainError::Input(format!("flow {flow} of 0 to {last}; write --flow {last}"))
    })?;
    let truth = truth(&setup.config, flow).map_err(ExplainError::Input)?;
    let cc = label.cc.clone();
    let path = in_words(plan, run, flow, &setup);
    match over {
        Over::Sim => {
            let end = Some(setup.duration);
            Ok(simulate(&setup.config, flow, end, truth, &cc, path, stop)?)
        }
        Over::Quic => watch(plan, run, flow, truth, cc, path, stop),
        Over::Tcp => Err(ExplainError::Input("there is no story over tcp".to_owned())),
    }
}

fn in_words(plan: &Plan, run: usize, flow: usize, setup: &Setup) -> String {
    let at = &plan.grid.runs[run].at;
    let at: String = at.iter().map(|(axis, value)| format!(", {axis} {value}")).collect();
    let flows = match setup.flows.len() {
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
        sim.step();
        let waiting = Waiting { bytes: queue.bytes, delay: queue.delay };
        narrator.look(next, &sim.flow(flow).snapshot(), waiting);
    }
    let interrupted = is_stopped();
    if let Some(end) = end.filter(|_| !interrupted && !is_over(&sim)) {
        let queue = sim.link(0).queue;
        sim.run_until(end);
        let waiting = Waiting { bytes: queue.bytes, delay: queue.delay };
        narrator.look(end, &sim.flow(flow).snapshot(), waiting);
    }
    let story = narrator.finish(cc.to_owned(), path, sim.flow(flow).received());
    Ok(Story { interrupted, ..story })
}

fn watch(
    plan: &Plan,
    run: usize,
    flow: usize,
    truth: Truth,
    cc: String,
    path: String,
    stop: &AtomicBool,
) -> Result<Story, ExplainError> {
    let (sights, emulator) = sights(plan, run, LOOK, stop)?;
    let mut narrator: Option<Narrator> = None;
    let (mut waiting, mut received) = (Waiting::default(), 0);
    for sight in &sights {
        let now = Instant::default() + sight.t;
        let seen = &sight.flows[flow];
        if let Some(snapshot) = &seen.snapshot {
            match &mut narrator {
                None => narrator = Some(Narrator::new(truth, now, *snapshot)),
                Some(narrator) => narrator.look(now, snapshot, waiting),
            }
        }
        let queue = sight.link.queue;
        waiting = Waiting { bytes: queue.bytes, delay: queue.delay };
        received = seen.received;
    }
    let narrator = narrator.ok_or(RunError::StoppedEarly)?;
    let trust = emulator.warning.map_or(String::new(), |w| format!(" (not to be trusted: {w})"));
    let path = format!("{path}, over real QUIC, looked at every {LOOK}{trust}");
    Ok(Story { interrupted: stop.load(Ordering::Relaxed), ..narrator.finish(cc, path, received) })
}

/// What is true of a flow's path; why there is no such thing, if there is none.
fn truth(config: &SimConfig, flow: usize) -> Result<Truth, String> {
    let flow = &config.flows[flow];
    let headers = match flow.cc.transport {
        Transport::Tcp => IPV4_TCP_HEADER_BYTES,
        _ => IPV4_UDP_HEADER_BYTES,
    };
    let counted = u64::from(flow.cc.smss);
    let on_the_wire = counted + u64::from(headers);
    let route = flow.route.map_or(0..config.links.len(), |r| r.first..r.last + 1);
    let links = &config.links[route];
    let mut rate = None;
    for element in links.iter().flat_map(|link: &PathConfig| &link.row) {
        let own = match element {
            ElementConfig::Bottleneck { rate: RateConfig::Constant(rate), .. }
            | ElementConfig::Policer { rate, .. }
            | ElementConfig::Shaper { rate, .. } => *rate,
            ElementConfig::Bottleneck { .. } | ElementConfig::DelaySteps(_) => {
                return Err("the path changes while it runs, so that nothing stays true of it; \
                            leave out steps and trace"
                    .to_owned());
            }
            _ => continue,
        };
        rate = Some(rate.map_or(own, |least: Rate| least.min(own)));
    }
    let rate = rate.ok_or("the path has no rate; give it one")?;
    let bytes_per_sec = u128::from(rate.as_bytes_per_sec()) * u128::from(counted);
    let carries = Rate::from_bytes_per_sec((bytes_per_sec / u128::from(on_the_wire)) as u64);
    let delay = links.iter().map(PathConfig::least_delay).fold(Duration::ZERO, |a, b| a + b);
    let back = config.uplink.least_delay() + flow.extra_rtt;
    let min_rtt = delay + back + rate.time_for(on_the_wire);
    Ok(Truth {
        carries_bps: carries.as_bits_per_sec(),
        min_rtt_ms: millis(min_rtt),
        bdp_bytes: carries.bytes_in(min_rtt),
    })
}
