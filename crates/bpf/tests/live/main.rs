//! The program in this machine's kernel, which takes root and the feature `kernel`.

#[cfg(all(feature = "kernel", target_os = "linux"))]
mod own;

#[cfg(all(feature = "kernel", target_os = "linux"))]
mod cgroup;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod ecn;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod handshake;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod kernel;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod lifecycle;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod loss;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod operators;

#[cfg(all(feature = "kernel", target_os = "linux"))]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[
        cgroup::TESTS,
        ecn::TESTS,
        handshake::TESTS,
        kernel::TESTS,
        lifecycle::TESTS,
        loss::TESTS,
        loss::signals::TESTS,
        operators::TESTS,
    ])
}

// The harness, which tells whoever asks that there are no tests.
#[cfg(all(not(feature = "kernel"), target_os = "linux"))]
fn main() -> std::process::ExitCode {
    fullpipe_testkit::main(&[])
}

#[cfg(not(target_os = "linux"))]
fn main() {}
