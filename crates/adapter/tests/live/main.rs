//! Timers in real time. The harness needs Linux.

#[cfg(target_os = "linux")]
mod timers;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[timers::TESTS])
}

#[cfg(not(target_os = "linux"))]
fn main() {}
