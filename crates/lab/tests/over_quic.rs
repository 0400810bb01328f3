//! Real packets over the emulated link. Figures of speed depend on the machine; these tests ask
//! for what holds on a slow one.

use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_lab::metrics::RunResult;
use fullpipe_lab::{
    BackendChoice, Edition, Options, Plan, Progress, RunError, RunOptions, run_point,
};

fn options() -> Options {
    Options {
        rate: "20mbit".to_owned(),
        rtt: "20ms".to_owned(),
        buffer: "2bdp".to_owned(),
        duration: "2s".to_owned(),
        ..Options::default()
    }
}

/// The stacks, whose ends do the same.
const STACKS: [BackendChoice; 3] = [BackendChoice::QUIC, BackendChoice::QUINN, BackendChoice::S2N];

fn run(
    backend: BackendChoice,
    options: &Options,
    name: &str,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress),
) -> Result<RunResult, RunError> {
    let options = Options { cc: vec![name.parse().expect(name)], ..options.clone() };
    let plan = options.plan().expect("sound options");
    let over = RunOptions { backend, rows: Some(500), ..RunOptions::default() };
    run_point(&plan, 0, &over, stop, watch)
}

fn finish(backend: BackendChoice, options: &Options, name: &str) -> RunResult {
    run(backend, options, name, &AtomicBool::new(false), &mut |_| ()).expect("a result")
}

fn figure(run: &RunResult, name: &str) -> f64 {
    run.metrics[name].expect(name)
}

/// What is true of every result, whatever the machine.
fn check_sanity(r: &RunResult) {
    let goodput = figure(r, "goodput_mbps");
    assert!(goodput > 2.0, "goodput {goodput}");
    // A link that carries more than its rate is none. The buffer may empty itself after the end.
    let utilization = figure(r, "utilization");
    assert!(goodput < 20.0 && utilization <= 1.02, "{goodput} {utilization}");
    assert!(utilization * 20.0 > goodput * 0.99);
    let stats = |family: &str| {
        ["p50", "p95", "p99", "max"].map(|stat| figure(r, &format!("{family}.{stat}")))
    };
    assert!(stats("queue_ms").is_sorted(), "{:?}", stats("queue_ms"));
    assert!(
        stats("rtt_ms").is_sorted() && figure(r, "rtt_ms.min") >= 20.0,
        "{:?}",
        stats("rtt_ms")
    );
    let rates = ["loss_rate", "retransmit_rate"].map(|name| figure(r, name));
    assert!(rates.iter().all(|rate| (0.0..=1.0).contains(rate)), "{rates:?}");
    let moments = r.series.chunk_by(|a, b| a.t_s == b.t_s).count();
    assert!(moments > 10 && moments <= 2000, "{moments} moments");
    assert!(r.series.windows(2).all(|w| w[0].t_s <= w[1].t_s));
    let sum: f64 = r.flows.iter().map(|f| f.metrics["completed_bytes"].expect("bytes")).sum();
    assert_eq!(sum, figure(r, "completed_bytes"));
    assert!(r.emulator.is_some());
}

#[test]
fn a_run_by_time_ends_at_its_time_and_its_figures_agree() {
    let [noq, quinn, s2n] = STACKS;
    for (backend, name) in [
        (noq, "bbr3"),
        (noq, "cubic"),
        (noq, "noq:cubic"),
        (quinn, "bbr3"),
        (quinn, "cubic"),
        (quinn, "quinn:bbr"),
        (quinn, "quinn:cubic"),
        (quinn, "quinn:reno"),
        (s2n, "bbr3"),
        (s2n, "cubic"),
        (s2n, "s2n:bbr"),
        (s2n, "s2n:cubic"),
    ] {
        let mut told = Vec::new();
        let r = run(backend, &options(), name, &AtomicBool::new(false), &mut |t| told.push(t))
            .expect(name);
        check_sanity(&r);
        let elapsed = figure(&r, "elapsed_s");
        assert!((2.0..2.5).contains(&elapsed), "{name}: {elapsed}");
        assert!(!r.interrupted);
        assert!(told.len() > 5 && told.windows(2).all(|w| w[0].done <= w[1].done), "{name}");
        let states = r.series.iter().filter(|row| row.state.is_some()).count();
        assert_eq!(states > 0, !name.contains(':'), "{name}: only ours name their state");
    }
}

#[test]
fn a_run_by_volume_moves_exactly_that() {
    let o = Options { bytes: Some("3000001".to_owned()), flows: 2, ..options() };
    for backend in STACKS {
        let r = finish(backend, &o, "cubic");
        check_sanity(&r);
        let bytes = |f: &fullpipe_lab::metrics::FlowResult| f.metrics["completed_bytes"];
        assert!(r.flows.iter().all(|f| bytes(f) == Some(3_000_001.0)), "{:?}", r.flows);
        let elapsed = figure(&r, "elapsed_s");
        assert!(elapsed > 2.4, "6 MB take 2.4 s at 20 Mbit/s: {elapsed}");
    }
}

#[test]
fn flows_start_one_after_the_other() {
    let o = Options { flows: 3, stagger: "500ms".to_owned(), ..options() };
    let r = finish(BackendChoice::QUIC, &o, "bbr3");
    check_sanity(&r);
    for (i, flow) in r.flows.iter().enumerate() {
        let due = 0.5 * i as f64;
        assert!(flow.start_s >= due && flow.start_s < due + 0.4, "{i}: {}", flow.start_s);
        assert!(flow.metrics["completed_bytes"] > Some(0.0), "{i}");
        assert!(r.series.iter().any(|row| row.flow == i), "{i}");
    }
    let jain = figure(&r, "jain");
    assert!(jain > 1.0 / 3.0 && jain <= 1.0, "{jain}");
}

#[test]
fn random_loss_is_what_was_asked_for() {
    for backend in STACKS {
        let r = finish(backend, &Options { loss: "5%".to_owned(), ..options() }, "bbr3");
        check_sanity(&r);
        let loss = figure(&r, "loss_rate");
        assert!(loss > 0.025 && loss < 0.15, "{backend}: {loss}");
        assert!(figure(&r, "retransmit_rate") > 0.02, "{backend}: {:?}", r.metrics);
    }
}

/// quinn's pacer alone takes 1.25 windows a round trip, and a window of BBR's is two BDP. The limits are wide, for busy machines:
/// unpaced, the p95 of the queue is several times as long.
#[test]
fn quinn_keeps_to_the_pacing_rate_of_our_controller() {
    let o = Options { buffer: "6bdp".to_owned(), duration: "4s".to_owned(), ..options() };
    let [ours, own] = ["bbr3", "quinn:bbr"].map(|name| finish(BackendChoice::QUINN, &o, name));
    let queues = [&ours, &own].map(|r| figure(r, "queue_ms.p50"));
    assert!(queues[0] < queues[1] / 2.0, "{queues:?}");
    assert!(figure(&ours, "goodput_mbps") > 12.0, "{:?}", ours.metrics);
}

#[test]
fn a_stack_refuses_what_it_does_not_have() {
    for (backend, flow, says) in [
        (
            BackendChoice::QUINN,
            "cc = \"noq:cubic\"",
            "noq:cubic does not run over quic:quinn; write --backend quic",
        ),
        (
            BackendChoice::QUIC,
            "cc = \"quinn:bbr\"",
            "quinn:bbr does not run over quic; write --backend quic:quinn",
        ),
        (
            BackendChoice::QUINN,
            "cc = \"s2n:bbr\"",
            "s2n:bbr does not run over quic:quinn; write --backend quic:s2n",
        ),
        (
            BackendChoice::S2N,
            "cc = \"quinn:bbr\"",
            "quinn:bbr does not run over quic:s2n; write --backend quic:quinn",
        ),
        (
            BackendChoice::QUINN,
            "cc = \"bbr3\"\napp = { on_off = { on = \"1s\", off = \"1s\" } }",
            "does not run over quic:quinn; write --backend sim or quic",
        ),
    ] {
        let text = format!("path = {{ rate = \"10mbit\", rtt = \"40ms\" }}\n[[flow]]\n{flow}\n");
        let plan = Plan::parse(&text, "x.toml", "x", "".as_ref(), Edition::default());
        let refusal = plan.expect("sound").check_backend(backend, "x.toml").expect_err(says);
        assert!(refusal.to_string().contains(says), "{refusal}");
    }
}

#[test]
fn a_run_that_is_stopped_keeps_what_there_is() {
    let stop = AtomicBool::new(false);
    let o = Options { duration: "60s".to_owned(), ..options() };
    let r = run(BackendChoice::QUIC, &o, "bbr3", &stop, &mut |progress| {
        if progress.elapsed > fullpipe_cc::Duration::from_secs(1) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let r = r.expect("the result so far");
    let elapsed = figure(&r, "elapsed_s");
    assert!(r.interrupted && (1.0..5.0).contains(&elapsed), "{elapsed}");

    let stop = AtomicBool::new(true);
    let nothing = run(BackendChoice::QUIC, &o, "bbr3", &stop, &mut |_| ()).expect_err("no result");
    assert!(matches!(nothing, RunError::StoppedEarly), "{nothing}");
}

/// Two algorithms, three applications and a chain of two links in one run.
#[test]
fn flows_differ_in_algorithm_and_application_and_share_a_chain() {
    let text = "duration = \"4s\"\n[[link]]\nrate = \"20mbit\"\ndelay = \"5ms\"\n\
        [[link]]\nrate = \"10mbit\"\ndelay = \"5ms\"\nbuffer = \"2bdp\"\n\
        [[flow]]\ncc = \"bbr3\"\n[[flow]]\ncc = \"cubic\"\nstart = \"500ms\"\n\
        [[flow]]\nname = \"call\"\ncc = \"bbr3\"\napp = { rate_limited = { rate = \"800kbit\", write = \"1000B\" } }\n\
        [[flow]]\nname = \"web\"\ncc = \"noq:cubic\"\napp = { request_response = { response = \"20kB\", think = \"100ms\" } }\n";
    let plan = Plan::parse(text, "x.toml", "x", "".as_ref(), Edition::default()).expect("sound");
    plan.check_backend(BackendChoice::QUIC, "x.toml").expect("it has all of this");
    let over =
        RunOptions { backend: BackendChoice::QUIC, rows: Some(100), ..RunOptions::default() };
    let r = run_point(&plan, 0, &over, &AtomicBool::new(false), &mut |_| ()).expect("a result");
    let ccs: Vec<&str> = r.flows.iter().map(|f| f.cc.as_str()).collect();
    assert_eq!(ccs, ["bbr3", "cubic", "bbr3", "noq:cubic"]);
    let states = |flow: usize| {
        r.series
            .iter()
            .filter(|row| row.flow == flow)
            .filter_map(|row| row.state.as_deref())
            .collect::<Vec<_>>()
    };
    assert!(states(0).contains(&"Drain") && states(3).is_empty(), "each has its own algorithm");
    assert!(states(1).iter().all(|s| !s.starts_with("Probe")), "{:?}", states(1));
    let goodput = figure(&r, "goodput_mbps");
    assert!(goodput > 4.0 && goodput < 10.0, "the second link is the bottleneck: {goodput}");
    let of = |flow: usize, name: &str| r.flows[flow].metrics[name];
    let call = of(2, "goodput_mbps").expect("goodput");
    assert!(call > 0.4 && call < 0.9, "it writes 0.8 Mbit/s: {call}");
    assert!(figure(&r, "latency_ms.min") >= 10.0, "{:?}", r.metrics);
    assert!(of(3, "completion_ms.p50") >= Some(20.0), "{:?}", r.flows[3]);
    assert_eq!(of(0, "completion_ms.p50"), None);
}

/// The stack's own beside two of ours, one of them in many connections of one client.
#[test]
fn each_flow_has_its_own_algorithm() {
    for (backend, own) in STACKS.into_iter().zip(["noq:cubic", "quinn:cubic", "s2n:cubic"]) {
        let text = format!(
            "duration = \"2s\"\n[path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
             [[flow]]\ncc = \"{own}\"\n[[flow]]\ncc = \"bbr3\"\n\
             [[flow]]\ncc = \"reno\"\napp = {{ short_flows = {{ bytes = \"20kB\", every = \"50ms\" }} }}\n"
        );
        let plan = Plan::parse(&text, "x.toml", "x", "".as_ref(), Edition::default());
        let over = RunOptions { backend, rows: Some(500), ..RunOptions::default() };
        let r = run_point(&plan.expect("sound"), 0, &over, &AtomicBool::new(false), &mut |_| ())
            .expect("a result");
        let states = |flow: usize| {
            let rows = r.series.iter().filter(|row| row.flow == flow);
            rows.filter_map(|row| row.state.as_deref()).collect::<Vec<_>>()
        };
        assert!(states(0).is_empty(), "{own} names no state: {:?}", states(0));
        assert!(states(1).contains(&"Drain"), "{backend}: {:?}", states(1));
        let is_reno =
            |state: &&str| ["SlowStart", "Recovery", "CongestionAvoidance"].contains(state);
        assert!(!states(2).is_empty(), "{backend}: many connections are one flow");
        assert!(states(2).iter().all(is_reno), "{backend}: {:?}", states(2));
    }
}

/// Half of the link is cross traffic's, a flow far away waits longer for its first byte, and short connections come
/// and go beside them.
#[test]
fn cross_traffic_far_away_ends_and_short_connections_share_a_link() {
    let text = "duration = \"6s\"\n[path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
        [[flow]]\nname = \"near\"\ncc = \"bbr3\"\n\
        [[flow]]\nname = \"far\"\ncc = \"bbr3\"\nextra_rtt = \"60ms\"\n\
        [[flow]]\nname = \"web\"\ncc = \"bbr3\"\napp = { short_flows = { bytes = \"20kB\", every = \"50ms\" } }\n\
        [[cross]]\nrate = \"8mbit\"\narrivals = \"poisson\"\n";
    let plan = Plan::parse(text, "x.toml", "x", "".as_ref(), Edition::default()).expect("sound");
    for backend in STACKS {
        plan.check_backend(backend, "x.toml").expect("it has all of this");
        let over = RunOptions { backend, ..RunOptions::default() };
        let r = run_point(&plan, 0, &over, &AtomicBool::new(false), &mut |_| ()).expect("a result");
        let goodput = figure(&r, "goodput_mbps");
        assert!(goodput > 4.0 && goodput < 12.0, "8 of 20 Mbit/s are taken: {goodput}");
        assert!(figure(&r, "utilization") > 0.8, "{:?}", r.metrics);
        let of = |flow: usize, name: &str| r.flows[flow].metrics[name];
        assert!(of(0, "rtt_ms.min") < Some(40.0), "{:?}", of(0, "rtt_ms.min"));
        assert!(of(1, "rtt_ms.min") >= Some(80.0), "{:?}", of(1, "rtt_ms.min"));
        let web = &r.flows[2].metrics;
        let done = web["completed_bytes"].expect("bytes") / 20e3;
        assert!((60.0..200.0).contains(&done), "120 connections are expected: {done}");
        // A handshake and a request are two round trips.
        assert!(web["completion_ms.min"] >= Some(40.0), "{web:?}");
        assert!(web["censored"] <= Some(30.0), "{web:?}");
    }
}
