//! Scenarios over TCP in user space in real time. They need Linux and root; without them each test says so and is over.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::metrics::RunResult;
use fullpipe_lab::{BackendChoice, Edition, Plan, RunOptions, check_machine, run_point};

/// The run of a file; nothing where this machine has no namespaces.
fn run(text: &str) -> Option<RunResult> {
    let plan = Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default());
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let backend: BackendChoice = "tcp:user-tun".parse().expect("a backend");
    plan.check_backend(backend, "x.toml").expect("the backend has all of it");
    let options = RunOptions { backend, rows: Some(200), ..RunOptions::default() };
    if let Err(error) = check_machine(&plan, &options) {
        eprintln!("skipped: {error}");
        return None;
    }
    Some(run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs"))
}

#[test]
fn ours_and_the_kernels_share_a_link_in_one_run() {
    let text = "duration = \"8s\"\npath = { rate = \"20mbit\", rtt = \"20ms\", buffer = \"2bdp\" }\n\
                [[flow]]\ncc = \"bbr3\"\n[[flow]]\ncc = \"linux:cubic\"\n[[flow]]\ncc = \"cubic\"\ndirection = \"up\"\n\
                app = { bytes = \"200kB\" }\n";
    let text = text.replace("buffer", "up = [{ bottleneck = { rate = \"20mbit\" } }], buffer");
    let Some(run) = run(&text) else { return };
    assert_eq!(run.backend, "tcp:user-tun");
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

#[test]
fn ours_receives_from_either() {
    let text = "duration = \"8s\"\npath = { rate = \"20mbit\", rtt = \"20ms\", buffer = \"2bdp\" }\n\
                [[flow]]\ncc = \"bbr3\"\nreceiver = \"user\"\n[[flow]]\ncc = \"linux:cubic\"\nreceiver = \"user\"\n\
                [[flow]]\ncc = \"linux:cubic\"\ndirection = \"up\"\nreceiver = \"user\"\n\
                app = { request_response = { response = \"20kB\", think = \"100ms\" } }\n";
    let text = text.replace("buffer", "up = [{ bottleneck = { rate = \"20mbit\" } }], buffer");
    let Some(run) = run(&text) else { return };
    for flow in &run.flows[..2] {
        let goodput = flow.metrics["goodput_mbps"].expect("it sent");
        assert!(goodput > 2.0, "{}: {goodput} Mbit/s", flow.cc);
    }
    assert!(run.metrics["goodput_mbps"].expect("they sent") > 16.0, "{:?}", run.metrics);
    // An answer each 120 ms at the most often.
    let answered = run.flows[2].metrics["goodput_mbps"].expect("it answered");
    assert!((0.3..1.4).contains(&answered), "{answered} Mbit/s");
}

#[test]
fn what_is_not_there_is_refused() {
    for (flow, says) in [
        ("app = { short_flows = { bytes = \"9kB\", every = \"1s\" } }", "short_flows"),
        ("mss = 1000", "mss does not run over tcp:user-tun"),
        ("cc = \"noq:bbr3\"", "noq:bbr3 does not run over tcp:user-tun; write --backend quic"),
    ] {
        let text = format!(
            "path = {{ rate = \"9mbit\", rtt = \"9ms\" }}\ncc = \"bbr3\"\n[[flow]]\n{flow}\n"
        );
        let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
        let plan = plan.unwrap_or_else(|e| panic!("{e}"));
        let backend: BackendChoice = "tcp:user-tun".parse().expect("a backend");
        let error = plan.check_backend(backend, "x.toml").expect_err(says).to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}
