//! QUIC stacks without I/O under the simulator's clock: noq-proto and quinn-proto send over the
//! path model with their own congestion controls, and `fullpipe judge`'s verdicts are said of what
//! they put on the wire.
//!
//! ```text
//! cargo run --release -p fullpipe-judge --example sans_io              # five paths
//! cargo run --release -p fullpipe-judge --example sans_io -- noq:bbr3 all   # one sender, all paths that it can be alone on
//! ```
//!
//! A stack of your own takes a module like `noq.rs` and a line in [`SENDERS`]. Nothing waits and
//! nothing jitters: what is random is what TLS and the stack draw.

mod noq;
mod quinn;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fullpipe_judge::program::judge::{
    Competitor, Judged, Limits, TestPath, View, Views, test_paths, text,
};
use fullpipe_judge::program::{ProgramPath, WireRecord};

/// A sender: its name, and what it puts on a path for so many seconds.
type Run = fn(&ProgramPath, u64) -> WireRecord;

const SENDERS: [(&str, Run); 6] = [
    ("noq:bbr3", |path, seconds| world::run(path, seconds, noq::pair("bbr3"))),
    ("noq:cubic", |path, seconds| world::run(path, seconds, noq::pair("cubic"))),
    ("noq:reno", |path, seconds| world::run(path, seconds, noq::pair("reno"))),
    ("quinn:bbr", |path, seconds| world::run(path, seconds, quinn::pair("bbr"))),
    ("quinn:cubic", |path, seconds| world::run(path, seconds, quinn::pair("cubic"))),
    ("quinn:reno", |path, seconds| world::run(path, seconds, quinn::pair("reno"))),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_all = arguments.iter().any(|word| word == "all");
    let chosen = |name: &str| {
        let mut names = arguments.iter().filter(|word| *word != "all").peekable();
        names.peek().is_none() || names.any(|word| word == name)
    };
    let senders: Vec<_> = SENDERS.iter().filter(|(name, _)| chosen(name)).collect();
    if senders.is_empty() {
        let names = SENDERS.map(|(name, _)| name).join(", ");
        eprintln!("error: no such sender; write some of {names}, or none for all");
        std::process::exit(2);
    }
    let test_paths = test_paths(!is_all);
    eprintln!("our own senders on {} paths", test_paths.len());
    let limits = Limits::simulate(&test_paths, &AtomicBool::new(false), |test_path| {
        eprintln!("  {}", test_path.name);
    });
    let limits = limits.expect("nobody stops it");
    for (name, run) in senders {
        let begun = Instant::now();
        let judged = judge(*run, &test_paths, &limits);
        println!("{name} ({:.1} s of real time)\n{}", begun.elapsed().as_secs_f64(), text(&judged));
    }
}

/// The verdicts on a sender. There is one connection on each path: those with others are left out.
fn judge(run: Run, test_paths: &[&'static TestPath], limits: &Limits) -> Judged {
    let (mut views, mut missing) = (Views::new(), BTreeMap::new());
    for test_path in test_paths {
        if test_path.company != Competitor::Alone {
            missing.insert(test_path.name, "this example has one connection".to_owned());
            continue;
        }
        let path = test_path.path(false).expect("judge's own paths are right");
        let record = run(&path, test_path.span_s);
        views.insert(test_path.name, View::of(&record, &path, test_path.span_s as f64, None));
    }
    Judged::of(&views, &missing, limits)
}
