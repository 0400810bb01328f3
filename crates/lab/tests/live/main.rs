//! The lab over real packets, and beside other programs.

use std::process::ExitCode;

mod beside_linux;
mod leaves_nothing;
mod over_quic;
mod over_user_tun;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[
        over_quic::TESTS,
        over_user_tun::TESTS,
        leaves_nothing::TESTS,
        beside_linux::TESTS,
    ])
}
