//! Threads and descriptors of the process, which tests beside it would change.

use std::sync::atomic::AtomicBool;

use fullpipe_lab::{BackendChoice, RunOptions, run_point};
use fullpipe_report::plan::Options;
use fullpipe_testkit::until;

fn held() -> (usize, usize) {
    let count = |dir: &str| std::fs::read_dir(dir).expect(dir).count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

fn a_run_leaves_no_thread_and_no_socket() {
    let options = Options {
        rate: Some("20mbit".to_owned()),
        flows: 3,
        duration: "500ms".to_owned(),
        ..Options::default()
    };
    let plan = options.plan().expect("sound options");
    // With its feature for signals, tokio's first runtime opens a pair of sockets that the process
    // keeps.
    drop(tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime"));
    let before = held();
    for backend in [BackendChoice::NOQ_REAL, BackendChoice::QUINN_REAL, BackendChoice::S2N] {
        let options = RunOptions { backend, ..RunOptions::default() };
        for run in 0..plan.grid.runs.len() {
            let stop = AtomicBool::new(false);
            run_point(&plan, run, &options, &stop, &mut |_| ()).expect("a result");
            // A thread that was joined may still be listed for a moment.
            let what = format!("no more than {before:?} threads and descriptors over {backend}");
            until(&what, || held().0 <= before.0 && held().1 <= before.1);
        }
    }
}

fullpipe_testkit::tests! {
    [] a_run_leaves_no_thread_and_no_socket;
}
