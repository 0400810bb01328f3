//! The simulator beside the kernel: our BBRv1 and CUBIC in the one, Linux's own in the other, on
//! the same ten paths: clean, with loss of data and of ACKs, with reordering, with pauses and with
//! short answers. It takes seven minutes for each seed, and so runs only when it is asked for:
//!
//! ```text
//! sudo FULLPIPE_BESIDE_LINUX=5 cargo test --release -p fullpipe-lab --test live -- beside_linux --include-ignored --nocapture
//! ```
//!
//! The number is how many seeds each path runs with; a figure is the mean of its runs.

use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, check_machine, run_point};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;
use fullpipe_testkit::{inconclusive, skip};

/// The switch.
const RUNS: &str = "FULLPIPE_BESIDE_LINUX";

/// The largest differences between the two: of the goodput, of the median round-trip time, and of
/// the time that 100 kB take.
const GOODPUT: f64 = 0.03;
const RTT: f64 = 0.20;
const COMPLETION: f64 = 0.10;

/// A path, and what its one flow sends, in the words of a scenario file.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    path: &'static str,
    app: &'static str,
}

const fn case(name: &'static str, path: &'static str, app: &'static str) -> Case {
    Case { name, path, app }
}

/// 100 kB again and again, a second after the answer before: a pause, so that each begins anew.
const ANSWERS: &str = r#"app = { request_response = { response = "100kB", think = "1s" } }"#;

const CASES: [Case; 10] = [
    case("clean, 6 BDP", r#"rate = "100mbit", rtt = "20ms", buffer = "6bdp""#, ""),
    case("clean, long", r#"rate = "50mbit", rtt = "80ms", buffer = "2bdp""#, ""),
    case("0.1 % lost", r#"rate = "50mbit", rtt = "40ms", buffer = "2bdp", loss = "0.1%""#, ""),
    case("1 % lost", r#"rate = "20mbit", rtt = "40ms", buffer = "2bdp", loss = "1%""#, ""),
    case("3 % lost", r#"rate = "10mbit", rtt = "20ms", buffer = "2bdp", loss = "3%""#, ""),
    case(
        "20 % of the ACKs lost",
        r#"rate = "20mbit", rtt = "40ms", buffer = "2bdp", up = [{ loss = "20%" }]"#,
        "",
    ),
    case(
        "1 % is 2 ms late",
        r#"rate = "50mbit", rtt = "40ms", buffer = "2bdp", down = [{ reordering = { chance = "1%", delay = "2ms" } }]"#,
        "",
    ),
    case(
        "pauses of 2 s",
        r#"rate = "50mbit", rtt = "40ms", buffer = "2bdp""#,
        r#"app = { on_off = { on = "1s", off = "2s" } }"#,
    ),
    case(
        "100 kB, 1 % lost",
        r#"rate = "50mbit", rtt = "40ms", buffer = "2bdp", loss = "1%""#,
        ANSWERS,
    ),
    case("100 kB, slow", r#"rate = "10mbit", rtt = "100ms", buffer = "2bdp""#, ANSWERS),
];

fn plan(case: Case, cc: &str, flow: &str, seed: u64) -> Plan {
    let comma = if flow.is_empty() || case.app.is_empty() { "" } else { ", " };
    let text = format!(
        "cc = \"{cc}\"\nduration = \"20s\"\nseed = {seed}\npath = {{ {} }}\nflow = [{{ {flow}{comma}{} }}]\n",
        case.path, case.app
    );
    Plan::parse(&text, "beside.toml", "beside", "".as_ref(), Edition::default())
        .expect("a sound file")
}

/// A flow that speaks TCP as the kernel does, which paces CUBIC only where it is asked to. In real
/// time a run begins after the handshake.
const SIMULATED: &str = r#"transport = "tcp", paced = false, handshake = false"#;

/// Goodput in Mbit/s and median RTT in ms; of answers the median time that one took in ms, and
/// nothing.
type Figures = (f64, f64);

fn measure(plan: &Plan, case: Case, backend: BackendChoice) -> (Figures, bool) {
    let options = RunOptions { backend, ..RunOptions::default() };
    let run = run_point(plan, 0, &options, &AtomicBool::new(false), &mut |_| ()).expect("a result");
    let figure = |name: &str| run.metrics[name].expect(name);
    let trusted = run.emulator.as_ref().is_none_or(|e| e.trusted);
    let figures = if case.app == ANSWERS {
        (figure("completion_ms.p50"), 0.0)
    } else {
        (figure("goodput_mbps"), figure("rtt_ms.p50"))
    };
    (figures, trusted)
}

fn means(figures: &[Figures]) -> Figures {
    let n = figures.len() as f64;
    (figures.iter().map(|f| f.0).sum::<f64>() / n, figures.iter().map(|f| f.1).sum::<f64>() / n)
}

fn the_simulator_is_as_fast_as_the_kernel() {
    let Some(runs) = std::env::var(RUNS).ok().and_then(|n| n.parse::<u64>().ok()) else {
        skip(format!("it takes half an hour; {RUNS}=5 asks for it, with five runs of each path"));
    };
    let options = RunOptions { backend: BackendChoice::LINUX, ..RunOptions::default() };
    if let Err(missing) = check_machine(&plan(CASES[0], "linux:bbr", "", 1), &options) {
        skip(missing.to_string());
    }
    println!(
        "the kernel | the simulator: goodput in Mbit/s and median RTT in ms, or the median ms of 100 kB"
    );
    let (mut apart, mut doubtful) = (Vec::new(), 0);
    for case in CASES {
        for (ours, linux) in [("bbr1", "linux:bbr"), ("cubic", "linux:cubic")] {
            let seeds = 1..=runs.max(1);
            let kernel: Vec<_> = seeds
                .clone()
                .map(|i| measure(&plan(case, linux, "", i), case, BackendChoice::LINUX))
                .collect();
            let untrusted = kernel.iter().filter(|(_, trusted)| !trusted).count();
            let kernel: Vec<Figures> = kernel.into_iter().map(|(figures, _)| figures).collect();
            let simulated: Vec<Figures> = seeds
                .map(|i| measure(&plan(case, ours, SIMULATED, i), case, BackendChoice::SIM).0)
                .collect();
            let (k, s) = (means(&kernel), means(&simulated));
            let off = |s: f64, k: f64| if k > 0.0 { s / k - 1.0 } else { 0.0 };
            let (first, rtt) = (off(s.0, k.0), off(s.1, k.1));
            let line = format!(
                "{}, {ours}: {:.2} {:.1} | {:.2} {:.1}, {:+.1} % and {:+.1} %; {untrusted} of {runs} not trusted",
                case.name,
                k.0,
                k.1,
                s.0,
                s.1,
                first * 100.0,
                rtt * 100.0
            );
            println!("{line}");
            let allowed = if case.app == ANSWERS { COMPLETION } else { GOODPUT };
            if first.abs() > allowed || rtt.abs() > RTT {
                apart.push(line);
                doubtful += untrusted;
            }
        }
    }
    if doubtful > 0 {
        inconclusive(format!("links were late where they are too far apart: {}", apart.join("; ")));
    }
    assert!(apart.is_empty(), "too far apart:\n{}", apart.join("\n"));
}

fullpipe_testkit::tests! {
    long timed [Root, Tun] the_simulator_is_as_fast_as_the_kernel;
}
