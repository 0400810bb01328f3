//! What takes sockets.

use std::process::ExitCode;

mod examples;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[examples::TESTS])
}
