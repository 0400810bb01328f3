//! The simulator's backend: everything is exact here, on every machine.

use std::sync::atomic::AtomicBool;

use fullpipe_cc::Duration;
use fullpipe_lab::output::results::AlgorithmResult;
use fullpipe_lab::units::Buffer;
use fullpipe_lab::{Amount, Over, RunError, Scenario, run};

fn finish(scenario: &Scenario, name: &str) -> AlgorithmResult {
    let cc = name.parse().expect(name);
    run(scenario, cc, &AtomicBool::new(false), &mut |_| ()).expect("a result")
}

fn scenario() -> Scenario {
    Scenario { over: Over::Sim, ..Scenario::default() }
}

#[test]
fn the_same_scenario_gives_the_same_result_to_the_last_digit() {
    let s = Scenario { flows: 2, stagger: Duration::from_secs(1), ..scenario() };
    let first = finish(&s, "bbr3");
    assert_eq!(first, finish(&s, "bbr3"));
    assert_ne!(first, finish(&Scenario { seed: 2, ..s }, "bbr3"));
}

#[test]
fn a_run_by_time_has_the_form_of_one_over_quic() {
    for name in ["bbr3", "cubic", "reno"] {
        let r = finish(&scenario(), name);
        assert_eq!(r.elapsed_s, 10.0);
        assert_eq!(r.series.t_s.len(), 501);
        assert_eq!(r.series.t_s.last(), Some(&10.0));
        assert!(r.utilization > 0.8 && r.utilization <= 1.0, "{name}: {}", r.utilization);
        assert!(r.goodput_bps as f64 <= r.utilization * 1e8, "{name}");
        assert!(r.queue_ms.max <= 40.0 && r.rtt_ms.is_some_and(|rtt| rtt.min >= 40.0), "{name}");
        assert!(r.emulator.is_none() && !r.interrupted);
        assert!(r.series.state.iter().all(Option::is_some));
    }
}

#[test]
fn a_run_by_volume_ends_with_the_last_byte() {
    let s = Scenario {
        amount: Amount::Bytes(10_000_000),
        buffer: Buffer::Packets(400),
        flows: 2,
        stagger: Duration::from_millis(500),
        ..scenario()
    };
    let r = finish(&s, "cubic");
    assert_eq!(r.completed_bytes, 20_000_000);
    assert_eq!(r.flows.iter().map(|f| f.start_s).collect::<Vec<_>>(), [0.0, 0.5]);
    let last = r.flows.iter().map(|f| f.end_s).fold(0.0, f64::max);
    assert_eq!(r.elapsed_s, last);
    assert!(last > 1.6, "20 MB take 1.6 s at 100 Mbit/s: {last}");
}

#[test]
fn another_stack_has_no_simulator() {
    let stop = AtomicBool::new(false);
    let cc = "noq:bbr3".parse().expect("a name");
    let error = run(&scenario(), cc, &stop, &mut |_| ()).expect_err("no result");
    assert!(matches!(error, RunError::Scenario(_)), "{error}");
}
