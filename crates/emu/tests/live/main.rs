//! Links between real sockets, under the real clock.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod ecn;
#[cfg(target_os = "linux")]
mod from_here;
mod link;
#[cfg(target_os = "linux")]
mod netem;
#[cfg(target_os = "linux")]
mod stalled;
#[cfg(target_os = "linux")]
mod tun;

#[cfg(target_os = "linux")]
const LINUX: [&[fullpipe_testkit::Test]; 5] =
    [ecn::TESTS, from_here::TESTS, netem::TESTS, stalled::TESTS, tun::TESTS];
#[cfg(not(target_os = "linux"))]
const LINUX: [&[fullpipe_testkit::Test]; 0] = [];

fn main() -> ExitCode {
    fullpipe_testkit::main(&[&[link::TESTS][..], &LINUX].concat())
}
