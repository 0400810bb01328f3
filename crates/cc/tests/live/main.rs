//! Tests that take sockets. The harness needs Linux.

#[cfg(target_os = "linux")]
mod examples;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[examples::TESTS])
}

#[cfg(not(target_os = "linux"))]
fn main() {}
