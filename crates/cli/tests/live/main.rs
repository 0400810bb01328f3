//! The command in real time, on sockets, with rights, and beside other programs.

use std::process::ExitCode;

#[path = "../common/checks.rs"]
mod checks;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/documents.rs"]
mod documents;
#[path = "../../../files/tests/common/raw.rs"]
mod raw;

mod action;
mod aioquic;
mod attacks;
mod bad_input;
mod browser;
mod bulk_http3;
mod compare;
mod conformance;
mod docs;
mod failures;
mod figures;
mod get;
mod interop;
mod judge;
mod link;
mod link_command;
mod link_inside;
mod over_tcp;
#[cfg(feature = "kernel")]
mod over_tcp_kernel;
mod peers;
mod perf;
mod programs;
mod proxy;
mod relay;
mod repeat;
mod robust;
mod scenarios;
mod serving;
mod shell;
mod soak;
mod sustained;
mod sweeps;
mod tcp;
mod terminal;
mod two_processes;
mod vpn;

fn main() -> ExitCode {
    fullpipe_testkit::main(&[
        action::TESTS,
        aioquic::TESTS,
        attacks::TESTS,
        bad_input::TESTS,
        browser::TESTS,
        bulk_http3::TESTS,
        compare::TESTS,
        conformance::TESTS,
        docs::TESTS,
        failures::TESTS,
        figures::TESTS,
        get::TESTS,
        interop::TESTS,
        judge::TESTS,
        link_command::TESTS,
        link_inside::TESTS,
        over_tcp::TESTS,
        #[cfg(feature = "kernel")]
        over_tcp_kernel::TESTS,
        peers::TESTS,
        perf::TESTS,
        programs::TESTS,
        proxy::TESTS,
        relay::TESTS,
        repeat::TESTS,
        robust::TESTS,
        scenarios::TESTS,
        serving::TESTS,
        shell::TESTS,
        soak::TESTS,
        sustained::TESTS,
        sweeps::TESTS,
        tcp::TESTS,
        terminal::TESTS,
        two_processes::TESTS,
        vpn::TESTS,
    ])
}
