//! Connections of quinn over sockets of this machine.

use std::process::ExitCode;

mod elsewhere;
mod paced;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[elsewhere::TESTS, paced::TESTS])
}
