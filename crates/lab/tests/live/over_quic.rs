//! Real packets over the emulated link. Figures of speed depend on the machine; these tests ask
//! for what holds on a slow one, and for none of them where the link says that it was late.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fullpipe_lab::{BackendChoice, Progress, RunError, RunOptions, run_point};
use fullpipe_report::metrics::RunResult;
use fullpipe_report::output::QlogDir;
use fullpipe_report::plan::{Options, Plan};
use fullpipe_scenario::Edition;

fn options() -> Options {
    Options {
        rate: Some("20mbit".to_owned()),
        rtt: Some("20ms".to_owned()),
        buffer: "2bdp".to_owned(),
        duration: "2s".to_owned(),
        ..Options::default()
    }
}

/// The stacks, whose ends do the same.
const STACKS: [BackendChoice; 3] =
    [BackendChoice::NOQ_REAL, BackendChoice::QUINN_REAL, BackendChoice::S2N];

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

/// The result, if the link was in time.
fn trusted(result: Result<RunResult, RunError>) -> RunResult {
    let run = result.expect("a result");
    if let Some(warning) = run.emulator.as_ref().and_then(|e| e.warning.as_ref()) {
        fullpipe_testkit::inconclusive(warning);
    }
    run
}

fn finish(backend: BackendChoice, options: &Options, name: &str) -> RunResult {
    trusted(run(backend, options, name, &AtomicBool::new(false), &mut |_| ()))
}

fn plan(text: &str) -> Plan {
    Plan::parse(text, "x.toml", "x", "".as_ref(), Edition::default()).expect("sound")
}

/// The states that a flow was seen in.
fn states(run: &RunResult, flow: usize) -> Vec<&str> {
    let rows = run.series.iter().filter(|row| row.flow == flow);
    rows.filter_map(|row| row.state.as_deref()).collect()
}

/// A round trip that grows ends slow start in two steps.
const RENO: [&str; 4] = ["SlowStart", "ConservativeSlowStart", "Recovery", "CongestionAvoidance"];

fn figure(run: &RunResult, name: &str) -> f64 {
    run.metrics[name].expect(name)
}

/// Properties of every result on a machine that is quiet enough.
fn check_sanity(r: &RunResult) {
    let goodput = figure(r, "goodput_mbps");
    assert!(goodput > 2.0, "goodput {goodput}");
    let moments = r.series.chunk_by(|a, b| a.t_s == b.t_s).count();
    assert!(moments > 10 && moments <= 2000, "{moments} moments");
    check_figures(r);
}

/// Properties of every result over 20 Mbit/s and 20 ms, whatever the machine.
fn check_figures(r: &RunResult) {
    let goodput = figure(r, "goodput_mbps");
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
    assert!(r.series.windows(2).all(|w| w[0].t_s <= w[1].t_s));
    let sum: f64 = r.flows.iter().map(|f| f.metrics["completed_bytes"].expect("bytes")).sum();
    assert_eq!(sum, figure(r, "completed_bytes"));
    assert!(r.emulator.is_some());
}

/// The qlog of each flow names packets of its own in the order of their times.
fn check_packets(qlogs: &Path, r: &RunResult) {
    for flow in 0..r.flows.len() {
        let place = format!("-flow{flow}-");
        let mut files = std::fs::read_dir(qlogs).expect("files").map(|file| file.expect("one"));
        let file = files.find(|file| file.file_name().to_string_lossy().contains(&place));
        let text = std::fs::read_to_string(file.expect("a qlog").path()).expect("text");
        let records = text.split('\u{1e}').skip(2);
        let events: Vec<serde_json::Value> =
            records.map(|record| serde_json::from_str(record).expect("JSON")).collect();
        let time = |event: &serde_json::Value| event["time"].as_f64().expect("a time");
        assert!(events.is_sorted_by_key(time), "times go back");
        let sent: Vec<_> = events.iter().filter(|e| e["name"] == "quic:packet_sent").collect();
        let number = |e: &&serde_json::Value| e["data"]["header"]["packet_number"].as_u64();
        assert!(sent.iter().map(number).is_sorted_by(|a, b| a < b), "a packet is named twice");
        let largest = sent.iter().filter_map(|e| e["data"]["raw"]["length"].as_u64()).max();
        assert!(largest.is_some_and(|bytes| (1200..=1472).contains(&bytes)), "{largest:?}");
        // 700 kB are at least 475 packets, and the handshake, acknowledgements and repetitions are
        // fewer than those of another flow would be.
        let last = sent.iter().filter_map(number).max();
        assert!(sent.len() > 3 && last.is_some_and(|n| n < 900), "{} {last:?}", sent.len());
    }
}

/// The stack's own beside two of ours.
fn each_stack_moves_exactly_the_bytes_of_flows_with_their_own_algorithms() {
    for (backend, own) in STACKS.into_iter().zip(["noq:cubic", "quinn:cubic", "s2n:cubic"]) {
        let flow = |cc| format!("[[flow]]\ncc = \"{cc}\"\napp = {{ bytes = \"700001B\" }}\n");
        let plan = plan(&format!(
            "[path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n{}",
            [own, "bbr3", "reno"].map(flow).concat()
        ));
        let dir = tempfile::tempdir().expect("a directory");
        let qlogs = QlogDir::create(dir.path()).expect("a directory");
        let over =
            RunOptions { backend, rows: Some(500), qlog: Some(&qlogs), ..RunOptions::default() };
        let r = run_point(&plan, 0, &over, &AtomicBool::new(false), &mut |_| ()).expect("a result");
        check_figures(&r);
        check_packets(dir.path(), &r);
        for flow in &r.flows {
            assert_eq!(flow.metrics["completed_bytes"], Some(700_001.0), "{backend}, {}", flow.cc);
        }
        let elapsed = figure(&r, "elapsed_s");
        assert!(elapsed > 0.84, "2.1 MB take 0.84 s at 20 Mbit/s: {elapsed}");
        assert!(!r.interrupted);
        assert!(states(&r, 0).is_empty(), "{own} names no state: {:?}", states(&r, 0));
        assert!(states(&r, 1).contains(&"Startup"), "{backend}: {:?}", states(&r, 1));
        let reno = states(&r, 2);
        assert!(!reno.is_empty() && reno.iter().all(|s| RENO.contains(s)), "{backend}: {reno:?}");
    }
}

/// All applications against the way of the others, over each stack. It asserts no rate, but some
/// bytes of each before its stop.
fn each_stack_carries_every_application_up() {
    for backend in STACKS {
        let up = |name: &str, app: &str| {
            format!(
                "[[flow]]\nname = \"{name}\"\ncc = \"bbr3\"\ndirection = \"up\"\nstop = \"600ms\"\n\
                 app = {app}\n"
            )
        };
        let text = format!(
            "[path]\nrate = \"5mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
             up = [{{ bottleneck = {{ rate = \"40mbit\", buffer = \"200kB\" }} }}]\n{}{}{}{}{}\
             [[flow]]\nname = \"file\"\ncc = \"cubic\"\ndirection = \"up\"\n\
             app = {{ bytes = \"700001B\" }}\n\
             [[flow]]\nname = \"down\"\ncc = \"bbr3\"\napp = {{ bytes = \"100001B\" }}\n",
            up("bulk", "\"bulk\""),
            up("call", "{ rate_limited = { rate = \"800kbit\", write = \"1000B\" } }"),
            up("steps", "{ on_off = { on = \"100ms\", off = \"100ms\" } }"),
            up("rpc", "{ request_response = { response = \"20kB\", think = \"20ms\" } }"),
            up("web", "{ short_flows = { bytes = \"9kB\", every = \"40ms\" } }"),
        );
        let plan = plan(&text);
        backend.check_plan(&plan, "x.toml").expect("it has all of this");
        let over = RunOptions { backend, rows: Some(500), ..RunOptions::default() };
        let r = run_point(&plan, 0, &over, &AtomicBool::new(false), &mut |_| ()).expect("a result");
        let of = |flow: usize, name: &str| r.flows[flow].metrics[name];
        for (i, flow) in r.flows.iter().enumerate() {
            assert!(of(i, "completed_bytes") > Some(0.0), "{backend}, {}", flow.name);
        }
        for flow in [0, 1, 2, 3] {
            let seen = states(&r, flow);
            assert!(seen.contains(&"Startup"), "{backend}: the sender's of flow {flow}: {seen:?}");
        }
        assert_eq!(of(5, "completed_bytes"), Some(700_001.0), "{backend}");
        assert_eq!(of(6, "completed_bytes"), Some(100_001.0), "{backend}");
        let web = of(4, "completed_bytes").expect("bytes") / 9e3;
        assert_eq!(web.fract(), 0.0, "{backend}: each of the connections has its last byte");
        // A round trip alone, and with the handshake before it.
        assert!(of(3, "completion_ms.min") >= Some(20.0), "{backend}: {:?}", r.flows[3].metrics);
        assert!(of(4, "completion_ms.min") >= Some(40.0), "{backend}: {:?}", r.flows[4].metrics);
        assert!(of(1, "latency_ms.min") >= Some(10.0), "{backend}: {:?}", r.flows[1].metrics);
        // 5 Mbit/s carry what goes down alone.
        assert!(figure(&r, "utilization") <= 1.02, "{backend}: {:?}", r.metrics);
    }
}

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
        let tell = &mut |t| told.push(t);
        let r = trusted(run(backend, &options(), name, &AtomicBool::new(false), tell));
        check_sanity(&r);
        let elapsed = figure(&r, "elapsed_s");
        assert!((2.0..2.5).contains(&elapsed), "{name}: {elapsed}");
        assert!(!r.interrupted);
        assert!(told.len() > 5 && told.windows(2).all(|w| w[0].done <= w[1].done), "{name}");
        let states = r.series.iter().filter(|row| row.state.is_some()).count();
        assert_eq!(states > 0, !name.contains(':'), "{name}: only ours name their state");
    }
}

fn a_run_by_volume_moves_exactly_that() {
    let o = Options { bytes: Some("3000001".to_owned()), flows: 2, ..options() };
    for backend in STACKS {
        let r = finish(backend, &o, "cubic");
        check_sanity(&r);
        let bytes = |f: &fullpipe_report::metrics::FlowResult| f.metrics["completed_bytes"];
        assert!(r.flows.iter().all(|f| bytes(f) == Some(3_000_001.0)), "{:?}", r.flows);
        let elapsed = figure(&r, "elapsed_s");
        assert!(elapsed > 2.4, "6 MB take 2.4 s at 20 Mbit/s: {elapsed}");
    }
}

fn flows_start_one_after_the_other() {
    let o = Options { flows: 3, stagger: "500ms".to_owned(), ..options() };
    let r = finish(BackendChoice::NOQ_REAL, &o, "bbr3");
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

fn random_loss_is_what_was_asked_for() {
    for backend in STACKS {
        let r = finish(backend, &Options { loss: "5%".to_owned(), ..options() }, "bbr3");
        check_sanity(&r);
        let loss = figure(&r, "loss_rate");
        assert!(loss > 0.025 && loss < 0.15, "{backend}: {loss}");
        assert!(figure(&r, "retransmit_rate") > 0.02, "{backend}: {:?}", r.metrics);
    }
}

/// quinn's pacer alone takes 1.25 windows a round trip, and a window of BBR's is two BDP. The
/// limits are wide, for busy machines: unpaced, the p95 of the queue is several times as long.
fn quinn_keeps_to_the_pacing_rate_of_our_controller() {
    let o = Options { buffer: "6bdp".to_owned(), duration: "4s".to_owned(), ..options() };
    let [ours, own] = ["bbr3", "quinn:bbr"].map(|name| finish(BackendChoice::QUINN_REAL, &o, name));
    let queues = [&ours, &own].map(|r| figure(r, "queue_ms.p50"));
    assert!(queues[0] < queues[1] / 2.0, "{queues:?}");
    assert!(figure(&ours, "goodput_mbps") > 12.0, "{:?}", ours.metrics);
}

fn a_run_that_is_stopped_keeps_what_there_is() {
    let stop = AtomicBool::new(false);
    let o = Options { duration: "60s".to_owned(), ..options() };
    let r = run(BackendChoice::NOQ_REAL, &o, "bbr3", &stop, &mut |progress| {
        if progress.elapsed > fullpipe_cc::Duration::from_secs(1) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let r = r.expect("the result so far");
    let elapsed = figure(&r, "elapsed_s");
    assert!(r.interrupted && (1.0..5.0).contains(&elapsed), "{elapsed}");

    let stop = AtomicBool::new(true);
    let nothing =
        run(BackendChoice::NOQ_REAL, &o, "bbr3", &stop, &mut |_| ()).expect_err("no result");
    assert!(matches!(nothing, RunError::StoppedEarly), "{nothing}");
}

/// Two algorithms, three applications and a chain of two links in one run.
fn flows_differ_in_algorithm_and_application_and_share_a_chain() {
    let text = "duration = \"4s\"\n[[link]]\nrate = \"20mbit\"\ndelay = \"5ms\"\n\
        [[link]]\nrate = \"10mbit\"\ndelay = \"5ms\"\nbuffer = \"2bdp\"\n\
        [[flow]]\ncc = \"bbr3\"\n[[flow]]\ncc = \"cubic\"\nstart = \"500ms\"\n\
        [[flow]]\nname = \"call\"\ncc = \"bbr3\"\napp = { rate_limited = { rate = \"800kbit\", write = \"1000B\" } }\n\
        [[flow]]\nname = \"web\"\ncc = \"noq:cubic\"\napp = { request_response = { response = \"20kB\", think = \"100ms\" } }\n";
    let plan = plan(text);
    BackendChoice::NOQ_REAL.check_plan(&plan, "x.toml").expect("it has all of this");
    let over =
        RunOptions { backend: BackendChoice::NOQ_REAL, rows: Some(100), ..RunOptions::default() };
    let r = trusted(run_point(&plan, 0, &over, &AtomicBool::new(false), &mut |_| ()));
    let ccs: Vec<&str> = r.flows.iter().map(|f| f.cc.as_str()).collect();
    assert_eq!(ccs, ["bbr3", "cubic", "bbr3", "noq:cubic"]);
    assert!(
        states(&r, 0).contains(&"Drain") && states(&r, 3).is_empty(),
        "each has its own algorithm"
    );
    assert!(states(&r, 1).iter().all(|s| !s.starts_with("Probe")), "{:?}", states(&r, 1));
    let goodput = figure(&r, "goodput_mbps");
    assert!(goodput > 4.0 && goodput < 10.0, "the second link is the bottleneck: {goodput}");
    let of = |flow: usize, name: &str| r.flows[flow].metrics[name];
    let call = of(2, "goodput_mbps").expect("goodput");
    assert!(call > 0.4 && call < 0.9, "it writes 0.8 Mbit/s: {call}");
    assert!(figure(&r, "latency_ms.min") >= 10.0, "{:?}", r.metrics);
    assert!(of(3, "completion_ms.p50") >= Some(20.0), "{:?}", r.flows[3]);
    assert_eq!(of(0, "completion_ms.p50"), None);
}

/// Applications that do not always have data, over each stack.
fn each_stack_writes_when_the_application_does() {
    for backend in STACKS {
        let text = "duration = \"3s\"\n[path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
             [[flow]]\ncc = \"cubic\"\napp = { on_off = { on = \"500ms\", off = \"500ms\" } }\n\
             [[flow]]\ncc = \"cubic\"\napp = { rate_limited = { rate = \"800kbit\", write = \"1000B\" } }\n\
             [[flow]]\ncc = \"cubic\"\napp = { request_response = { response = \"20kB\", think = \"100ms\" } }\n";
        let plan = plan(text);
        backend.check_plan(&plan, "x.toml").expect("it has all of this");
        let over = RunOptions { backend, ..RunOptions::default() };
        let r = trusted(run_point(&plan, 0, &over, &AtomicBool::new(false), &mut |_| ()));
        let of = |flow: usize, name: &str| r.flows[flow].metrics[name].expect(name);
        let on_off = of(0, "goodput_mbps");
        assert!((4.0..15.0).contains(&on_off), "{backend}: half of the time: {on_off}");
        let call = of(1, "goodput_mbps");
        assert!((0.6..0.9).contains(&call), "{backend}: it writes 0.8 Mbit/s: {call}");
        let latency = of(1, "latency_ms.min");
        assert!((10.0..60.0).contains(&latency), "{backend}: {latency}");
        assert!(of(2, "completion_ms.min") >= 20.0, "{backend}: {:?}", r.flows[2].metrics);
        let answers = of(2, "completed_bytes") / 20e3;
        assert!((8.0..26.0).contains(&answers), "{backend}: 25 at the most: {answers}");
    }
}

/// The stack's own beside two of ours, one of them in many connections of one client.
fn each_flow_has_its_own_algorithm() {
    for (backend, own) in STACKS.into_iter().zip(["noq:cubic", "quinn:cubic", "s2n:cubic"]) {
        let text = format!(
            "duration = \"2s\"\n[path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
             [[flow]]\ncc = \"{own}\"\n[[flow]]\ncc = \"bbr3\"\n\
             [[flow]]\ncc = \"reno\"\napp = {{ short_flows = {{ bytes = \"20kB\", every = \"50ms\" }} }}\n"
        );
        let plan = plan(&text);
        let over = RunOptions { backend, rows: Some(500), ..RunOptions::default() };
        let r = trusted(run_point(&plan, 0, &over, &AtomicBool::new(false), &mut |_| ()));
        assert!(states(&r, 0).is_empty(), "{own} names no state: {:?}", states(&r, 0));
        assert!(states(&r, 1).contains(&"Drain"), "{backend}: {:?}", states(&r, 1));
        let reno = states(&r, 2);
        assert!(!reno.is_empty(), "{backend}: many connections are one flow");
        assert!(reno.iter().all(|state| RENO.contains(state)), "{backend}: {reno:?}");
    }
}

/// Half of the link is cross traffic's, a flow far away waits longer for its first byte, and short
/// connections come and go beside them.
fn cross_traffic_far_away_ends_and_short_connections_share_a_link() {
    let text = "duration = \"6s\"\n[path]\nrate = \"20mbit\"\nrtt = \"20ms\"\nbuffer = \"2bdp\"\n\
        [[flow]]\nname = \"near\"\ncc = \"bbr3\"\n\
        [[flow]]\nname = \"far\"\ncc = \"bbr3\"\nextra_rtt = \"60ms\"\n\
        [[flow]]\nname = \"web\"\ncc = \"bbr3\"\napp = { short_flows = { bytes = \"20kB\", every = \"50ms\" } }\n\
        [[cross]]\nrate = \"8mbit\"\narrivals = \"poisson\"\n";
    let plan = plan(text);
    for backend in STACKS {
        backend.check_plan(&plan, "x.toml").expect("it has all of this");
        let over = RunOptions { backend, ..RunOptions::default() };
        let r = trusted(run_point(&plan, 0, &over, &AtomicBool::new(false), &mut |_| ()));
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

fullpipe_testkit::tests! {
    timed []
        each_stack_moves_exactly_the_bytes_of_flows_with_their_own_algorithms,
        each_stack_carries_every_application_up;
    long timed []
        a_run_by_time_ends_at_its_time_and_its_figures_agree,
        a_run_by_volume_moves_exactly_that,
        flows_start_one_after_the_other,
        random_loss_is_what_was_asked_for,
        quinn_keeps_to_the_pacing_rate_of_our_controller,
        a_run_that_is_stopped_keeps_what_there_is,
        flows_differ_in_algorithm_and_application_and_share_a_chain,
        each_flow_has_its_own_algorithm,
        each_stack_writes_when_the_application_does,
        cross_traffic_far_away_ends_and_short_connections_share_a_link;
}
