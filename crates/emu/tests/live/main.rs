//! Links between real sockets, under the real clock. The harness needs Linux.

#[cfg(target_os = "linux")]
mod batches;
#[cfg(target_os = "linux")]
mod ecn;
#[cfg(target_os = "linux")]
mod from_here;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod netem;
#[cfg(target_os = "linux")]
mod stalled;
#[cfg(target_os = "linux")]
mod tun;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[
        batches::TESTS,
        ecn::TESTS,
        from_here::TESTS,
        link::TESTS,
        netem::TESTS,
        stalled::TESTS,
        tun::TESTS,
    ])
}

#[cfg(not(target_os = "linux"))]
fn main() {}
