//! The library beside other programs. The harness needs Linux.

#[cfg(target_os = "linux")]
#[path = "../installed/mod.rs"]
mod installed;

#[cfg(target_os = "linux")]
mod pkg_config;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[pkg_config::TESTS])
}

#[cfg(not(target_os = "linux"))]
fn main() {}
