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

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_lab::units::Buffer;
use fullpipe_lab::{Amount, Over, Scenario, check, run};
use fullpipe_path::{Link, PathConfig, Probability};
use fullpipe_sim::{Application, FlowConfig, Sim, SimConfig};

/// The switch.
const RUNS: &str = "FULLPIPE_BESIDE_LINUX";

/// How far apart the two may be: of the goodput, of the median round-trip time, and of the time that
/// 100 kB take.
const GOODPUT: f64 = 0.03;
const RTT: f64 = 0.20;
const COMPLETION: f64 = 0.10;

const TIME: Duration = Duration::from_secs(20);

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

fn scenario(case: Case, cc: &str, seed: u64) -> Scenario {
    Scenario {
        over: Over::Tcp,
        cc: vec![cc.parse().expect(cc)],
        rate: Rate::from_bits_per_sec(case.mbit * 1_000_000),
        rtt: Duration::from_millis(case.rtt_ms),
        buffer: Buffer::Bdp(case.buffer_bdp),
        loss: Probability::new(case.loss).expect("a probability"),
        amount: match case.sends {
            Sends::ForTime => Amount::Duration(TIME),
            Sends::Short => Amount::Bytes(SHORT_BYTES),
        },
        seed,
        ..Scenario::default()
    }
}

const SHORT_BYTES: u64 = 100_000;

/// Goodput in Mbit/s and median RTT in ms; of a short flow the time from its connection to its last
/// byte in ms, and nothing.
type Figures = (f64, f64);

fn of_linux(s: &Scenario) -> (Figures, bool) {
    let r = run(s, s.cc[0], &AtomicBool::new(false), &mut |_| ()).expect("a result");
    let trusted = r.emulator.expect("a link").trusted;
    let figures = match s.amount {
        Amount::Bytes(_) => ((r.flows[0].end_s - r.flows[0].start_s) * 1e3, 0.0),
        Amount::Duration(_) => (r.goodput_bps as f64 / 1e6, r.rtt_ms.expect("round trips").p50),
    };
    (figures, trusted)
}

fn of_simulator(s: &Scenario, algorithm: Algorithm) -> Figures {
    let half = Duration::from_nanos(s.rtt.as_nanos() / 2);
    let queue = s.buffer.limit_on(s.rate, s.rtt);
    let link = Link { rate: Some(s.rate), delay: half, queue, loss: s.loss, seed: s.seed };
    let back = Link { delay: half, ..Link::default() };
    let mut flow = FlowConfig::tcp_bulk(algorithm, s.seed);
    if let Amount::Bytes(bytes) = s.amount {
        flow.application = Application::Bytes(bytes);
    }
    // The kernel paces CUBIC only where the socket or the qdisc asks for it.
    flow.cc.paced = false;
    let config = SimConfig::new(PathConfig::from(link), back.into(), vec![flow]);
    let mut sim = Sim::new(&SimConfig { seed: s.seed, ..config }).expect("a simulation");
    sim.run_until(Instant::default() + TIME);
    if let Some(end) = sim.flow(0).end() {
        // A completion counts from the handshake's beginning here.
        let connected = Instant::default() + s.rtt + s.rate.time_for(60);
        return (end.since(connected).as_nanos() as f64 / 1e6, 0.0);
    }
    let bits = sim.flows()[0].received() as f64 * 8.0;
    let rtt = sim.rtt_ns().value_at_quantile(0.5) as f64 / 1e6;
    (bits / (TIME.as_nanos() as f64 / 1e9) / 1e6, rtt)
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
    if let Err(missing) = check(&scenario(CASES[0], "linux:bbr", 1)) {
        eprintln!("skipped: {missing}");
        return;
    }
    println!(
        "the kernel | the simulator: goodput in Mbit/s and median RTT in ms, or ms for 100 kB"
    );
    let mut apart = Vec::new();
    for case in CASES {
        for (ours, linux) in [(Algorithm::Bbr1, "linux:bbr"), (Algorithm::Cubic, "linux:cubic")] {
            let seeds = 1..=runs.max(1);
            let kernel: Vec<_> =
                seeds.clone().map(|i| of_linux(&scenario(case, linux, i))).collect();
            let untrusted = kernel.iter().filter(|(_, trusted)| !trusted).count();
            let kernel: Vec<Figures> = kernel.into_iter().map(|(figures, _)| figures).collect();
            let simulated: Vec<Figures> =
                seeds.map(|i| of_simulator(&scenario(case, linux, i), ours)).collect();
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
