//! Results that no run made, for the tests of everything that prints results.

use crate::output::results::*;

pub(crate) fn result(cc: &str) -> AlgorithmResult {
    let n = 500;
    let t = |i: usize| i as f64 * 0.02;
    let bbr = cc.ends_with("bbr3");
    let queue = |i: usize| if bbr { 2.0 + (i % 7) as f64 } else { (i as f64 * 0.9) % 240.0 };
    AlgorithmResult {
        cc: cc.to_owned(),
        goodput_bps: if bbr { 95_400_000 } else { 95_900_000 },
        utilization: 0.987_654,
        completed_bytes: 119_250_000,
        elapsed_s: 10.0,
        queue_ms: QueueDelay { mean: 3.1, p50: 2.5, p95: 11.25, p99: 20.0, max: 123.456 },
        rtt_ms: Some(RoundTrip { min: 40.1, p50: 43.0, p95: 55.0, p99: 60.0 }),
        loss_rate: 0.001,
        retransmit_rate: 0.001_25,
        jain: 1.0,
        flows: vec![FlowResult {
            goodput_bps: 95_400_000,
            completed_bytes: 119_250_000,
            start_s: 0.0,
            end_s: 10.0,
            series_goodput_bps: Vec::new(),
        }],
        emulator: Some(EmulatorRecord {
            lateness_us: Lateness { p50: 8.0, p99: 120.0, p999: 400.0 },
            trusted: true,
            warning: None,
        }),
        app_latency_ms: None,
        interrupted: false,
        series: Series {
            t_s: (0..n).map(t).collect(),
            goodput_bps: (0..n).map(|i| 95_000_000 + (i as u64 % 5) * 100_000).collect(),
            queue_ms: (0..n).map(queue).collect(),
            rtt_ms: (0..n).map(|i| (i > 2).then(|| 40.0 + queue(i))).collect(),
            cwnd_bytes: (0..n).map(|i| 500_000 + 1000 * (i as u64 % 50)).collect(),
            inflight_bytes: (0..n).map(|i| Some(400_000 + 1000 * (i as u64 % 50))).collect(),
            pacing_bps: (0..n).map(|_| bbr.then_some(99_000_000)).collect(),
            state: (0..n).map(|i| Some(if i < 50 { "Startup" } else { "x" }.to_owned())).collect(),
            ..Series::default()
        },
    }
}

pub(crate) fn two_scenarios() -> Vec<ScenarioResults> {
    [("6bdp", 3_000_000, 0.0), ("1bdp", 500_000, 0.01)]
        .map(|(buffer, bytes, loss)| ScenarioResults {
            scenario: ScenarioRecord {
                over: "quic".to_owned(),
                link: Some("udp".to_owned()),
                cc: vec!["bbr3".to_owned(), "cubic".to_owned()],
                rate_bps: 100_000_000,
                rtt_ms: 40.0,
                buffer: buffer.to_owned(),
                buffer_bytes: Some(bytes),
                buffer_packets: None,
                loss,
                flows: 1,
                stagger_s: 0.0,
                duration_s: Some(10.0),
                bytes: None,
                seed: 1,
            },
            results: vec![result("bbr3"), result("cubic")],
            interrupted: false,
        })
        .to_vec()
}
