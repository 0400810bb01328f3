//! Connections of s2n-quic over sockets of this machine. The harness needs Linux.

#[cfg(target_os = "linux")]
mod loopback;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[loopback::TESTS])
}

#[cfg(not(target_os = "linux"))]
fn main() {}
