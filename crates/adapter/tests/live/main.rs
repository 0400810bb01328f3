//! Timers in real time.

use std::process::ExitCode;

mod timers;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[timers::TESTS])
}
