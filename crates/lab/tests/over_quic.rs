//! Real packets over the emulated link. Figures of speed depend on the machine; these tests ask
//! for what holds on a slow one.

use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_cc::{Duration, Rate};
use fullpipe_lab::output::results::AlgorithmResult;
use fullpipe_lab::units::Buffer;
use fullpipe_lab::{Amount, Cc, RunError, Scenario, run};

fn scenario() -> Scenario {
    Scenario {
        rate: Rate::from_bits_per_sec(20_000_000),
        rtt: Duration::from_millis(20),
        buffer: Buffer::Bdp(2.0),
        amount: Amount::Duration(Duration::from_secs(2)),
        ..Scenario::default()
    }
}

fn cc(name: &str) -> Cc {
    name.parse().expect(name)
}

fn finish(scenario: &Scenario, name: &str) -> AlgorithmResult {
    run(scenario, cc(name), &AtomicBool::new(false), &mut |_| ()).expect("a result")
}

/// What is true of every result, whatever the machine.
fn check_sanity(s: &Scenario, r: &AlgorithmResult) {
    let rate = s.rate.as_bits_per_sec();
    assert!(r.goodput_bps > rate / 10, "goodput {}", r.goodput_bps);
    // A link that carries more than its rate is none. The buffer may empty itself after the end.
    assert!(r.goodput_bps < rate && r.utilization <= 1.02, "{} {}", r.goodput_bps, r.utilization);
    assert!(r.utilization * rate as f64 > r.goodput_bps as f64 * 0.99);
    let q = r.queue_ms;
    assert!(q.p50 <= q.p95 && q.p95 <= q.p99 && q.p99 <= q.max, "{q:?}");
    let rtt = r.rtt_ms.expect("round trips");
    assert!(rtt.min >= 20.0 && rtt.min <= rtt.p50 && rtt.p50 <= rtt.p95, "{rtt:?}");
    assert!((0.0..=1.0).contains(&r.loss_rate) && (0.0..=1.0).contains(&r.retransmit_rate));
    let n = r.series.t_s.len();
    assert!(n > 10 && n <= 2000, "{n} rows");
    for length in [
        r.series.goodput_bps.len(),
        r.series.queue_ms.len(),
        r.series.rtt_ms.len(),
        r.series.cwnd_bytes.len(),
        r.series.inflight_bytes.len(),
        r.series.pacing_bps.len(),
        r.series.state.len(),
    ] {
        assert_eq!(length, n);
    }
    assert!(r.series.t_s.windows(2).all(|w| w[0] < w[1]));
    let sum: u64 = r.flows.iter().map(|f| f.completed_bytes).sum();
    assert_eq!(sum, r.completed_bytes);
    assert!(r.emulator.is_some());
}

#[test]
fn a_run_by_time_ends_at_its_time_and_its_figures_agree() {
    for name in ["bbr3", "cubic", "noq:cubic"] {
        let s = scenario();
        let mut ticks = Vec::new();
        let r = run(&s, cc(name), &AtomicBool::new(false), &mut |t| ticks.push(t)).expect(name);
        check_sanity(&s, &r);
        assert!(r.elapsed_s >= 2.0 && r.elapsed_s < 2.5, "{name}: {}", r.elapsed_s);
        assert!(!r.interrupted);
        assert!(ticks.len() > 5 && ticks.windows(2).all(|w| w[0].done <= w[1].done), "{name}");
        let states = r.series.state.iter().flatten().count();
        assert_eq!(states > 0, !name.contains(':'), "{name}: only ours name their state");
    }
}

#[test]
fn a_run_by_volume_moves_exactly_that() {
    let s = Scenario { amount: Amount::Bytes(3_000_001), flows: 2, ..scenario() };
    let r = finish(&s, "cubic");
    check_sanity(&s, &r);
    assert!(r.flows.iter().all(|f| f.completed_bytes == 3_000_001), "{:?}", r.flows);
    assert!(r.elapsed_s > 2.4, "6 MB take 2.4 s at 20 Mbit/s: {}", r.elapsed_s);
}

#[test]
fn flows_start_one_after_the_other() {
    let s = Scenario { flows: 3, stagger: Duration::from_millis(500), ..scenario() };
    let r = finish(&s, "bbr3");
    check_sanity(&s, &r);
    for (i, flow) in r.flows.iter().enumerate() {
        let due = 0.5 * i as f64;
        assert!(flow.start_s >= due && flow.start_s < due + 0.4, "{i}: {}", flow.start_s);
        assert!(flow.completed_bytes > 0, "{i}");
        assert_eq!(flow.series_goodput_bps.len(), r.series.t_s.len());
    }
    assert!(r.jain > 1.0 / 3.0 && r.jain <= 1.0, "{}", r.jain);
}

#[test]
fn random_loss_is_what_was_asked_for() {
    let s = Scenario { loss: fullpipe_lab::units::parse_loss("5%").expect("5%"), ..scenario() };
    let r = finish(&s, "bbr3");
    check_sanity(&s, &r);
    assert!(r.loss_rate > 0.025 && r.loss_rate < 0.15, "{}", r.loss_rate);
    assert!(r.retransmit_rate > 0.02, "{}", r.retransmit_rate);
}

#[test]
fn a_run_that_is_stopped_keeps_what_there_is() {
    let stop = AtomicBool::new(false);
    let s = Scenario { amount: Amount::Duration(Duration::from_secs(60)), ..scenario() };
    let r = run(&s, cc("bbr3"), &stop, &mut |tick| {
        if tick.elapsed > Duration::from_secs(1) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let r = r.expect("the result so far");
    check_sanity(&s, &r);
    assert!(r.interrupted && r.elapsed_s >= 1.0 && r.elapsed_s < 5.0, "{}", r.elapsed_s);

    let stop = AtomicBool::new(true);
    let nothing = run(&s, cc("bbr3"), &stop, &mut |_| ()).expect_err("no result");
    assert!(matches!(nothing, RunError::StoppedEarly), "{nothing}");
}

#[test]
fn a_scenario_that_is_none_is_refused_before_anything_starts() {
    let s = Scenario { rate: Rate::ZERO, ..scenario() };
    let error = run(&s, cc("bbr3"), &AtomicBool::new(false), &mut |_| ()).expect_err("no result");
    assert!(matches!(error, RunError::Scenario(_)), "{error}");
}
