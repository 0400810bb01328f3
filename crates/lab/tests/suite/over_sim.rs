//! Options over the simulator: everything is exact here, on every machine.

use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::plan::Options;

fn finish(options: &Options, name: &str) -> RunResult {
    let options = Options { cc: vec![name.parse().expect(name)], ..options.clone() };
    let plan = options.plan().expect("sound options");
    let run = RunOptions { rows: Some(500), ..RunOptions::default() };
    run_point(&plan, 0, &run, &AtomicBool::new(false), &mut |_| ()).expect("a result")
}

fn figure(run: &RunResult, name: &str) -> f64 {
    run.metrics[name].expect(name)
}

#[test]
fn the_same_options_give_the_same_result_to_the_last_digit() {
    let o = Options { flows: 2, stagger: "1s".to_owned(), ..Options::default() };
    let first = finish(&o, "bbr3");
    assert_eq!(first, finish(&o, "bbr3"));
    assert_ne!(first, finish(&Options { seed: 2, ..o }, "bbr3"));
}

#[test]
fn a_run_by_time_has_the_form_of_one_over_quic() {
    for name in ["bbr3", "cubic", "reno"] {
        let r = finish(&Options::default(), name);
        assert_eq!(figure(&r, "elapsed_s"), 10.0);
        assert_eq!((r.series.len(), r.series[499].t_s), (500, 10.0));
        let (utilization, goodput) = (figure(&r, "utilization"), figure(&r, "goodput_mbps"));
        assert!(utilization > 0.8 && utilization <= 1.0, "{name}: {utilization}");
        assert!(goodput <= utilization * 100.0, "{name}");
        assert!(figure(&r, "queue_ms.max") <= 40.0 && figure(&r, "rtt_ms.min") >= 40.0, "{name}");
        assert!(r.emulator.is_none() && !r.interrupted);
        assert!(r.series.iter().all(|row| row.state.is_some()));
    }
}

#[test]
fn a_run_by_volume_ends_with_the_last_byte() {
    let o = Options {
        bytes: Some("10MB".to_owned()),
        buffer: "400pkts".to_owned(),
        flows: 2,
        stagger: "500ms".to_owned(),
        ..Options::default()
    };
    let r = finish(&o, "cubic");
    assert_eq!(figure(&r, "completed_bytes"), 20_000_000.0);
    assert_eq!(r.flows.iter().map(|f| f.start_s).collect::<Vec<_>>(), [0.0, 0.5]);
    let last = r.flows.iter().map(|f| f.end_s).fold(0.0, f64::max);
    assert_eq!(figure(&r, "elapsed_s"), last);
    assert!(last > 1.6, "20 MB take 1.6 s at 100 Mbit/s: {last}");
}

#[test]
fn another_stack_has_no_simulator() {
    let options = Options { cc: vec!["noq:bbr3".parse().expect("a name")], ..Options::default() };
    let plan = options.plan().expect("sound options");
    let error = BackendChoice::SIM.check_plan(&plan, "options").expect_err("not there");
    assert!(
        error.to_string().contains("noq:bbr3 does not run over sim (virtual clock)"),
        "{error}"
    );
    let stop = AtomicBool::new(false);
    let error = run_point(&plan, 0, &RunOptions::default(), &stop, &mut |_| ());
    assert!(error.expect_err("no result").to_string().contains("write --stack noq"));
}
