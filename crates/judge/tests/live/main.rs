//! Programs that are installed, run and stopped.

use std::process::ExitCode;

mod processes;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[processes::TESTS])
}
