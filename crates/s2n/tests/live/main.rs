//! Connections of s2n-quic over sockets of this machine.

use std::process::ExitCode;

mod loopback;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[loopback::TESTS])
}
