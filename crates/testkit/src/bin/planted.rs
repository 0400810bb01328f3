//! Tests whose outcome is known, for the tests of the harness (`tests/suite`).

use std::process::ExitCode;

mod known {
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use fullpipe_testkit::{inconclusive, skip};

    fn passes() {}

    fn fails() {
        panic!("as planted");
    }

    fn finds_out_that_it_cannot() {
        skip("as planted");
    }

    fn says_that_it_proves_nothing() {
        inconclusive("as planted");
    }

    fn proves_something_at_its_second_try() {
        static TRIES: AtomicUsize = AtomicUsize::new(0);
        if TRIES.fetch_add(1, Ordering::Relaxed) == 0 {
            inconclusive("as planted");
        }
    }

    /// Another program takes a core meanwhile. It is ended by itself, so that its time is not this
    /// program's.
    fn fails_beside_a_busy_program() {
        let busy = Command::new("sh")
            .args([
                "-c",
                "(end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done) &",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(busy.is_ok());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(500) {
            std::thread::yield_now();
        }
        panic!("as planted");
    }

    fn needs_what_is_not_there() {
        panic!("no machine of the tests has it");
    }

    fn is_long() {}

    fullpipe_testkit::tests! {
        [] passes, fails, finds_out_that_it_cannot, fails_beside_a_busy_program;
        timed [] says_that_it_proves_nothing, proves_something_at_its_second_try;
        [Nowhere] needs_what_is_not_there;
        long [] is_long;
    }

    /// The same, with a limit of time in it.
    pub(crate) const TIMED: &[fullpipe_testkit::Test] = &[
        fullpipe_testkit::Test {
            name: "planted::known::fails_in_time",
            needs: &[],
            timed: true,
            long: false,
            run: fails,
        },
        fullpipe_testkit::Test {
            name: "planted::known::fails_in_time_beside_a_busy_program",
            needs: &[],
            timed: true,
            long: false,
            run: fails_beside_a_busy_program,
        },
    ];
}

fn main() -> ExitCode {
    fullpipe_testkit::main(&[known::TESTS, known::TIMED])
}
