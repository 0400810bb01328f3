//! Connections of quinn over sockets of this machine. The harness needs Linux.

#[cfg(target_os = "linux")]
mod elsewhere;
#[cfg(target_os = "linux")]
mod paced;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[elsewhere::TESTS, paced::TESTS])
}

#[cfg(not(target_os = "linux"))]
fn main() {}
