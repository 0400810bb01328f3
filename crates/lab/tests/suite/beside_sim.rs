//! Runs of one scenario over a backend with a virtual clock and in the simulator.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, check_machine, run_point};
use fullpipe_report::metrics::{Figures, RunResult};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;

pub(crate) fn plan(text: &str) -> Plan {
    let edition = Edition::default();
    Plan::parse(text, "x.toml", "x", Path::new(""), edition).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn run(backend: BackendChoice, text: &str) -> RunResult {
    let plan = plan(text);
    backend.check_plan(&plan, "x.toml").expect("the backend has all of it");
    let options = RunOptions { backend, rows: Some(200), ..RunOptions::default() };
    run_point(&plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("it runs")
}

/// Over the backend, and in the simulator.
pub(crate) fn both(backend: BackendChoice, text: &str) -> [RunResult; 2] {
    [backend, BackendChoice::SIM].map(|backend| run(backend, text))
}

pub(crate) fn figure(figures: &Figures, name: &str) -> f64 {
    figures.get(name).copied().flatten().unwrap_or_else(|| panic!("no {name}: {figures:?}"))
}

/// Both values of a figure of the run.
pub(crate) fn figures(runs: &[RunResult; 2], name: &str) -> (f64, f64) {
    (figure(&runs[0].metrics, name), figure(&runs[1].metrics, name))
}

pub(crate) fn assert_near(runs: &[RunResult; 2], name: &str, within: f64) {
    let (ours, simulated) = figures(runs, name);
    assert!(
        (ours / simulated - 1.0).abs() <= within,
        "{name}: {ours} over the backend, {simulated} in the simulator"
    );
}

/// All expectations of a file are met over the backend.
fn assert_met(backend: BackendChoice, text: &str) {
    let plan = plan(text);
    backend.check_plan(&plan, "x.toml").expect("the backend has all of it");
    let options = RunOptions { backend, ..RunOptions::default() };
    let stop = AtomicBool::new(false);
    let runs = 0..plan.grid.runs.len();
    let runs: Vec<_> =
        runs.map(|i| run_point(&plan, i, &options, &stop, &mut |_| ()).expect("it runs")).collect();
    for verdict in plan.judge_runs(&runs) {
        assert!(verdict.met, "{verdict:?}");
    }
}

pub(crate) const PATH: &str = "path = { rate = \"50mbit\", rtt = \"40ms\", buffer = \"1bdp\" }\n";

/// A download and an upload with bottlenecks of their own, cross traffic, and a longer way back:
/// each flow has what it has in the simulator. The mean of some paths: the upload's queue delays
/// the download's ACKs, by which a single run has 31 or 37 Mbit/s, here and there alike.
pub(crate) fn data_goes_up_and_around(backend: BackendChoice, transport: &str) {
    const RTTS: std::ops::Range<u64> = 37..41;
    let flow = format!("[[flow]]\ntransport = \"{transport}\"\n");
    let mut sums = [[0.0; 2]; 2];
    for rtt in RTTS {
        let runs = both(
            backend,
            &format!(
                "cc = \"cubic\"\nduration = \"10s\"\n\
                 path = {{ rate = \"50mbit\", rtt = \"{rtt}ms\", buffer = \"1bdp\", up = [{{ \
                 bottleneck = {{ rate = \"10mbit\", buffer = \"64kB\" }} }}] }}\n\
                 {flow}{flow}direction = \"up\"\nextra_rtt = \"10ms\"\n[[cross]]\nrate = \"5mbit\"\n"
            ),
        );
        for (i, sums) in sums.iter_mut().enumerate() {
            for (sum, run) in sums.iter_mut().zip(&runs) {
                *sum += figure(&run.flows[i].metrics, "goodput_mbps");
            }
        }
    }
    for (i, [ours, simulated]) in sums.into_iter().enumerate() {
        assert!((ours / simulated - 1.0).abs() < 0.1, "flow {i}: {ours} and {simulated} Mbit/s");
    }
}

/// A receiver's window of one to three BDP (625 kB): the sender has data that it may not send, and
/// is not application-limited. It leaves Startup, and its queue is as small as without the window.
/// BBRv1 raises what is in flight to 1.25 BDP before it lowers it, as Linux's does, and a window
/// below that has the queue of all that it has room for.
pub(crate) fn a_receive_window_leaves_no_queue(backend: BackendChoice) {
    for (algorithms, windows) in [
        ("\"bbr3\", \"bbr3x\", \"bbr3-linux\"", "\"800kB\", \"1200kB\", \"1600kB\""),
        ("\"bbr1\"", "\"1000kB\", \"1800kB\""),
    ] {
        assert_met(
            backend,
            &format!(
                "cc = [{algorithms}]\nduration = \"10s\"\n\
                 path = {{ rate = \"50mbit\", rtt = \"100ms\", buffer = \"8bdp\" }}\n\
                 expect = [\"queue_ms.p50 <= 2 after 5s\", \"utilization >= 0.9 after 5s\"]\n\
                 [[flow]]\nreceive_window = [{windows}]\n"
            ),
        );
    }
}

/// noq and quinn take no other window for a stream that is open.
pub(crate) fn a_window_that_grows_is_refused(backend: BackendChoice) {
    let flow = "flow = [{ receive_window = \"1MB\", receive_window_initial = \"64kB\" }]";
    let plan = plan(&format!("cc = \"bbr3\"\n{PATH}{flow}\n"));
    let error =
        backend.check_plan(&plan, "x.toml").expect_err("it does not grow there").to_string();
    let says = format!(
        "flow[0].receive_window_initial: receive_window_initial does not run over {backend}; write \
         --stack sim or --stack tcp"
    );
    assert!(error.ends_with(&says), "{error}");
}

/// Answers of 2 MB with a second of silence before each, and a quarter of the rate after a while: a
/// restart from idle adds nothing to the window, which would be a queue then.
pub(crate) fn pauses_do_not_widen_the_window(backend: BackendChoice) {
    assert_met(
        backend,
        "cc = [\"bbr3\", \"bbr3x\", \"bbr3-linux\", \"bbr1\"]\nduration = \"40s\"\ninterval = \"10ms\"\n\
         path = { rate = \"20mbit\", rtt = \"40ms\", buffer = \"10bdp\", \
         steps = [{ at = \"20s\", rate = \"5mbit\" }] }\n\
         flow = [{ app = { request_response = { response = \"2MB\", think = \"1s\" } } }]\n\
         expect = [\"cwnd_bytes.max / 100000 <= 4 before 20s\", \"queue_ms.p95 <= 400 after 22s\", \
         \"completion_ms.p95 <= 4000 after 22s\", \"retransmit_rate <= 0.02 after 20s\"]\n",
    );
}

/// Loss, damage, copies and packets out of order: everything arrives all the same.
pub(crate) fn a_bad_path_loses_nothing(backend: BackendChoice) {
    let text = "cc = \"bbr3\"\nduration = \"60s\"\n[[flow]]\napp = { bytes = \"5MB\" }\n[path]\nrate = \"20mbit\"\n\
        rtt = \"20ms\"\nbuffer = \"100kB\"\ndown = [{ loss = \"0.5%\" }, { corruption = \"0.5%\" }, { duplication = \"1%\" }, \
        { reordering = { chance = \"1%\", delay = \"5ms\" } }]\n";
    assert_eq!(figure(&run(backend, text).metrics, "completed_bytes"), 5e6);
}

/// A silence longer than any idle timeout, a stop, and short connections that are open at it bring
/// what they bring in the simulator.
pub(crate) fn silences_and_stops_are_what_the_file_says(backend: BackendChoice) {
    let flow = |duration: &str, flow: &str| {
        both(
            backend,
            &format!("cc = \"bbr3\"\nduration = \"{duration}\"\n{PATH}[[flow]]\n{flow}\n"),
        )
    };
    let slow = "app = { request_response = { response = \"50kB\", think = \"40s\" } }";
    let received = figures(&flow("130s", slow), "completed_bytes");
    assert_eq!(received.0, received.1, "bytes of answers");
    assert_near(&flow("20s", "stop = \"5s\""), "goodput_mbps", 0.1);
    let short = "app = { short_flows = { bytes = \"2MB\", every = \"500ms\" } }\nstop = \"5s\"";
    assert_near(&flow("20s", short), "goodput_mbps", 0.1);
}

/// 1 MB over 50 Mbit/s and 600 ms by a connection that begins with a BDP that an earlier one left
/// (RFC 9959): as fast as in the simulator, and in half of the time that it takes without.
pub(crate) fn a_known_path_is_full_at_once(backend: BackendChoice) {
    // The handshake is the first round trip of a real stack, after which CUBIC and Reno pace the
    // initial window over one: in the simulator it leaves at once.
    let others = ["bbr3", "bbr3x", "bbr1", "prague"].map(|cc| (cc, 0.05));
    for (cc, within) in others.into_iter().chain([("cubic", 0.15), ("reno", 0.15)]) {
        let with = |resume: &str| {
            both(
                backend,
                &format!(
                    "cc = \"{cc}\"\nduration = \"15s\"\n\
                     path = {{ rate = \"50mbit\", rtt = \"600ms\", buffer = \"1bdp\" }}\n\
                     flow = [{{ app = {{ bytes = \"1MB\" }}{resume} }}]\n"
                ),
            )
        };
        let (without, with) = (with(""), with(", resume = { cwnd = \"1bdp\", rtt = \"600ms\" }"));
        println!(
            "{cc}: {:?} and {:?} s",
            figures(&without, "elapsed_s"),
            figures(&with, "elapsed_s")
        );
        assert_near(&with, "elapsed_s", within);
        assert_eq!(figures(&with, "completed_bytes"), (1e6, 1e6));
        let (slow, fast) = (figures(&without, "elapsed_s").0, figures(&with, "elapsed_s").0);
        assert!(fast < 0.5 * slow, "{cc}: {fast} s, and {slow} s without");
    }
}

/// Prague by itself, behind the low-latency queue of DualPI2, whose other queue has 15 ms. What
/// leaves as ECT(0) is in that other queue, and who ends ECN hears of no mark.
pub(crate) fn prague_keeps_the_queue_of_l4s(backend: BackendChoice) {
    let runs = both(
        backend,
        "duration = \"12s\"\nflow = [{ cc = \"prague\", ecn = \"l4s\" }]\n[path]\nrate = \"40mbit\"\n\
         rtt = \"20ms\"\nbuffer = \"250ms\"\nqueue = \"dualpi2\"\n",
    );
    for run in &runs {
        let of = |name| figure(&run.metrics, name);
        assert!(of("queue_ms.p95") < 1.0, "{}: {} ms", run.stack, of("queue_ms.p95"));
        assert!(of("utilization") > 0.85, "{}: {}", run.stack, of("utilization"));
    }
    let (ours, simulated) = figures(&runs, "queue_ms.p95");
    assert!((ours - simulated).abs() < 0.1, "{ours} and {simulated} ms");
}

/// A router that clears the ECN field, whose packets are acknowledged and not counted; and one that
/// writes CE into each packet's, the first one's too, which was not ECN-capable.
pub(crate) fn a_field_that_is_changed_ends_ecn(backend: BackendChoice) {
    for cc in ["prague", "bbr3", "cubic"] {
        for change in ["bleaching", "mangling"] {
            let text = format!(
                "duration = \"12s\"\nflow = [{{ cc = \"{cc}\", ecn = \"l4s\" }}]\n[path]\n\
                 rate = \"50mbit\"\nrtt = \"20ms\"\nbuffer = \"1bdp\"\ndown = [{{ {change} = \"100%\" }}]\n"
            );
            let utilization = figure(&run(backend, &text).metrics, "utilization");
            assert!(utilization > 0.85, "{cc}, {change}: {utilization}");
        }
    }
}

/// CUBIC behind CoDel, which marks what is ECN-capable: nothing is lost.
pub(crate) fn classic_marks_take_the_place_of_losses(backend: BackendChoice) {
    let lost = |cc: &str, ecn: &str| {
        let text = format!(
            "duration = \"8s\"\nflow = [{{ cc = \"{cc}\", ecn = \"{ecn}\" }}]\n[path]\n\
             rate = \"20mbit\"\nrtt = \"40ms\"\nbuffer = \"1MB\"\nqueue = {{ codel = {{ ecn = true }} }}\n"
        );
        let run = run(backend, &text);
        assert!(figure(&run.metrics, "queue_ms.p95") < 60.0, "{cc} {ecn}");
        figure(&run.metrics, "retransmit_rate")
    };
    // Also where nobody answers them.
    for cc in ["cubic", "bbr1"] {
        assert!(lost(cc, "off") > 0.0, "{cc}");
        assert_eq!(lost(cc, "classic"), 0.0, "{cc}");
    }
}

/// An algorithm of the stack's own takes a mark for a loss.
pub(crate) fn is_no_sender_of_l4s(backend: BackendChoice, cc: &str) {
    let check = |cc: &str, ecn: &str| {
        let plan = plan(&format!("{PATH}flow = [{{ cc = \"{cc}\", ecn = \"{ecn}\" }}]\n"));
        check_machine(&plan, &RunOptions { backend, ..RunOptions::default() })
    };
    check("prague", "l4s").expect("it is one");
    check(cc, "classic").expect("marks are losses");
    let error = check(cc, "l4s").expect_err("marks are losses").to_string();
    let says = format!("{cc} takes a mark of L4S for a loss; write ecn = \"classic\"");
    assert!(error.starts_with(&says), "{error}");
}
