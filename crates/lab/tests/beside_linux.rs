//! The simulator beside the kernel: our BBRv1 and CUBIC in the one, Linux's own in the other, on the
//! same five paths. It takes minutes in real time and a quiet machine, needs Linux and root, and so
//! runs only when it is asked for:
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
use fullpipe_sim::{FlowConfig, Sim, SimConfig};

/// The switch.
const RUNS: &str = "FULLPIPE_BESIDE_LINUX";

/// How far apart the two may be: of the goodput, and of the median round-trip time.
const GOODPUT: f64 = 0.03;
const RTT: f64 = 0.20;

const TIME: Duration = Duration::from_secs(20);

/// Rate in Mbit/s, RTT in ms, buffer in BDP, loss.
const PATHS: [(u64, u64, f64, f64); 5] = [
    (100, 20, 1.0, 0.0),
    (100, 20, 6.0, 0.0),
    (50, 80, 2.0, 0.0),
    (20, 40, 1.0, 0.0),
    (10, 100, 4.0, 0.0),
];

fn scenario(path: (u64, u64, f64, f64), cc: &str, seed: u64) -> Scenario {
    let (rate, rtt, buffer, loss) = path;
    Scenario {
        over: Over::Tcp,
        cc: vec![cc.parse().expect(cc)],
        rate: Rate::from_bits_per_sec(rate * 1_000_000),
        rtt: Duration::from_millis(rtt),
        buffer: Buffer::Bdp(buffer),
        loss: Probability::new(loss).expect("a probability"),
        amount: Amount::Duration(TIME),
        seed,
        ..Scenario::default()
    }
}

/// Goodput in Mbit/s and median RTT in ms.
type Figures = (f64, f64);

fn of_linux(s: &Scenario) -> (Figures, bool) {
    let r = run(s, s.cc[0], &AtomicBool::new(false), &mut |_| ()).expect("a result");
    let rtt = r.rtt_ms.expect("round trips").p50;
    ((r.goodput_bps as f64 / 1e6, rtt), r.emulator.expect("a link").trusted)
}

fn of_simulator(s: &Scenario, algorithm: Algorithm) -> Figures {
    let half = Duration::from_nanos(s.rtt.as_nanos() / 2);
    let queue = s.buffer.limit_on(s.rate, s.rtt);
    let link = Link { rate: Some(s.rate), delay: half, queue, loss: s.loss, seed: s.seed };
    let back = Link { delay: half, ..Link::default() };
    let mut flow = FlowConfig::tcp_bulk(algorithm, 1);
    flow.cc.seed = s.seed;
    let config = SimConfig::new(PathConfig::from(link), back.into(), vec![flow]);
    let mut sim = Sim::new(&config).expect("a simulation");
    sim.run_until(Instant::default() + TIME);
    let bits = sim.flows()[0].received() as f64 * 8.0;
    let rtt = sim.rtt_ns().value_at_quantile(0.5) as f64 / 1e6;
    (bits / (TIME.as_nanos() as f64 / 1e9) / 1e6, rtt)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[test]
fn the_simulator_is_within_3_percent_of_goodput_and_20_of_rtt_of_the_kernel() {
    let Some(runs) = std::env::var(RUNS).ok().and_then(|n| n.parse::<u64>().ok()) else {
        eprintln!("skipped: it takes minutes; set {RUNS}=5 for five runs of each path, as root");
        return;
    };
    if let Err(missing) = check(&scenario(PATHS[0], "linux:bbr", 1)) {
        eprintln!("skipped: {missing}");
        return;
    }
    println!("path, algorithm: goodput in Mbit/s, median RTT in ms of the kernel | the simulator");
    let mut apart = Vec::new();
    for path in PATHS {
        for (ours, linux) in [(Algorithm::Bbr1, "linux:bbr"), (Algorithm::Cubic, "linux:cubic")] {
            let mut kernel = Vec::new();
            let mut untrusted = 0;
            for seed in 1..=runs.max(1) {
                let (figures, trusted) = of_linux(&scenario(path, linux, seed));
                untrusted += u64::from(!trusted);
                kernel.push(figures);
            }
            let simulated: Vec<Figures> = (1..=runs.max(1))
                .map(|seed| of_simulator(&scenario(path, linux, seed), ours))
                .collect();
            let medians = |figures: &[Figures]| {
                let goodput = median(figures.iter().map(|f| f.0).collect());
                (goodput, median(figures.iter().map(|f| f.1).collect()))
            };
            let (k, s) = (medians(&kernel), medians(&simulated));
            let (goodput, rtt) = (s.0 / k.0 - 1.0, s.1 / k.1 - 1.0);
            let line = format!(
                "{:>3}mbit {:>3}ms {}bdp, {ours}: {:.2} {:.1} | {:.2} {:.1}, {:+.1} % and {:+.1} %; {untrusted} of {runs} not trusted",
                path.0,
                path.1,
                path.2,
                k.0,
                k.1,
                s.0,
                s.1,
                goodput * 100.0,
                rtt * 100.0
            );
            println!("{line}");
            if goodput.abs() > GOODPUT || rtt.abs() > RTT {
                apart.push(line);
            }
        }
    }
    assert!(apart.is_empty(), "too far apart:\n{}", apart.join("\n"));
}
