//! The simulator beside the kernel: our BBRv1 and CUBIC in the one, Linux's own in the other, on the
//! same ten paths: clean, with loss, and with short flows. It takes minutes in real time and a quiet
//! machine, needs Linux and root, and so runs only when it is asked for:
//!
//! ```text
//! sudo FULLPIPE_BESIDE_LINUX=5 cargo test --release -p fullpipe-lab --test beside_linux -- --nocapture
//! ```
//!
//! The number is how often each path runs; a figure is the median of its runs.
#![cfg(target_os = "linux")]

use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, Edition, Options, Plan, RunOptions, check_machine, run_point};

/// The switch.
const RUNS: &str = "FULLPIPE_BESIDE_LINUX";

/// How far apart the two may be: of the goodput, of the median round-trip time, and of the time that
/// 100 kB take.
const GOODPUT: f64 = 0.03;
const RTT: f64 = 0.20;
const COMPLETION: f64 = 0.10;

/// What a flow sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sends {
    ForTime,
    Short,
}

/// A path, what is sent over it, and the algorithms that are compared there.
#[derive(Clone, Copy, Debug)]
struct Case {
    mbit: u64,
    rtt_ms: u64,
    buffer_bdp: f64,
    /// Of the data.
    loss: f64,
    sends: Sends,
}

const fn case(mbit: u64, rtt_ms: u64, buffer_bdp: f64, loss: f64, sends: Sends) -> Case {
    Case { mbit, rtt_ms, buffer_bdp, loss, sends }
}

/// Loss of ACKs, reordering and idle times are not among them: `compare --over tcp` has no words for them.
const CASES: [Case; 10] = [
    case(100, 20, 1.0, 0.0, Sends::ForTime),
    case(100, 20, 6.0, 0.0, Sends::ForTime),
    case(50, 80, 2.0, 0.0, Sends::ForTime),
    case(20, 40, 1.0, 0.0, Sends::ForTime),
    case(10, 100, 4.0, 0.0, Sends::ForTime),
    case(50, 40, 2.0, 0.001, Sends::ForTime),
    case(20, 40, 2.0, 0.01, Sends::ForTime),
    case(10, 20, 2.0, 0.03, Sends::ForTime),
    case(50, 40, 2.0, 0.0, Sends::Short),
    case(10, 100, 2.0, 0.0, Sends::Short),
];

fn plan(case: Case, cc: &str, seed: u64) -> Plan {
    let options = Options {
        cc: vec![cc.parse().expect(cc)],
        rate: format!("{}mbit", case.mbit),
        rtt: format!("{}ms", case.rtt_ms),
        buffer: format!("{}bdp", case.buffer_bdp),
        loss: case.loss.to_string(),
        duration: "20s".to_owned(),
        bytes: (case.sends == Sends::Short).then(|| SHORT_BYTES.to_string()),
        seed,
        ..Options::default()
    };
    options.plan().expect("sound options")
}

/// The same with flows that speak TCP as the kernel does, which paces CUBIC only where it is asked to.
fn simulated_plan(case: Case, cc: &str, seed: u64) -> Plan {
    let text =
        plan(case, cc, seed).text + "transport = \"tcp\"\npaced = false\nhandshake = false\n";
    let plan = Plan::parse(&text, "tcp.toml", "tcp", "".as_ref(), Edition::default());
    plan.expect("a sound file")
}

const SHORT_BYTES: u64 = 100_000;

/// Goodput in Mbit/s and median RTT in ms; of a short flow the time from its connection to its last
/// byte in ms, and nothing.
type Figures = (f64, f64);

fn measure(plan: &Plan, case: Case, backend: BackendChoice) -> (Figures, bool) {
    let options = RunOptions { backend, ..RunOptions::default() };
    let run = run_point(plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("a result");
    let figure = |name: &str| run.metrics[name].expect(name);
    let trusted = run.emulator.as_ref().is_none_or(|e| e.trusted);
    let figures = match case.sends {
        Sends::Short => ((run.flows[0].end_s - run.flows[0].start_s) * 1e3, 0.0),
        Sends::ForTime => (figure("goodput_mbps"), figure("rtt_ms.p50")),
    };
    (figures, trusted)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn medians(figures: &[Figures]) -> Figures {
    let goodput = median(figures.iter().map(|f| f.0).collect());
    (goodput, median(figures.iter().map(|f| f.1).collect()))
}

#[test]
fn the_simulator_is_as_fast_as_the_kernel() {
    let Some(runs) = std::env::var(RUNS).ok().and_then(|n| n.parse::<u64>().ok()) else {
        eprintln!("skipped: it takes minutes; set {RUNS}=5 for five runs of each path, as root");
        return;
    };
    let options = RunOptions { backend: BackendChoice::TCP, ..RunOptions::default() };
    if let Err(missing) = check_machine(&plan(CASES[0], "linux:bbr", 1), &options) {
        eprintln!("skipped: {missing}");
        return;
    }
    println!(
        "the kernel | the simulator: goodput in Mbit/s and median RTT in ms, or ms for 100 kB"
    );
    let mut apart = Vec::new();
    for case in CASES {
        for (ours, linux) in [("bbr1", "linux:bbr"), ("cubic", "linux:cubic")] {
            let seeds = 1..=runs.max(1);
            let kernel: Vec<_> = seeds
                .clone()
                .map(|i| measure(&plan(case, linux, i), case, BackendChoice::TCP))
                .collect();
            let untrusted = kernel.iter().filter(|(_, trusted)| !trusted).count();
            let kernel: Vec<Figures> = kernel.into_iter().map(|(figures, _)| figures).collect();
            let simulated: Vec<Figures> = seeds
                .map(|i| measure(&simulated_plan(case, ours, i), case, BackendChoice::SIM).0)
                .collect();
            let (k, s) = (medians(&kernel), medians(&simulated));
            let off = |s: f64, k: f64| if k > 0.0 { s / k - 1.0 } else { 0.0 };
            let (first, rtt) = (off(s.0, k.0), off(s.1, k.1));
            let Case { mbit, rtt_ms, buffer_bdp, loss, sends } = case;
            let line = format!(
                "{mbit:>3}mbit {rtt_ms:>3}ms {buffer_bdp}bdp loss {loss} {sends:?}, {ours}: \
                 {:.2} {:.1} | {:.2} {:.1}, {:+.1} % and {:+.1} %; {untrusted} of {runs} not trusted",
                k.0,
                k.1,
                s.0,
                s.1,
                first * 100.0,
                rtt * 100.0
            );
            println!("{line}");
            let allowed = if sends == Sends::Short { COMPLETION } else { GOODPUT };
            if first.abs() > allowed || rtt.abs() > RTT {
                apart.push(line);
            }
        }
    }
    assert!(apart.is_empty(), "too far apart:\n{}", apart.join("\n"));
}
