//! Runs a scenario in the simulator: the same path and the same algorithms under a virtual clock,
//! as fast as the machine can. A flow's first request is its start: there is no handshake.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time;

use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_path::PathConfig;
use fullpipe_quic::CongestionControl;
use fullpipe_sim::{Application, FlowConfig, Sim, SimConfig, Stream, stream_seed};

use crate::backend::RunError;
use crate::backend::series::{Recorder, Row};
use crate::metrics::{bits_per_sec, jain, queue_delay, ratio, round_trip, seconds, utilization};
use crate::observe::{STALL, Tick};
use crate::output::results::{AlgorithmResult, FlowResult};
use crate::scenario::{Amount, Scenario, ScenarioError};

/// Real time between two calls of the watcher.
const TICK: time::Duration = time::Duration::from_millis(100);

/// Runs one algorithm in a fresh simulation.
pub(crate) fn run(
    scenario: &Scenario,
    cc: CongestionControl,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<AlgorithmResult, RunError> {
    let mut sim = Sim::new(&config(scenario, cc)?)?;
    let mut recorder = Recorder::new(scenario.flows as usize);
    let mut told = time::Instant::now();
    let mut tick_before = (Duration::ZERO, vec![0; scenario.flows as usize]);
    let mut progress = (Duration::ZERO, 0);
    let interrupted = loop {
        let t = elapsed(&sim);
        if is_over(scenario, &sim) {
            break false;
        }
        if stop.load(Ordering::Relaxed) {
            break true;
        }
        let received = total(&sim);
        if received > progress.1 {
            progress = (t, received);
        }
        if t - progress.0 > STALL {
            return Err(RunError::Stalled(STALL));
        }
        recorder.push(row(&sim));
        if told.elapsed() >= TICK {
            let each: Vec<u64> = sim.flows().iter().map(|f| f.received()).collect();
            let since = |(now, then): (&u64, &u64)| bits_per_sec(now - then, t - tick_before.0);
            watch(Tick {
                elapsed: t,
                done: scenario.extent().done(t, received),
                flow_bps: each.iter().zip(&tick_before.1).map(since).collect(),
                queue: sim.link(0).queue.delay,
            });
            (told, tick_before) = (time::Instant::now(), (t, each));
        }
        let mut until = recorder.next_due();
        if let Amount::Duration(d) = scenario.amount {
            until = until.min(d);
        }
        // Nothing counts that happens after the last byte.
        sim.run_until_done(Instant::default() + until);
    };
    recorder.push_last(row(&sim));
    if total(&sim) == 0 && interrupted {
        return Err(RunError::StoppedEarly);
    }
    Ok(result(scenario, cc, &sim, recorder, interrupted))
}

pub(crate) fn config(s: &Scenario, cc: CongestionControl) -> Result<SimConfig, RunError> {
    let CongestionControl::Fullpipe(algorithm) = cc else {
        return Err(ScenarioError::OnlyOverQuic(cc.into()).into());
    };
    let application = match s.amount {
        Amount::Bytes(n) => Application::Bytes(n),
        Amount::Duration(_) => Application::Bulk,
    };
    let flow = |i: u32| {
        // Flows that probed at the same times would be no test of how they share.
        let seed = stream_seed(s.seed, Stream::Controller, u64::from(i));
        FlowConfig { start: s.start_of(i), application, ..FlowConfig::bulk(algorithm, seed) }
    };
    let (downlink, uplink): (PathConfig, PathConfig) = s.directions();
    let flows = (0..s.flows).map(flow).collect();
    Ok(SimConfig { seed: s.seed, ..SimConfig::new(downlink, uplink, flows) })
}

fn elapsed(sim: &Sim) -> Duration {
    sim.now().since(Instant::default())
}

fn total(sim: &Sim) -> u64 {
    sim.flows().iter().map(|f| f.received()).sum()
}

fn is_over(s: &Scenario, sim: &Sim) -> bool {
    match s.amount {
        Amount::Duration(d) => elapsed(sim) >= d,
        Amount::Bytes(_) => sim.is_done(),
    }
}

fn row(sim: &Sim) -> Row {
    let now = sim.now();
    let active = || sim.flows().iter().filter(|f| f.start() <= now && f.end().is_none());
    let rtts: Vec<u64> = active().filter_map(|f| f.latest_rtt()).map(Duration::as_nanos).collect();
    let mean = rtts.iter().sum::<u64>().checked_div(rtts.len() as u64);
    let pacing: Option<Vec<u64>> =
        active().map(|f| f.snapshot().pacing_rate.map(Rate::as_bytes_per_sec)).collect();
    Row {
        t: elapsed(sim),
        received: sim.flows().iter().map(|f| f.received()).collect(),
        queue: sim.link(0).queue.delay,
        rtt: mean.map(Duration::from_nanos),
        cwnd: active().map(|f| f.snapshot().cwnd).sum(),
        inflight: Some(active().map(|f| f.snapshot().inflight).sum()),
        pacing: pacing.map(|rates| Rate::from_bytes_per_sec(rates.iter().sum())),
        state: active().next().map(|f| f.snapshot().state.name()),
        kernel: None,
    }
}

fn result(
    s: &Scenario,
    cc: CongestionControl,
    sim: &Sim,
    recorder: Recorder,
    interrupted: bool,
) -> AlgorithmResult {
    // By volume, the run is over with the last byte and not when somebody looked.
    let last_byte = || sim.flows().iter().map(|f| f.end()).collect::<Option<Vec<_>>>();
    let end = last_byte().and_then(|all| all.into_iter().max()).unwrap_or(sim.now());
    let time = end.since(Instant::default());
    let (series, per_flow) = recorder.finish();
    let flows: Vec<FlowResult> = sim
        .flows()
        .iter()
        .zip(per_flow)
        .map(|(flow, series_goodput_bps)| {
            let (start, finish) = (flow.start().min(end), flow.end().unwrap_or(end));
            FlowResult {
                goodput_bps: bits_per_sec(flow.received(), finish.since(start)),
                completed_bytes: flow.received(),
                start_s: seconds(start.since(Instant::default())),
                end_s: seconds(finish.since(Instant::default())),
                series_goodput_bps,
            }
        })
        .collect();
    let down = sim.link(0).stats;
    let sum = |count: fn(&fullpipe_sim::SenderStats) -> u64| -> u64 {
        (0..sim.flows().len()).map(|i| count(&sim.sender_stats(i))).sum()
    };
    AlgorithmResult {
        cc: cc.to_string(),
        goodput_bps: bits_per_sec(total(sim), time),
        utilization: utilization(down.carried.bytes, s.rate, time),
        completed_bytes: total(sim),
        elapsed_s: seconds(time),
        queue_ms: queue_delay(&sim.queue_delay_ns(0)),
        rtt_ms: round_trip(&sim.rtt_ns()),
        loss_rate: ratio(down.dropped().packets, down.arrived.packets),
        retransmit_rate: ratio(sum(|s| s.lost_bytes), sum(|s| s.sent_bytes)),
        jain: jain(flows.iter().map(|f| f.goodput_bps)),
        flows,
        emulator: None,
        app_latency_ms: None,
        interrupted,
        series,
    }
}
