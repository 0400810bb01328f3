//! The drivers in real time, on devices of a namespace of their own, against the kernel's TCP.
//! Linux alone has them.

#[cfg(target_os = "linux")]
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
#[path = "../ethernet/mod.rs"]
mod ethernet;
#[cfg(target_os = "linux")]
#[path = "../flood/mod.rs"]
mod flood;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod socket_pair;

#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod kernel_programs;
#[cfg(target_os = "linux")]
mod strangers;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod tap;
#[cfg(target_os = "linux")]
mod tun_bulk;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[
        driver::TESTS,
        kernel::TESTS,
        kernel_programs::TESTS,
        strangers::TESTS,
        streams::TESTS,
        tap::TESTS,
        tun_bulk::TESTS,
    ])
}

#[cfg(not(target_os = "linux"))]
fn main() {}
