//! Alone in its process, because it counts what the process holds.
#![cfg(target_os = "linux")]

use std::sync::atomic::AtomicBool;

use fullpipe_cc::{Duration, Rate};
use fullpipe_lab::{Amount, Scenario, run};

fn held() -> (usize, usize) {
    let count = |dir: &str| std::fs::read_dir(dir).expect(dir).count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

#[test]
fn a_run_leaves_no_thread_and_no_socket() {
    let scenario = Scenario {
        rate: Rate::from_bits_per_sec(20_000_000),
        flows: 3,
        amount: Amount::Duration(Duration::from_millis(500)),
        ..Scenario::default()
    };
    let before = held();
    for cc in &scenario.cc {
        run(&scenario, *cc, &AtomicBool::new(false), &mut |_| ()).expect("a result");
        assert_eq!(held(), before, "threads and descriptors after {cc}");
    }
}
