//! Scenarios over TCP in user space, on a device in real time.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, check_machine, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Clock, Edition, Over, Stack};

/// The run of a file.
fn run(text: &str) -> RunResult {
    let plan = Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default());
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let backend = BackendChoice::of(Over::in_real_time(Stack::Tcp)).expect("a backend");
    backend.check_plan(&plan, "x.toml").expect("the backend has all of it");
    let options = RunOptions { backend, rows: Some(200), ..RunOptions::default() };
    check_machine(&plan, &options).expect("the test names its needs");
    run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs")
}

/// The run of a file, if the link was in time.
fn timed_run(text: &str) -> RunResult {
    let run = run(text);
    if let Some(warning) = run.emulator.as_ref().and_then(|e| e.warning.as_ref()) {
        fullpipe_testkit::inconclusive(warning);
    }
    run
}

const PATH: &str = "path = { rate = \"20mbit\", rtt = \"20ms\", buffer = \"2bdp\", up = [{ bottleneck = { rate = \"20mbit\" } }] }\n";

fn ours_and_the_kernels_move_their_bytes_both_ways() {
    let flows = [
        ("bbr3", "", 400_001),
        ("linux:cubic", "", 400_001),
        ("linux:cubic", "receiver = \"user\"", 300_001),
        ("cubic", "direction = \"up\"", 200_001),
    ];
    let flow = |(cc, more, bytes)| {
        format!("[[flow]]\ncc = \"{cc}\"\napp = {{ bytes = \"{bytes}B\" }}\n{more}\n")
    };
    let run = run(&format!("{PATH}{}", flows.map(flow).concat()));
    assert_eq!((run.stack, run.clock), (Stack::Tcp, Clock::Real));
    for (flow, (cc, _, bytes)) in run.flows.iter().zip(flows) {
        assert_eq!(flow.cc, cc);
        assert_eq!(flow.metrics["completed_bytes"], Some(f64::from(bytes)), "{cc}");
    }
    // Ours tell their states and windows.
    let mut ours = run.series.iter().filter(|row| row.flow == 0);
    assert!(ours.all(|row| row.state.is_some() && row.cwnd_bytes > 0));
    assert!(run.emulator.is_some() && !run.interrupted);
}

/// Short connections of either stack to either receiver, beside data at times.
fn ours_and_the_kernels_have_each_application() {
    let short = "app = { short_flows = { bytes = \"9kB\", every = \"40ms\" } }";
    let flows = [
        ("bbr3", short),
        ("linux:cubic", short),
        (
            "linux:cubic",
            "app = { short_flows = { bytes = \"9kB\", every = \"40ms\" } }\nreceiver = \"user\"",
        ),
        (
            "linux:cubic",
            "app = { short_flows = { bytes = \"9kB\", every = \"40ms\" } }\ndirection = \"up\"",
        ),
        (
            "cubic",
            "app = { short_flows = { bytes = \"9kB\", every = \"40ms\" } }\ndirection = \"up\"",
        ),
        ("cubic", "app = { on_off = { on = \"100ms\", off = \"100ms\" } }\ndirection = \"up\""),
        ("cubic", "app = { rate_limited = { rate = \"400kbit\", write = \"1000B\" } }"),
        (
            "cubic",
            "app = { request_response = { response = \"9kB\", think = \"40ms\" } }\ndirection = \"up\"",
        ),
    ];
    let flow = |(cc, more)| format!("[[flow]]\ncc = \"{cc}\"\n{more}\n");
    let run = run(&format!("duration = \"1500ms\"\n{PATH}{}", flows.map(flow).concat()));
    for (flow, (_, more)) in run.flows.iter().zip(flows) {
        let bytes = flow.metrics["completed_bytes"].expect("it sent");
        // Some of each, also on a busy machine.
        assert!(bytes >= 18_000.0, "{more}: {bytes} bytes");
        if more.contains("9kB") {
            assert!(flow.metrics["completion_ms.min"] >= Some(20.0), "{more}: {:?}", flow.metrics);
        }
    }
}

fn ours_and_the_kernels_share_a_link_in_one_run() {
    let text = "duration = \"8s\"\npath = { rate = \"20mbit\", rtt = \"20ms\", buffer = \"2bdp\" }\n\
                [[flow]]\ncc = \"bbr3\"\n[[flow]]\ncc = \"linux:cubic\"\n[[flow]]\ncc = \"cubic\"\ndirection = \"up\"\n\
                app = { bytes = \"200kB\" }\n";
    let text = text.replace("buffer", "up = [{ bottleneck = { rate = \"20mbit\" } }], buffer");
    let run = timed_run(&text);
    assert_eq!((run.stack, run.clock), (Stack::Tcp, Clock::Real));
    for flow in &run.flows {
        let goodput = flow.metrics["goodput_mbps"].expect("it sent");
        assert!(goodput > 0.5, "{}: {goodput} Mbit/s", flow.cc);
    }
    assert!(run.metrics["goodput_mbps"].expect("they sent") > 12.0, "{:?}", run.metrics);
    // Ours tell their states and windows, and every flow its latency.
    let mut ours = run.series.iter().filter(|row| row.flow == 0);
    assert!(ours.all(|row| row.state.is_some() && row.cwnd_bytes > 0));
    for flow in &run.flows[..2] {
        let latency = flow.metrics["latency_ms.p50"].expect("it is timed");
        assert!(latency >= 10.0, "{}: {latency} ms", flow.cc);
    }
}

fn ours_receives_from_either() {
    let text = "duration = \"8s\"\npath = { rate = \"20mbit\", rtt = \"20ms\", buffer = \"2bdp\" }\n\
                [[flow]]\ncc = \"bbr3\"\nreceiver = \"user\"\n[[flow]]\ncc = \"linux:cubic\"\nreceiver = \"user\"\n\
                [[flow]]\ncc = \"linux:cubic\"\ndirection = \"up\"\nreceiver = \"user\"\n\
                app = { request_response = { response = \"20kB\", think = \"100ms\" } }\n";
    let text = text.replace("buffer", "up = [{ bottleneck = { rate = \"20mbit\" } }], buffer");
    let run = timed_run(&text);
    for flow in &run.flows[..2] {
        let goodput = flow.metrics["goodput_mbps"].expect("it sent");
        assert!(goodput > 2.0, "{}: {goodput} Mbit/s", flow.cc);
    }
    assert!(run.metrics["goodput_mbps"].expect("they sent") > 16.0, "{:?}", run.metrics);
    // An answer each 120 ms at the most often.
    let answered = run.flows[2].metrics["goodput_mbps"].expect("it answered");
    assert!((0.3..1.4).contains(&answered), "{answered} Mbit/s");
}

fullpipe_testkit::tests! {
    [Root, Tun] ours_and_the_kernels_move_their_bytes_both_ways;
    long [Root, Tun] ours_and_the_kernels_have_each_application;
    long timed [Root, Tun] ours_and_the_kernels_share_a_link_in_one_run, ours_receives_from_either;
}
