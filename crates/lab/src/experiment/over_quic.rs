//! The same points over real QUIC, in real time, as far as `compare` can run them.

use std::sync::atomic::AtomicBool;

use super::{Figures, FlowOutcome, Outcome};
use crate::expect::{Level, Metric, Probe, Scope, Stat, Which, Window};
use crate::file::Plan;
use crate::results::AlgorithmResult;
use crate::{RunError, Tick};

/// Whether a run over quic brings this figure: of windows and of links behind the first it knows
/// nothing.
pub(crate) fn is_measured(probe: &Probe) -> bool {
    let is_known = match probe.scope {
        Scope::Run => !matches!(
            probe.metric,
            Metric::Latency(_)
                | Metric::Completion(_)
                | Metric::Queue(Stat::Min)
                | Metric::Rtt(Stat::Mean | Stat::Max)
        ),
        Scope::Flow(Which::Number(_)) => matches!(
            probe.metric,
            Metric::Goodput | Metric::Share | Metric::CompletedBytes | Metric::Elapsed
        ),
        Scope::Flow(Which::Name(_)) | Scope::Link(_) => false,
    };
    is_known && probe.window == Window::default()
}

/// Runs point number `index` of the plan over QUIC. No course is recorded.
///
/// # Errors
/// It cannot run over QUIC, or gave no result.
pub fn run_over_quic(
    plan: &Plan,
    index: usize,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Tick),
) -> Result<(Outcome, AlgorithmResult), RunError> {
    let point = &plan.runs[index];
    let (scenario, cc) = point.quic().map_err(|e| RunError::NotOverQuic(e.to_string()))?;
    let result = crate::run(&scenario, cc.into(), stop, watch)?;
    let name = point.flow_name().unwrap_or_else(|| cc.to_string());
    let flows: Vec<FlowOutcome> = result
        .flows
        .iter()
        .map(|flow| FlowOutcome {
            name: name.clone(),
            cc: cc.to_string(),
            start_s: flow.start_s,
            end_s: flow.end_s,
            metrics: figures(Level::Flow, |metric| match metric {
                Metric::Goodput => Some(flow.goodput_bps as f64 / 1e6),
                Metric::Share => {
                    Some(crate::metrics::ratio(flow.completed_bytes, result.completed_bytes))
                }
                Metric::CompletedBytes => Some(flow.completed_bytes as f64),
                Metric::Elapsed => Some(flow.end_s - flow.start_s),
                _ => None,
            }),
        })
        .collect();
    let metrics = figures(Level::Run, |metric| of_run(metric, &result));
    let link = figures(Level::Link, |metric| of_run(metric, &result));
    let probes = plan.probes.iter().map(|probe| {
        let figures = match probe.scope {
            Scope::Flow(Which::Number(n)) => &flows.get(n)?.metrics,
            _ => &metrics,
        };
        figures.get(&probe.metric.to_string()).copied().flatten()
    });
    let outcome = Outcome {
        run: index,
        scenario: plan.name.clone(),
        at: point.at.clone(),
        seed: scenario.seed,
        probes: probes.collect(),
        metrics,
        flows,
        links: vec![link],
        series: Vec::new(),
    };
    Ok((outcome, result))
}

fn figures(level: Level, value: impl Fn(Metric) -> Option<f64>) -> Figures {
    Metric::of(level).into_iter().map(|m| (m.to_string(), value(m))).collect()
}

fn of_run(metric: Metric, r: &AlgorithmResult) -> Option<f64> {
    let q = r.queue_ms;
    match metric {
        Metric::Goodput => Some(r.goodput_bps as f64 / 1e6),
        Metric::Jain => Some(r.jain),
        Metric::Utilization => Some(r.utilization),
        Metric::Queue(Stat::Mean) => Some(q.mean),
        Metric::Queue(Stat::P50) => Some(q.p50),
        Metric::Queue(Stat::P95) => Some(q.p95),
        Metric::Queue(Stat::P99) => Some(q.p99),
        Metric::Queue(Stat::Max) => Some(q.max),
        Metric::Rtt(Stat::Min) => r.rtt_ms.map(|rtt| rtt.min),
        Metric::Rtt(Stat::P50) => r.rtt_ms.map(|rtt| rtt.p50),
        Metric::Rtt(Stat::P95) => r.rtt_ms.map(|rtt| rtt.p95),
        Metric::Rtt(Stat::P99) => r.rtt_ms.map(|rtt| rtt.p99),
        Metric::LossRate => Some(r.loss_rate),
        Metric::RetransmitRate => Some(r.retransmit_rate),
        Metric::CompletedBytes => Some(r.completed_bytes as f64),
        Metric::Elapsed => Some(r.elapsed_s),
        _ => None,
    }
}
